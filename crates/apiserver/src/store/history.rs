//! The history keeps the changes of one resource that watches can still read.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::{ObjectKey, StoredObject};

/// The bytes of one resource that only the history retains: objects before their changes. A watcher
/// that is further behind has to list again. This is some ten thousand changes of pods.
const MAX_RETAINED_BYTES: usize = 32 * 1024 * 1024;

/// The approximate bytes of a change itself. It bounds the number of changes that retain nothing
/// else.
const CHANGE_OVERHEAD_BYTES: usize = 512;

/// One change of one object.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) key: ObjectKey,
    /// What was there before; nothing for a create.
    pub(crate) old: Option<Arc<StoredObject>>,
    /// The object after the change, or its last state if it was removed.
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

    /// Returns the bytes that only this change retains.
    fn retained_bytes(&self) -> usize {
        let old = self.old.as_ref().map_or(0, |old| old.text.own_len());
        let last = if self.removed { self.new.text.own_len() } else { 0 };
        CHANGE_OVERHEAD_BYTES + old + last
    }
}

/// The last change of a resource: all that an up-to-date watcher needs. So a change reaches any
/// number of watchers without the lock, and as one text.
#[derive(Debug)]
pub(crate) struct LatestChange {
    /// The version of the change before it.
    pub(crate) previous: u64,
    pub(crate) change: Arc<Change>,
    event_line: OnceLock<EventLine>,
}

/// The text of a watch event, shared by watchers that need the same text.
#[derive(Debug)]
struct EventLine {
    event: &'static str,
    type_meta: Box<str>,
    bytes: Bytes,
}

impl LatestChange {
    /// Returns the text of the event; the first caller makes it for all.
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

/// The error for a version that the history no longer covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VersionTooOld;

#[derive(Debug)]
pub(super) struct History {
    changes: VecDeque<Arc<Change>>,
    /// The retained bytes of all changes, and their limit.
    retained_bytes: usize,
    max_retained_bytes: usize,
    /// Changes up to this version are compacted.
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
    /// Returns an empty history with another limit, for tests.
    #[cfg(test)]
    pub(super) fn with_max_bytes(max_retained_bytes: usize) -> Self {
        Self { max_retained_bytes, ..Self::default() }
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

    /// Drops all changes up to `version`.
    pub(super) fn compact(&mut self, version: u64) {
        self.changes.retain(|change| change.version > version);
        self.retained_bytes = self.changes.iter().map(|change| change.retained_bytes()).sum();
        self.compacted_version = self.compacted_version.max(version);
    }

    /// Returns the version of the last change, also if it is compacted.
    fn latest_version(&self) -> u64 {
        self.changes.back().map_or(0, |change| change.version).max(self.compacted_version)
    }

    /// Returns the changes after `version`, oldest first.
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
