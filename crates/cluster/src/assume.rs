//! What we are about to do with a machine, before anybody else can see it.
//!
//! Nominations keep a node for pods that were promised to it; marks count it as going away. Each
//! ends by itself, so that who forgets to take one back does no harm for long.

use std::time::Duration;

use jiff::Timestamp;

/// The least time for which a nomination holds (spec 40 §5.2).
const NOMINATION_LEAST: Duration = Duration::from_secs(10);

/// For how long a nomination holds when batches take at most `batch_max`: two batches.
pub fn nomination_window(batch_max: Duration) -> Duration {
    batch_max.saturating_add(batch_max).max(NOMINATION_LEAST)
}

/// Assumptions about one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Assumed {
    nominated_until: Option<Timestamp>,
    marked_until: Option<Timestamp>,
}

impl Assumed {
    /// Keeps it for pods. A nomination that holds longer stays.
    pub(crate) fn nominate(&mut self, until: Timestamp) {
        self.nominated_until = self.nominated_until.max(Some(until));
    }

    /// Until when it is kept for pods.
    pub(crate) fn nominated_until(self) -> Option<Timestamp> {
        self.nominated_until
    }

    /// Counts it as going away, or not.
    pub(crate) fn mark(&mut self, until: Option<Timestamp>) {
        self.marked_until = until;
    }

    /// Whether it counts as going away.
    pub(crate) fn is_marked(self, now: Timestamp) -> bool {
        self.marked_until.is_some_and(|until| until > now)
    }

    /// Whether a mark has ended that was not taken back.
    pub(crate) fn is_mark_over(self, now: Timestamp) -> bool {
        self.marked_until.is_some_and(|until| until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nominations_hold_for_two_batches_or_ten_seconds() {
        for (batch, window) in [(0, 10), (1, 10), (10, 20), (60, 120)] {
            let window = Duration::from_secs(window);
            assert_eq!(nomination_window(Duration::from_secs(batch)), window, "{batch}");
        }
    }
}
