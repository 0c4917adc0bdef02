//! The changes of one resource that a watch can still be told.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::{Key, Stored};

/// How much of one resource is kept only for the history: objects as they were before changes. A
/// watcher that is further behind lists anew. Some ten thousand changes of pods.
const KEPT_BYTES: usize = 32 * 1024 * 1024;

/// What a change itself weighs, roughly: it bounds the number of those that hold nothing else.
const CHANGE_BYTES: usize = 512;

/// One change of one object.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) key: Key,
    /// What was there before; nothing for a create.
    pub(crate) old: Option<Arc<Stored>>,
    /// What is there now, or the last state of what was removed.
    pub(crate) now: Arc<Stored>,
    pub(crate) removed: bool,
}

impl Change {
    pub(super) fn put(key: Key, old: Option<Arc<Stored>>, now: Arc<Stored>) -> Self {
        Self { version: now.version, key, old, now, removed: false }
    }

    pub(super) fn removal(key: Key, old: Arc<Stored>, last: Arc<Stored>) -> Self {
        Self { version: last.version, key, old: Some(old), now: last, removed: true }
    }

    /// What nobody else holds.
    fn weight(&self) -> usize {
        let old = self.old.as_ref().map_or(0, |old| old.text.own_len());
        let last = if self.removed { self.now.text.own_len() } else { 0 };
        CHANGE_BYTES + old + last
    }
}

/// The last change of a resource: all that a watcher needs who knew everything before it. So a
/// change reaches any number of them without the lock, and as one text.
#[derive(Debug)]
pub(crate) struct Latest {
    /// The version of the change before it.
    pub(crate) previous: u64,
    pub(crate) change: Arc<Change>,
    line: OnceLock<Line>,
}

/// The text of an event, for those who see the same in it.
#[derive(Debug)]
struct Line {
    event: &'static str,
    type_meta: Box<str>,
    bytes: Bytes,
}

impl Latest {
    /// The text of the event: made by the first who asks, for all who ask for the same.
    pub(crate) fn line(
        &self,
        event: &'static str,
        type_meta: &str,
        make: impl Fn() -> Bytes,
    ) -> Bytes {
        let line =
            self.line.get_or_init(|| Line { event, type_meta: type_meta.into(), bytes: make() });
        if (line.event, &*line.type_meta) == (event, type_meta) {
            line.bytes.clone()
        } else {
            make()
        }
    }
}

/// The history no longer reaches back to what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooOld;

#[derive(Debug)]
pub(super) struct History {
    changes: VecDeque<Arc<Change>>,
    /// The weight of all of them, and the most it may be.
    weight: usize,
    weight_max: usize,
    /// Changes up to this version are no longer there.
    forgotten: u64,
}

impl Default for History {
    fn default() -> Self {
        Self { changes: VecDeque::new(), weight: 0, weight_max: KEPT_BYTES, forgotten: 0 }
    }
}

impl History {
    /// The same with another bound, for tests.
    #[cfg(test)]
    pub(super) fn bounded(weight_max: usize) -> Self {
        Self { weight_max, ..Self::default() }
    }

    pub(super) fn push(&mut self, change: Change) -> Latest {
        let previous = self.newest();
        let change = Arc::new(change);
        self.weight += change.weight();
        self.changes.push_back(change.clone());
        while self.weight > self.weight_max
            && let Some(oldest) = self.changes.pop_front()
        {
            self.weight -= oldest.weight();
            self.forgotten = oldest.version;
        }
        Latest { previous, change, line: OnceLock::new() }
    }

    /// Forgets all changes up to `version`.
    pub(super) fn forget(&mut self, version: u64) {
        self.changes.retain(|change| change.version > version);
        self.weight = self.changes.iter().map(|change| change.weight()).sum();
        self.forgotten = self.forgotten.max(version);
    }

    /// The version of the last change, or of the last that was forgotten.
    fn newest(&self) -> u64 {
        self.changes.back().map_or(0, |change| change.version).max(self.forgotten)
    }

    /// The changes after `version`, oldest first.
    pub(super) fn since(
        &self,
        version: u64,
    ) -> Result<impl DoubleEndedIterator<Item = &Arc<Change>>, TooOld> {
        if version < self.forgotten {
            return Err(TooOld);
        }
        let first = self.changes.partition_point(|change| change.version <= version);
        Ok(self.changes.range(first..))
    }
}
