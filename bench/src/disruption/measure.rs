//! One measurement of our passes, in a process of its own: peak memory cannot be measured twice.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use jiff::Timestamp;
use karpenter_core::catalog::Catalog;
use karpenter_core::disruption::{self, Method, Pass, Settings, Time, World};
use karpenter_core::snapshot::Snapshot;
use serde::{Deserialize, Serialize};

use super::Side;
use crate::generate::Types;
use crate::host::Stopwatch;
use crate::measure::{restart_high_water, status};
use crate::{catalogue, load};

/// Looks once at a generated snapshot and prints what it took, as JSON.
#[derive(Debug, Parser)]
pub struct Args {
    snapshot: PathBuf,
    search: Search,
    /// How many passes are timed.
    #[arg(long, default_value_t = 1)]
    runs: usize,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Search {
    Best,
    Upstream,
}

/// What a measurement says.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
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
}

impl Measured {
    pub(super) fn side(&self) -> Side {
        Side {
            seconds: self.cold_seconds,
            memory_bytes: self.peak_rss_bytes.saturating_sub(self.loaded_rss_bytes),
            commands: self.commands,
            removed: self.removed,
            added: self.added,
            savings: self.savings,
        }
    }
}

/// A snapshot that is ready to be looked at.
#[derive(Debug)]
pub struct Loaded {
    snapshot: Snapshot,
    catalog: Catalog,
    settings: Settings,
    now: Timestamp,
}

impl Loaded {
    /// Reads everything; nothing of it counts.
    pub fn new(args: &Args) -> Result<Self> {
        let snapshot = load::snapshot(&args.snapshot)?;
        let pools = snapshot.pools.iter().map(|pool| pool.name.clone());
        let catalog = catalogue::catalog(Types::Kwok, pools);
        let search = match args.search {
            Search::Best => disruption::Search::Best,
            Search::Upstream => disruption::Search::Upstream,
        };
        let settings = Settings { search, ..Settings::default() };
        let now = Timestamp::from_second(load::NOW_SECONDS)?;
        Ok(Self { snapshot, catalog, settings, now })
    }

    fn world(&self) -> World<'_> {
        World::new(&self.snapshot, &self.catalog, &self.settings, self.now)
    }

    /// One pass that knows nothing.
    pub fn look(&self) -> Pass {
        look(&self.world())
    }
}

fn look(world: &World<'_>) -> Pass {
    disruption::pass(world, Method::Emptiness, &mut Time::unlimited())
}

/// Looks and tells time, resident memory and what was found.
pub fn measure(args: &Args) -> Result<Measured> {
    let loaded = Loaded::new(args)?;
    let loaded_rss_bytes = status("VmRSS:");
    restart_high_water();
    let (mut cold, mut unchanged) = (Vec::new(), Vec::new());
    let timed = |world: &World<'_>, seconds: &mut Vec<f64>| -> Pass {
        let watch = Stopwatch::start();
        let found = look(world);
        seconds.push(watch.elapsed().as_secs_f64());
        found
    };
    let found = timed(&loaded.world(), &mut cold);
    let peak_rss_bytes = status("VmHWM:");
    for _ in 1..args.runs {
        drop(timed(&loaded.world(), &mut cold));
    }
    let mut world = loaded.world();
    world.settled.extend(found.settled.iter().copied());
    for _ in 0..args.runs {
        drop(timed(&world, &mut unchanged));
    }
    let least = |seconds: &[f64]| seconds.iter().copied().fold(f64::INFINITY, f64::min);
    let sum = |count: fn(&disruption::Command) -> usize| found.commands.iter().map(count).sum();
    Ok(Measured {
        cold_seconds: least(&cold),
        unchanged_seconds: least(&unchanged),
        commands: found.commands.len(),
        removed: sum(|command| command.candidates.len()),
        added: sum(|command| command.replacements.len()),
        savings: found.commands.iter().fold(0.0, |saved, command| saved + command.savings),
        loaded_rss_bytes,
        peak_rss_bytes,
    })
}
