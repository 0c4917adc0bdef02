//! `karpenter plan`: shows the nodes that would be launched for the pending pods of a cluster, or,
//! with `--consolidate`, the nodes that would be removed.

use std::path::PathBuf;

use clap::ValueEnum;
use jiff::Timestamp;
use serde::Serialize;

use super::{Failure, Outcome, count_noun, print, print_to_stderr};
use crate::diagnostic::{Diagnostic, Location, printable};
use crate::manifest::{self, Input, InputLimits, write};
use crate::options::{DecisionArgs, DecisionOptions};
use crate::plan::cluster_objects::ClusterObjects;
use crate::plan::consolidate::ConsolidationReport;
use crate::plan::expand::ExpandedWorkload;
use crate::plan::progress::Progress;
use crate::plan::provider::{self, Provider, ProviderRequest};
use crate::plan::report::{Remark, Report};
use crate::plan::{consolidate, decision, expand, input_warnings, live, table};
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

    /// Plan with the EC2 instance types of this AWS region. Default: AWS_REGION
    #[arg(long, value_name = "REGION", conflicts_with = "instance_types")]
    region: Option<String>,

    /// Instance types to plan with, in KWOK's JSON format. Default: those of the provider
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
  karpenter plan -f . --provider aws --region us-west-2
  karpenter plan -f . --provider kwok --feature-gates NodeOverlay=true
  karpenter plan --consolidate --consolidation-search upstream

Exit codes: 0 = every pod has a place (with --consolidate: whether or not nodes can go), 1 = pods
stay pending, or something is broken or could not be read, 2 = wrong usage.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
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
                .help_command("karpenter plan --help")
                .into(),
        ));
    }
    let options = args.decision.resolve(environment::variable).map_err(|diagnostic| {
        Failure::Usage(diagnostic.help_command("karpenter plan --help").into())
    })?;
    for warning in &options.warnings {
        print_to_stderr(&format!("warning: {}", printable(warning)));
    }
    if args.decision.consolidation_search.is_some() && !args.consolidate {
        return Err(Failure::Usage(
            Diagnostic::new("--consolidation-search says nothing about pending pods")
                .fix("add --consolidate, or leave it out")
                .help_command("karpenter plan --help")
                .into(),
        ));
    }
    let environment_region = environment::aws_region().map_err(Failure::Usage)?;
    let request = ProviderRequest::new(
        args.provider,
        args.region.as_deref(),
        environment_region.as_deref(),
        args.instance_types.as_deref(),
    )
    .map_err(|diagnostic| {
        Failure::Usage(diagnostic.help_command("karpenter plan --help").into())
    })?;
    let now = args.now.unwrap_or_else(clock::now);
    let progress = Progress::start();
    let is_live = args.paths.is_empty();
    let ReadInput { objects: mut gathered, unreadable: unread } = if is_live {
        read_live(args, &request, &options, &progress)?
    } else {
        read_files(&args.paths, &progress)?
    };
    let expanded = if is_live || args.no_expand {
        Vec::new()
    } else {
        expand::expand_workloads(&mut gathered)
    };
    if !is_live {
        gathered.objects.fill_defaults(&request.default_class());
    }

    let hints = gathered.hints.autoscaler_note(&expanded);
    let missing = if is_live { Vec::new() } else { gathered.missing_node_classes() };
    gathered.remarks.extend(missing);
    if args.consolidate && !is_live {
        let missing = gathered.missing_node_owners();
        gathered.remarks.extend(missing);
        let unjudged = input_warnings::budgets_without_status(&gathered);
        gathered.remarks.extend(unjudged);
    }
    let mut chosen = provider::choose_provider(&request, &mut gathered, now)?;
    chosen.settings.assume_pools_ready = !is_live;
    let remarks = std::mem::take(&mut gathered.remarks);
    let notes = std::mem::take(&mut chosen.notes);
    let plan_input = decision::prepare(gathered, chosen, &options);
    let mut input_report = InputReport { expanded, remarks, notes, unreadable: unread };
    input_report.notes.extend(hints);
    if args.consolidate {
        progress
            .set_message(format!("deciding about {}", count_noun(plan_input.node_count(), "node")));
        let report = plan_input.consolidate(&options, now, &input_report.remarks);
        drop(progress);
        return print_consolidation(report, input_report, args.output);
    }
    progress.set_message(format!("deciding about {}", count_noun(plan_input.pod_count(), "pod")));
    let report = plan_input.plan_pods(&options, &input_report.remarks);
    drop(progress);
    print_plan(report, input_report, args.output)
}

/// The expanded workloads and remarks of the input reader.
struct InputReport {
    expanded: Vec<ExpandedWorkload>,
    remarks: Vec<Remark>,
    notes: Vec<String>,
    unreadable: Vec<Remark>,
}

impl InputReport {
    /// Merges all remarks, the decision's last; returns whether all objects count.
    fn merge_remarks(self, mut marked: Vec<Remark>, format: Format) -> (Vec<Remark>, bool) {
        marked.splice(0..0, self.remarks);
        let is_complete = self.unreadable.is_empty() && !marked.iter().any(|remark| remark.broken);
        if format != Format::Table {
            // In table format they are already on stderr.
            marked.splice(0..0, self.unreadable);
        }
        (marked, is_complete)
    }
}

fn print_plan(
    mut report: Report,
    mut input_report: InputReport,
    format: Format,
) -> Result<Outcome, Failure> {
    report.expanded = std::mem::take(&mut input_report.expanded);
    report.notes = std::mem::take(&mut input_report.notes);
    let (marked, is_complete) = input_report.merge_remarks(report.marked, format);
    report.marked = marked;
    print(&format_report(&report, format, table::render))?;
    let is_fine =
        report.errors.is_empty() && report.ignored.iter().all(|ignored| ignored.opted_out);
    Ok(if is_fine && is_complete { Outcome::Success } else { Outcome::Finding })
}

fn print_consolidation(
    mut report: ConsolidationReport,
    mut input_report: InputReport,
    format: Format,
) -> Result<Outcome, Failure> {
    report.expanded = std::mem::take(&mut input_report.expanded);
    report.notes = std::mem::take(&mut input_report.notes);
    let (marked, is_complete) = input_report.merge_remarks(report.marked, format);
    report.marked = marked;
    print(&format_report(&report, format, consolidate::render))?;
    Ok(if is_complete { Outcome::Success } else { Outcome::Finding })
}

/// The objects of the input, and remarks about unreadable ones.
pub(super) struct ReadInput {
    pub(super) objects: ClusterObjects,
    pub(super) unreadable: Vec<Remark>,
}

/// Reads the objects of files. Prints what cannot be read to stderr.
pub(super) fn read_files(paths: &[PathBuf], progress: &Progress) -> Result<ReadInput, Failure> {
    progress.set_message("reading manifests");
    let input = |path: &PathBuf| match path.to_str() {
        Some("-") => Input::Stdin,
        _ => Input::Path(path.clone()),
    };
    let inputs: Vec<_> = paths.iter().map(input).collect();
    let mut manifests = manifest::read(&inputs, &InputLimits::SNAPSHOT);
    for place in &manifests.non_objects {
        print_to_stderr(&format!("warning: {place}: skipped, not a Kubernetes object"));
    }
    let mut problems = std::mem::take(&mut manifests.problems);
    let gathered = ClusterObjects::from_manifests(manifests);
    // Of nothing there is no result, only what kept it from being read.
    let failure = gathered.is_empty().then(|| match problems.pop() {
        Some(problem) => problem.diagnostic,
        None => no_objects_diagnostic().into(),
    });
    for problem in &problems {
        print_to_stderr(&problem.diagnostic.to_string());
    }
    if let Some(failure) = failure {
        return Err(failure.into());
    }
    warn_unknown_kinds(&gathered);
    Ok(ReadInput {
        objects: gathered,
        unreadable: problems.iter().map(|problem| unreadable_remark(&problem.diagnostic)).collect(),
    })
}

fn no_objects_diagnostic() -> Diagnostic {
    Diagnostic::new("no objects passed to plan")
        .fix("name files or directories with NodePools and pods (-f), or pipe them in (-f -)")
        .help_command("karpenter plan --help")
}

/// Returns the remark about an unreadable file or document.
fn unreadable_remark(diagnostic: &Diagnostic) -> Remark {
    let Location { file, line, column, .. } = diagnostic.location().clone();
    let place = Location { file: file.clone(), line, column, field: None };
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

fn read_live(
    args: &Args,
    request: &ProviderRequest<'_>,
    options: &DecisionOptions,
    progress: &Progress,
) -> Result<ReadInput, Failure> {
    let set_step = |resource: &str| progress.set_message(format!("reading {resource}"));
    let (kubeconfig, context) = (args.kubeconfig.as_deref(), args.context.as_deref());
    let reads_ec2 = request.may_use_aws();
    let gathered = live::read_cluster(kubeconfig, context, options, reads_ec2, set_step)?;
    warn_unknown_kinds(&gathered);
    Ok(ReadInput { objects: gathered, unreadable: Vec::new() })
}

/// Prints one warning for each unknown kind.
fn warn_unknown_kinds(gathered: &ClusterObjects) {
    for (kind, count) in &gathered.unknown_kinds {
        let kind = printable(kind);
        print_to_stderr(&format!("warning: {kind}: unknown kind, {count} left out"));
    }
}

pub(super) fn format_report<T: Serialize>(
    report: &T,
    format: Format,
    table: impl Fn(&T, Option<usize>) -> String,
) -> String {
    let value = || serde_json::to_value(report).expect("a report has text keys only");
    match format {
        Format::Table => table(report, terminal_width()),
        Format::Json => write::json(&value()),
        Format::Yaml => write::yaml(&value()),
    }
}

/// Returns the width of the terminal, if stdout is one.
/// Other outputs take lines of any length.
pub(super) fn terminal_width() -> Option<usize> {
    let terminal = console::Term::stdout();
    let (_, columns) = terminal.features().is_attended().then(|| terminal.size_checked())??;
    Some(usize::from(columns))
}
