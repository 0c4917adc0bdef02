//! `cargo xtask parity --consolidate`: compares our consolidation commands with upstream's.
//!
//! Each generated cluster goes to both sides. With the search `upstream` our commands must be those
//! of one of upstream's runs; with `best` the saving must be at least the highest of them. With
//! `--settle` both sides carry out commands on the snapshot until there are none, and our bill must
//! not be above the highest of upstream's runs.

mod differences;
mod record;
mod settle;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use super::report::{self, ComparisonResult};
use super::{Args, ClusterKind, RETRY_FACTOR, recipes};
use crate::consolidation::{self, ConsolidationDecision, Search};
use crate::decision::CaseFiles;
use crate::generate::{Profile, Recipe};
use crate::host;

use differences::find_differences;
use settle::{SettledCluster, Side};

/// The kinds of clusters.
const KINDS: &[ClusterKind] = &[
    (Profile::Consolidate, 0, 9),
    (Profile::Consolidate, 6, 14),
    (Profile::Packed, 0, 7),
    (Profile::Disruption, 0, 8),
    (Profile::Disruption, 0, 15),
    (Profile::Disruption, 5, 11),
    (Profile::Disruption, 0, 30),
    (Profile::Wide, 5, 12),
];

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let recipes = recipes(KINDS, args);
    if args.record {
        record::record(&recipes, &args.oracle, args.runs)?;
        return Ok(ExitCode::SUCCESS);
    }
    let karpenter = host::sibling_program("karpenter")?;
    Ok(report::compare_all(&recipes, |recipe| compare(recipe, &karpenter, args)))
}

/// The comparison of one cluster.
struct ConsolidationComparison {
    result: ComparisonResult,
    best: ConsolidationDecision,
    upstream: Vec<ConsolidationDecision>,
    /// Our result and upstream's, with `--settle`.
    settled: Option<(SettledCluster, SettledCluster)>,
}

impl report::Comparison for ConsolidationComparison {
    const EXPLAINED: &'static str = "scenarios/consolidation/explained.txt";

    fn result(&self) -> &ComparisonResult {
        &self.result
    }

    fn summary(&self) -> String {
        let first = self.upstream.first().cloned().unwrap_or_default();
        let (out, new) = self.best.node_counts();
        let (upstream_out, upstream_new) = first.node_counts();
        let settled = match &self.settled {
            None => String::new(),
            Some((ours, upstream)) => format!("  settles at {ours} ({upstream})"),
        };
        format!(
            "nodes -{out}+{new} (-{upstream_out}+{upstream_new})  saves {:>8.4} ({:.4}){settled}",
            self.best.savings(),
            first.savings(),
        )
    }

    /// Sums the savings and the settled prices of all clusters.
    fn total_lines(outcomes: &[&Self]) -> Vec<String> {
        let highest = |outcome: &&Self| {
            outcome.upstream.iter().map(ConsolidationDecision::savings).fold(0.0, f64::max)
        };
        let ours: f64 = outcomes.iter().map(|outcome| outcome.best.savings()).sum();
        let upstream: f64 = outcomes.iter().map(highest).sum();
        let mut lines =
            vec![format!("a pass saves ${ours:.2} an hour, upstream's at most ${upstream:.2}")];
        let settled: Vec<_> =
            outcomes.iter().filter_map(|outcome| outcome.settled.as_ref()).collect();
        if !settled.is_empty() {
            let ours: f64 = settled.iter().map(|(ours, _)| ours.price).sum();
            let upstream: f64 = settled.iter().map(|(_, upstream)| upstream.price).sum();
            lines.push(format!(
                "{} clusters settle at ${ours:.2} an hour, with upstream at ${upstream:.2}",
                settled.len(),
            ));
        }
        lines
    }
}

fn compare(recipe: &Recipe, karpenter: &Path, args: &Args) -> Result<ConsolidationComparison> {
    let folder = tempfile::tempdir()?;
    let case = recipe.generate();
    let files = CaseFiles::write(&case, recipe.types, folder.path())?;
    let same = consolidation::run_ours(karpenter, &files, Search::Upstream)?;
    let best = consolidation::run_ours(karpenter, &files, Search::Best)?;
    let mut upstream = consolidation::run_upstream(&args.oracle, &files, args.runs)?;
    let mut differences = find_differences(&same, &best, &upstream);
    let needed_more_runs = !differences.is_empty();
    if needed_more_runs {
        upstream.extend(consolidation::run_upstream(
            &args.oracle,
            &files,
            args.runs * RETRY_FACTOR,
        )?);
        differences = find_differences(&same, &best, &upstream);
    }
    // Other prices than the built-in ones are not carried out.
    let settled = if args.settle && case.instance_types.is_none() && !case.options.node_overlay {
        let ours = settle::settle(&case, &Side::Ours(karpenter))?;
        let mut upstream = settle::settle(&case, &Side::Upstream(&args.oracle))?;
        for _ in 0..RETRY_FACTOR {
            if differences::settling_differences(&ours, &upstream).is_empty() {
                break;
            }
            let again = settle::settle(&case, &Side::Upstream(&args.oracle))?;
            if again.price > upstream.price {
                upstream = again;
            }
        }
        differences.extend(differences::settling_differences(&ours, &upstream));
        Some((ours, upstream))
    } else {
        None
    };
    let differences = differences.iter().map(ToString::to_string).collect();
    Ok(ConsolidationComparison {
        result: ComparisonResult { differences, needed_more_runs },
        best,
        upstream,
        settled,
    })
}
