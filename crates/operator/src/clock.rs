//! The clock: now, sleep and interval for everything.
//!
//! It is used as `Arc<dyn Clock>`. Nothing else reads the system's time or sleeps, so a test or a
//! simulated world that passes its own clock controls all time:
//!
//! ```text
//! production             SystemClock
//! demo, worlds, tests    TokioClock: starts at a given time, and keeps step with tokio's time,
//!                        which may be paused (it advances to the next sleeper as soon as every
//!                        task waits) or paced (an hour in a minute)
//! ```

use std::fmt::Debug;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tokio::time::Instant;

#[cfg(test)]
mod tests;

/// The shortest interval period, as the timer below has no finer steps: a loop on an interval of
/// zero would otherwise never yield to other tasks.
const MIN_PERIOD: Duration = Duration::from_millis(1);

/// Where the time comes from. `sleep` and [`Interval`] are for use inside a tokio runtime.
pub trait Clock: Debug + Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// Returns the time since some fixed moment. It never goes back, and ignores changes of the
    /// system's clock.
    fn monotonic(&self) -> Duration;

    /// Done when this much time has passed since the call, whenever it is polled first.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

impl dyn Clock {
    /// Done at the time, or at once if that has passed.
    pub fn sleep_until(&self, time: Timestamp) -> BoxFuture<'static, ()> {
        self.sleep(Duration::try_from(time.duration_since(self.now())).unwrap_or_default())
    }
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// The moment from which [`SystemClock`] counts: an instant has no value on its own.
static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the wrapper")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        STARTED.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the wrapper")]
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// A clock that starts at a chosen time and keeps step with tokio's. Where that is paused, time is
/// virtual.
#[derive(Clone, Debug)]
pub struct TokioClock {
    base: Timestamp,
    started: Instant,
}

impl TokioClock {
    /// Starts at `base` now.
    pub fn starting_at(base: Timestamp) -> Self {
        Self { base, started: Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.base.checked_add(self.started.elapsed()).unwrap_or(Timestamp::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the wrapper")]
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// Ticks at equal distances: the first one at once, each next one a period after the last. A late
/// caller gets its tick at once, and missed ticks are skipped.
pub struct Interval {
    clock: Arc<dyn Clock>,
    period: Duration,
    next: Option<BoxFuture<'static, ()>>,
}

impl Interval {
    /// An interval that is ready for its first tick.
    pub fn new(clock: Arc<dyn Clock>, period: Duration) -> Self {
        Self { clock, period: period.max(MIN_PERIOD), next: None }
    }

    /// Waits for the next tick. Nothing is lost when it is dropped before.
    pub async fn tick(&mut self) {
        if let Some(next) = &mut self.next {
            next.await;
        }
        self.next = Some(self.clock.sleep(self.period));
    }
}

impl Debug for Interval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interval").field("period", &self.period).finish_non_exhaustive()
    }
}
