//! Batches triggers: pods that arrive together are placed in one decision (spec 20 §2.1).
//!
//! ```text
//! idle ──trigger──▶ gathering ──idle time without trigger, or longest time elapsed──▶ ready
//! ```
//!
//! A repeated trigger of the same object within one batch does not extend it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use karpenter_operator::clock::Clock;
use tokio::sync::Notify;

/// How long a wait for the first trigger lasts. Then the caller can do something else.
const FIRST_TRIGGER_TIMEOUT: Duration = Duration::from_secs(1);

/// Gathers triggers. Clones are the same batcher.
#[derive(Clone, Debug)]
pub struct Batcher(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Arc<dyn Clock>,
    idle: Duration,
    longest: Duration,
    seen: Mutex<BTreeSet<String>>,
    armed: Notify,
}

impl Batcher {
    /// Creates a batcher with these windows.
    pub fn new(clock: &Arc<dyn Clock>, idle: Duration, longest: Duration) -> Self {
        Self(Arc::new(Inner {
            clock: clock.clone(),
            idle,
            longest,
            seen: Mutex::default(),
            armed: Notify::new(),
        }))
    }

    /// Triggers a decision for the object with this uid.
    pub fn trigger(&self, uid: &str) {
        let is_new = {
            let mut seen = self.seen();
            !seen.contains(uid) && seen.insert(uid.to_owned())
        };
        if is_new {
            self.0.armed.notify_one();
        }
    }

    /// Triggers a decision without a uid; every call counts.
    pub fn trigger_unnamed(&self) {
        self.0.armed.notify_one();
    }

    /// Waits for a batch. Returns false if there is no trigger for a second.
    pub async fn wait(&self) -> bool {
        let came = self.came_within(FIRST_TRIGGER_TIMEOUT).await;
        if came {
            let over = self.0.clock.sleep(self.0.longest);
            let quiet = async { while self.came_within(self.0.idle).await {} };
            select(std::pin::pin!(quiet), over).await;
        }
        self.seen().clear();
        came
    }

    async fn came_within(&self, time: Duration) -> bool {
        let armed = std::pin::pin!(self.0.armed.notified());
        matches!(select(armed, self.0.clock.sleep(time)).await, Either::Left(_))
    }

    fn seen(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use karpenter_operator::clock::TokioClock;
    use karpenter_operator::harness::tasks::Tasks;

    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    type Triggers<'a> = &'a [(f64, &'a str)];

    /// When a wait returns, and what, if these triggers come at these seconds.
    async fn waited(triggers: Triggers<'_>) -> (f64, bool) {
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
        let batcher = Batcher::new(&clock, seconds(5.0), seconds(10.0));
        let tasks = Tasks::new();
        for &(time, uid) in triggers {
            let (batcher, sleep, uid) =
                (batcher.clone(), clock.sleep(seconds(time)), uid.to_owned());
            tasks.spawn("trigger", async move {
                sleep.await;
                batcher.trigger(&uid);
            });
        }
        let came = batcher.wait().await;
        let passed = clock.now().duration_since(Timestamp::UNIX_EPOCH).as_secs_f64();
        tasks.stop().await;
        (passed, came)
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_closes_after_the_idle_or_the_maximum_duration() {
        let many: Vec<(f64, String)> =
            (0..40).map(|n| (0.5 * f64::from(n), format!("pod-{n}"))).collect();
        let many: Vec<(f64, &str)> = many.iter().map(|(time, uid)| (*time, uid.as_str())).collect();
        let cases: [(&str, Triggers<'_>, (f64, bool)); 4] = [
            ("20/B1", &[(0.0, "a"), (3.0, "a")], (5.0, true)),
            ("20/B2", &[(0.0, "a"), (3.0, "b")], (8.0, true)),
            ("20/B3", &many, (10.0, true)),
            ("20/B4", &[], (1.0, false)),
        ];
        for (case, triggers, expected) in cases {
            let (passed, came) = waited(triggers).await;
            assert_eq!(((passed * 100.0).round() / 100.0, came), expected, "{case}");
        }
    }
}
