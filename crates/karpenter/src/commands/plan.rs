//! `karpenter plan`: what would be launched for the pending pods of a cluster, or, with
//! `--consolidate`, which of its nodes would go.

use std::path::PathBuf;

use clap::ValueEnum;
use jiff::Timestamp;
use serde::Serialize;

use super::{Failure, Outcome, count, print, report};
use crate::diagnostic::{Diagnostic, Place, printable};
use crate::manifest::{self, Bounds, Input, write};
use crate::options::{Decision, DecisionArgs};
use crate::plan::consolidate::Consolidation;
use crate::plan::expand::Expanded;
use crate::plan::gather::Gathered;
use crate::plan::progress::Progress;
use crate::plan::provider::{self, Provider};
use crate::plan::report::{Remark, Report};
use crate::plan::{consolidate, decide, expand, live, overlooked, table};
use crate::{clock, environment};

/// Show what would be launched for pending pods, at what price, and which pods would stay pending
///
/// Reads a cluster from files, directories (every .yaml, .yml and .json below them) or stdin, or,
/// without -f, the live cluster of the kubeconfig. Decides as the controller would and prints the
/// decision. Nothing is created or changed.
///
/// A folder of manifests can be planned as well: a workload (Deployment, StatefulSet, Job, ...) whose
/// pods are not in the input counts with the pods that it would make.
///
/// With --consolidate it shows which nodes would go instead, what would replace them and what that
/// saves, and for every node that stays, the reason.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// File or directory to read, or - for stdin; may be repeated. Default: the live cluster
    #[arg(short = 'f', long = "filename", value_name = "PATH", num_args = 1..)]
    paths: Vec<PathBuf>,

    /// Files without -f, for a better message
    #[arg(hide = true, value_name = "PATH")]
    stray: Vec<PathBuf>,

    /// Kubeconfig of the live cluster
    #[arg(long, value_name = "FILE", conflicts_with = "paths")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME", conflicts_with = "paths")]
    context: Option<String>,

    /// Whose instance types to plan with. Default: what the NodePools' nodeClassRef names
    #[arg(long, value_enum)]
    provider: Option<Provider>,

    /// Instance types to plan with, in KWOK's JSON format. Default: the 144 built-in ones
    #[arg(long, value_name = "FILE")]
    instance_types: Option<PathBuf>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    output: Format,

    /// Show which nodes would be removed or replaced, what that saves, and why the others stay
    #[arg(long)]
    consolidate: bool,

    /// Do not make up pods of workloads
    #[arg(long)]
    no_expand: bool,

    /// Plan as if it were this time, e.g. 2026-08-20T12:00:00Z. Default: now
    #[arg(long, value_name = "TIME")]
    now: Option<Timestamp>,

    #[command(flatten)]
    decision: DecisionArgs,
}

const EXAMPLES: &str = "\
Examples:
  karpenter plan -f nodepools.yaml -f apps/
  kubectl get nodepools,nodeclaims,nodes,pods,daemonsets,pvc,pv,storageclasses -A -o json | karpenter plan -f -
  karpenter plan --context production -o json
  karpenter plan -f . --provider kwok --feature-gates NodeOverlay=true
  karpenter plan --consolidate --consolidation-search upstream

Exit codes: 0 = every pod has a place (with --consolidate: whether or not nodes can go), 1 = pods
stay pending, or something is broken or could not be read, 2 = wrong usage.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    Yaml,
}

pub(super) fn run(args: &Args) -> Result<Outcome, Failure> {
    if let Some(path) = args.stray.first() {
        let path = path.display();
        return Err(Failure::Usage(
            Diagnostic::new("manifests are named with -f")
                .found(path.to_string())
                .fix(format!("karpenter plan -f {path}"))
                .more("karpenter plan --help")
                .into(),
        ));
    }
    let options = args
        .decision
        .resolve(environment::variable)
        .map_err(|diagnostic| Failure::Usage(diagnostic.more("karpenter plan --help").into()))?;
    for warning in &options.warnings {
        report(&format!("warning: {}", printable(warning)));
    }
    if args.decision.consolidation_search.is_some() && !args.consolidate {
        return Err(Failure::Usage(
            Diagnostic::new("--consolidation-search says nothing about pending pods")
                .fix("add --consolidate, or leave it out")
                .more("karpenter plan --help")
                .into(),
        ));
    }
    let now = args.now.unwrap_or_else(clock::now);
    let progress = Progress::start();
    let is_live = args.paths.is_empty();
    let Read { mut gathered, unread } =
        if is_live { read_live(args, &options, &progress)? } else { read_files(args, &progress)? };
    let expanded =
        if is_live || args.no_expand { Vec::new() } else { expand::expand(&mut gathered) };
    if !is_live {
        gathered.objects.as_snapshot_file();
    }

    let hints = gathered.hints.notes(&expanded);
    let missing = if is_live { Vec::new() } else { gathered.missing_node_classes() };
    gathered.remarks.extend(missing);
    if args.consolidate && !is_live {
        let missing = gathered.missing_of_nodes();
        gathered.remarks.extend(missing);
        let unjudged = overlooked::unjudged_budgets(&gathered);
        gathered.remarks.extend(unjudged);
    }
    let instance_types = args.instance_types.as_deref();
    let mut chosen = provider::choose(args.provider, instance_types, &mut gathered, now)?;
    chosen.settings.assume_pools_ready = !is_live;
    let remarks = std::mem::take(&mut gathered.remarks);
    let notes = std::mem::take(&mut chosen.notes);
    let question = decide::question(gathered, chosen, &options);
    let mut heard = Heard { expanded, remarks, notes, unread };
    heard.notes.extend(hints);
    if args.consolidate {
        progress.say(format!("deciding about {}", count(question.nodes(), "node")));
        let told = question.consolidate(&options, now, &heard.remarks);
        drop(progress);
        return tell_consolidation(told, heard, args.output);
    }
    progress.say(format!("deciding about {}", count(question.pods(), "pod")));
    let told = question.answer(&options, &heard.remarks);
    drop(progress);
    tell(told, heard, args.output)
}

/// What the reader of the objects has to say beside the decision.
struct Heard {
    expanded: Vec<Expanded>,
    remarks: Vec<Remark>,
    notes: Vec<String>,
    unread: Vec<Remark>,
}

impl Heard {
    /// What is said of objects, the decision's own remarks last, and whether all of them count.
    fn marked(self, mut marked: Vec<Remark>, format: Format) -> (Vec<Remark>, bool) {
        marked.splice(0..0, self.remarks);
        let is_whole = self.unread.is_empty() && !marked.iter().any(|remark| remark.broken);
        if format != Format::Table {
            // People have read it on stderr.
            marked.splice(0..0, self.unread);
        }
        (marked, is_whole)
    }
}

fn tell(mut told: Report, mut heard: Heard, format: Format) -> Result<Outcome, Failure> {
    told.expanded = std::mem::take(&mut heard.expanded);
    told.notes = std::mem::take(&mut heard.notes);
    let (marked, is_whole) = heard.marked(told.marked, format);
    told.marked = marked;
    print(&text(&told, format, table::table))?;
    let is_fine = told.errors.is_empty() && told.ignored.iter().all(|ignored| ignored.opted_out);
    Ok(if is_fine && is_whole { Outcome::Fine } else { Outcome::Finding })
}

fn tell_consolidation(
    mut told: Consolidation,
    mut heard: Heard,
    format: Format,
) -> Result<Outcome, Failure> {
    told.expanded = std::mem::take(&mut heard.expanded);
    told.notes = std::mem::take(&mut heard.notes);
    let (marked, is_whole) = heard.marked(told.marked, format);
    told.marked = marked;
    print(&text(&told, format, consolidate::table))?;
    Ok(if is_whole { Outcome::Fine } else { Outcome::Finding })
}

/// What was read, and what could not be.
struct Read {
    gathered: Gathered,
    unread: Vec<Remark>,
}

fn read_files(args: &Args, progress: &Progress) -> Result<Read, Failure> {
    progress.say("reading manifests");
    let input = |path: &PathBuf| match path.to_str() {
        Some("-") => Input::Stdin,
        _ => Input::Path(path.clone()),
    };
    let inputs: Vec<_> = args.paths.iter().map(input).collect();
    let mut manifests = manifest::read(&inputs, &Bounds::SNAPSHOT);
    for place in &manifests.strangers {
        report(&format!("warning: {place}: skipped, not a Kubernetes object"));
    }
    let mut problems = std::mem::take(&mut manifests.problems);
    let gathered = Gathered::from_manifests(manifests);
    // Of nothing there is no result, only what kept it from being read.
    let failure = gathered.is_empty().then(|| match problems.pop() {
        Some(problem) => problem.diagnostic,
        None => nothing().into(),
    });
    for problem in &problems {
        report(&problem.diagnostic.to_string());
    }
    if let Some(failure) = failure {
        return Err(failure.into());
    }
    warn(&gathered);
    Ok(Read {
        gathered,
        unread: problems.iter().map(|problem| unread(&problem.diagnostic)).collect(),
    })
}

fn nothing() -> Diagnostic {
    Diagnostic::new("no objects passed to plan")
        .fix("name files or directories with NodePools and pods (-f), or pipe them in (-f -)")
        .more("karpenter plan --help")
}

/// A file or document that could not be read.
fn unread(diagnostic: &Diagnostic) -> Remark {
    let Place { file, line, column, .. } = diagnostic.place().clone();
    let place = Place { file: file.clone(), line, column, field: None };
    Remark {
        object: file.unwrap_or_default(),
        place: line.map(|_| place.to_string()),
        field: None,
        problem: diagnostic.problem(),
        fix: diagnostic.remedy().map(str::to_owned),
        left_out: true,
        broken: true,
    }
}

fn read_live(args: &Args, options: &Decision, progress: &Progress) -> Result<Read, Failure> {
    let say = |what: &str| progress.say(format!("reading {what}"));
    let gathered = live::gather(args.kubeconfig.as_deref(), args.context.as_deref(), options, say)?;
    warn(&gathered);
    Ok(Read { gathered, unread: Vec::new() })
}

/// Once for each kind that nobody knows.
fn warn(gathered: &Gathered) {
    for (kind, count) in &gathered.unknown {
        let kind = printable(kind);
        report(&format!("warning: {kind}: unknown kind, {count} left out"));
    }
}

fn text<T: Serialize>(
    told: &T,
    format: Format,
    table: impl Fn(&T, Option<usize>) -> String,
) -> String {
    let value = || serde_json::to_value(told).expect("a report has text keys only");
    match format {
        Format::Table => table(told, width()),
        Format::Json => write::json(&value()),
        Format::Yaml => write::yaml(&value()),
    }
}

/// How wide the terminal is; nothing where the output goes elsewhere, which takes lines of any
/// length.
fn width() -> Option<usize> {
    let terminal = console::Term::stdout();
    let (_, columns) = terminal.features().is_attended().then(|| terminal.size_checked())??;
    Some(usize::from(columns))
}
