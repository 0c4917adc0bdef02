//! `karpenter instance-types`: lists the instance types that NodePools can launch.

use std::path::PathBuf;

use karpenter_api::nodepool::NodePool;
use karpenter_core::requirement::Requirement;

use super::plan::{Format, ReadInput, format_report, read_files, terminal_width};
use super::{Failure, Outcome, print, print_to_stderr};
use crate::diagnostic::{Diagnostic, printable};
use crate::instance_types::selection::{Selection, SortKey, select};
use crate::instance_types::{report, requirement_text, table};
use crate::plan::cluster_objects::ClusterObjects;
use crate::plan::pool_types::{PoolTypes, pool_types};
use crate::plan::progress::Progress;
use crate::plan::provider::{self, Provider, ProviderRequest};
use crate::plan::report::Remark;
use crate::{clock, environment};

/// How many types the table shows without --limit.
const TABLE_LIMIT: usize = 20;

/// List instance types with capacity, allocatable resources and prices
///
/// Shows the types of a region, or those that NodePools can launch, with Karpenter's own values of
/// what pods can use. For each requirement it shows how many types the requirement removes.
///
/// The types and prices are those of built-in tables; no AWS account is needed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// File or directory with NodePools and their node classes, or - for stdin; may be repeated
    #[arg(short = 'f', long = "filename", value_name = "PATH", num_args = 1..)]
    paths: Vec<PathBuf>,

    /// AWS region. Default: AWS_REGION
    #[arg(long, value_name = "REGION")]
    region: Option<String>,

    /// Whose instance types to list. Default: what the NodePools' nodeClassRef names, else aws
    #[arg(long, value_enum)]
    provider: Option<Provider>,

    /// Requirement as in a NodePool, "KEY OPERATOR VALUES" as below; may be repeated
    #[arg(long = "requirement", value_name = "REQUIREMENT")]
    requirements: Vec<String>,

    /// What to sort by; gpu lists types with most GPUs first
    #[arg(long, value_enum, default_value_t, value_name = "KEY")]
    sort: SortKey,

    /// Largest number of types of a NodePool; 0 lists all. Default: 20 in a table, else 0
    #[arg(long, value_name = "NUMBER")]
    limit: Option<usize>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    output: Format,
}

const EXAMPLES: &str = "\
Examples:
  karpenter instance-types --region us-west-2
  karpenter instance-types --region us-west-2 -f nodepools.yaml
  karpenter instance-types --region us-west-2 --requirement 'karpenter.k8s.aws/instance-family In [c7g,m7g]'
  karpenter instance-types --region us-west-2 --requirement 'karpenter.k8s.aws/instance-gpu-count Gt 0' --sort gpu
  karpenter instance-types --provider kwok -o json

Exit codes: 0 = every NodePool has an instance type, 1 = none is left, or an object is broken or
could not be read, 2 = wrong usage.";

pub(super) fn run(args: &Args) -> Result<Outcome, Failure> {
    let environment_region = environment::aws_region().map_err(Failure::Usage)?;
    let default = args.paths.is_empty().then_some(Provider::Aws);
    let provider = args.provider.or(default);
    let request =
        ProviderRequest::new(provider, args.region.as_deref(), environment_region.as_deref(), None)
            .map_err(|diagnostic| usage(*diagnostic))?;
    let input = if args.paths.is_empty() { one_pool() } else { read_pools(args)? };
    let ReadInput { objects: mut gathered, unreadable } = input;
    gathered.objects.fill_defaults(&request.default_class());
    let missing = if args.paths.is_empty() { Vec::new() } else { gathered.missing_node_classes() };
    gathered.remarks.extend(missing);
    let chosen = provider::choose_provider(&request, &mut gathered, clock::now())?;
    let pool_types = pool_types(gathered, chosen);
    let requirements =
        parse_requirements(args, &pool_types).map_err(|diagnostic| usage(*diagnostic))?;
    for remark in &pool_types.remarks {
        print_to_stderr(&remark_text(remark));
    }
    let selections = selections(args, &pool_types, &requirements);
    print_selections(args, &pool_types.notes, selections.as_slice())?;
    let is_broken = pool_types.remarks.iter().chain(&unreadable).any(|remark| remark.broken);
    let is_empty = selections.iter().any(|selection| selection.types.is_empty());
    let is_fine = !is_broken && !is_empty && !selections.is_empty();
    Ok(if is_fine { Outcome::Success } else { Outcome::Finding })
}

fn usage(diagnostic: Diagnostic) -> Failure {
    Failure::Usage(diagnostic.help_command("karpenter instance-types --help").into())
}

/// Returns a NodePool without requirements, to list all types.
fn one_pool() -> ReadInput {
    let mut objects = ClusterObjects::default();
    let mut pool = NodePool::default();
    pool.metadata.name = Some("all".to_owned());
    objects.objects.node_pools.push(pool);
    ReadInput { objects, unreadable: Vec::new() }
}

fn read_pools(args: &Args) -> Result<ReadInput, Failure> {
    let input = read_files(&args.paths, &Progress::start())?;
    if !input.objects.objects.node_pools.is_empty() {
        return Ok(input);
    }
    for remark in &input.objects.remarks {
        print_to_stderr(&remark_text(remark));
    }
    Err(Failure::Failed(
        Diagnostic::new("the input has no NodePool that can be read")
            .fix("name files with NodePools, or leave -f out to list all types")
            .into(),
    ))
}

fn parse_requirements(
    args: &Args,
    pool_types: &PoolTypes,
) -> Result<Vec<Requirement>, Box<Diagnostic>> {
    let parse =
        |text: &String| requirement_text::parse(text, &pool_types.rules, &pool_types.catalog);
    args.requirements.iter().map(parse).collect()
}

fn selections(args: &Args, pool_types: &PoolTypes, requirements: &[Requirement]) -> Vec<Selection> {
    let select_for = |(name, own): &(String, Vec<Requirement>)| {
        let types = pool_types.catalog.pools.get(name)?;
        let all: Vec<_> = own.iter().chain(requirements).cloned().collect();
        let node_pool = (!args.paths.is_empty()).then(|| name.clone());
        let mut selection = select(node_pool, types, &all, &pool_types.catalog);
        selection.sort(args.sort);
        Some(selection)
    };
    pool_types.pools.iter().filter_map(select_for).collect()
}

fn print_selections(
    args: &Args,
    notes: &[String],
    selections: &[Selection],
) -> Result<(), Failure> {
    if args.output == Format::Table {
        let limit = Some(args.limit.unwrap_or(TABLE_LIMIT)).filter(|limit| *limit > 0);
        return print(&table::render(selections, limit, notes, terminal_width()));
    }
    for note in notes {
        print_to_stderr(&format!("note: {}", printable(note)));
    }
    let limit = args.limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let reports = report::reports(selections, limit);
    print(&format_report(&reports, args.output, |_, _| String::new()))
}

fn remark_text(remark: &Remark) -> String {
    let Remark { object, place, field, problem, fix, .. } = remark;
    let field = field.as_deref().map(|field| format!("{field}: ")).unwrap_or_default();
    let place = place.as_deref().map(|place| format!(" ({place})")).unwrap_or_default();
    let fix = fix.as_deref().map(|fix| format!("; {fix}")).unwrap_or_default();
    printable(&format!("warning: {object}: {field}{problem}{place}{fix}"))
}
