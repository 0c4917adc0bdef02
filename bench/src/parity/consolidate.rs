//! `cargo xtask parity --consolidate`: is what we would remove what upstream would remove?
//!
//! Each generated cluster goes to both sides. With the search `upstream` our commands must be those
//! of one of upstream's runs; with `best` the saving must be at least the highest of them. With
//! `--settle` commands are carried out on the snapshot until there are none, on both sides, and our
//! bill must not be the higher one.

mod judge;
mod record;
mod settle;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use super::{Args, Kind, SECOND_LOOK, each, first_line, kinds};
use crate::consolidated::{self, Consolidated, Search};
use crate::decision::Files;
use crate::generate::{Profile, Recipe};
use crate::host::{self, Stopwatch};

use judge::{Difference, judge};
use settle::{Settled, Side};

/// Clusters about which we decide otherwise on purpose, a line each: `name: reason`.
const EXPLAINED: &str = "scenarios/consolidation/explained.txt";

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
    let watch = Stopwatch::start();
    let done = each(
        &recipes,
        |recipe| compare(recipe, &karpenter, args),
        |recipe, outcome| match outcome {
            Ok(outcome) => outcome.line(recipe),
            Err(error) => format!("{}  FAILED  {}", recipe.name(), first_line(error)),
        },
    );
    Ok(report(&recipes, &done, watch.elapsed().as_secs_f64()))
}

/// How one cluster went.
struct Outcome {
    differences: Vec<Difference>,
    looked_twice: bool,
    best: Consolidated,
    upstream: Vec<Consolidated>,
    /// Ours and upstream's, where it was asked for.
    settled: Option<(Settled, Settled)>,
}

impl Outcome {
    fn line(&self, recipe: &Recipe) -> String {
        let verdict = match (self.differences.is_empty(), self.looked_twice) {
            (true, false) => "same",
            (true, true) => "same as a rarer run",
            (false, _) => "DIFFERENT",
        };
        let first = self.upstream.first().cloned().unwrap_or_default();
        let (out, new) = self.best.nodes();
        let (upstream_out, upstream_new) = first.nodes();
        let settled = match &self.settled {
            None => String::new(),
            Some((ours, upstream)) => format!("  settles at {ours} ({upstream})"),
        };
        format!(
            "{:<22} nodes -{out}+{new} (-{upstream_out}+{upstream_new})  saves {:>8.4} ({:.4}){settled}  {verdict}",
            recipe.name(),
            self.best.savings(),
            first.savings(),
        )
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
        let upstream = settle::settle(&case, &Side::Upstream(&args.oracle))?;
        differences.extend(judge::dearer(&ours, &upstream));
        Some((ours, upstream))
    } else {
        None
    };
    Ok(Outcome { differences, looked_twice, best, upstream, settled })
}

fn report(recipes: &[Recipe], outcomes: &[Result<Outcome>], seconds: f64) -> ExitCode {
    let known = std::fs::read_to_string(host::repo().join(EXPLAINED)).unwrap_or_default();
    let reason =
        |name: &str| known.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let mut lines = Vec::new();
    let (mut same, mut rare, mut explained, mut different) = (0, 0, 0, 0);
    for (recipe, outcome) in recipes.iter().zip(outcomes) {
        let name = recipe.name();
        let complaints: Vec<String> = match outcome {
            Ok(outcome) if outcome.differences.is_empty() => {
                same += 1;
                rare += usize::from(outcome.looked_twice);
                continue;
            }
            Ok(outcome) => outcome.differences.iter().map(ToString::to_string).collect(),
            Err(error) => vec![format!("{error:#}")],
        };
        if let Some(reason) = reason(&name) {
            explained += 1;
            lines.push(format!("{name}: explained: {reason}"));
            continue;
        }
        different += 1;
        lines.extend(complaints.iter().map(|complaint| format!("{name}: {complaint}")));
        let features = recipe.features().names();
        if !features.is_empty() {
            lines.push(format!("    features: {features}"));
        }
        lines.push(format!("    {} > s.yaml", recipe.command()));
    }
    lines.extend(bills(outcomes));
    lines.push(format!(
        "{} clusters in {seconds:.0} s: {same} decided as upstream does ({rare} as a rarer run of it), \
         {explained} differ and are explained, {different} differ",
        recipes.len(),
    ));
    host::print(&(lines.join("\n") + "\n"));
    if different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What all clusters save and cost together.
fn bills(outcomes: &[Result<Outcome>]) -> Vec<String> {
    let done = || outcomes.iter().filter_map(|outcome| outcome.as_ref().ok());
    let ours: f64 = done().map(|outcome| outcome.best.savings()).sum();
    let highest =
        |outcome: &Outcome| outcome.upstream.iter().map(Consolidated::savings).fold(0.0, f64::max);
    let upstream: f64 = done().map(highest).sum();
    let mut lines =
        vec![format!("a pass saves ${ours:.2} an hour, upstream's at most ${upstream:.2}")];
    let settled = || done().filter_map(|outcome| outcome.settled.as_ref());
    if settled().next().is_some() {
        let bill = |of: fn(&(Settled, Settled)) -> &Settled| {
            settled().map(|both| of(both).price).sum::<f64>()
        };
        lines.push(format!(
            "{} clusters settle at ${:.2} an hour, with upstream at ${:.2}",
            settled().count(),
            bill(|both| &both.0),
            bill(|both| &both.1),
        ));
    }
    lines
}
