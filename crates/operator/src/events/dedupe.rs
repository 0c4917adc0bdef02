//! What was published lately: the first filter, before anything is queued.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Event, SharedLimiter};
use crate::harness::TokenBucket;

/// Keys that are remembered. Each pending pod has one for five minutes; beyond that the oldest ones
/// are forgotten early, and an event comes twice.
const MAX_KEYS: usize = 100_000;

/// The interval at which expired keys are dropped.
const SWEEP_INTERVAL: SignedDuration = SignedDuration::from_secs(10);

/// Tokens of the shared limiters.
const LIMIT_PER_SECOND: f64 = 5.0;
const LIMIT_BURST: f64 = 10.0;

/// Decides which events are published: drops duplicates and limits shared rates.
#[derive(Debug, Default)]
pub(super) struct DedupeFilter {
    expiry_by_key: BTreeMap<Arc<str>, Timestamp>,
    by_expiry: BTreeSet<(Timestamp, Arc<str>)>,
    last_sweep: Option<Timestamp>,
    buckets: BTreeMap<SharedLimiter, TokenBucket>,
}

impl DedupeFilter {
    /// Whether the event is new, and its limiter has a token. One that the limiter refuses has
    /// taken its place among the keys all the same.
    pub(super) fn admits(&mut self, event: &Event, now: Timestamp) -> bool {
        self.sweep(now);
        if !event.dedupe_values.is_empty() && !self.remember_if_new(event, now) {
            return false;
        }
        event.shared_limiter.is_none_or(|limit| {
            let full = || TokenBucket::new(LIMIT_PER_SECOND, LIMIT_BURST);
            self.buckets.entry(limit).or_insert_with(full).try_take(now)
        })
    }

    fn remember_if_new(&mut self, event: &Event, now: Timestamp) -> bool {
        let key: Arc<str> = dedupe_key(event).into();
        if self.expiry_by_key.get(&key).is_some_and(|until| *until > now) {
            return false;
        }
        let ttl = SignedDuration::try_from(event.dedupe_timeout).unwrap_or(SignedDuration::MAX);
        let until = now.saturating_add(ttl).unwrap_or(Timestamp::MAX);
        if let Some(before) = self.expiry_by_key.insert(key.clone(), until) {
            self.by_expiry.remove(&(before, key.clone()));
        }
        self.by_expiry.insert((until, key));
        while self.by_expiry.len() > MAX_KEYS {
            self.remove_oldest();
        }
        true
    }

    fn sweep(&mut self, now: Timestamp) {
        if self.last_sweep.is_some_and(|swept| now.duration_since(swept) < SWEEP_INTERVAL) {
            return;
        }
        self.last_sweep = Some(now);
        while self.by_expiry.first().is_some_and(|(until, _)| *until <= now) {
            self.remove_oldest();
        }
    }

    fn remove_oldest(&mut self) {
        if let Some((_, key)) = self.by_expiry.pop_first() {
            self.expiry_by_key.remove(&key);
        }
    }
}

/// Returns the key that identifies duplicates; kind, namespace and message take no part.
fn dedupe_key(event: &Event) -> String {
    format!("{}-{}", event.reason.to_lowercase(), event.dedupe_values.join("-"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::ObjectReference;

    use super::super::Severity;
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(1_700_000_000_000 + millis).unwrap()
    }

    fn event(reason: &'static str, dedupe: &[&str]) -> Event {
        let dedupe = dedupe.iter().copied();
        Event::new(ObjectReference::default(), Severity::Normal, reason, "text", dedupe)
    }

    #[test]
    fn the_same_event_is_published_once_per_dedupe_timeout() {
        let mut filter = DedupeFilter::default();
        let same = event("Evicted", &["a"]);
        let count = (0..100).filter(|n| filter.admits(&same, at(n * 1_100))).count();
        assert_eq!(count, 1, "40/OB-01");
        assert!(filter.admits(&same, at(120_000)));
    }

    #[test]
    fn events_are_deduplicated_by_reason_and_dedupe_values() {
        let mut filter = DedupeFilter::default();
        let count = (0..100).filter(|n| filter.admits(&event("Evicted", &[&n.to_string()]), at(0)));
        assert_eq!(count.count(), 100, "40/OB-02");
        assert!(!filter.admits(&event("EVICTED", &["1"]), at(1)), "case does not matter");
        assert!(filter.admits(&event("Other", &["1"]), at(1)));
        assert!(filter.admits(&event("Evicted", &["1", "x"]), at(1)));
    }

    #[test]
    fn an_event_may_set_its_own_dedupe_timeout() {
        let mut filter = DedupeFilter::default();
        let short = event("Evicted", &["a"]).with_dedupe_timeout(Duration::from_secs(2));
        let published = [0, 1_000, 3_000].map(|millis| filter.admits(&short, at(millis)));
        assert_eq!(published, [true, false, true], "40/OB-04");
    }

    #[test]
    fn events_without_dedupe_values_are_never_deduplicated() {
        let mut filter = DedupeFilter::default();
        let events = (0..50).filter(|_| filter.admits(&event("Launched", &[]), at(0)));
        assert_eq!(events.count(), 50);
    }

    #[test]
    fn events_with_a_shared_limiter_share_a_token_bucket() {
        let nominated = |n: i64| {
            event("Nominated", &[&n.to_string()]).with_shared_limiter(SharedLimiter::Nominated)
        };
        let mut filter = DedupeFilter::default();
        let at_once = (0..100).filter(|n| filter.admits(&nominated(*n), at(0))).count();
        assert_eq!(at_once, 10, "40/OB-05");
        let mut filter = DedupeFilter::default();
        let slowly = (0..100).filter(|n| filter.admits(&nominated(*n), at(n * 200))).count();
        assert_eq!(slowly, 100, "40/OB-05");
    }

    #[test]
    fn a_rate_limited_event_still_counts_as_published() {
        let nominated = |n: i64| {
            event("Nominated", &[&n.to_string()]).with_shared_limiter(SharedLimiter::Nominated)
        };
        let mut filter = DedupeFilter::default();
        let _ = (0..11).filter(|n| filter.admits(&nominated(*n), at(0))).count();
        assert!(!filter.admits(&nominated(10), at(60_000)));
        assert!(filter.admits(&nominated(11), at(60_000)));
    }

    #[test]
    fn dedupe_memory_is_bounded_and_freed() {
        let mut filter = DedupeFilter::default();
        for n in 0..MAX_KEYS + 10 {
            filter.admits(&event("Evicted", &[&n.to_string()]), at(0));
        }
        assert_eq!((filter.expiry_by_key.len(), filter.by_expiry.len()), (MAX_KEYS, MAX_KEYS));
        filter.admits(&event("Other", &["a"]), at(200_000));
        assert_eq!((filter.expiry_by_key.len(), filter.by_expiry.len()), (1, 1));
    }
}
