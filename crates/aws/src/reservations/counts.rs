//! How many instances are left in each capacity reservation (spec 51 §10.3).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use karpenter_operator::clock::Clock;

use crate::expiring::ExpiringMap;

/// How long a count is kept without a new answer of EC2.
const TTL: Duration = Duration::from_hours(24);

/// The available instances of capacity reservations.
///
/// EC2 reports them once a minute; between two answers, launches and terminations of this process
/// change them.
#[derive(Debug)]
pub struct ReservationCounts {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    counts: ExpiringMap<String, Count>,
    version: u64,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    available: u32,
    synced: Duration,
}

impl ReservationCounts {
    /// Returns an empty cache.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: Mutex::default() }
    }

    /// Sets the count that EC2 has reported.
    pub fn sync(&self, id: &str, available: u32) {
        let now = self.clock.monotonic();
        let mut state = self.lock();
        let is_same = state.counts.get(id, now).is_some_and(|known| known.available == available);
        state.counts.insert(id.to_owned(), Count { available, synced: now }, now, TTL);
        state.version += u64::from(!is_same);
    }

    /// Returns how many instances are available; 0 for an unknown reservation.
    pub fn available(&self, id: &str) -> u32 {
        let now = self.clock.monotonic();
        self.lock().counts.get(id, now).map_or(0, |known| known.available)
    }

    /// Counts a launch, unless EC2 has reported a later count.
    pub fn mark_launched(&self, id: &str) {
        let now = self.clock.monotonic();
        self.change(id, |known| {
            if known.synced <= now {
                known.available = known.available.saturating_sub(1);
            }
        });
    }

    /// Counts a termination.
    pub fn mark_terminated(&self, id: &str) {
        self.change(id, |known| known.available = known.available.saturating_add(1));
    }

    /// Sets the counts to 0 until the next answer of EC2.
    pub fn mark_unavailable<'a>(&self, ids: impl IntoIterator<Item = &'a str>) {
        for id in ids {
            self.change(id, |known| known.available = 0);
        }
    }

    /// Returns a number that changes with every count.
    pub fn version(&self) -> u64 {
        self.lock().version
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut Count)) {
        let now = self.clock.monotonic();
        let mut state = self.lock();
        if let Some(known) = state.counts.get_mut(id, now) {
            change(known);
            state.version += 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use karpenter_operator::clock::TokioClock;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn launches_and_terminations_change_the_count() {
        let clock = Arc::new(TokioClock::starting_at(jiff::Timestamp::UNIX_EPOCH));
        let counts = ReservationCounts::new(clock.clone());
        counts.mark_launched("cr-1");
        assert_eq!((counts.available("cr-1"), counts.version()), (0, 0), "51 §10.3: unknown");

        counts.sync("cr-1", 2);
        counts.mark_launched("cr-1");
        assert_eq!(counts.available("cr-1"), 1, "51/K4");
        counts.mark_terminated("cr-1");
        assert_eq!(counts.available("cr-1"), 2, "51/K5");
        counts.mark_unavailable(["cr-1", "cr-2"]);
        counts.mark_launched("cr-1");
        assert_eq!(counts.available("cr-1"), 0, "51/K6");
        assert_eq!(counts.available("cr-2"), 0, "51 §10.3");

        let version = counts.version();
        counts.sync("cr-1", 3);
        counts.sync("cr-1", 3);
        assert_eq!((counts.available("cr-1"), counts.version()), (3, version + 1), "51/K6");
        clock.sleep(Duration::from_hours(25)).await;
        assert_eq!(counts.available("cr-1"), 0, "51 §10.3: 24 h");
    }
}
