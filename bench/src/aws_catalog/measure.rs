//! One task of the bench, in a process of its own: peak memory cannot be measured twice.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use karpenter_core::catalog::Catalog;
use karpenter_core::id::PodId;
use karpenter_core::plan::Plan;
use karpenter_core::scheduling::demand::demand;
use karpenter_core::scheduling::{Fuel, Options, Request, solve};
use karpenter_core::snapshot::Snapshot;
use serde::{Deserialize, Serialize};

use super::region::{Region, node_classes, pool_names};
use crate::generate::Types;
use crate::host::Stopwatch;
use crate::measure::{memory_status_bytes, reset_peak_memory, resident_bytes};
use crate::{catalog, load};

/// Measures one task and prints its figures as JSON.
#[derive(Debug, Parser)]
pub enum Task {
    /// Lists the instance types of one NodeClass.
    Resolution {
        #[arg(long)]
        runs: usize,
    },
    /// Lists the instance types of 20 NodePools in an empty process.
    Memory,
    /// Lists the instance types of 20 and of 500 NodePools.
    Pools {
        #[arg(long)]
        runs: usize,
    },
    /// Solves a generated snapshot with two sets of instance types.
    Solve {
        #[arg(long)]
        runs: usize,
        snapshot: PathBuf,
    },
}

/// A value with its unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub metric: String,
    pub value: f64,
    pub unit: String,
}

fn figure(metric: &str, value: f64, unit: &str) -> Figure {
    Figure { metric: metric.to_owned(), value, unit: unit.to_owned() }
}

/// Runs a task and returns its figures.
pub fn measure(task: &Task) -> Result<Vec<Figure>> {
    match task {
        Task::Resolution { runs } => measure_resolution(*runs),
        Task::Memory => measure_memory(),
        Task::Pools { runs } => measure_pools(*runs),
        Task::Solve { runs, snapshot } => measure_solve(*runs, snapshot),
    }
}

/// How many cached lists are timed at once; one alone is too quick for the clock.
const CACHED_LISTS: u32 = 1_000;

fn measure_resolution(runs: usize) -> Result<Vec<Figure>> {
    let classes = node_classes()?;
    let class = classes.first().context("there are node classes")?;
    let (mut cold, mut unchanged, mut marked) = (Best::new(), Best::new(), Best::new());
    let mut last = None;
    for _ in 0..runs.max(1) {
        let region = Region::load()?;
        let types = cold.time(|| region.list(class))?;
        unchanged.time(|| {
            (0..CACHED_LISTS).try_for_each(|_| {
                let again = region.list(class)?;
                ensure!(again.as_ptr() == types.as_ptr(), "an unchanged list was made again");
                Ok(())
            })
        })?;
        let before = region.types.statistics();
        region.mark_one();
        marked.time(|| region.list(class))?;
        let after = region.types.statistics();
        last = Some((types.len(), after.0 - before.0, after.1 - before.1));
    }
    let (types, resolved, offered) = last.context("at least one run")?;
    Ok(vec![
        figure("instance types", count(types), ""),
        figure("cold", cold.milliseconds(), "ms"),
        figure("unchanged", unchanged.milliseconds() / f64::from(CACHED_LISTS), "ms"),
        figure("after one mark", marked.milliseconds(), "ms"),
        figure("types resolved again after one mark", tally(resolved), ""),
        figure("types with new offerings after one mark", tally(offered), ""),
    ])
}

/// The decoded tables, the prices and all lists count.
fn measure_memory() -> Result<Vec<Figure>> {
    let empty = resident_bytes();
    reset_peak_memory();
    let region = Region::load()?;
    let decoded = memory_status_bytes("VmHWM:");
    let catalog = region.catalog(&node_classes()?, pool_names(20))?;
    let peak = memory_status_bytes("VmHWM:");
    drop((region, catalog));
    let added = |bytes: u64| tally(bytes.saturating_sub(empty)) / 1e6;
    Ok(vec![
        figure("empty process", tally(empty) / 1e6, "MB"),
        figure("peak with decoded tables, added", added(decoded), "MB"),
        figure("peak with 20 NodePools, added", added(peak), "MB"),
    ])
}

fn measure_pools(runs: usize) -> Result<Vec<Figure>> {
    let classes = node_classes()?;
    let (few, many) = (pool_names(20), pool_names(500));
    let (mut of_few, mut of_many) = (Best::new(), Best::new());
    for _ in 0..runs.max(1) {
        for (pools, best) in [(&few, &mut of_few), (&many, &mut of_many)] {
            let region = Region::load()?;
            let catalog = best.time(|| region.catalog(&classes, pools.iter().cloned()))?;
            ensure!(catalog.pools.len() == pools.len(), "a NodePool has no list");
        }
    }
    Ok(vec![
        figure("20 NodePools", of_few.milliseconds(), "ms"),
        figure("500 NodePools", of_many.milliseconds(), "ms"),
        figure("500 NodePools, times those of 20", of_many.0 / of_few.0, ""),
    ])
}

fn measure_solve(runs: usize, path: &Path) -> Result<Vec<Figure>> {
    let snapshot = load::load_snapshot(path)?;
    let pods = demand(&snapshot).to_place;
    let pools = || snapshot.pools.iter().map(|pool| pool.name.clone());
    let fake = catalog::build_catalog(Types::Fake400, pools());
    let aws = Region::load()?.catalog(&node_classes()?, pools())?;
    let (mut of_fake, mut of_aws) = (Best::new(), Best::new());
    // Nodes, and pods without a place: the mix has pods that fit nowhere.
    let (mut fake_plan, mut aws_plan) = ((0, 0), (0, 0));
    for _ in 0..runs.max(1) {
        let sides = [(&fake, &mut of_fake, &mut fake_plan), (&aws, &mut of_aws, &mut aws_plan)];
        for (catalog, best, result) in sides {
            let plan = best.time(|| Ok(solve_all(&snapshot, catalog, &pods)))?;
            *result = (plan.claims.len(), plan.rejected.len());
        }
    }
    let (fake_nodes, aws_nodes) = (fake_plan.0, aws_plan.0);
    ensure!(
        fake_plan.1 == aws_plan.1 && aws_nodes > 0,
        "{} pods have no place with the fake types, {} with those of us-west-2",
        fake_plan.1,
        aws_plan.1
    );
    Ok(vec![
        figure("pods", count(pods.len()), ""),
        figure("400 fake types", of_fake.milliseconds(), "ms"),
        figure("400 fake types, nodes", count(fake_nodes), ""),
        figure("types of us-west-2", of_aws.milliseconds(), "ms"),
        figure("types of us-west-2, nodes", count(aws_nodes), ""),
        figure("types of us-west-2, times 400 fake types", of_aws.0 / of_fake.0, ""),
    ])
}

fn solve_all(snapshot: &Snapshot, catalog: &Catalog, pods: &[PodId]) -> Plan {
    let (excluded_nodes, options) = (BTreeSet::new(), Options::default());
    let request =
        Request { snapshot, catalog, pods, excluded_nodes: &excluded_nodes, options: &options };
    solve(&request, &mut Fuel::unlimited())
}

/// The shortest time of several runs, in seconds.
struct Best(f64);

impl Best {
    const fn new() -> Self {
        Self(f64::INFINITY)
    }

    fn time<T>(&mut self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let watch = Stopwatch::start();
        let result = work();
        self.0 = self.0.min(watch.elapsed().as_secs_f64());
        result
    }

    fn milliseconds(&self) -> f64 {
        self.0 * 1e3
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn count(number: usize) -> f64 {
    number as f64
}

#[expect(clippy::cast_precision_loss, reason = "counts and sizes, for people")]
fn tally(number: u64) -> f64 {
    number as f64
}
