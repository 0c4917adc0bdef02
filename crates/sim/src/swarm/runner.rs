//! Runs the worlds of many seeds on many threads. Each world has a thread and a runtime of its own
//! while it runs.

use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::SignedDuration;

use super::plan::Options;
use super::run::{self, Outcome, ProgressReporter, Stats};

/// Futures of whole worlds are large.
const STACK: usize = 16 << 20;

/// An event that a thread of the swarm sends.
#[derive(Debug)]
pub enum RunEvent {
    Started(u64),
    Finished(Box<Outcome>),
}

/// Runs the world of one seed to its end; a panic becomes a violation.
pub fn run_seed(seed: u64, options: &Options, progress: ProgressReporter<'_>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime that needs nothing from the system");
    let world = AssertUnwindSafe(|| runtime.block_on(run::run(seed, options, progress)));
    catch_unwind(world).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        let violations = vec![(SignedDuration::ZERO, format!("the world panicked: {text}"))];
        let replay = run::replay(seed, options);
        Outcome { seed, replay, violations, stats: Stats::default() }
    })
}

/// Runs the worlds of these seeds; the receiver gets each start and end.
/// The threads are detached: a caller that drops the receiver does not wait for them.
pub fn run_seeds(
    seeds: Range<u64>,
    options: &Options,
    threads: usize,
) -> std::io::Result<Receiver<RunEvent>> {
    let (sender, receiver) = channel();
    let seeds: Arc<Mutex<VecDeque<u64>>> = Arc::new(Mutex::new(seeds.collect()));
    for number in 0..threads.max(1) {
        let (sender, seeds, options) = (sender.clone(), Arc::clone(&seeds), options.clone());
        let thread = std::thread::Builder::new().name(format!("swarm-{number}")).stack_size(STACK);
        thread.spawn(move || {
            loop {
                let next = seeds.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                let Some(seed) = next else { return };
                if sender.send(RunEvent::Started(seed)).is_err() {
                    return;
                }
                let outcome = run_seed(seed, &options, &|_, _| {});
                if sender.send(RunEvent::Finished(Box::new(outcome))).is_err() {
                    return;
                }
            }
        })?;
    }
    Ok(receiver)
}
