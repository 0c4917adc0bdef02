//! One measurement of our passes, in a process of its own: peak memory cannot be measured twice.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use jiff::Timestamp;
use karpenter_core::catalog::Catalog;
use karpenter_core::disruption::{self, Method, PassContext, PassOutcome, SearchFuel, Settings};
use karpenter_core::snapshot::Snapshot;
use serde::{Deserialize, Serialize};

use super::SideResult;
use crate::generate::Types;
use crate::host::Stopwatch;
use crate::measure::{VerificationSeconds, memory_status_bytes, reset_peak_memory};
use crate::{catalog, load};

/// Looks once at a generated snapshot and prints what it took, as JSON.
#[derive(Debug, Parser)]
pub struct Args {
    snapshot: PathBuf,
    search: Search,
    /// How many passes are timed.
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// Also times the verification of the commands.
    #[arg(long)]
    verify: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Search {
    Best,
    Upstream,
}

/// The result of one measurement.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Measurement {
    /// The quickest pass that knew nothing.
    pub cold_seconds: f64,
    /// The quickest pass that came after one, with nothing changed.
    pub unchanged_seconds: f64,
    pub commands: usize,
    pub removed: usize,
    pub added: usize,
    pub savings: f64,
    pub loaded_rss_bytes: u64,
    pub peak_rss_bytes: u64,
    /// Only with `--verify`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<VerificationSeconds>,
}

impl Measurement {
    pub(super) fn side_result(&self) -> SideResult {
        SideResult {
            seconds: self.cold_seconds,
            memory_bytes: self.peak_rss_bytes.saturating_sub(self.loaded_rss_bytes),
            commands: self.commands,
            removed: self.removed,
            added: self.added,
            savings: self.savings,
        }
    }
}

/// A loaded snapshot with all inputs of a disruption pass.
#[derive(Debug)]
pub struct LoadedSnapshot {
    snapshot: Snapshot,
    catalog: Catalog,
    settings: Settings,
    now: Timestamp,
}

impl LoadedSnapshot {
    /// Reads everything; nothing of it counts.
    pub fn new(args: &Args) -> Result<Self> {
        let snapshot = load::load_snapshot(&args.snapshot)?;
        let pools = snapshot.pools.iter().map(|pool| pool.name.clone());
        let catalog = catalog::build_catalog(Types::Kwok, pools);
        let search = match args.search {
            Search::Best => disruption::SearchMode::Best,
            Search::Upstream => disruption::SearchMode::Upstream,
        };
        let settings = Settings { search, ..Settings::default() };
        let now = Timestamp::from_second(load::NOW_SECONDS)?;
        Ok(Self { snapshot, catalog, settings, now })
    }

    fn pass_context(&self) -> PassContext<'_> {
        PassContext::new(&self.snapshot, &self.catalog, &self.settings, self.now)
    }

    fn verify(&self, found: &PassOutcome, runs: usize) -> Result<VerificationSeconds> {
        let context = self.pass_context();
        VerificationSeconds::measure(runs, |level| {
            disruption::check_commands(&context, &found.commands, level).concat().len()
        })
    }

    /// Runs one pass without knowledge from an earlier one.
    pub fn run_pass(&self) -> PassOutcome {
        run_pass(&self.pass_context())
    }
}

fn run_pass(context: &PassContext<'_>) -> PassOutcome {
    disruption::run_pass(context, Method::Emptiness, &mut SearchFuel::unlimited())
}

/// Runs passes and returns time, resident memory and the commands.
pub fn measure(args: &Args) -> Result<Measurement> {
    let loaded = LoadedSnapshot::new(args)?;
    let loaded_rss_bytes = memory_status_bytes("VmRSS:");
    reset_peak_memory();
    let (mut cold, mut unchanged) = (Vec::new(), Vec::new());
    let timed = |context: &PassContext<'_>, seconds: &mut Vec<f64>| -> PassOutcome {
        let watch = Stopwatch::start();
        let found = run_pass(context);
        seconds.push(watch.elapsed().as_secs_f64());
        found
    };
    let found = timed(&loaded.pass_context(), &mut cold);
    let peak_rss_bytes = memory_status_bytes("VmHWM:");
    for _ in 1..args.runs {
        drop(timed(&loaded.pass_context(), &mut cold));
    }
    let mut context = loaded.pass_context();
    context.settled.extend(found.settled.iter().copied());
    for _ in 0..args.runs {
        drop(timed(&context, &mut unchanged));
    }
    let verification = args.verify.then(|| loaded.verify(&found, args.runs)).transpose()?;
    let least = |seconds: &[f64]| seconds.iter().copied().fold(f64::INFINITY, f64::min);
    let sum = |count: fn(&disruption::Command) -> usize| found.commands.iter().map(count).sum();
    Ok(Measurement {
        cold_seconds: least(&cold),
        unchanged_seconds: least(&unchanged),
        commands: found.commands.len(),
        removed: sum(|command| command.candidates.len()),
        added: sum(|command| command.replacements.len()),
        savings: found.commands.iter().fold(0.0, |saved, command| saved + command.savings),
        loaded_rss_bytes,
        peak_rss_bytes,
        verification,
    })
}
