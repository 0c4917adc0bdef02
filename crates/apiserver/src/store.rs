//! The store keeps objects as JSON text under one counter of versions, with the changes that
//! watches read.
//!
//! Objects are JSON text and not values: a list or a watch event is then a copy of stored bytes,
//! and 100,000 pods fit into some hundred megabytes. The store keeps parts that many objects share
//! once ([`object_text`]).
//!
//! ```text
//! put/remove ─▶ ResourceTable.objects  (key ─▶ StoredObject, newest only)
//!          └──▶ ResourceTable.history  (changes with both objects, bounded) ─▶ watches, old lists
//! ```
//!
//! Invariant: every change takes a version of its own from one counter for all resources.
//! Invariant: a watcher holds a version and nothing else, so one that stops reading costs nothing;
//! if it continues too late, its version is compacted and the watch ends with `Expired`.

mod history;
mod object_text;
mod string_pairs;
mod watch_channel;

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

use serde_json::Value;

use self::history::History;
pub(crate) use self::history::{Change, LatestChange, VersionTooOld};
pub(crate) use self::object_text::ObjectText;
use self::object_text::TextPool;
pub(crate) use self::string_pairs::StringPairs;
pub(crate) use self::watch_channel::Receiver;
use self::watch_channel::Sender;

/// The key of an object within its resource: `namespace/name`, or only `name`. Keys are ordered as
/// texts, as in etcd: lists have this order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectKey(Box<str>);

impl ObjectKey {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        if namespace.is_empty() {
            Self(name.into())
        } else {
            Self(format!("{namespace}/{name}").into())
        }
    }

    /// As it stands in a continue token.
    pub(crate) fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn namespace(&self) -> &str {
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    pub(crate) fn name(&self) -> &str {
        self.0.split_once('/').map_or(&*self.0, |(_, name)| name)
    }

    /// Whether it lies in the namespace; the empty one holds all.
    pub(crate) fn is_in(&self, namespace: &str) -> bool {
        namespace.is_empty() || self.namespace() == namespace
    }
}

/// A resource of all versions: `("apps", "deployments")`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ResourceId {
    pub(crate) group: Box<str>,
    pub(crate) plural: Box<str>,
}

impl ResourceId {
    pub(crate) fn new(group: &str, plural: &str) -> Self {
        Self { group: group.into(), plural: plural.into() }
    }
}

/// One version of one object.
#[derive(Debug)]
pub(crate) struct StoredObject {
    pub(crate) version: u64,
    /// The object as JSON text, with its resource version in it.
    pub(crate) text: ObjectText,
    pub(crate) uid: Box<str>,
    pub(crate) labels: StringPairs,
    /// The values that field selectors of the kind compare, besides name and namespace.
    pub(crate) fields: StringPairs,
    /// The uids of `metadata.ownerReferences`.
    pub(crate) owners: Box<[Box<str>]>,
    /// Whether the object has a `metadata.deletionTimestamp`.
    pub(crate) is_terminating: bool,
}

impl StoredObject {
    /// `object` as it is stored under `version`, and what `make` makes its text.
    pub(crate) fn new(
        mut object: Value,
        version: u64,
        fields: StringPairs,
        make: impl FnOnce(&Value) -> ObjectText,
    ) -> Self {
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let metadata = &object["metadata"];
        let uid = |of: &Value| Box::<str>::from(of["uid"].as_str().unwrap_or_default());
        let labels = metadata["labels"].as_object().into_iter().flatten();
        let labels = labels.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        Self {
            version,
            uid: uid(metadata),
            labels: labels.collect(),
            fields,
            owners: owners.map(uid).collect(),
            is_terminating: metadata.get("deletionTimestamp").is_some(),
            text: make(&object),
        }
    }

    /// Returns the object with a later version, as a watcher last sees it.
    pub(crate) fn at_version(&self, version: u64) -> Self {
        Self::new(self.to_value(), version, self.fields.clone(), ObjectText::unshared)
    }

    /// Parses the text of the object.
    pub(crate) fn to_value(&self) -> Value {
        serde_json::from_slice(&self.text.to_vec()).expect("what was stored was a value before")
    }
}

/// All objects of one resource, with the history of their changes.
#[derive(Debug)]
pub(crate) struct ResourceTable {
    objects: BTreeMap<ObjectKey, Arc<StoredObject>>,
    history: History,
    /// Sends the last change to watchers.
    latest_change: Sender<Arc<LatestChange>>,
}

impl ResourceTable {
    fn new() -> Self {
        Self { objects: BTreeMap::new(), history: History::default(), latest_change: Sender::new() }
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Arc<StoredObject>> {
        self.objects.get(key)
    }

    /// Everything in the namespace (all of them when it is empty) that comes after `after`.
    pub(crate) fn range<'a>(
        &'a self,
        namespace: &'a str,
        after: Option<&ObjectKey>,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Arc<StoredObject>)> {
        let first = ObjectKey::from_text(&if namespace.is_empty() {
            String::new()
        } else {
            format!("{namespace}/")
        });
        let start = match after {
            Some(after) if *after >= first => Bound::Excluded(after.clone()),
            _ => Bound::Included(first),
        };
        let range = self.objects.range((start, Bound::Unbounded));
        range.take_while(move |(key, _)| key.is_in(namespace))
    }

    /// Returns up to `limit` objects of [`ResourceTable::range`] as they were at `version`. Fails
    /// if the history does not reach back that far.
    pub(crate) fn range_at_version(
        &self,
        version: u64,
        namespace: &str,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<Vec<(ObjectKey, Arc<StoredObject>)>, VersionTooOld> {
        // What has changed since, as it was: the oldest change of an object knows.
        let mut before = BTreeMap::new();
        let is_in_range =
            |key: &ObjectKey| key.is_in(namespace) && after.is_none_or(|after| key > after);
        for change in
            self.history.changes_after(version)?.rev().filter(|change| is_in_range(&change.key))
        {
            before.insert(&change.key, change.old.as_ref());
        }
        let unchanged =
            self.range(namespace, after).filter(|(key, _)| !before.contains_key(*key)).peekable();
        let changed = before.iter().filter_map(|(key, old)| Some((*key, (*old)?))).peekable();
        let clone = |(key, stored): (&ObjectKey, &Arc<StoredObject>)| (key.clone(), stored.clone());
        Ok(merge_sorted(unchanged, changed).take(limit).map(clone).collect())
    }

    /// Returns the changes after `version`, oldest first.
    pub(crate) fn changes_after(
        &self,
        version: u64,
    ) -> Result<impl DoubleEndedIterator<Item = &Arc<Change>>, VersionTooOld> {
        self.history.changes_after(version)
    }

    pub(crate) fn subscribe(&self) -> Receiver<Arc<LatestChange>> {
        self.latest_change.subscribe()
    }
}

/// Merges two sorted iterators in the order of their keys.
fn merge_sorted<'a, T>(
    mut left: Peekable<impl Iterator<Item = (&'a ObjectKey, T)>>,
    mut right: Peekable<impl Iterator<Item = (&'a ObjectKey, T)>>,
) -> impl Iterator<Item = (&'a ObjectKey, T)> {
    std::iter::from_fn(move || {
        let is_left_next = match (left.peek(), right.peek()) {
            (Some((left, _)), Some((right, _))) => left < right,
            (left, _) => left.is_some(),
        };
        if is_left_next { left.next() } else { right.next() }
    })
}

/// All objects of an API.
#[derive(Debug)]
pub(crate) struct Store {
    version: u64,
    tables: BTreeMap<ResourceId, ResourceTable>,
    text_pool: TextPool,
    /// The dependents of each owner, by the uid of the owner.
    dependents: BTreeMap<Box<str>, BTreeSet<(ResourceId, ObjectKey)>>,
}

impl Store {
    pub(crate) fn new() -> Self {
        // Version 0 means "any" in a request, and 1 is what an empty etcd has.
        let (tables, dependents) = (BTreeMap::new(), BTreeMap::new());
        Self { version: 1, tables, text_pool: TextPool::new(), dependents }
    }

    /// The version of the last change of all.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn table(&mut self, resource: &ResourceId) -> &mut ResourceTable {
        if !self.tables.contains_key(resource) {
            self.tables.insert(resource.clone(), ResourceTable::new());
        }
        self.tables.get_mut(resource).expect("inserted above")
    }

    /// Starts the history of a new resource: earlier versions count as compacted.
    pub(crate) fn begin_history(&mut self, resource: &ResourceId) {
        let version = self.version;
        self.table(resource).history.compact(version);
    }

    pub(crate) fn get(&self, resource: &ResourceId, key: &ObjectKey) -> Option<&Arc<StoredObject>> {
        self.tables.get(resource)?.get(key)
    }

    /// Every resource that has, or had, objects.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (&ResourceId, &ResourceTable)> {
        self.tables.iter()
    }

    /// Stores an object under a new version.
    pub(crate) fn put(
        &mut self,
        resource: &ResourceId,
        key: &ObjectKey,
        object: Value,
        fields: StringPairs,
    ) -> Arc<StoredObject> {
        self.version += 1;
        let share = |object: &Value| self.text_pool.intern(key, object);
        let new = Arc::new(StoredObject::new(object, self.version, fields, share));
        let old = self.table(resource).objects.insert(key.clone(), new.clone());
        self.index_owners(resource, key, old.as_deref(), Some(&new));
        self.record_change(resource, Change::put(key.clone(), old, new.clone()));
        new
    }

    /// Removes an object. Watchers see it once more as it was, under the version of the removal.
    pub(crate) fn remove(
        &mut self,
        resource: &ResourceId,
        key: &ObjectKey,
    ) -> Option<Arc<StoredObject>> {
        let old = self.table(resource).objects.remove(key)?;
        self.version += 1;
        let last = Arc::new(old.at_version(self.version));
        self.index_owners(resource, key, Some(&old), None);
        self.record_change(resource, Change::removal(key.clone(), old, last.clone()));
        Some(last)
    }

    /// Those that name `uid` as an owner.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<(ResourceId, ObjectKey)> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Clears the history of a resource and limits its retained bytes.
    #[cfg(test)]
    pub(crate) fn limit_history(&mut self, resource: &ResourceId, bytes: usize) {
        self.table(resource).history = History::with_max_bytes(bytes);
    }

    fn record_change(&mut self, resource: &ResourceId, change: Change) {
        let table = self.table(resource);
        let latest = table.history.push(change);
        table.latest_change.send(Arc::new(latest));
    }

    fn index_owners(
        &mut self,
        resource: &ResourceId,
        key: &ObjectKey,
        old: Option<&StoredObject>,
        new: Option<&StoredObject>,
    ) {
        let before = old.map_or(&[][..], |old| &old.owners);
        let after = new.map_or(&[][..], |new| &new.owners);
        if before == after {
            return;
        }
        let dependent = (resource.clone(), key.clone());
        for uid in before {
            if let Some(dependents) = self.dependents.get_mut(uid) {
                dependents.remove(&dependent);
                if dependents.is_empty() {
                    self.dependents.remove(uid);
                }
            }
        }
        for uid in after {
            self.dependents.entry(uid.clone()).or_default().insert(dependent.clone());
        }
    }
}

#[cfg(test)]
mod tests;
