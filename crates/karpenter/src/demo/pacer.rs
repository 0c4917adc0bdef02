//! Keeps virtual time in step with real time, later if the host is too slow.
//!
//! The world runs on one thread whose time is virtual: tokio advances it to the next timer when all
//! tasks wait, and never while one works. That alone is `--speed max`. The pacer lets time advance
//! by a step, and then holds it until the real time for this step has passed. So work never makes a
//! kubelet miss its lease, however slow the host is: the clock is late instead.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::clock::Stopwatch;

/// How long time is held at once; the clock on the screen must not stutter.
const STEP: Duration = Duration::from_millis(10);
/// How much delay is made up for, as no sleep ends on time.
const SLACK: Duration = Duration::from_millis(200);

/// Sets the speed of time and notifies sleepers. Clones share one state.
#[derive(Clone, Debug)]
pub(super) struct Pacer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Seconds to the second, as bits.
    speed: AtomicU64,
    step_done: Notify,
}

impl Pacer {
    pub(super) fn new(speed: f64) -> Self {
        Self(Arc::new(Inner { speed: AtomicU64::new(speed.to_bits()), step_done: Notify::new() }))
    }

    /// Sets how many virtual seconds pass per real second.
    pub(super) fn set_speed(&self, speed: f64) {
        self.0.speed.store(speed.to_bits(), Ordering::Relaxed);
    }

    fn speed(&self) -> f64 {
        f64::from_bits(self.0.speed.load(Ordering::Relaxed))
    }

    /// Waits for this much real time, or slightly longer. Only while [`Pacer::run`] runs.
    pub(super) async fn sleep_real(&self, time: Duration) {
        let watch = Stopwatch::start();
        while watch.seconds() < time.as_secs_f64() {
            self.0.step_done.notified().await;
        }
    }

    /// Keeps the pace without end. Runs on a current-thread runtime with paused time.
    pub(super) async fn run(&self) -> Infallible {
        let mut virtual_now = Instant::now();
        let (watch, mut due) = (Stopwatch::start(), Duration::ZERO);
        loop {
            virtual_now += STEP.mul_f64(self.speed());
            advance_virtual_time(virtual_now).await;
            due += STEP;
            let passed = Duration::from_secs_f64(watch.seconds());
            if passed > due + SLACK {
                // A longer delay is not made up for: the clock must not run fast.
                due = passed;
            }
            hold_virtual_time(due.saturating_sub(passed)).await;
            self.0.step_done.notify_waiters();
        }
    }
}

/// Advances virtual time to `time`, as fast as the world can.
async fn advance_virtual_time(time: Instant) {
    tokio::time::sleep_until(time).await;
}

/// Holds virtual time for this much real time: tokio does not advance it while a blocking task
/// runs.
async fn hold_virtual_time(real: Duration) {
    if !real.is_zero() {
        // It cannot fail: it neither panics nor is it cancelled.
        let _ = tokio::task::spawn_blocking(move || std::thread::sleep(real)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the virtual and the real time that pass while the future runs.
    async fn run_at_speed(speed: f64, future: impl Future<Output = ()>) -> (Duration, f64) {
        let (began, watch) = (Instant::now(), Stopwatch::start());
        let pacer = Pacer::new(speed);
        tokio::select! {
            never = pacer.run() => match never {},
            () = future => {}
        }
        (began.elapsed(), watch.seconds())
    }

    #[tokio::test(start_paused = true)]
    async fn virtual_time_passes_at_the_given_speed() {
        let (_, real) =
            run_at_speed(100.0, advance_virtual_time(Instant::now() + Duration::from_secs(10)))
                .await;
        // A busy host may take longer, never shorter.
        assert!(real >= 0.09, "{real}");
    }

    #[tokio::test(start_paused = true)]
    async fn virtual_time_stands_still_while_a_task_works() {
        let work = async {
            for _ in 0..20 {
                let watch = Stopwatch::start();
                while watch.seconds() < 0.005 {}
                tokio::task::yield_now().await;
            }
        };
        let (passed, real) = run_at_speed(1000.0, work).await;
        // At this speed it would be a hundred seconds.
        assert!(real >= 0.1, "{real}");
        assert!(passed <= STEP * 1000, "{passed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn sleeping_in_real_time_takes_real_time() {
        let pacer = Pacer::new(1.0);
        let watch = Stopwatch::start();
        tokio::select! {
            never = pacer.run() => match never {},
            () = pacer.sleep_real(Duration::from_millis(50)) => {}
        }
        assert!(watch.seconds() >= 0.05);
    }
}
