//! Assumptions about a StateNode that the API does not show yet: nominations and deletion marks.
//!
//! A nomination keeps a node for the pods that the provisioner placed on it; a deletion mark makes
//! decisions count the node as deleting. Both expire, so a caller that does not remove one does
//! little harm.

use std::time::Duration;

use jiff::Timestamp;

/// The shortest time for which a nomination holds (spec 40 §5.2).
const MIN_NOMINATION_WINDOW: Duration = Duration::from_secs(10);

/// For how long a nomination holds when batches take at most `batch_max`: two batches.
pub fn nomination_window(batch_max: Duration) -> Duration {
    batch_max.saturating_add(batch_max).max(MIN_NOMINATION_WINDOW)
}

/// The nomination and the deletion mark of one StateNode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Assumptions {
    nominated_until: Option<Timestamp>,
    marked_for_deletion_until: Option<Timestamp>,
}

impl Assumptions {
    /// Keeps it for pods. A nomination that holds longer stays.
    pub(crate) fn nominate(&mut self, until: Timestamp) {
        self.nominated_until = self.nominated_until.max(Some(until));
    }

    /// Until when it is kept for pods.
    pub(crate) fn nominated_until(self) -> Option<Timestamp> {
        self.nominated_until
    }

    /// Marks the node for deletion until this time; none removes the mark.
    pub(crate) fn mark_for_deletion(&mut self, until: Option<Timestamp>) {
        self.marked_for_deletion_until = until;
    }

    /// Whether the node is marked for deletion.
    pub(crate) fn is_marked_for_deletion(self, now: Timestamp) -> bool {
        self.marked_for_deletion_until.is_some_and(|until| until > now)
    }

    /// Whether the node has a deletion mark that has expired.
    pub(crate) fn is_mark_expired(self, now: Timestamp) -> bool {
        self.marked_for_deletion_until.is_some_and(|until| until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nomination_window_is_two_batches_and_at_least_ten_seconds() {
        for (batch, window) in [(0, 10), (1, 10), (10, 20), (60, 120)] {
            let window = Duration::from_secs(window);
            assert_eq!(nomination_window(Duration::from_secs(batch)), window, "{batch}");
        }
    }
}
