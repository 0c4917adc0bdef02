//! `karpenter plan`: what would be launched for the pending pods of a cluster.

use std::path::PathBuf;

use clap::ValueEnum;
use jiff::Timestamp;

use super::{Failure, Outcome, count, print, report};
use crate::diagnostic::{Diagnostic, Place, printable};
use crate::manifest::{self, Bounds, Input, write};
use crate::options::{Decision, DecisionArgs};
use crate::plan::gather::Gathered;
use crate::plan::progress::Progress;
use crate::plan::provider::{self, Provider};
use crate::plan::report::{Remark, Report};
use crate::plan::{decide, expand, live, table};
use crate::{clock, environment};

/// Show what would be launched for pending pods, at what price, and which pods would stay pending
///
/// Reads a cluster from files, directories (every .yaml, .yml and .json below them) or stdin, or,
/// without -f, the live cluster of the kubeconfig. Decides as the controller would and prints the
/// decision. Nothing is created or changed.
///
/// A folder of manifests can be planned as well: a workload (Deployment, StatefulSet, Job, ...) whose
/// pods are not in the input counts with the pods that it would make.
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

Exit codes: 0 = every pod has a place, 1 = pods stay pending or something could not be read,
2 = wrong usage.";

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
    if let Some(warning) = &options.unknown_gates {
        report(&format!("warning: {}", printable(warning)));
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
    let instance_types = args.instance_types.as_deref();
    let mut chosen = provider::choose(args.provider, instance_types, &mut gathered, now)?;
    chosen.settings.assume_pools_ready = !is_live;
    let remarks = std::mem::take(&mut gathered.remarks);
    let notes = std::mem::take(&mut chosen.notes);
    let question = decide::question(gathered, chosen, &options);
    progress.say(format!("deciding about {}", count(question.pods(), "pod")));
    let mut told = question.answer(&options);
    told.expanded = expanded;
    told.marked.splice(0..0, remarks);
    told.notes = notes;
    told.notes.extend(hints);
    drop(progress);

    let is_broken = !unread.is_empty();
    if args.output != Format::Table {
        // People have read it on stderr.
        told.marked.splice(0..0, unread);
    }
    print(&text(&told, args.output))?;
    let is_fine = told.errors.is_empty() && told.ignored.iter().all(|ignored| ignored.opted_out);
    let is_whole = !is_broken && !told.marked.iter().any(|remark| remark.broken);
    Ok(if is_fine && is_whole { Outcome::Fine } else { Outcome::Finding })
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
    let problems = std::mem::take(&mut manifests.problems);
    for problem in &problems {
        report(&problem.diagnostic.to_string());
    }
    let gathered = Gathered::from_manifests(manifests);
    if gathered.is_empty() && problems.is_empty() {
        return Err(Diagnostic::new("no objects passed to plan")
            .fix("name files or directories with NodePools and pods (-f), or pipe them in (-f -)")
            .more("karpenter plan --help")
            .into());
    }
    warn(&gathered);
    Ok(Read {
        gathered,
        unread: problems.iter().map(|problem| unread(&problem.diagnostic)).collect(),
    })
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

fn text(told: &Report, format: Format) -> String {
    match format {
        Format::Table => table::table(told, width()),
        Format::Json => write::json(&value(told)),
        Format::Yaml => write::yaml(&value(told)),
    }
}

fn value(told: &Report) -> serde_json::Value {
    serde_json::to_value(told).expect("a report has text keys only")
}

/// How wide the terminal is; nothing where the output goes elsewhere, which takes lines of any
/// length.
fn width() -> Option<usize> {
    let terminal = console::Term::stdout();
    let (_, columns) = terminal.features().is_attended().then(|| terminal.size_checked())??;
    Some(usize::from(columns))
}
