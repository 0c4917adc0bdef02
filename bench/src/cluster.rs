//! `cargo xtask bench cluster`: runs our controller and upstream's on real control planes.
//!
//! Each side gets control planes of its own, one after the other: etcd, kube-apiserver,
//! kube-controller-manager and kube-scheduler, with the same kubelets, objects and steps.
//!
//! ```text
//! scale up     0 → 3,000 pods that run, 3 times    time, CPU, peak memory, requests per node
//! scale down   3,000 → 750 pods, and quiet         time, nodes
//! idle         500 nodes, and nothing happens      CPU, log, requests
//! pending      15,000 pods that no pool may take   memory, log, CPU
//! ```

mod client;
mod phases;
mod probes;
mod process;
mod results;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;

use self::process::Side;
use self::results::{CollectedFigures, Row};
use crate::host;
use crate::limit;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Pods of the scale-up. Results are kept only with the numbers that are not given.
    #[arg(long, default_value_t = Sizes::FULL.pods, value_name = "N")]
    pods: usize,
    /// Nodes of the idle cluster.
    #[arg(long, default_value_t = Sizes::FULL.nodes, value_name = "N")]
    nodes: usize,
    /// Pods that no pool may take.
    #[arg(long, default_value_t = Sizes::FULL.pending, value_name = "N")]
    pending: usize,
    /// Only these phases. Their rows replace those that were kept on the same day.
    #[arg(long, value_delimiter = ',', value_name = "PHASE")]
    only: Vec<Phase>,
    /// Measures ours alone.
    #[arg(long)]
    no_upstream: bool,
    /// Measures upstream's alone.
    #[arg(long, conflicts_with = "no_upstream")]
    only_upstream: bool,
    /// Where the files of the control planes and the logs of both sides are copied to.
    #[arg(long, value_name = "FOLDER")]
    logs: Option<PathBuf>,
    /// Upstream's controller for KWOK.
    #[arg(long, hide = true)]
    upstream: Option<PathBuf>,
    /// The folder of upstream's sources, for its CRDs.
    #[arg(long, hide = true)]
    upstream_source: Option<PathBuf>,
}

/// A phase of the cluster benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Phase {
    ScaleUp,
    ScaleDown,
    Idle,
    Pending,
}

/// A phase, and how many times each side runs it, each on a new control plane.
struct PhaseRounds {
    phase: Phase,
    rounds: usize,
}

/// The phases and their rounds; scale-up is short and varies most between runs.
const PHASE_ROUNDS: [PhaseRounds; 4] = [
    PhaseRounds { phase: Phase::ScaleUp, rounds: 3 },
    PhaseRounds { phase: Phase::ScaleDown, rounds: 1 },
    PhaseRounds { phase: Phase::Idle, rounds: 1 },
    PhaseRounds { phase: Phase::Pending, rounds: 1 },
];

/// How much of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Sizes {
    pods: usize,
    nodes: usize,
    pending: usize,
}

impl Sizes {
    const FULL: Self = Self { pods: 3_000, nodes: 500, pending: 15_000 };
}

impl Args {
    fn selects(&self, phase: Phase) -> bool {
        self.only.is_empty() || self.only.contains(&phase)
    }

    fn measures(&self, side: Side) -> bool {
        match side {
            Side::Upstream => !self.no_upstream,
            Side::Ours => !self.only_upstream,
        }
    }

    fn sizes(&self) -> Sizes {
        Sizes { pods: self.pods, nodes: self.nodes, pending: self.pending }
    }
}

/// Measures both sides, and keeps the result.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut rows = runtime.block_on(measure(args))?;
    host::print(&results::table(&rows));
    let is_kept = !args.no_upstream && !args.only_upstream && args.sizes() == Sizes::FULL;
    let kept = if is_kept { results::load_saved()? } else { Vec::new() };
    let is_complete = args.only.is_empty();
    if !is_complete {
        rows = results::merge_phases(kept, rows);
    }
    let limits = results::limits(&rows);
    let verdict = limit::print_limits(&limits);
    // A part is of no use without the rest.
    if is_kept && (is_complete || limits.iter().all(|limit| limit.value.is_some())) {
        results::save(&rows, &limits)?;
    }
    Ok(verdict)
}

/// Both sides of a phase run right after each other: the speed of a host changes within minutes,
/// and the results compare the sides.
async fn measure(args: &Args) -> Result<Vec<Row>> {
    let mut found = CollectedFigures::default();
    let wanted = PHASE_ROUNDS.iter().filter(|chapter| args.selects(chapter.phase));
    for &PhaseRounds { phase, rounds } in wanted {
        for round in 1..=rounds {
            let mut sides = [Side::Upstream, Side::Ours];
            // If it becomes slower and slower, that is not always at the same side's cost.
            if round % 2 == 0 {
                sides.reverse();
            }
            for side in sides.into_iter().filter(|side| args.measures(*side)) {
                let of = if rounds > 1 { format!("-{round}") } else { String::new() };
                let name = format!("{phase:?}{of}");
                host::note(&format!("{}: {name}", side.name()));
                found.add(side, round, phases::run_phase(side, args, phase, &name).await?);
            }
        }
    }
    Ok(found.rows())
}
