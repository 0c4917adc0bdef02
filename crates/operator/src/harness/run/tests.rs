use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::{Limit, NoObserver, Queue, Reconcile};
use super::*;
use crate::clock::TokioClock;
use crate::harness::spawn::Tasks;
use crate::think::{OtherThread, think};

fn harness() -> Harness {
    Harness {
        clock: Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH)),
        chance: Arc::new(Chance::new(1)),
        observer: Arc::new(NoObserver),
        shutdown: Shutdown::new(),
    }
}

/// Answers by name, and notes when it was asked.
struct Script {
    clock: Arc<dyn Clock>,
    asked: Arc<Mutex<Vec<String>>>,
    busy: Arc<AtomicUsize>,
}

impl Reconcile for Script {
    async fn reconcile(&self, key: &ObjectKey) -> Reconciled {
        let millis = self.clock.now().as_millisecond();
        let asked = {
            let mut asked = self.asked.lock().unwrap();
            asked.push(format!("{millis} {} in {}", key.name, current_controller()));
            asked.iter().filter(|line| line.contains(&format!(" {} in", key.name))).count()
        };
        match key.name.as_str() {
            "panics" if asked == 1 => panic!("on purpose"),
            "fails" if asked < 3 => Err(Trouble::new("no")),
            "later" if asked == 1 => Ok(Outcome::After(Duration::from_secs(7))),
            "slow" => {
                let busy = self.busy.fetch_add(1, Ordering::Relaxed);
                assert!(busy < 2, "two workers");
                self.clock.sleep(Duration::from_secs(1)).await;
                self.busy.fetch_sub(1, Ordering::Relaxed);
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

fn controller(harness: &Harness) -> (Controller, Queue, Arc<Mutex<Vec<String>>>) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let script =
        Script { clock: harness.clock.clone(), asked: asked.clone(), busy: Arc::default() };
    let queue = Queue::new(&harness.clock, Limit::REASONABLE);
    let controller = Controller::new("test", &harness.clock, script).workers(2).queue(&queue);
    (controller, queue, asked)
}

async fn run_for(harness: &Harness, controller: Controller, seconds: u64) {
    let tasks = Tasks::new();
    let runs = harness.clone();
    tasks.spawn("test", async move { runs.run(controller).await });
    harness.clock.sleep(Duration::from_secs(seconds)).await;
    tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn outcomes_say_when_a_key_comes_back() {
    let harness = harness();
    let (controller, queue, asked) = controller(&harness);
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
    assert_eq!(*asked.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn no_more_keys_are_in_work_than_there_are_workers() {
    let harness = harness();
    let (controller, queue, asked) = controller(&harness);
    for name in ["slow1", "slow2", "slow3"] {
        queue.add(ObjectKey::new("", name));
    }
    run_for(&harness, controller, 60).await;
    let expected = ["0 slow1 in test", "0 slow2 in test", "1000 slow3 in test"];
    assert_eq!(*asked.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_lets_work_end_and_takes_none() {
    let harness = harness();
    let (controller, queue, asked) = controller(&harness);
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
    assert_eq!(*asked.lock().unwrap(), ["0 slow1 in test", "0 slow2 in test"]);
}

#[tokio::test(start_paused = true)]
async fn many_keys_at_once_let_others_have_their_turn() {
    let harness = harness();
    let (controller, queue, asked) = controller(&harness);
    for number in 0..1_000 {
        queue.add(ObjectKey::new("", &format!("fine{number}")));
    }
    let tasks = Tasks::new();
    let runs = harness.clone();
    tasks.spawn("test", async move { runs.run(controller).await });
    // There is one thread: this comes back when the controller lets others have it.
    tokio::task::yield_now().await;
    let first = asked.lock().unwrap().len();
    assert!((1..500).contains(&first), "{first} in one go");
    harness.clock.sleep(Duration::from_secs(1)).await;
    assert_eq!(asked.lock().unwrap().len(), 1_000, "all have their turn in the end");
    tasks.stop().await;
}

/// Has somebody think, on another thread, in which reconcile that is.
struct Thoughtful(Arc<Mutex<Vec<&'static str>>>);

impl Reconcile for Thoughtful {
    async fn reconcile(&self, _: &ObjectKey) -> Reconciled {
        let known = think(&OtherThread, current_controller).await;
        self.0.lock().unwrap().extend(known);
        Ok(Outcome::Done)
    }
}

#[tokio::test]
async fn what_is_thought_elsewhere_is_a_part_of_the_reconcile() {
    let harness = harness();
    let known: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let queue = Queue::new(&harness.clock, Limit::REASONABLE);
    queue.add(ObjectKey::new("", "any"));
    let controller = Controller::new("test", &harness.clock, Thoughtful(known.clone()));
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
