//! What was published lately: the first filter, before anything is queued.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Event, Limit};
use crate::harness::Bucket;

/// Keys that are remembered. Each pending pod has one for five minutes; beyond that the oldest ones
/// are forgotten early, and an event comes twice.
const MAX_KEYS: usize = 100_000;

/// How often expired keys are swept out.
const SWEEP: SignedDuration = SignedDuration::from_secs(10);

/// Tokens of the shared limiters.
const LIMIT_PER_SECOND: f64 = 5.0;
const LIMIT_BURST: f64 = 10.0;

/// Decides which events are published.
#[derive(Debug, Default)]
pub(super) struct Filter {
    until: BTreeMap<Arc<str>, Timestamp>,
    by_expiry: BTreeSet<(Timestamp, Arc<str>)>,
    swept: Option<Timestamp>,
    buckets: BTreeMap<Limit, Bucket>,
}

impl Filter {
    /// Whether the event is new, and its limiter has a token. One that the limiter refuses has
    /// taken its place among the keys all the same.
    pub(super) fn admits(&mut self, event: &Event, now: Timestamp) -> bool {
        self.sweep(now);
        if !event.dedupe.is_empty() && !self.is_new(event, now) {
            return false;
        }
        event.limit.is_none_or(|limit| {
            let full = || Bucket::new(LIMIT_PER_SECOND, LIMIT_BURST);
            self.buckets.entry(limit).or_insert_with(full).try_take(now)
        })
    }

    fn is_new(&mut self, event: &Event, now: Timestamp) -> bool {
        let key: Arc<str> = key(event).into();
        if self.until.get(&key).is_some_and(|until| *until > now) {
            return false;
        }
        let ttl = SignedDuration::try_from(event.ttl).unwrap_or(SignedDuration::MAX);
        let until = now.saturating_add(ttl).unwrap_or(Timestamp::MAX);
        if let Some(before) = self.until.insert(key.clone(), until) {
            self.by_expiry.remove(&(before, key.clone()));
        }
        self.by_expiry.insert((until, key));
        while self.by_expiry.len() > MAX_KEYS {
            self.forget_first();
        }
        true
    }

    fn sweep(&mut self, now: Timestamp) {
        if self.swept.is_some_and(|swept| now.duration_since(swept) < SWEEP) {
            return;
        }
        self.swept = Some(now);
        while self.by_expiry.first().is_some_and(|(until, _)| *until <= now) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, key)) = self.by_expiry.pop_first() {
            self.until.remove(&key);
        }
    }
}

/// What makes two events the same: the kind, the namespace and the message take no part.
fn key(event: &Event) -> String {
    format!("{}-{}", event.reason.to_lowercase(), event.dedupe.join("-"))
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
    fn the_same_event_is_published_once_in_its_time() {
        let mut filter = Filter::default();
        let same = event("Evicted", &["a"]);
        let count = (0..100).filter(|n| filter.admits(&same, at(n * 1_100))).count();
        assert_eq!(count, 1, "40/OB-01");
        assert!(filter.admits(&same, at(120_000)));
    }

    #[test]
    fn the_reason_and_the_values_make_an_event() {
        let mut filter = Filter::default();
        let count = (0..100).filter(|n| filter.admits(&event("Evicted", &[&n.to_string()]), at(0)));
        assert_eq!(count.count(), 100, "40/OB-02");
        assert!(!filter.admits(&event("EVICTED", &["1"]), at(1)), "case does not matter");
        assert!(filter.admits(&event("Other", &["1"]), at(1)));
        assert!(filter.admits(&event("Evicted", &["1", "x"]), at(1)));
    }

    #[test]
    fn an_event_may_have_its_own_time() {
        let mut filter = Filter::default();
        let short = event("Evicted", &["a"]).with_ttl(Duration::from_secs(2));
        let published = [0, 1_000, 3_000].map(|millis| filter.admits(&short, at(millis)));
        assert_eq!(published, [true, false, true], "40/OB-04");
    }

    #[test]
    fn events_without_values_are_never_the_same() {
        let mut filter = Filter::default();
        let events = (0..50).filter(|_| filter.admits(&event("Launched", &[]), at(0)));
        assert_eq!(events.count(), 50);
    }

    #[test]
    fn limited_events_share_a_bucket() {
        let nominated = |n: i64| event("Nominated", &[&n.to_string()]).with_limit(Limit::Nominated);
        let mut filter = Filter::default();
        let at_once = (0..100).filter(|n| filter.admits(&nominated(*n), at(0))).count();
        assert_eq!(at_once, 10, "40/OB-05");
        let mut filter = Filter::default();
        let slowly = (0..100).filter(|n| filter.admits(&nominated(*n), at(n * 200))).count();
        assert_eq!(slowly, 100, "40/OB-05");
    }

    #[test]
    fn a_refused_event_has_taken_its_place() {
        let nominated = |n: i64| event("Nominated", &[&n.to_string()]).with_limit(Limit::Nominated);
        let mut filter = Filter::default();
        let _ = (0..11).filter(|n| filter.admits(&nominated(*n), at(0))).count();
        assert!(!filter.admits(&nominated(10), at(60_000)));
        assert!(filter.admits(&nominated(11), at(60_000)));
    }

    #[test]
    fn memory_is_bounded_and_given_back() {
        let mut filter = Filter::default();
        for n in 0..MAX_KEYS + 10 {
            filter.admits(&event("Evicted", &[&n.to_string()]), at(0));
        }
        assert_eq!((filter.until.len(), filter.by_expiry.len()), (MAX_KEYS, MAX_KEYS));
        filter.admits(&event("Other", &["a"]), at(200_000));
        assert_eq!((filter.until.len(), filter.by_expiry.len()), (1, 1));
    }
}
