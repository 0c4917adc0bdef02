//! Pauses the async thread between wakeups in busy times.
//!
//! While many pods come and go there are hundreds of watch events a second. Each wakes watches and
//! controllers, and a process that is woken for every one takes a fifth more CPU in a scale-up (2.5
//! s instead of 2.05). So in busy times the thread pauses before it polls again, and handles
//! several events in one wakeup.
//!
//! The cost, in busy times alone: responses, timers and decisions of other threads arrive up to 5
//! ms later, and requests that follow each other are at most 200 a second, which is the default
//! limit anyway. The lease has a margin of seconds, and probes have a thread of their own.

use std::time::Duration;

/// The length of a pause.
pub(crate) const BUSY_PAUSE: Duration = Duration::from_millis(5);
/// The most wakeups in a [`WINDOW`] that is not busy. With pauses there can be twenty.
const BUSY_WAKEUPS: u32 = 8;
const WINDOW: Duration = Duration::from_millis(100);

/// Counts the wakeups of a thread.
#[derive(Debug, Default)]
pub(crate) struct WakeupLimiter {
    window_start: Duration,
    wakeups: u32,
    is_busy: bool,
}

impl WakeupLimiter {
    /// Returns whether the parked thread should pause: the last window was busy.
    pub(crate) fn should_pause(&mut self, now: Duration) -> bool {
        let age = now.saturating_sub(self.window_start);
        if age >= WINDOW {
            // An old window does not count.
            self.is_busy = self.wakeups > BUSY_WAKEUPS && age < 2 * WINDOW;
            (self.window_start, self.wakeups) = (now, 0);
        }
        self.wakeups += 1;
        self.is_busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many pauses follow `times` wakeups, each `pause` ms after the last.
    fn count_pauses(
        limiter: &mut WakeupLimiter,
        now: &mut Duration,
        times: u32,
        pause: u64,
    ) -> usize {
        let mut woken = || {
            *now += Duration::from_millis(pause);
            let is_due = limiter.should_pause(*now);
            if is_due {
                *now += BUSY_PAUSE;
            }
            is_due
        };
        (0..times).filter(|_| woken()).count()
    }

    #[test]
    fn only_a_thread_that_is_woken_often_pauses() {
        let (mut all, now) = (WakeupLimiter::default(), &mut Duration::from_secs(1));
        assert_eq!(count_pauses(&mut all, now, 1_000, 15), 0, "a watch, now and then");
        assert_eq!(count_pauses(&mut all, now, 8, 1), 0, "a few requests in a quiet time");
        assert_eq!(count_pauses(&mut all, now, 1_000, 500), 0, "once in a while");
        let storm = count_pauses(&mut all, now, 1_000, 3);
        assert!(storm > 950, "{storm} of 1,000 in a storm, which naps do not end");
        *now += Duration::from_secs(1);
        assert_eq!(count_pauses(&mut all, now, 1, 0), 0, "the storm is over");
    }
}
