//! Compares our scheduling decisions with upstream's.
//!
//! Each generated cluster goes to both sides. Upstream decides several times, because map order
//! changes its decisions; [`UpstreamRange`] holds the range of all its runs, and
//! [`UpstreamRange::differences`] lists where our decision leaves it.

mod consolidate;
mod record;
mod report;
#[cfg(test)]
mod tests;
mod upstream_range;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use serde_json::Value;

use crate::decision::{self, CaseFiles};
use crate::generate::{Case, Profile, Recipe, Types};
use crate::host;

use report::ComparisonResult;
pub use upstream_range::{Difference, UpstreamRange};

/// How many more times upstream decides after a difference.
/// What upstream does once in ten times is upstream's decision, too.
const RETRY_FACTOR: usize = 5;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Upstream's decision code, as a program (`cargo xtask parity` builds it).
    #[arg(long, value_name = "FILE", hide = true)]
    oracle: PathBuf,

    /// How many seeds per kind of cluster.
    #[arg(long, default_value_t = 32, value_name = "N")]
    seeds: u64,

    /// The first seed.
    #[arg(long, default_value_t = 1, value_name = "SEED")]
    from: u64,

    /// Only clusters of this profile.
    #[arg(long)]
    profile: Option<Profile>,

    /// How often upstream decides about each cluster.
    #[arg(long, default_value_t = 5, value_name = "N")]
    runs: usize,

    /// Asks only upstream, and writes clusters and answers to scenarios/parity instead.
    #[arg(long)]
    record: bool,

    /// Compares consolidation instead: what would be removed or replaced.
    ///
    /// With --consolidation-search=upstream our commands must be those of one of upstream's runs;
    /// with best the saving must be at least the highest of them. What differs on purpose is in
    /// scenarios/consolidation/explained.txt, where --record keeps clusters and answers.
    #[arg(long)]
    consolidate: bool,

    /// With --consolidate: carries commands out on the snapshots until there are none, on both
    /// sides. Our bill must not be above the highest of upstream's runs.
    #[arg(long, requires = "consolidate")]
    settle: bool,
}

/// The kinds of clusters.
const KINDS: &[ClusterKind] = &[
    (Profile::Mixed, 50, 0),
    (Profile::Mixed, 40, 6),
    (Profile::Plain, 60, 0),
    (Profile::Prefs, 50, 0),
    (Profile::Prefs, 40, 4),
    (Profile::Consolidate, 30, 8),
    (Profile::Packed, 30, 4),
    (Profile::Diverse, 50, 0),
    (Profile::Preferences, 25, 0),
    (Profile::Wide, 40, 0),
    (Profile::Wide, 40, 6),
    (Profile::Wide, 25, 10),
];

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.consolidate {
        return consolidate::run(args);
    }
    let recipes = recipes(KINDS, args);
    if args.record {
        record::record(&recipes, &args.oracle, args.runs)?;
        return Ok(ExitCode::SUCCESS);
    }
    let karpenter = host::sibling_program("karpenter")?;
    Ok(report::compare_all(&recipes, |recipe| compare(recipe, &karpenter, args)))
}

/// A profile, the number of pending pods and the number of nodes.
type ClusterKind = (Profile, usize, usize);

/// Returns the clusters that the command line selects.
fn recipes(kinds: &[ClusterKind], args: &Args) -> Vec<Recipe> {
    let kinds = kinds.iter().filter(|kind| args.profile.is_none_or(|profile| profile == kind.0));
    let seeds = args.from..args.from + args.seeds;
    kinds
        .flat_map(|(profile, pods, nodes)| {
            seeds.clone().map(move |seed| Recipe {
                profile: *profile,
                // Each seed is also another size, and no two kinds share a cluster.
                seed: seed * 100 + u64::try_from(*nodes).unwrap_or(0),
                pods: pods * usize::try_from(50 + seed * 37 % 100).unwrap_or(100) / 100,
                nodes: *nodes,
                types: Types::Kwok,
                features: None,
            })
        })
        .collect()
}

/// The comparison of one cluster.
struct SchedulingComparison {
    result: ComparisonResult,
    nodes: usize,
    price: f64,
    upstream: UpstreamRange,
}

impl report::Comparison for SchedulingComparison {
    const EXPLAINED: &'static str = "scenarios/parity/explained.txt";

    fn result(&self) -> &ComparisonResult {
        &self.result
    }

    fn summary(&self) -> String {
        let UpstreamRange { nodes, price, unplaced } = &self.upstream;
        format!(
            "nodes {:>3} ({}–{})  price {:>8.4} ({:.4}–{:.4})  unplaced {:>2}",
            self.nodes,
            nodes.0,
            nodes.1,
            self.price,
            price.0,
            price.1,
            unplaced.first().map_or(0, BTreeSet::len),
        )
    }
}

fn compare(recipe: &Recipe, karpenter: &Path, args: &Args) -> Result<SchedulingComparison> {
    let folder = tempfile::tempdir()?;
    let case = recipe.generate();
    let files = CaseFiles::write(&case, recipe.types, folder.path())?;
    let waiting = pending_pods(&case.objects);
    let ours = decision::run_ours(karpenter, &files)?;
    let mut runs = decision::run_upstream(&args.oracle, &files, args.runs)?;
    let mut upstream = UpstreamRange::from_runs(&runs, &waiting);
    let mut differences = upstream.differences(&ours, &waiting);
    let needed_more_runs = !differences.is_empty();
    if needed_more_runs {
        runs.extend(decision::run_upstream(&args.oracle, &files, args.runs * RETRY_FACTOR)?);
        upstream = UpstreamRange::from_runs(&runs, &waiting);
        differences = upstream.differences(&ours, &waiting);
    }
    let (nodes, price) = (ours.node_claims.len(), ours.total_price);
    let differences = differences.iter().map(ToString::to_string).collect();
    Ok(SchedulingComparison {
        result: ComparisonResult { differences, needed_more_runs },
        nodes,
        price,
        upstream,
    })
}

/// Returns the pods of a snapshot without a node.
pub(crate) fn pending_pods(objects: &[Value]) -> BTreeSet<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    objects
        .iter()
        .filter(|object| object["kind"] == "Pod" && object["spec"]["nodeName"].is_null())
        .map(|pod| {
            format!("{}/{}", text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]))
        })
        .collect()
}

/// Returns the answer of upstream in the form of `scenarios/parity`.
pub(crate) fn recorded_answer(case: &Case, upstream: &UpstreamRange) -> Value {
    serde_json::json!({
        "flags": case.options.flags(),
        "unplaced": upstream.unplaced,
        "price": [upstream.price.0, upstream.price.1],
        "nodes": [upstream.nodes.0, upstream.nodes.1],
    })
}
