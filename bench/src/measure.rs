//! One measurement of our solve, in a process of its own: peak memory cannot be measured twice.
//!
//! Two programs share this: `solve` reports time and resident memory; `solve-heap` has a counting
//! allocator, which costs time, and reports exactly what the solve held on the heap.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use karpenter_core::catalog::Catalog;
use karpenter_core::id::{NodeId, PodId};
use karpenter_core::plan::Plan;
use karpenter_core::scheduling::demand::demand;
use karpenter_core::scheduling::{Fuel, Options, PreferencePolicy, Request, solve};
use karpenter_core::snapshot::Snapshot;
use karpenter_core::verify::{Level, check_plan};
use serde::{Deserialize, Serialize};

use crate::generate::Types;
use crate::host::{self, Stopwatch};
use crate::{catalog, load};

/// Solves a generated snapshot and prints what it took, as JSON.
#[derive(Debug, Parser)]
pub struct Args {
    snapshot: PathBuf,
    #[arg(long, default_value = "kwok")]
    types: Types,
    /// Acts as if pods had no preferences.
    #[arg(long)]
    ignore_preferences: bool,
    /// How many solves are timed.
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// Also times the verification of the plan.
    #[arg(long)]
    verify: bool,
}

/// The quickest verification of a plan or of the commands of a pass, at each level.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerificationSeconds {
    pub essential: f64,
    pub complete: f64,
}

impl VerificationSeconds {
    /// Times the check, which returns the number of violations; there must be none.
    pub(crate) fn measure(runs: usize, check: impl Fn(Level) -> usize) -> Result<Self> {
        let best = |level: Level| {
            let mut best = f64::INFINITY;
            for _ in 0..runs.max(1) {
                let watch = Stopwatch::start();
                let violations = check(level);
                best = best.min(watch.elapsed().as_secs_f64());
                anyhow::ensure!(violations == 0, "{violations} violations at {level:?}");
            }
            Ok(best)
        };
        Ok(Self { essential: best(Level::Essential)?, complete: best(Level::Complete)? })
    }
}

/// The result of one measurement.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Measurement {
    pub nodes: usize,
    pub placed: usize,
    pub unplaced: usize,
    pub total_price: f64,
    /// The quickest solve and the one in the middle.
    pub best_seconds: f64,
    pub median_seconds: f64,
    pub loaded_rss_bytes: u64,
    pub peak_rss_bytes: u64,
    /// Only with `--verify`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<VerificationSeconds>,
}

/// A loaded snapshot with all inputs of a solve.
#[derive(Debug)]
pub struct LoadedSnapshot {
    snapshot: Snapshot,
    catalog: Catalog,
    pods: Vec<PodId>,
    options: Options,
}

impl LoadedSnapshot {
    /// Reads everything; nothing of it counts.
    pub fn new(args: &Args) -> Result<Self> {
        let snapshot = load::load_snapshot(&args.snapshot)?;
        let pools = snapshot.pools.iter().map(|pool| pool.name.clone());
        let catalog = catalog::build_catalog(args.types, pools);
        let pods = demand(&snapshot).to_place;
        let preferences = if args.ignore_preferences {
            PreferencePolicy::Ignore
        } else {
            PreferencePolicy::Respect
        };
        let options = Options { preferences, ..Options::default() };
        Ok(Self { snapshot, catalog, pods, options })
    }

    /// The decision, from nothing.
    pub fn solve(&self) -> Plan {
        solve(&self.request(&BTreeSet::new()), &mut Fuel::unlimited())
    }

    fn request<'a>(&'a self, excluded_nodes: &'a BTreeSet<NodeId>) -> Request<'a> {
        Request {
            snapshot: &self.snapshot,
            catalog: &self.catalog,
            pods: &self.pods,
            excluded_nodes,
            options: &self.options,
        }
    }

    fn verify(&self, plan: &Plan, runs: usize) -> Result<VerificationSeconds> {
        let none = BTreeSet::new();
        let request = self.request(&none);
        VerificationSeconds::measure(runs, |level| check_plan(&request, plan, level).len())
    }
}

/// Solves and returns time and resident memory.
pub fn measure(args: &Args) -> Result<Measurement> {
    let loaded = LoadedSnapshot::new(args)?;
    let loaded_rss_bytes = memory_status_bytes("VmRSS:");
    reset_peak_memory();
    let watch = Stopwatch::start();
    let plan = loaded.solve();
    let mut seconds = vec![watch.elapsed().as_secs_f64()];
    let peak_rss_bytes = memory_status_bytes("VmHWM:");

    for _ in 1..args.runs {
        let watch = Stopwatch::start();
        let again = loaded.solve();
        seconds.push(watch.elapsed().as_secs_f64());
        drop(again);
    }
    seconds.sort_by(f64::total_cmp);
    let verification = args.verify.then(|| loaded.verify(&plan, args.runs)).transpose()?;
    let claimed: usize = plan.claims.iter().map(|claim| claim.pods.len()).sum();
    Ok(Measurement {
        nodes: plan.claims.len(),
        placed: claimed + plan.existing_nodes.iter().map(|(_, pods)| pods.len()).sum::<usize>(),
        unplaced: plan.rejected.len(),
        // Not `sum`, which is -0 for nothing.
        total_price: plan
            .claims
            .iter()
            .filter_map(|claim| claim.lowest_price)
            .fold(0.0, |a, b| a + b),
        best_seconds: seconds[0],
        median_seconds: seconds[seconds.len() / 2],
        loaded_rss_bytes,
        peak_rss_bytes,
        verification,
    })
}

/// Prints a measurement as one line of JSON.
pub fn print_json<T: Serialize>(measured: &T) -> Result<()> {
    host::print(&(serde_json::to_string(measured)? + "\n"));
    Ok(())
}

/// What this process has in memory now.
pub(crate) fn resident_bytes() -> u64 {
    memory_status_bytes("VmRSS:")
}

/// Returns a size from `/proc/self/status`, in bytes; 0 if it is missing.
pub(crate) fn memory_status_bytes(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Resets the kernel's high-water mark of resident memory, if possible.
pub(crate) fn reset_peak_memory() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}
