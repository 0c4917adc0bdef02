//! `karpenter convert`: converts manifests of former releases to v1.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use clap::ValueEnum;

use super::{Failure, Outcome, print, print_to_stderr};
use crate::convert::{self, Conversion, ConversionResult, ConversionStatus, Finding, Output};
use crate::diagnostic::{Diagnostic, printable};
use crate::manifest::replace::{self, NewDocument, Replacement};
use crate::manifest::{self, Input, InputLimits, Manifests, write};

/// Convert manifests of former releases (v1alpha5, v1beta1) to v1
///
/// Reads Provisioners, AWSNodeTemplates, and v1beta1 NodePools and EC2NodeClasses from files,
/// directories (every .yaml, .yml and .json below them) or stdin, and prints NodePools and
/// EC2NodeClasses of v1 that do the same. Nothing in a cluster is read or changed.
///
/// Every change of behaviour is reported on stderr and as a comment above the object: W codes are
/// warnings, E codes keep an object from being written. What is printed has passed the checks of
/// the v1 API. Objects that are v1 already pass through; other kinds are left out (W01).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Args {
    /// File or directory to read, or - for stdin; may be repeated. Default: stdin
    #[arg(short = 'f', long = "filename", value_name = "PATH", num_args = 1..)]
    paths: Vec<PathBuf>,

    /// Output format; json is a v1 List
    #[arg(short, long, value_enum, default_value_t = Format::Yaml, value_name = "FORMAT")]
    output: Format,

    /// Rewrite the files, keep the old text as FILE.bak and other documents as they are
    ///
    /// Each file is replaced in one step and keeps its format; comments above a converted object
    /// stay, comments inside it do not. A file with an error is not touched; as long as there is
    /// any error, neither is a file that kubelet settings would leave or reach.
    #[arg(long, conflicts_with = "output")]
    in_place: bool,

    /// Write nothing; list what would change. Exit code 1 if anything would, or if there is an error
    #[arg(long, conflicts_with = "output")]
    check: bool,

    /// Do not write out the requirements that v1alpha5 added by default
    #[arg(long)]
    ignore_defaults: bool,

    /// Node role for classes made from v1alpha5, in place of the instance profile
    #[arg(long, value_name = "ROLE", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    role: Option<String>,

    /// Classes made from v1alpha5 launch in private subnets: associatePublicIPAddress: false
    #[arg(long)]
    private_subnets: bool,

    /// Also rename old labels, annotations and taints in Pods, Deployments, StatefulSets,
    /// DaemonSets, ReplicaSets, Jobs and CronJobs
    #[arg(long)]
    workloads: bool,
}

const EXAMPLES: &str = "\
Examples:
  karpenter convert -f provisioner.yaml -f node-template.yaml > v1.yaml
  karpenter convert -f manifests/ --in-place
  karpenter convert -f manifests/ --in-place --check     # what would that change?
  kubectl get nodepools,ec2nodeclasses -o yaml | karpenter convert -o json

Pass pools together with the node classes that they refer to: kubelet settings move from one to
the other.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Yaml,
    Json,
}

pub(super) fn run(args: &Args) -> Result<Outcome, Failure> {
    let manifests = manifest::read(&inputs(args)?, &InputLimits::MANIFESTS);
    if manifests.objects.is_empty() && manifests.problems.is_empty() {
        return Err(Diagnostic::new("no objects passed to convert")
            .fix("name a file or directory with manifests (-f), or pipe them in")
            .help_command("karpenter convert --help")
            .into());
    }
    let objects: Vec<_> = manifests.objects.iter().map(|object| &object.value).collect();
    let options = convert::Options {
        ignore_defaults: args.ignore_defaults,
        role: args.role.clone(),
        private_subnets: args.private_subnets,
        workloads: args.workloads,
    };
    let run = Run { conversion: convert::convert(&objects, &options), manifests, args };
    run.print_findings();
    if args.check {
        run.check()
    } else if args.in_place {
        Ok(run.rewrite_files())
    } else {
        run.print()
    }
}

fn inputs(args: &Args) -> Result<Vec<Input>, Failure> {
    let stdin = PathBuf::from("-");
    let usage = |problem: &str, fix: &str| {
        let diagnostic = Diagnostic::new(problem).fix(fix).help_command("karpenter convert --help");
        Failure::Usage(diagnostic.into())
    };
    let reads_stdin = args.paths.is_empty() || args.paths.contains(&stdin);
    if reads_stdin && args.in_place && !args.check {
        return Err(usage("stdin cannot be rewritten in place", "name the files with -f"));
    }
    if args.paths.is_empty() {
        if std::io::stdin().is_terminal() {
            let fix = "name files or directories with -f, or pipe manifests in";
            return Err(usage("nothing to convert: no -f, and stdin is a terminal", fix));
        }
        return Ok(vec![Input::Stdin]);
    }
    let input = |path: &PathBuf| {
        if *path == stdin { Input::Stdin } else { Input::Path(path.clone()) }
    };
    Ok(args.paths.iter().map(input).collect())
}

struct Run<'a> {
    manifests: Manifests,
    conversion: Conversion,
    args: &'a Args,
}

impl Run<'_> {
    /// Prints all findings to stderr, in the order of the input.
    fn print_findings(&self) {
        // With `--in-place`, other documents stay where they are and are not reported.
        let reports_skipped = !self.args.in_place;
        for place in self.manifests.non_objects.iter().filter(|_| reports_skipped) {
            print_to_stderr(&format!("W01 {place}: skipped, not a Kubernetes object"));
        }
        for (input, result) in self.conversion.results.iter().enumerate() {
            if result.status == ConversionStatus::Skipped && !reports_skipped {
                continue;
            }
            let notes = result.outputs.iter().flat_map(|output| &output.notes);
            for finding in result.findings.iter().chain(notes) {
                print_to_stderr(&self.finding_text(input, finding));
            }
        }
        for problem in &self.manifests.problems {
            print_to_stderr(&problem.diagnostic.to_string());
        }
    }

    /// Formats a finding with its location and its YAML block.
    fn finding_text(&self, input: usize, finding: &Finding) -> String {
        let place = self.manifests.location(&self.manifests.objects[input].origin, &finding.field);
        let mut text = format!("{} ({place})", printable(&finding.to_string()));
        for line in finding.note.yaml_block().lines() {
            text.push_str("\n    ");
            text.push_str(line);
        }
        text
    }

    fn has_errors(&self) -> bool {
        !self.manifests.problems.is_empty()
            || self
                .conversion
                .results
                .iter()
                .any(|result| result.status == ConversionStatus::Failed)
    }

    fn outcome(&self) -> Outcome {
        if self.has_errors() { Outcome::Finding } else { Outcome::Success }
    }

    fn outputs(&self) -> impl Iterator<Item = &Output> {
        self.conversion.results.iter().flat_map(|result| &result.outputs)
    }

    fn print(&self) -> Result<Outcome, Failure> {
        let text = match self.args.output {
            Format::Json => write::json_list(self.outputs().map(|output| &output.object)),
            Format::Yaml => {
                let documents: Vec<_> = self
                    .outputs()
                    .map(|output| comments(&output.notes) + &write::yaml(&output.object))
                    .collect();
                documents.join("---\n")
            }
        };
        print(&text)?;
        Ok(self.outcome())
    }

    fn check(&self) -> Result<Outcome, Failure> {
        let mut lines = Vec::new();
        for (object, result) in self.manifests.objects.iter().zip(&self.conversion.results) {
            if result.status.is_changed() {
                let place =
                    self.manifests.location(&object.origin, &manifest::FieldPath::default());
                let new: Vec<_> =
                    result.outputs.iter().map(|output| kind_and_name(&output.object)).collect();
                let new = if new.is_empty() { "nothing".to_owned() } else { new.join(", ") };
                lines.push(format!("{place}: {} -> {new}\n", kind_and_name(&object.value)));
            }
        }
        print(&lines.concat())?;
        Ok(if lines.is_empty() { self.outcome() } else { Outcome::Finding })
    }

    /// Rewrites files in two steps: it writes all new files beside the old ones, then, if every
    /// write succeeded, renames them. Classes are first, so that kubelet settings exist twice
    /// rather than not at all if the host stops in between.
    fn rewrite_files(&self) -> Outcome {
        let mut outcome = self.outcome();
        let mut ready = Vec::new();
        let plans = self.document_replacements().into_iter().zip(self.skipped_sources());
        for (number, (replacements, held_back)) in plans.enumerate() {
            let source = &self.manifests.sources[number];
            let Some(path) = &source.path else { continue };
            if replacements.iter().all(|replacement| *replacement == Replacement::Keep) {
                continue;
            }
            if held_back {
                print_to_stderr(&format!("not written: {}", printable(&source.name)));
                outcome = Outcome::Finding;
                continue;
            }
            match replace::prepare_file(
                path,
                source,
                &replace::replaced_text(source, &replacements),
            ) {
                Ok(prepared) => {
                    ready.push((self.receives_kubelet_settings(number), source, prepared));
                }
                Err(diagnostic) => {
                    print_to_stderr(&diagnostic.to_string());
                    print_to_stderr("no file was written");
                    return Outcome::Finding;
                }
            }
        }
        ready.sort_by_key(|(receives, ..)| !receives);
        for (_, source, prepared) in ready {
            match prepared.commit() {
                Ok(backup) => {
                    let backup = printable(&backup.display().to_string());
                    print_to_stderr(&format!(
                        "rewritten: {} (backup: {backup})",
                        printable(&source.name)
                    ));
                }
                Err(diagnostic) => {
                    print_to_stderr(&diagnostic.to_string());
                    return Outcome::Finding;
                }
            }
        }
        outcome
    }

    /// Returns whether a source holds a class that gets kubelet settings from elsewhere.
    fn receives_kubelet_settings(&self, source: usize) -> bool {
        let source_of = |input: usize| self.manifests.objects[input].origin.source;
        self.conversion.linked_inputs.iter().any(|(_, class)| source_of(*class) == source)
    }

    /// Returns which sources stay as they are.
    /// Those with an error, and those that would lose kubelet settings to, or expect them from, a
    /// file that stays as it is. After any error no kubelet settings move: the unreadable document
    /// may be the class that they are for, or a pool that shares it.
    fn skipped_sources(&self) -> Vec<bool> {
        let source_of = |input: usize| self.manifests.objects[input].origin.source;
        let mut held_back = vec![false; self.manifests.sources.len()];
        for source in self.manifests.problems.iter().filter_map(|problem| problem.source) {
            held_back[source] = true;
        }
        for (input, result) in self.conversion.results.iter().enumerate() {
            held_back[source_of(input)] |= result.status == ConversionStatus::Failed;
        }
        for mover in self.conversion.inputs_with_kubelet.iter().filter(|_| self.has_errors()) {
            held_back[source_of(*mover)] = true;
        }
        loop {
            let mut spread = false;
            for (pool, class) in &self.conversion.linked_inputs {
                let (pool, class) = (source_of(*pool), source_of(*class));
                if held_back[pool] != held_back[class] {
                    held_back[pool] = true;
                    held_back[class] = true;
                    spread = true;
                }
            }
            if !spread {
                return held_back;
            }
        }
    }

    /// Returns the replacement of each document of each source.
    fn document_replacements(&self) -> Vec<Vec<Replacement>> {
        let blank = |source: &manifest::Source| vec![(false, Vec::new()); source.document_count()];
        let mut plans: Vec<Vec<(bool, Vec<NewDocument>)>> =
            self.manifests.sources.iter().map(blank).collect();
        for (object, result) in self.manifests.objects.iter().zip(&self.conversion.results) {
            let (changed, entries) = &mut plans[object.origin.source][object.origin.document];
            *changed |= result.status.is_changed();
            entries.extend(replacement_entries(&object.value, result));
        }
        let replacement = |(changed, entries)| {
            if changed { Replacement::Documents(entries) } else { Replacement::Keep }
        };
        let decide = |plan: Vec<_>| plan.into_iter().map(replacement).collect();
        plans.into_iter().map(decide).collect()
    }
}

/// Returns the documents that replace an object in a rewritten document.
fn replacement_entries(object: &serde_json::Value, result: &ConversionResult) -> Vec<NewDocument> {
    if matches!(result.status, ConversionStatus::Skipped | ConversionStatus::Failed) {
        return vec![NewDocument { comments: String::new(), object: object.clone() }];
    }
    let entry = |output: &Output| NewDocument {
        comments: comments(&output.notes),
        object: output.object.clone(),
    };
    result.outputs.iter().map(entry).collect()
}

/// The notes on an object as comment lines.
fn comments(notes: &[Finding]) -> String {
    let lines: Vec<_> = notes
        .iter()
        .flat_map(|finding| {
            let block = finding.note.yaml_block().lines().map(|line| format!("    {line}"));
            [printable(&finding.to_string())].into_iter().chain(block)
        })
        .collect();
    write::comments(lines.iter().map(String::as_str))
}

fn kind_and_name(object: &serde_json::Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(serde_json::Value::as_str);
    let name = text("/metadata/name").unwrap_or("?");
    printable(&format!("{}/{name}", text("/kind").unwrap_or("?")))
}
