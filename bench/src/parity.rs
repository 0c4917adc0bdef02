//! Are our decisions upstream's decisions?
//!
//! Each generated cluster goes to both sides. Upstream decides several times, because map order
//! changes what it does; [`Upstream`] is what all of its runs allow, and [`Upstream::judge`] says
//! how a decision of ours leaves that.

mod consolidate;
mod record;
#[cfg(test)]
mod tests;
mod upstream;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::decision::{self, Files};
use crate::generate::{Case, Profile, Recipe, Types};
use crate::host::{self, Stopwatch};

pub use upstream::{Difference, Upstream};

/// Clusters about which we decide otherwise on purpose, a line each: `name: reason`.
const EXPLAINED: &str = "scenarios/parity/explained.txt";

/// After a difference upstream is asked so many times more: what it does once in ten times is
/// upstream's decision, too.
const SECOND_LOOK: usize = 5;

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
    /// sides. Our bill must not be the higher one.
    #[arg(long, requires = "consolidate")]
    settle: bool,
}

/// The kinds of clusters.
const KINDS: &[Kind] = &[
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

/// A profile, how many pods wait, how many nodes are there.
type Kind = (Profile, usize, usize);

/// The clusters that the command line asks for.
fn kinds(kinds: &[Kind], args: &Args) -> Vec<Recipe> {
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

/// Does `work` for each recipe on all cores, and prints a line for each that is done.
fn each<T: Send>(
    recipes: &[Recipe],
    work: impl Fn(&Recipe) -> Result<T> + Sync,
    line: impl Fn(&Recipe, &Result<T>) -> String + Sync,
) -> Vec<Result<T>> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Mutex<Vec<Option<Result<T>>>> = Mutex::new(recipes.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..host::cores() {
            scope.spawn(|| {
                while let Some((at, recipe)) = Some(next.fetch_add(1, Ordering::Relaxed))
                    .and_then(|at| Some((at, recipes.get(at)?)))
                {
                    let result = work(recipe);
                    let count = done.fetch_add(1, Ordering::Relaxed) + 1;
                    host::note(&format!(
                        "[{count:>4}/{}] {}",
                        recipes.len(),
                        line(recipe, &result)
                    ));
                    if let Ok(mut results) = results.lock() {
                        results[at] = Some(result);
                    }
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.into_iter().map(|result| result.context("never tried").flatten()).collect()
}

/// How one cluster went.
struct Outcome {
    differences: Vec<Difference>,
    /// Upstream's runs agreed only after a second look.
    looked_twice: bool,
    nodes: usize,
    price: f64,
    upstream: Upstream,
}

impl Outcome {
    fn line(&self, recipe: &Recipe) -> String {
        let verdict = match (self.differences.is_empty(), self.looked_twice) {
            (true, false) => "same",
            (true, true) => "same as a rarer run",
            (false, _) => "DIFFERENT",
        };
        let Upstream { nodes, price, unplaced } = &self.upstream;
        format!(
            "{:<22} nodes {:>3} ({}–{})  price {:>8.4} ({:.4}–{:.4})  unplaced {:>2}  {verdict}",
            recipe.name(),
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

fn compare(recipe: &Recipe, karpenter: &Path, args: &Args) -> Result<Outcome> {
    let folder = tempfile::tempdir()?;
    let case = recipe.generate();
    let files = Files::write(&case, recipe.types, folder.path())?;
    let waiting = waiting(&case.objects);
    let ours = decision::ours(karpenter, &files)?;
    let mut runs = decision::upstream(&args.oracle, &files, args.runs)?;
    let mut upstream = Upstream::of(&runs, &waiting);
    let mut differences = upstream.judge(&ours, &waiting);
    let looked_twice = !differences.is_empty();
    if looked_twice {
        runs.extend(decision::upstream(&args.oracle, &files, args.runs * SECOND_LOOK)?);
        upstream = Upstream::of(&runs, &waiting);
        differences = upstream.judge(&ours, &waiting);
    }
    let (nodes, price) = (ours.node_claims.len(), ours.total_price);
    Ok(Outcome { differences, looked_twice, nodes, price, upstream })
}

/// The pods of a snapshot that no node holds.
pub(crate) fn waiting(objects: &[Value]) -> BTreeSet<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    objects
        .iter()
        .filter(|object| object["kind"] == "Pod" && object["spec"]["nodeName"].is_null())
        .map(|pod| {
            format!("{}/{}", text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]))
        })
        .collect()
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
    lines.push(format!(
        "{} clusters in {seconds:.0} s: {same} decided as upstream does ({rare} as a rarer run of it), \
         {explained} differ and are explained, {different} differ",
        recipes.len(),
    ));
    host::print(&(lines.join("\n") + "\n"));
    if different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn first_line(error: &anyhow::Error) -> String {
    format!("{error:#}").lines().next().unwrap_or_default().to_owned()
}

/// A case as it is kept in `scenarios/parity`.
pub(crate) fn scenario(case: &Case, upstream: &Upstream) -> Value {
    serde_json::json!({
        "flags": case.options.flags(),
        "unplaced": upstream.unplaced,
        "price": [upstream.price.0, upstream.price.1],
        "nodes": [upstream.nodes.0, upstream.nodes.1],
    })
}
