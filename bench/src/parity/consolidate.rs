//! `cargo xtask parity --consolidate`: is what we would remove what upstream would remove?
//!
//! Each generated cluster goes to both sides. With the search `upstream` our commands must be those
//! of one of upstream's runs; with `best` the saving must be at least the highest of them. With
//! `--settle` commands are carried out on the snapshot until there are none, on both sides, and our
//! bill must not be above the highest of upstream's runs.

mod judge;
mod record;
mod settle;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use super::report::{self, Verdict};
use super::{Args, Kind, SECOND_LOOK, kinds};
use crate::consolidated::{self, Consolidated, Search};
use crate::decision::Files;
use crate::generate::{Profile, Recipe};
use crate::host;

use judge::judge;
use settle::{Settled, Side};

/// The kinds of clusters.
const KINDS: &[Kind] = &[
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
    let recipes = kinds(KINDS, args);
    if args.record {
        record::record(&recipes, &args.oracle, args.runs)?;
        return Ok(ExitCode::SUCCESS);
    }
    let karpenter = host::sibling("karpenter")?;
    Ok(report::run(&recipes, |recipe| compare(recipe, &karpenter, args)))
}

/// How one cluster went.
struct Outcome {
    verdict: Verdict,
    best: Consolidated,
    upstream: Vec<Consolidated>,
    /// Ours and upstream's, where it was asked for.
    settled: Option<(Settled, Settled)>,
}

impl report::Outcome for Outcome {
    const EXPLAINED: &'static str = "scenarios/consolidation/explained.txt";

    fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    fn figures(&self) -> String {
        let first = self.upstream.first().cloned().unwrap_or_default();
        let (out, new) = self.best.nodes();
        let (upstream_out, upstream_new) = first.nodes();
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

    /// What all clusters save and cost together.
    fn sums(outcomes: &[&Self]) -> Vec<String> {
        let highest = |outcome: &&Self| {
            outcome.upstream.iter().map(Consolidated::savings).fold(0.0, f64::max)
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

fn compare(recipe: &Recipe, karpenter: &Path, args: &Args) -> Result<Outcome> {
    let folder = tempfile::tempdir()?;
    let case = recipe.generate();
    let files = Files::write(&case, recipe.types, folder.path())?;
    let same = consolidated::ours(karpenter, &files, Search::Upstream)?;
    let best = consolidated::ours(karpenter, &files, Search::Best)?;
    let mut upstream = consolidated::upstream(&args.oracle, &files, args.runs)?;
    let mut differences = judge(&same, &best, &upstream);
    let looked_twice = !differences.is_empty();
    if looked_twice {
        upstream.extend(consolidated::upstream(&args.oracle, &files, args.runs * SECOND_LOOK)?);
        differences = judge(&same, &best, &upstream);
    }
    // Other prices than the built-in ones are not carried out.
    let settled = if args.settle && case.instance_types.is_none() && !case.options.node_overlay {
        let ours = settle::settle(&case, &Side::Ours(karpenter))?;
        let mut upstream = settle::settle(&case, &Side::Upstream(&args.oracle))?;
        for _ in 0..SECOND_LOOK {
            if judge::dearer(&ours, &upstream).is_empty() {
                break;
            }
            let again = settle::settle(&case, &Side::Upstream(&args.oracle))?;
            if again.price > upstream.price {
                upstream = again;
            }
        }
        differences.extend(judge::dearer(&ours, &upstream));
        Some((ours, upstream))
    } else {
        None
    };
    let differences = differences.iter().map(ToString::to_string).collect();
    Ok(Outcome { verdict: Verdict { differences, looked_twice }, best, upstream, settled })
}
