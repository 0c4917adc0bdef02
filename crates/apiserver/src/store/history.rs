//! The changes of one resource that a watch can still be told.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::{ObjectKey, StoredObject};

/// How much of one resource is kept only for the history: objects as they were before changes. A
/// watcher that is further behind lists anew. Some ten thousand changes of pods.
const MAX_RETAINED_BYTES: usize = 32 * 1024 * 1024;

/// What a change itself weighs, roughly: it bounds the number of those that hold nothing else.
const CHANGE_OVERHEAD_BYTES: usize = 512;

/// One change of one object.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) key: ObjectKey,
    /// What was there before; nothing for a create.
    pub(crate) old: Option<Arc<StoredObject>>,
    /// What is there now, or the last state of what was removed.
    pub(crate) new: Arc<StoredObject>,
    pub(crate) removed: bool,
}

impl Change {
    pub(super) fn put(
        key: ObjectKey,
        old: Option<Arc<StoredObject>>,
        now: Arc<StoredObject>,
    ) -> Self {
        Self { version: now.version, key, old, new: now, removed: false }
    }

    pub(super) fn removal(key: ObjectKey, old: Arc<StoredObject>, last: Arc<StoredObject>) -> Self {
        Self { version: last.version, key, old: Some(old), new: last, removed: true }
    }

    /// What nobody else holds.
    fn retained_bytes(&self) -> usize {
        let old = self.old.as_ref().map_or(0, |old| old.text.own_len());
        let last = if self.removed { self.new.text.own_len() } else { 0 };
        CHANGE_OVERHEAD_BYTES + old + last
    }
}

/// The last change of a resource: all that a watcher needs who knew everything before it. So a
/// change reaches any number of them without the lock, and as one text.
#[derive(Debug)]
pub(crate) struct LatestChange {
    /// The version of the change before it.
    pub(crate) previous: u64,
    pub(crate) change: Arc<Change>,
    event_line: OnceLock<EventLine>,
}

/// The text of an event, for those who see the same in it.
#[derive(Debug)]
struct EventLine {
    event: &'static str,
    type_meta: Box<str>,
    bytes: Bytes,
}

impl LatestChange {
    /// The text of the event: made by the first who asks, for all who ask for the same.
    pub(crate) fn event_line(
        &self,
        event: &'static str,
        type_meta: &str,
        make: impl Fn() -> Bytes,
    ) -> Bytes {
        let line = self.event_line.get_or_init(|| EventLine {
            event,
            type_meta: type_meta.into(),
            bytes: make(),
        });
        if (line.event, &*line.type_meta) == (event, type_meta) {
            line.bytes.clone()
        } else {
            make()
        }
    }
}

/// The history no longer reaches back to what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VersionTooOld;

#[derive(Debug)]
pub(super) struct History {
    changes: VecDeque<Arc<Change>>,
    /// The weight of all of them, and the most it may be.
    retained_bytes: usize,
    max_retained_bytes: usize,
    /// Changes up to this version are no longer there.
    compacted_version: u64,
}

impl Default for History {
    fn default() -> Self {
        Self {
            changes: VecDeque::new(),
            retained_bytes: 0,
            max_retained_bytes: MAX_RETAINED_BYTES,
            compacted_version: 0,
        }
    }
}

impl History {
    /// The same with another bound, for tests.
    #[cfg(test)]
    pub(super) fn with_max_bytes(weight_max: usize) -> Self {
        Self { max_retained_bytes: weight_max, ..Self::default() }
    }

    pub(super) fn push(&mut self, change: Change) -> LatestChange {
        let previous = self.latest_version();
        let change = Arc::new(change);
        self.retained_bytes += change.retained_bytes();
        self.changes.push_back(change.clone());
        while self.retained_bytes > self.max_retained_bytes
            && let Some(oldest) = self.changes.pop_front()
        {
            self.retained_bytes -= oldest.retained_bytes();
            self.compacted_version = oldest.version;
        }
        LatestChange { previous, change, event_line: OnceLock::new() }
    }

    /// Forgets all changes up to `version`.
    pub(super) fn compact(&mut self, version: u64) {
        self.changes.retain(|change| change.version > version);
        self.retained_bytes = self.changes.iter().map(|change| change.retained_bytes()).sum();
        self.compacted_version = self.compacted_version.max(version);
    }

    /// The version of the last change, or of the last that was forgotten.
    fn latest_version(&self) -> u64 {
        self.changes.back().map_or(0, |change| change.version).max(self.compacted_version)
    }

    /// The changes after `version`, oldest first.
    pub(super) fn changes_after(
        &self,
        version: u64,
    ) -> Result<impl DoubleEndedIterator<Item = &Arc<Change>>, VersionTooOld> {
        if version < self.compacted_version {
            return Err(VersionTooOld);
        }
        let first = self.changes.partition_point(|change| change.version <= version);
        Ok(self.changes.range(first..))
    }
}
