//! Compares clusters on all cores and prints the differences with their replay commands.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result};

use crate::generate::Recipe;
use crate::host::{self, Stopwatch};

/// The comparison of one cluster, for the report.
pub(super) trait Comparison: Send {
    /// Clusters about which we decide otherwise on purpose, a line each: `name: reason`.
    const EXPLAINED: &'static str;

    fn result(&self) -> &ComparisonResult;

    /// Summarizes both sides in one line.
    fn summary(&self) -> String;

    /// Returns lines about all clusters together.
    fn total_lines(_outcomes: &[&Self]) -> Vec<String> {
        Vec::new()
    }
}

/// Whether our decision is within the range of upstream's.
pub(super) struct ComparisonResult {
    pub differences: Vec<String>,
    /// Upstream's range covers our decision only with more runs.
    pub needed_more_runs: bool,
}

impl ComparisonResult {
    fn label(&self) -> &'static str {
        match (self.differences.is_empty(), self.needed_more_runs) {
            (true, false) => "same",
            (true, true) => "same as a rarer run",
            (false, _) => "DIFFERENT",
        }
    }
}

/// Compares each cluster and prints the differences.
pub(super) fn compare_all<T: Comparison>(
    recipes: &[Recipe],
    compare: impl Fn(&Recipe) -> Result<T> + Sync,
) -> ExitCode {
    let watch = Stopwatch::start();
    let done = for_each_recipe(recipes, compare, |recipe, outcome| match outcome {
        Ok(outcome) => {
            format!("{:<22} {}  {}", recipe.name(), outcome.summary(), outcome.result().label())
        }
        Err(error) => format!("{:<22} FAILED  {}", recipe.name(), first_line(error)),
    });
    print_report(recipes, &done, watch.elapsed().as_secs_f64())
}

/// Runs `work` for each recipe on all cores and prints a line for each.
pub(super) fn for_each_recipe<T: Send>(
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

fn print_report<T: Comparison>(
    recipes: &[Recipe],
    outcomes: &[Result<T>],
    seconds: f64,
) -> ExitCode {
    let known = std::fs::read_to_string(host::repo().join(T::EXPLAINED)).unwrap_or_default();
    let reason =
        |name: &str| known.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let mut lines = Vec::new();
    let (mut same, mut rare, mut explained, mut different) = (0, 0, 0, 0);
    for (recipe, outcome) in recipes.iter().zip(outcomes) {
        let name = recipe.name();
        let complaints = match outcome {
            Ok(outcome) if outcome.result().differences.is_empty() => {
                same += 1;
                rare += usize::from(outcome.result().needed_more_runs);
                continue;
            }
            Ok(outcome) => outcome.result().differences.clone(),
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
    lines.extend(T::total_lines(&outcomes.iter().flatten().collect::<Vec<_>>()));
    lines.push(format!(
        "{} clusters in {seconds:.0} s: {same} decided as upstream does ({rare} as a rarer run of it), \
         {explained} differ and are explained, {different} differ",
        recipes.len(),
    ));
    host::print(&(lines.join("\n") + "\n"));
    if different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub(super) fn first_line(error: &anyhow::Error) -> String {
    format!("{error:#}").lines().next().unwrap_or_default().to_owned()
}
