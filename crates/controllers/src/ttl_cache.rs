//! Things to remember about objects for a while.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};

/// How often what is over is thrown away.
const SWEEP_INTERVAL: SignedDuration = SignedDuration::from_mins(1);

/// Values by uid, each for a fixed time. Invariant: its size is bounded by what is put into it
/// within that time and a minute.
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
    /// One that remembers so long.
    pub(crate) fn new(time: SignedDuration) -> Self {
        let state = State { values: BTreeMap::new(), last_sweep: Timestamp::MIN };
        Self { ttl: time, state: Mutex::new(state) }
    }

    /// The value of the uid.
    pub(crate) fn get(&self, uid: &str, now: Timestamp) -> Option<V> {
        let state = self.state();
        let (since, value) = state.values.get(uid)?;
        (now.duration_since(*since) < self.ttl).then(|| value.clone())
    }

    /// Remembers a value from now on.
    pub(crate) fn insert(&self, uid: &str, value: V, now: Timestamp) {
        let mut state = self.state();
        if now.duration_since(state.last_sweep) >= SWEEP_INTERVAL {
            state.values.retain(|_, (since, _)| now.duration_since(*since) < self.ttl);
            state.last_sweep = now;
        }
        state.values.insert(uid.to_owned(), (now, value));
    }

    /// Forgets the value of the uid.
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
        let memory = TtlCache::new(SignedDuration::from_mins(10));
        memory.insert("a", 1, minute(0));
        assert_eq!(memory.get("a", minute(9)), Some(1));
        assert_eq!(memory.get("a", minute(10)), None);
        assert_eq!(memory.get("b", minute(0)), None);
        memory.insert("b", 2, minute(11));
        assert_eq!(memory.state().values.len(), 1, "a is thrown away");
        memory.remove("b");
        assert_eq!(memory.get("b", minute(11)), None);
    }
}
