//! The clock: now, sleep and interval for everything.
//!
//! It is used as `Arc<dyn Clock>`. Nothing else asks the system for the time or sleeps, so a test
//! or a simulated world that brings its own clock has all of the time in its hand:
//!
//! ```text
//! production           SystemClock
//! demo --speed 60      ScaledClock, speed 60: an hour passes in a minute
//! demo --speed max     ScaledClock, speed 1, on a runtime whose time is paused: virtual time, which
//! and tests            tokio moves on to the next sleeper as soon as everybody waits
//! ```

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tokio::time::Instant;

#[cfg(test)]
mod tests;

/// Ticks never come closer than this, as the timer below has no finer steps: a loop on an interval
/// of nothing would otherwise never let others run.
const SHORTEST_PERIOD: Duration = Duration::from_millis(1);

/// Where the time comes from. `sleep` and [`Interval`] are for use inside a tokio runtime.
pub trait Clock: Debug + Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;

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

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the wrapper")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the wrapper")]
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// A clock that starts at a chosen time and may run faster or slower than tokio's, on which it
/// runs. Where that is paused and the speed is 1, time is virtual.
#[derive(Clone, Debug)]
pub struct ScaledClock {
    base: Timestamp,
    started: Instant,
    speed: f64,
}

/// A speed that is not above zero, or not a number.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("a clock cannot run at speed {0}")]
pub struct SpeedError(pub f64);

impl ScaledClock {
    /// Starts at `base` now, with `speed` seconds to the second.
    pub fn new(base: Timestamp, speed: f64) -> Result<Self, SpeedError> {
        if !(speed.is_finite() && speed > 0.0) {
            return Err(SpeedError(speed));
        }
        Ok(Self { speed, ..Self::starting_at(base) })
    }

    /// Starts at `base` now, and keeps step with tokio's time.
    pub fn starting_at(base: Timestamp) -> Self {
        Self { base, started: Instant::now(), speed: 1.0 }
    }
}

impl Clock for ScaledClock {
    fn now(&self) -> Timestamp {
        let elapsed = scaled(self.started.elapsed(), self.speed);
        self.base.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the wrapper")]
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(scaled(duration, self.speed.recip())))
    }
}

/// The duration times the factor, exact where that is 1, and at most the longest there is.
fn scaled(duration: Duration, factor: f64) -> Duration {
    if factor.to_bits() == 1.0_f64.to_bits() {
        return duration;
    }
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

/// Ticks at equal distances: the first one at once, each next one a period after the last. A tick
/// that is asked for late comes at once, and those that were missed do not come at all.
pub struct Interval {
    clock: Arc<dyn Clock>,
    period: Duration,
    next: Option<BoxFuture<'static, ()>>,
}

impl Interval {
    /// An interval that is ready for its first tick.
    pub fn new(clock: Arc<dyn Clock>, period: Duration) -> Self {
        Self { clock, period: period.max(SHORTEST_PERIOD), next: None }
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
