//! A map whose entries expire.

use std::collections::BTreeMap;
use std::time::Duration;

/// The most entries; far more than a cluster has instance types and offerings.
const ENTRIES_MAX: usize = 100_000;

/// A map whose entries expire after a time.
///
/// A read after the expiry misses, also before [`Self::sweep`] removes the entry. Times are those
/// of a monotonic clock.
#[derive(Clone, Debug)]
pub(crate) struct ExpiringMap<K, V> {
    entries: BTreeMap<K, (Duration, V)>,
}

impl<K: Ord, V> Default for ExpiringMap<K, V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new() }
    }
}

impl<K: Ord + Clone, V> ExpiringMap<K, V> {
    /// Returns the value of a key, unless it has expired.
    pub(crate) fn get<Q>(&self, key: &Q, now: Duration) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.entries.get(key).filter(|(expiry, _)| now < *expiry).map(|(_, value)| value)
    }

    /// Returns the value of a key to change, unless it has expired.
    pub(crate) fn get_mut<Q>(&mut self, key: &Q, now: Duration) -> Option<&mut V>
    where
        K: std::borrow::Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.entries.get_mut(key).filter(|(expiry, _)| now < *expiry).map(|(_, value)| value)
    }

    /// Sets the value of a key; it expires at `now + ttl`.
    ///
    /// A full map first drops the entry that expires next.
    pub(crate) fn insert(&mut self, key: K, value: V, now: Duration, ttl: Duration) {
        if self.entries.len() >= ENTRIES_MAX && !self.entries.contains_key(&key) {
            let next = self.entries.iter().min_by_key(|(_, (expiry, _))| *expiry);
            if let Some(next) = next.map(|(key, _)| key.clone()) {
                self.entries.remove(&next);
            }
        }
        self.entries.insert(key, (now.saturating_add(ttl), value));
    }

    /// Removes expired entries and returns their keys.
    pub(crate) fn sweep(&mut self, now: Duration) -> Vec<K> {
        let expired = self.entries.iter().filter(|(_, (expiry, _))| *expiry <= now);
        let expired: Vec<K> = expired.map(|(key, _)| key.clone()).collect();
        for key in &expired {
            self.entries.remove(key);
        }
        expired
    }

    /// Returns the values that have not expired.
    pub(crate) fn values(&self, now: Duration) -> impl Iterator<Item = &V> {
        self.entries.values().filter(move |(expiry, _)| now < *expiry).map(|(_, value)| value)
    }

    /// Returns whether there is no entry, not even an expired one.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}
