//! A cache of values about objects that expire after a fixed time.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};

/// How often expired values are removed.
const SWEEP_INTERVAL: SignedDuration = SignedDuration::from_mins(1);

/// Values by uid, each kept for a fixed time. Invariant: its size is bounded by the inserts within
/// that time and a minute.
#[derive(Debug)]
pub(crate) struct TtlCache<V> {
    ttl: SignedDuration,
    state: Mutex<State<V>>,
}

#[derive(Debug)]
struct State<V> {
    values: BTreeMap<String, (Timestamp, V)>,
    last_sweep: Timestamp,
}

impl<V: Clone> TtlCache<V> {
    /// Creates a cache that keeps values for this time.
    pub(crate) fn new(ttl: SignedDuration) -> Self {
        let state = State { values: BTreeMap::new(), last_sweep: Timestamp::MIN };
        Self { ttl, state: Mutex::new(state) }
    }

    /// Returns the value of the uid, unless it has expired.
    pub(crate) fn get(&self, uid: &str, now: Timestamp) -> Option<V> {
        let state = self.state();
        let (since, value) = state.values.get(uid)?;
        (now.duration_since(*since) < self.ttl).then(|| value.clone())
    }

    /// Inserts a value that is kept from now on.
    pub(crate) fn insert(&self, uid: &str, value: V, now: Timestamp) {
        let mut state = self.state();
        if now.duration_since(state.last_sweep) >= SWEEP_INTERVAL {
            state.values.retain(|_, (since, _)| now.duration_since(*since) < self.ttl);
            state.last_sweep = now;
        }
        state.values.insert(uid.to_owned(), (now, value));
    }

    /// Removes the value of the uid.
    pub(crate) fn remove(&self, uid: &str) {
        self.state().values.remove(uid);
    }

    fn state(&self) -> MutexGuard<'_, State<V>> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expired_values_are_hidden_at_once_and_removed_by_the_next_sweep() {
        let minute = |n| Timestamp::UNIX_EPOCH + SignedDuration::from_mins(n);
        let cache = TtlCache::new(SignedDuration::from_mins(10));
        cache.insert("a", 1, minute(0));
        assert_eq!(cache.get("a", minute(9)), Some(1));
        assert_eq!(cache.get("a", minute(10)), None);
        assert_eq!(cache.get("b", minute(0)), None);
        cache.insert("b", 2, minute(11));
        assert_eq!(cache.state().values.len(), 1, "a is thrown away");
        cache.remove("b");
        assert_eq!(cache.get("b", minute(11)), None);
    }
}
