//! `cargo xtask bench disruption`: one consolidation pass over clusters of several sizes, on both
//! sides in one run.
//!
//! Each cluster is written to a file once. Each measurement is a process of its own that loads the
//! file and then reports the cost of the decision alone: time, and peak memory over what was
//! loaded.

mod limits;
pub mod measure;
mod results;
mod workload;

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::consolidation::{self, Search};
use crate::decision::{CaseFiles, run_command};
use crate::generate::Types;
use crate::host;
use crate::limit;
use crate::selection::Selection;

use measure::Measurement;
use workload::{WORKLOADS, Workload};

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    selection: Selection,

    /// How many of our passes are timed; the best counts. Upstream decides five times, or once
    /// where that takes long.
    #[arg(long, default_value_t = 5, value_name = "N")]
    runs: usize,
}

/// The results of one side in a row.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SideResult {
    pub seconds: f64,
    /// Peak over what was loaded.
    pub memory_bytes: u64,
    pub commands: usize,
    /// Nodes that go and nodes that come.
    pub removed: usize,
    pub added: usize,
    pub savings: f64,
}

/// What our heap saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Heap {
    /// What the snapshot and the instance types hold.
    pub held_bytes: u64,
    /// The most memory that a pass holds in addition, in bytes.
    pub peak_bytes: u64,
}

/// One workload, measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub name: String,
    pub nodes: usize,
    pub pods: usize,
    /// What our snapshot of it holds.
    pub held_bytes: u64,
    /// The search `best`: everything that can go.
    pub best: SideResult,
    /// The search `upstream`: the first command.
    pub first: SideResult,
    /// A pass of `best` after which nothing has changed.
    pub unchanged_seconds: f64,
    /// None where upstream is not measured.
    pub upstream: Option<SideResult>,
}

/// Upstream decides again if its first decision takes fewer seconds.
const QUICK_SECONDS: f64 = 5.0;
/// How many more times.
const MORE_RUNS: usize = 4;

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    host::print(&(results::header() + "\n"));
    let rows = args.selection.measure_selected(
        WORKLOADS,
        |workload| workload.name,
        |workload| measure(workload, args),
        results::table_line,
    )?;
    let limits = limits::disruption_limits(&rows);
    let verdict = limit::print_limits(&limits);
    if args.selection.is_complete() {
        results::save(&rows, &limits)?;
    }
    Ok(verdict)
}

fn measure(workload: &Workload, args: &Args) -> Result<Row> {
    let folder = tempfile::tempdir()?;
    let case = workload.recipe().generate();
    let count = |kind: &str| case.objects.iter().filter(|object| object["kind"] == kind).count();
    let (nodes, pods) = (count("Node"), count("Pod"));
    let files = CaseFiles::write(&case, Types::Kwok, folder.path())?;
    drop(case);
    let best: Measurement = measure_ours("disrupt", &files, Search::Best, args.runs)?;
    let first: Measurement = measure_ours("disrupt", &files, Search::Upstream, args.runs)?;
    let heap: Heap = measure_ours("disrupt-heap", &files, Search::Best, 1)?;
    let mut side = best.side_result();
    // Our allocator may fill holes that loading left, which hides from the resident size; the
    // heap's own peak does not see its overhead. The larger one counts.
    side.memory_bytes = side.memory_bytes.max(heap.peak_bytes);
    let upstream = match args.selection.upstream() {
        Some(oracle) if workload.upstream => Some(measure_upstream(oracle, &files)?),
        _ => None,
    };
    Ok(Row {
        name: workload.name.to_owned(),
        nodes,
        pods,
        unchanged_seconds: best.unchanged_seconds,
        held_bytes: heap.held_bytes,
        best: side,
        first: first.side_result(),
        upstream,
    })
}

fn measure_ours<T: DeserializeOwned>(
    program: &str,
    files: &CaseFiles,
    search: Search,
    runs: usize,
) -> Result<T> {
    let mut command = Command::new(host::sibling_program(program)?);
    command.arg(&files.snapshot).arg(format!("--runs={runs}")).arg(search.name());
    Ok(serde_json::from_slice(&run_command(command, &[0])?)?)
}

/// Measures upstream's pass; a quick one decides five times, the best saving counts.
/// Upstream is not deterministic; `parity` does the same. Time and memory are those of the first.
fn measure_upstream(oracle: &Path, files: &CaseFiles) -> Result<SideResult> {
    let mut runs = consolidation::run_upstream(oracle, files, 1)?;
    let first = runs.first().cloned().context("no decision was printed")?;
    if first.seconds < QUICK_SECONDS {
        runs.extend(consolidation::run_upstream(oracle, files, MORE_RUNS)?);
    }
    let most = runs.iter().max_by(|a, b| a.savings().total_cmp(&b.savings()));
    let best_run = most.unwrap_or(&first);
    let (removed, added) = best_run.node_counts();
    Ok(SideResult {
        seconds: first.seconds,
        memory_bytes: first.peak_rss_bytes.saturating_sub(first.loaded_rss_bytes),
        commands: best_run.commands.len(),
        removed,
        added,
        savings: best_run.savings(),
    })
}
