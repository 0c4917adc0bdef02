//! Tests of the reconcile loop: requeues, workers, shutdown and fairness.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::{NoopObserver, RateLimit, Reconcile, WorkQueue};
use super::*;

mod span;
mod terminal_errors;
use crate::clock::TokioClock;
use crate::compute::{Blocking, run};
use crate::harness::tasks::Tasks;

fn harness() -> Harness {
    Harness {
        clock: Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH)),
        rng: Arc::new(SeededRng::new(1)),
        observer: Arc::new(NoopObserver),
        shutdown: Shutdown::new(),
    }
}

/// A reconciler whose outcome depends on the key's name, and that records its calls.
struct ScriptedReconciler {
    clock: Arc<dyn Clock>,
    calls: Arc<Mutex<Vec<String>>>,
    running: Arc<AtomicUsize>,
}

impl Reconcile for ScriptedReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let millis = self.clock.now().as_millisecond();
        let calls = {
            let mut calls = self.calls.lock().unwrap();
            calls.push(format!("{millis} {} in {}", key.name, current_controller()));
            calls.iter().filter(|line| line.contains(&format!(" {} in", key.name))).count()
        };
        match key.name.as_str() {
            "panics" if calls == 1 => panic!("on purpose"),
            "fails" if calls < 3 => Err(ReconcileError::new("no")),
            "later" if calls == 1 => Ok(Outcome::RequeueAfter(Duration::from_secs(7))),
            "slow" => {
                let busy = self.running.fetch_add(1, Ordering::Relaxed);
                assert!(busy < 2, "two workers");
                self.clock.sleep(Duration::from_secs(1)).await;
                self.running.fetch_sub(1, Ordering::Relaxed);
                Ok(Outcome::Done)
            }
            name if name.starts_with("slow") => {
                self.clock.sleep(Duration::from_secs(1)).await;
                Ok(Outcome::Done)
            }
            _ => Ok(Outcome::Done),
        }
    }
}

fn controller(harness: &Harness) -> (Controller, WorkQueue, Arc<Mutex<Vec<String>>>) {
    let calls: Arc<Mutex<Vec<String>>> = Arc::default();
    let script = ScriptedReconciler {
        clock: harness.clock.clone(),
        calls: calls.clone(),
        running: Arc::default(),
    };
    let queue = WorkQueue::new(&harness.clock, RateLimit::REASONABLE);
    let controller = Controller::new("test", &harness.clock, script).workers(2).queue(&queue);
    (controller, queue, calls)
}

async fn run_for(harness: &Harness, controller: Controller, seconds: u64) {
    let tasks = Tasks::new();
    let runs = harness.clone();
    tasks.spawn("test", async move { runs.run(controller).await });
    harness.clock.sleep(Duration::from_secs(seconds)).await;
    tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn outcomes_decide_when_a_key_is_requeued() {
    let harness = harness();
    let (controller, queue, calls) = controller(&harness);
    for name in ["panics", "fails", "later", "fine"] {
        queue.add(ObjectKey::new("", name));
    }
    run_for(&harness, controller, 60).await;
    let expected = [
        "0 panics in test",
        "0 fails in test",
        "0 later in test",
        "0 fine in test",
        "100 panics in test",
        "100 fails in test",
        "300 fails in test",
        "7000 later in test",
    ];
    assert_eq!(*calls.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn concurrent_reconciles_do_not_exceed_the_workers() {
    let harness = harness();
    let (controller, queue, calls) = controller(&harness);
    for name in ["slow1", "slow2", "slow3"] {
        queue.add(ObjectKey::new("", name));
    }
    run_for(&harness, controller, 60).await;
    let expected = ["0 slow1 in test", "0 slow2 in test", "1000 slow3 in test"];
    assert_eq!(*calls.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn shutdown_finishes_running_reconciles_and_starts_no_new_one() {
    let harness = harness();
    let (controller, queue, calls) = controller(&harness);
    for name in ["slow1", "slow2", "slow3"] {
        queue.add(ObjectKey::new("", name));
    }
    let shutdown = harness.shutdown.clone();
    let end = async {
        harness.clock.sleep(Duration::from_millis(500)).await;
        shutdown.begin();
    };
    tokio::join!(harness.run(controller), end);
    assert_eq!(harness.clock.now().as_millisecond(), 1000);
    assert_eq!(*calls.lock().unwrap(), ["0 slow1 in test", "0 slow2 in test"]);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_yields_to_other_tasks() {
    let harness = harness();
    let (controller, queue, calls) = controller(&harness);
    for number in 0..1_000 {
        queue.add(ObjectKey::new("", &format!("fine{number}")));
    }
    let tasks = Tasks::new();
    let runs = harness.clone();
    tasks.spawn("test", async move { runs.run(controller).await });
    // There is one thread: this returns when the controller yields to other tasks.
    tokio::task::yield_now().await;
    let first = calls.lock().unwrap().len();
    assert!((1..500).contains(&first), "{first} in one go");
    harness.clock.sleep(Duration::from_secs(1)).await;
    assert_eq!(calls.lock().unwrap().len(), 1_000, "all have their turn in the end");
    tasks.stop().await;
}

/// A reconciler that runs work on another thread and records its reconcile context there.
struct BlockingReconciler(Arc<Mutex<Vec<&'static str>>>);

impl Reconcile for BlockingReconciler {
    async fn reconcile(&self, _: &ObjectKey) -> ReconcileResult {
        let known = run(&Blocking, current_controller).await;
        self.0.lock().unwrap().extend(known);
        Ok(Outcome::Done)
    }
}

#[tokio::test]
async fn work_on_an_executor_keeps_the_reconcile_context() {
    let harness = harness();
    let known: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let queue = WorkQueue::new(&harness.clock, RateLimit::REASONABLE);
    queue.add(ObjectKey::new("", "any"));
    let controller = Controller::new("test", &harness.clock, BlockingReconciler(known.clone()));
    let run = harness.run(controller.queue(&queue));
    let end = async {
        while known.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        harness.shutdown.begin();
    };
    tokio::join!(run, end);
    assert_eq!(*known.lock().unwrap(), ["test"]);
}
