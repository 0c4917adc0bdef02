//! `cargo xtask swarm`: runs many worlds, and says which of them went wrong.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use clap::Parser;
use jiff::{SignedDuration, Timestamp};
use karpenter_operator::clock::{Clock, SystemClock, TokioClock};
use karpenter_operator::options::LogLevel;
use karpenter_operator::telemetry::{self, LogConfig};
use karpenter_sim::scenario::FIXED_START;
use karpenter_sim::swarm::runner::{RunEvent, run_seed, run_seeds};
use karpenter_sim::swarm::{Options, Outcome, replay as again};

/// A day takes a sixth less than with the system's.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A world that takes longer than this hangs, also on a machine that has much else to do.
const STUCK: SignedDuration = SignedDuration::from_mins(30);

/// The interval between two checks for worlds that hang.
const STUCK_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Runs a simulated day in each of many worlds, with faults, and checks what must always hold.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask swarm", bin_name = "cargo xtask swarm")]
struct Args {
    /// How many worlds.
    #[arg(long, default_value_t = 300)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Only this seed, with a timeline of what happens in it.
    #[arg(long, value_name = "SEED")]
    only: Option<u64>,
    /// With --only: what the product logs, too.
    #[arg(long, requires = "only")]
    logs: bool,
    /// How many at once [default: as many as there are cores].
    #[arg(long)]
    threads: Option<usize>,
    /// How many hours of each day things happen.
    #[arg(long, default_value_t = 20)]
    hours: u64,
    /// Two hours instead of a day.
    #[arg(long, conflicts_with = "hours")]
    short: bool,
    /// `consolidateAfter` of every pool [default: drawn for each].
    #[arg(long, value_name = "DURATION")]
    consolidate_after: Option<String>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let busy = Duration::from_hours(args.hours);
    let length = if args.short { Options::short() } else { Options { busy, ..Options::default() } };
    let options = Options { consolidate_after: args.consolidate_after.clone(), ..length };
    let is_good = match args.only {
        Some(seed) => replay(seed, &options, args.logs),
        None => swarm(&args, &options),
    };
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints a line; a closed stdout does not stop the swarm.
fn print(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn replay(seed: u64, options: &Options, logs: bool) -> bool {
    if logs {
        let config = LogConfig {
            level: LogLevel::Debug,
            output_paths: vec!["stdout".to_owned()],
            error_output_paths: vec!["stderr".to_owned()],
            commit: None,
        };
        // Lines are stamped with the time of the world, which begins in a moment.
        let clock = Arc::new(TokioClock::starting_at(FIXED_START));
        if let Err(error) = telemetry::install(&config, clock) {
            print(&format!("no logs: {error}"));
        }
    }
    let started = SystemClock.now();
    let outcome = run_seed(seed, options, &|at, text| {
        let seconds = at.as_secs();
        let time = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        print(&format!("{time}  {text}"));
    });
    report(&outcome, SystemClock.now().duration_since(started));
    outcome.is_good()
}

fn report(outcome: &Outcome, took: SignedDuration) {
    if outcome.is_good() {
        let stats = &outcome.stats;
        print(&format!(
            "seed {:>5}  ok  {:>5.1} s  {:>3} nodes  {:>3} pods  {:>4} claims  {:>6} faults  {:>2} restarts  {:>3} disruptions  {:>6} writes",
            outcome.seed,
            took.as_secs_f64(),
            stats.most_nodes,
            stats.most_pods,
            stats.claims,
            stats.faults,
            stats.restarts,
            stats.removals,
            stats.writes,
        ));
    } else {
        print(&outcome.to_string());
    }
}

/// All seeds. Whether all of them were good.
fn swarm(args: &Args, options: &Options) -> bool {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let seeds = args.from..args.from.saturating_add(args.seeds);
    let started = SystemClock.now();
    let events = match run_seeds(seeds, options, args.threads.unwrap_or(cores)) {
        Ok(events) => events,
        Err(error) => {
            print(&format!("cannot start threads: {error}"));
            return false;
        }
    };
    let mut summary = Summary::default();
    let mut running: BTreeMap<u64, Timestamp> = BTreeMap::new();
    loop {
        match events.recv_timeout(STUCK_CHECK_INTERVAL) {
            Ok(RunEvent::Started(seed)) => drop(running.insert(seed, SystemClock.now())),
            Ok(RunEvent::Finished(outcome)) => {
                let began = running.remove(&outcome.seed).unwrap_or(started);
                let took = SystemClock.now().duration_since(began);
                report(&outcome, took);
                summary.add(&outcome, took);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let now = SystemClock.now();
                let stuck = running.iter().find(|(_, began)| now.duration_since(**began) > STUCK);
                if let Some((seed, _)) = stuck {
                    print(&format!("seed {seed}: does not come to an end"));
                    print(&format!("replay: {}", again(*seed, options)));
                    return false;
                }
            }
        }
    }
    summary.print(SystemClock.now().duration_since(started), options);
    summary.bad.is_empty()
}

#[derive(Default)]
struct Summary {
    worlds: u64,
    bad: Vec<u64>,
    claims: usize,
    faults: u64,
    restarts: u64,
    commands: usize,
    removals: usize,
    writes: u64,
    longest: SignedDuration,
    first_memory: Option<u64>,
}

impl Summary {
    fn add(&mut self, outcome: &Outcome, took: SignedDuration) {
        self.worlds += 1;
        if !outcome.is_good() {
            self.bad.push(outcome.seed);
        }
        self.claims += outcome.stats.claims;
        self.faults += outcome.stats.faults;
        self.restarts += outcome.stats.restarts;
        self.commands += outcome.stats.commands;
        self.removals += outcome.stats.removals;
        self.writes += outcome.stats.writes;
        self.longest = self.longest.max(took);
        if self.worlds == 20 {
            self.first_memory = memory();
        }
    }

    fn print(&self, took: SignedDuration, options: &Options) {
        let mut bad = self.bad.clone();
        bad.sort_unstable();
        let good = self.worlds - u64::try_from(bad.len()).unwrap_or_default();
        print("");
        print(&format!("worlds     {} ({good} good, {} bad)", self.worlds, bad.len()));
        print(&format!(
            "time       {:.0} s, the longest {:.1} s",
            took.as_secs_f64(),
            self.longest.as_secs_f64()
        ));
        print(&format!("claims     {}", self.claims));
        print(&format!("faults     {}", self.faults));
        print(&format!("restarts   {}", self.restarts));
        print(&format!("commands   {} for {} nodes", self.commands, self.removals));
        print(&format!("writes     {}", self.writes));
        if let Some(now) = memory() {
            let first = self.first_memory.map(|first| format!(", {first} MiB after 20 worlds"));
            print(&format!("memory     {now} MiB{}", first.unwrap_or_default()));
        }
        for seed in bad {
            print(&format!("replay: {}", again(seed, options)));
        }
    }
}

/// What the process has in memory, in MiB, where the system says so.
fn memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024)
}
