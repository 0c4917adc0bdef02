//! `metadata.managedFields`: the owners of fields, with the time of their last change.

use std::collections::BTreeMap;

use karpenter_cel::go_text;
use serde_json::{Map, Value};

use super::set::FieldSet;

/// Entries of updates beyond this many are put together, oldest first, so that objects do not
/// grow without bound.
const UPDATE_MANAGERS_MAX: usize = 10;
const OLD_UPDATES_MANAGER: &str = "ancient-changes";

/// One owner: an entry of managedFields without its fields and time. An apply has one owner for all
/// versions, so its API version is left out of the id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldOwner {
    pub(super) manager: String,
    pub(super) applied: bool,
    pub(super) api_version: String,
    pub(super) subresource: String,
}

/// The fields of one owner, in one API version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnedFields {
    pub(super) owner: FieldOwner,
    pub(super) set: FieldSet,
    pub(super) api_version: String,
    pub(super) applied: bool,
}

/// All owners by [`FieldOwner::id`], with the time of their last change.
#[derive(Debug, Clone, Default)]
pub(super) struct ManagedFields {
    pub(super) fields: BTreeMap<String, OwnedFields>,
    pub(super) times: BTreeMap<String, String>,
}

impl FieldOwner {
    /// Returns the text that identifies and orders owners.
    pub(super) fn id(&self) -> String {
        let api_version = if self.applied { "" } else { &self.api_version };
        let fields = [
            ("manager", &*self.manager),
            ("operation", operation(self.applied)),
            ("apiVersion", api_version),
            ("subresource", &*self.subresource),
        ];
        let fields = fields.iter().filter(|(_, value)| !value.is_empty());
        let fields: Vec<_> = fields
            .map(|(name, value)| format!("\"{name}\":{}", go_text::json(&Value::from(*value))))
            .collect();
        format!("{{{}}}", fields.join(","))
    }

    /// As the messages of conflicts name it.
    pub(super) fn describe(&self) -> String {
        let mut out = go_text::quote(&self.manager);
        if !self.subresource.is_empty() {
            out = format!("{out} with subresource {}", go_text::quote(&self.subresource));
        }
        if !self.applied {
            out = format!("{out} using {}", self.api_version);
        }
        out
    }
}

fn operation(applied: bool) -> &'static str {
    if applied { "Apply" } else { "Update" }
}

impl ManagedFields {
    /// Reads the entries of an object; `None` stands for an object without any.
    pub(super) fn decode(entries: Option<&Value>) -> Result<Self, String> {
        let mut managed = Self::default();
        let entries = entries.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (i, entry) in entries.iter().enumerate() {
            let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            let applied = match &*text("operation") {
                "Apply" => true,
                "Update" => false,
                _ => return Err("operation must be `Apply` or `Update`".to_owned()),
            };
            let api_version = text("apiVersion");
            if api_version.is_empty() {
                return Err("apiVersion must not be empty".to_owned());
            }
            match &*text("fieldsType") {
                "FieldsV1" => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {i}")),
                other => {
                    let other = go_text::quote(other);
                    return Err(format!("invalid fieldsType {other} in managed fields entry {i}"));
                }
            }
            let owner = FieldOwner {
                manager: text("manager"),
                applied,
                api_version: api_version.clone(),
                subresource: text("subresource"),
            };
            let set = match entry.get("fieldsV1") {
                Some(fields) if !fields.is_null() => FieldSet::decode(fields)
                    .map_err(|error| format!("error decoding set: {error}"))?,
                _ => FieldSet::default(),
            };
            let id = owner.id();
            if let Some(time) = entry["time"].as_str() {
                managed.times.insert(id.clone(), time.to_owned());
            }
            managed.fields.insert(id, OwnedFields { owner, set, api_version, applied });
        }
        Ok(managed)
    }

    /// The entries, in the order in which they are stored; `None` when there are none.
    pub(super) fn encode(&self) -> Option<Value> {
        if self.fields.is_empty() {
            return None;
        }
        let mut entries: Vec<_> = self.fields.iter().collect();
        entries.sort_by_cached_key(|(id, owned)| {
            (
                operation(owned.applied),
                self.seconds(id),
                owned.owner.manager.clone(),
                owned.api_version.clone(),
                owned.owner.subresource.clone(),
            )
        });
        let entries = entries.into_iter().map(|(id, owned)| {
            let mut entry = Map::new();
            let time = self.times.get(id).map_or("", |time| time);
            let mut set = |name: &str, value: &str| {
                if !value.is_empty() {
                    entry.insert(name.to_owned(), value.into());
                }
            };
            set("manager", &owned.owner.manager);
            set("operation", operation(owned.applied));
            set("apiVersion", &owned.api_version);
            set("time", time);
            set("fieldsType", "FieldsV1");
            entry.insert("fieldsV1".to_owned(), owned.set.encode());
            if !owned.owner.subresource.is_empty() {
                entry.insert("subresource".to_owned(), (&*owned.owner.subresource).into());
            }
            Value::Object(entry)
        });
        Some(entries.collect())
    }

    /// Whole seconds since 1970 of the last change; 0 without one.
    fn seconds(&self, id: &str) -> i64 {
        let time = self.times.get(id).and_then(|time| time.parse::<jiff::Timestamp>().ok());
        time.map_or(0, jiff::Timestamp::as_second)
    }

    /// Puts the oldest updates of each version together until few enough are left.
    pub(super) fn cap_updates(&mut self) {
        let updates = self.fields.iter().filter(|(_, owned)| !owned.applied);
        let mut updates: Vec<String> = updates.map(|(id, _)| id.clone()).collect();
        let mut count = updates.len();
        updates.sort_by_cached_key(|id| (self.seconds(id), id.clone()));
        let mut first_of_version: BTreeMap<String, String> = BTreeMap::new();
        for id in updates {
            if count <= UPDATE_MANAGERS_MAX {
                return;
            }
            let Some(owned) = self.fields.get(&id).cloned() else { continue };
            let Some(first) = first_of_version.get(&owned.api_version) else {
                first_of_version.insert(owned.api_version.clone(), id);
                continue;
            };
            let bucket = FieldOwner {
                manager: OLD_UPDATES_MANAGER.to_owned(),
                applied: false,
                api_version: owned.api_version.clone(),
                subresource: String::new(),
            };
            let bucket_id = bucket.id();
            if !self.fields.contains_key(&bucket_id)
                && let Some(first) = self.fields.remove(first)
            {
                self.fields
                    .insert(bucket_id.clone(), OwnedFields { owner: bucket.clone(), ..first });
            }
            let old = self.fields.remove(&bucket_id).map(|old| old.set).unwrap_or_default();
            self.fields.remove(&id);
            let set = owned.set.union(&old);
            self.fields.insert(bucket_id.clone(), OwnedFields { owner: bucket, set, ..owned });
            count -= 1;
            // That of the update that went in last is the most recent one.
            match self.times.get(&id).cloned() {
                Some(time) => self.times.insert(bucket_id, time),
                None => self.times.remove(&bucket_id),
            };
        }
    }
}
