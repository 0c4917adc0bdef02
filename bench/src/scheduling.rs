//! `cargo xtask bench scheduling`: the workloads of spec 20 §6 and a few larger ones, on both
//! sides in one run.
//!
//! Each workload is written to a file once. Each measurement is a process of its own that loads the
//! file and then reports the cost of the decision alone: time, and peak memory over what was
//! loaded.

mod limits;
mod results;
mod workload;

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::decision::{self, CaseFiles, run_command};
use crate::generate::Types;
use crate::host;
use crate::limit;
use crate::measure::Measurement;
use crate::selection::Selection;

pub use workload::{WORKLOADS, Workload};

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    selection: Selection,

    /// How many of our solves are timed; the best counts. Upstream decides once, or twice where
    /// that takes less than a second.
    #[arg(long, default_value_t = 7, value_name = "N")]
    runs: usize,
}

/// What our heap saw of a solve.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Heap {
    pub peak_bytes: u64,
    pub allocations: u64,
    pub allocated_bytes: u64,
}

/// The results of one side in a row.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SideResult {
    pub seconds: f64,
    /// Peak over what was loaded.
    pub memory_bytes: u64,
    pub allocations: u64,
    pub nodes: usize,
    pub placed: usize,
    pub unplaced: usize,
    pub total_price: f64,
}

/// One workload, measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub name: String,
    pub ours: SideResult,
    /// None where upstream is not measured.
    pub upstream: Option<SideResult>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    host::print(&(results::header() + "\n"));
    let rows = args.selection.measure_selected(
        WORKLOADS,
        |workload| workload.name,
        |workload| measure(workload, args),
        results::table_line,
    )?;
    let limits = limits::scheduling_limits(&rows);
    let verdict = limit::print_limits(&limits);
    if args.selection.is_complete() {
        results::save(&rows, &limits)?;
    }
    Ok(verdict)
}

fn measure(workload: &Workload, args: &Args) -> Result<Row> {
    let folder = tempfile::tempdir()?;
    let mut case = workload.recipe().generate();
    case.options.ignore_preferences = workload.ignore_preferences;
    let files = CaseFiles::write(&case, workload.types, folder.path())?;
    drop(case);
    let ours = measure_ours(&files, args.runs)?;
    let upstream = match args.selection.upstream() {
        Some(oracle) if workload.upstream => Some(measure_upstream(oracle, &files)?),
        _ => None,
    };
    Ok(Row { name: workload.name.to_owned(), ours, upstream })
}

fn measure_ours(files: &CaseFiles, runs: usize) -> Result<SideResult> {
    let solve = |program: &str, runs: usize| -> Result<Vec<u8>> {
        let mut command = Command::new(host::sibling_program(program)?);
        command.arg(&files.snapshot).arg(format!("--runs={runs}"));
        if files.types == Types::Fake400 {
            command.arg("--types=400");
        }
        if files.options.ignore_preferences {
            command.arg("--ignore-preferences");
        }
        run_command(command, &[0])
    };
    let measured: Measurement = serde_json::from_slice(&solve("solve", runs)?)?;
    let heap: Heap = serde_json::from_slice(&solve("solve-heap", 1)?)?;
    let resident = measured.peak_rss_bytes.saturating_sub(measured.loaded_rss_bytes);
    Ok(SideResult {
        seconds: measured.best_seconds,
        // Our allocator may fill holes that loading left, which hides from the resident size; the
        // heap's own peak does not see its overhead. The larger one counts.
        memory_bytes: resident.max(heap.peak_bytes),
        allocations: heap.allocations,
        nodes: measured.nodes,
        placed: measured.placed,
        unplaced: measured.unplaced,
        total_price: measured.total_price,
    })
}

fn measure_upstream(oracle: &Path, files: &CaseFiles) -> Result<SideResult> {
    let mut command = decision::oracle_command(oracle, files);
    // As upstream's benchmark; without reservations it decides nothing.
    command.arg("-reserved-mode=fallback").arg(&files.snapshot);
    let first = decision::parse_one(&run_command(command, &[0])?)?;
    let mut seconds = first.seconds;
    if seconds < 1.0 {
        seconds = seconds.min(decision::run_upstream(oracle, files, 1)?[0].seconds);
    }
    Ok(SideResult {
        seconds,
        memory_bytes: first.peak_rss_bytes.saturating_sub(first.loaded_rss_bytes),
        allocations: first.allocations,
        nodes: first.node_claims.len(),
        placed: first.placed_pods().count(),
        unplaced: first.errors.len(),
        total_price: first.total_price,
    })
}
