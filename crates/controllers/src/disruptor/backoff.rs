//! Backs off drift of a NodePool after a failed command.
//!
//! Without this backoff the disruption controller would retry the node with the oldest drift on
//! every pass (spec 30 §13 #15).

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

/// The first wait. Each next one is twice as long.
const FIRST: SignedDuration = SignedDuration::from_mins(1);
/// The longest wait.
const LONGEST: SignedDuration = SignedDuration::from_mins(10);

/// The backoffs of NodePools. Invariant: it holds only pools that fail; a success removes them.
#[derive(Debug, Default)]
pub(super) struct PoolBackoffs(BTreeMap<String, Backoff>);

#[derive(Clone, Copy, Debug)]
struct Backoff {
    failures: u32,
    until: Timestamp,
}

impl PoolBackoffs {
    /// Records a failed command and doubles the pool's backoff. `jitter`, from 0 to 1, spreads the
    /// waits: half of a wait is fixed.
    pub(super) fn record_failure(&mut self, pool: &str, now: Timestamp, jitter: f64) {
        let failures = self.0.get(pool).map_or(0, |backoff| backoff.failures);
        let factor = 1_i32.checked_shl(failures.min(8)).unwrap_or(1);
        let wait = FIRST.saturating_mul(factor).min(LONGEST);
        let wait = wait.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0);
        let until = now.saturating_add(wait).unwrap_or(Timestamp::MAX);
        let failures = failures.saturating_add(1);
        self.0.insert(pool.to_owned(), Backoff { failures, until });
    }

    /// Ends the backoff of a pool after a command has succeeded.
    pub(super) fn record_success(&mut self, pool: &str) {
        self.0.remove(pool);
    }

    /// Returns the pools whose backoff has not elapsed.
    pub(super) fn active_pools(&self, now: Timestamp) -> BTreeSet<String> {
        let waiting = self.0.iter().filter(|(_, backoff)| backoff.until > now);
        waiting.map(|(pool, _)| pool.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_ten_minutes_and_ends_with_a_success() {
        let mut backoffs = PoolBackoffs::default();
        let now = Timestamp::UNIX_EPOCH;
        let later = |seconds| now + SignedDuration::from_secs(seconds);
        for (jitter, seconds) in [(1.0, 60), (1.0, 120), (0.0, 120), (1.0, 480), (1.0, 600)] {
            backoffs.record_failure("a", now, jitter);
            assert!(backoffs.active_pools(later(seconds - 1)).contains("a"), "{seconds}");
            assert!(!backoffs.active_pools(later(seconds)).contains("a"), "{seconds}");
        }
        backoffs.record_failure("b", now, 1.0);
        backoffs.record_success("a");
        assert_eq!(backoffs.active_pools(now), BTreeSet::from(["b".to_owned()]));
        for _ in 0..100 {
            backoffs.record_failure("b", now, 1.0);
        }
        assert!(!backoffs.active_pools(later(600)).contains("b"));
    }
}
