//! Stores equal values once: replicas share their specs and labels.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

/// Values seen so far. Never iterated, so the order of hashing does not matter.
#[derive(Debug)]
pub(super) struct Interner<T> {
    known: HashSet<Arc<T>>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { known: HashSet::new() }
    }
}

impl<T: Eq + Hash> Interner<T> {
    /// Returns the shared copy of a value.
    pub(super) fn intern(&mut self, value: T) -> Arc<T> {
        if let Some(known) = self.known.get(&value) {
            return Arc::clone(known);
        }
        let shared = Arc::new(value);
        self.known.insert(Arc::clone(&shared));
        shared
    }

    /// Drops values that have no other holder.
    pub(super) fn sweep(&mut self) {
        self.known.retain(|known| Arc::strong_count(known) > 1);
    }
}
