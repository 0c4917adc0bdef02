//! Tests of the work queue: order, delays and backoff.

use jiff::Timestamp;

use super::*;
use crate::clock::TokioClock;

fn key(name: &str) -> Arc<ObjectKey> {
    Arc::new(ObjectKey::new("", name))
}

fn queue() -> (WorkQueue, Arc<dyn Clock>) {
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
    (WorkQueue::new(&clock, RateLimit::REASONABLE), clock)
}

fn dequeue_name(queue: &WorkQueue) -> Option<String> {
    queue.try_dequeue().map(|taken| taken.key.name.clone())
}

#[tokio::test(start_paused = true)]
async fn a_key_is_queued_once_and_in_order() {
    let (queue, _) = queue();
    for name in ["b", "a", "b"] {
        queue.add(key(name));
    }
    assert_eq!(queue.len(), 2);
    assert_eq!(
        [dequeue_name(&queue), dequeue_name(&queue), dequeue_name(&queue)],
        [Some("b".into()), Some("a".into()), None]
    );
}

#[tokio::test(start_paused = true)]
async fn a_running_key_is_not_dequeued_again_before_it_is_done() {
    let (queue, _) = queue();
    queue.add(key("a"));
    assert!(dequeue_name(&queue).is_some());
    queue.add(key("a"));
    assert_eq!(dequeue_name(&queue), None);
    queue.done(&key("a"));
    assert_eq!(dequeue_name(&queue).as_deref(), Some("a"));
    queue.done(&key("a"));
    assert_eq!(dequeue_name(&queue), None);
}

#[tokio::test(start_paused = true)]
async fn the_earliest_delay_of_a_key_wins() {
    let (queue, clock) = queue();
    queue.add_after(&key("a"), Duration::from_secs(20));
    queue.add_after(&key("a"), Duration::from_secs(10));
    queue.add_after(&key("a"), Duration::from_secs(30));
    assert_eq!(dequeue_name(&queue), None);
    let start = clock.now();
    while dequeue_name(&queue).is_none() {
        queue.wait_for_key().await;
    }
    assert_eq!(clock.now().duration_since(start).as_secs(), 10);
    queue.done(&key("a"));
    assert_eq!(format!("{queue:?}"), "WorkQueue { ready: 0, running: 0, delayed: 0, .. }");
}

#[tokio::test(start_paused = true)]
async fn retry_delays_grow_until_the_key_is_forgotten() {
    let (queue, clock) = queue();
    let mut waits = Vec::new();
    for round in 0..5 {
        if round == 3 {
            queue.forget(&key("a"));
        }
        let start = clock.now();
        queue.add_rate_limited(&key("a"));
        while dequeue_name(&queue).is_none() {
            queue.wait_for_key().await;
        }
        queue.done(&key("a"));
        waits.push(clock.now().duration_since(start).as_millis());
    }
    assert_eq!(waits, [100, 200, 400, 100, 200]);
    assert_eq!(queue.state().keys.len(), 1, "it has failed");
    queue.forget(&key("a"));
    assert_eq!(queue.state().keys.len(), 0, "nothing is kept of a key at rest");
}

/// A clock whose wall time the test sets back by an hour.
#[derive(Debug)]
struct SteppedBackClock(TokioClock, std::sync::atomic::AtomicBool);

impl Clock for SteppedBackClock {
    fn now(&self) -> Timestamp {
        let is_set = self.1.load(std::sync::atomic::Ordering::Relaxed);
        self.0.now() - Duration::from_hours(u64::from(is_set))
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    fn sleep(&self, duration: Duration) -> futures_util::future::BoxFuture<'static, ()> {
        self.0.sleep(duration)
    }
}

#[tokio::test(start_paused = true)]
async fn delays_do_not_depend_on_wall_clock_changes() {
    let start = Timestamp::from_second(1_000_000).unwrap();
    let clock = Arc::new(SteppedBackClock(TokioClock::starting_at(start), false.into()));
    let shared: Arc<dyn Clock> = clock.clone();
    let queue = WorkQueue::new(&shared, RateLimit::REASONABLE);
    queue.add_after(&key("a"), Duration::from_secs(10));
    clock.1.store(true, std::sync::atomic::Ordering::Relaxed);
    let before = clock.monotonic();
    while dequeue_name(&queue).is_none() {
        queue.wait_for_key().await;
    }
    assert_eq!(clock.monotonic().saturating_sub(before).as_secs(), 10);
}
