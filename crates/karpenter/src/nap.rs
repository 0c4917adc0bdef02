//! When the thread that waits for others had better wait a little longer.
//!
//! While many pods come and go there are hundreds of news a second. Each wakes watches and controllers,
//! and a process that is woken for every one takes a fifth more CPU in a scale-up (2.5 s instead of
//! 2.05). So in busy times the thread naps before it listens again, and takes what comes meanwhile in
//! one go.
//!
//! What it costs, in busy times alone: answers, timers and decisions of other threads come up to 5 ms
//! later, and requests that follow each other are at most 200 a second, which is the default limit
//! anyway. The lease has seconds, and probes have a thread of their own.

use std::time::Duration;

/// How long to nap.
pub(crate) const NAP: Duration = Duration::from_millis(5);
/// How often it may be woken in a [`WINDOW`] that is not busy. With naps it can be woken twenty times.
const BUSY: u32 = 8;
const WINDOW: Duration = Duration::from_millis(100);

/// How often the thread was woken.
#[derive(Debug, Default)]
pub(crate) struct Naps {
    window: Duration,
    woken: u32,
    is_busy: bool,
}

impl Naps {
    /// The thread has nothing to do, and is about to listen. Whether it should nap before, which is when
    /// the window before this one was busy.
    pub(crate) fn is_due(&mut self, now: Duration) -> bool {
        let age = now.saturating_sub(self.window);
        if age >= WINDOW {
            // What was long ago says nothing.
            self.is_busy = self.woken > BUSY && age < 2 * WINDOW;
            (self.window, self.woken) = (now, 0);
        }
        self.woken += 1;
        self.is_busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of the naps are due if the thread is woken so often, each time after a pause, and naps.
    fn naps(naps: &mut Naps, now: &mut Duration, times: u32, pause: u64) -> usize {
        let mut woken = || {
            *now += Duration::from_millis(pause);
            let is_due = naps.is_due(*now);
            if is_due {
                *now += NAP;
            }
            is_due
        };
        (0..times).filter(|_| woken()).count()
    }

    #[test]
    fn only_who_is_woken_all_the_time_naps() {
        let (mut all, now) = (Naps::default(), &mut Duration::from_secs(1));
        assert_eq!(naps(&mut all, now, 1_000, 15), 0, "a watch, now and then");
        assert_eq!(naps(&mut all, now, 8, 1), 0, "a few requests in a quiet time");
        assert_eq!(naps(&mut all, now, 1_000, 500), 0, "once in a while");
        let storm = naps(&mut all, now, 1_000, 3);
        assert!(storm > 950, "{storm} of 1,000 in a storm, which naps do not end");
        *now += Duration::from_secs(1);
        assert_eq!(naps(&mut all, now, 1, 0), 0, "the storm is over");
    }
}
