//! Server-side apply merges configurations into objects and tracks the owner of each field.
//!
//! Start at [`ApiEndpoint::apply`] and [`ApiEndpoint::update`]: pure functions from objects to
//! objects, whose `metadata.managedFields` record the manager that last set each field. Objects
//! have one version, and all fields that the server itself always writes
//! ([`crate::type_model::encode`]). Other modules do defaults, validation, storage and the merging
//! of other patches.
//!
//! The modules: [`path`] and [`set`] have fields and sets of them; `typed_value`, `compare`,
//! `merge` and `schema_change` walk objects along their types; `updater` combines them; `managers`
//! encodes the list in the metadata; `last_applied` keeps both kinds of `kubectl apply` compatible.

mod compare;
mod last_applied;
mod managers;
mod merge;
mod merge_schema;
pub mod path;
mod scale;
mod schema_change;
pub mod set;
#[cfg(test)]
mod tests;
mod typed_value;
mod updater;

use std::sync::LazyLock;

use http::StatusCode;
use serde_json::{Map, Value};

pub use self::scale::ScaleFields;

use self::managers::{FieldOwner, ManagedFields};
use self::set::FieldSet;
use self::typed_value::DuplicateItems;
use self::updater::{Conflict, Updater};
use crate::status::StatusError;
use crate::type_model::{TypeId, Types};

/// The manager that owns all fields from before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// Stands for the change that is being made, until it is added to what its manager owns.
const CURRENT_OPERATION: &str = "current-operation";

/// Metadata fields that no manager owns.
static UNOWNED_METADATA: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::from_field_names(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// A kind or subresource at one API version, with its types and ownable fields.
#[derive(Debug, Clone, Copy)]
pub struct ApiEndpoint<'a> {
    pub types: &'a Types,
    pub root: TypeId,
    /// `v1`, `apps/v1`: the version of the request.
    pub api_version: &'a str,
    pub kind: &'a str,
    /// All versions in which the kind is served. Fields of others are forgotten.
    pub api_versions: &'a [&'a str],
    /// `status`, `scale`; empty for the object itself.
    pub subresource: &'a str,
    pub ownable: OwnableFields<'a>,
    /// An object that does not exist yet: [`crate::type_model::zero_value`] for built-in kinds,
    /// only `apiVersion` and `kind` for custom ones.
    pub empty: &'a Value,
}

/// The fields that a write at an endpoint can own; it leaves the others unchanged.
#[derive(Debug, Clone, Copy)]
pub enum OwnableFields<'a> {
    /// All fields except these and those below: `status` for an object, `spec` for its status.
    AllExcept(&'a [&'a [&'a str]]),
    /// Only the fields below these; `*` is any item.
    Only(&'a [&'a [&'a str]]),
}

/// The result of an apply.
#[derive(Debug, Clone, PartialEq)]
pub struct ApplyResult {
    /// With its managed fields. Defaults are not filled in yet.
    pub object: Value,
    /// Whether anything but the managed fields differs from the object as it was. If not, and the
    /// managed fields are the same too, nothing is stored.
    pub changed: bool,
}

impl ApiEndpoint<'_> {
    fn retain_ownable(&self, mut set: FieldSet) -> FieldSet {
        match self.ownable {
            OwnableFields::AllExcept(paths) => {
                set.subtract_all(&FieldSet::from_field_names(paths));
                set
            }
            OwnableFields::Only(patterns) => set.matching_patterns(patterns),
        }
    }

    fn serves(&self, api_version: &str) -> bool {
        self.api_version == api_version || self.api_versions.contains(&api_version)
    }

    /// An object in messages: `default/web; apps/v1, Kind=Deployment`.
    fn describe(&self, object: &Value) -> String {
        let name = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        let kind = group_version_kind(self.api_version, self.kind);
        format!("{}/{}; {kind}", name("namespace"), name("name"))
    }

    fn owner(&self, manager: &str, applied: bool) -> FieldOwner {
        FieldOwner {
            manager: if manager.is_empty() { "unknown" } else { manager }.to_owned(),
            applied,
            api_version: self.api_version.to_owned(),
            subresource: self.subresource.to_owned(),
        }
    }

    /// Server-side apply: merges `config` into `live` and makes `manager` the owner of its fields.
    /// Fields that the manager applied before, that `config` lacks and that have no other owner are
    /// removed.
    ///
    /// `now` is RFC 3339 with whole seconds.
    pub fn apply(
        &self,
        live: Option<&Value>,
        config: &Value,
        manager: &str,
        force: bool,
        now: &str,
    ) -> Result<ApplyResult, StatusError> {
        let live = live.unwrap_or(self.empty);
        let tracked = ManagedFields::decode(managed_fields(live))
            .map_err(|error| internal(format!("failed to decode managed fields: {error}")))?;
        self.check_kind(config)?;
        let first = self.apply_once(live, config, tracked.clone(), manager, force, now)?;
        let outcome = match first {
            Err(conflicts) if manager == last_applied::KUBECTL_MANAGER => {
                match last_applied::remaining_conflicts(self, live, conflicts) {
                    Err(conflicts) => Err(conflicts),
                    Ok(()) => self.apply_once(live, config, tracked, manager, true, now)?,
                }
            }
            other => other,
        };
        let (object, tracked) = outcome.map_err(|conflicts| conflict(&conflicts))?;
        let changed = object.is_some();
        let mut object = object.unwrap_or_else(|| live.clone());
        if manager == last_applied::KUBECTL_MANAGER {
            last_applied::refresh_annotation(&mut object, config);
        }
        set_managed_fields(&mut object, tracked.encode());
        Ok(ApplyResult { object, changed })
    }

    fn check_kind(&self, config: &Value) -> Result<(), StatusError> {
        let text = |name: &str| config[name].as_str().unwrap_or_default();
        if text("apiVersion") != self.api_version || text("kind") != self.kind {
            let kind = group_version_kind(text("apiVersion"), text("kind"));
            return Err(StatusError::bad_request(format!("invalid object type: {kind}")));
        }
        Ok(())
    }

    /// Returns the error for an apply whose result the decoder rejects.
    pub fn conversion_failure(&self, config: &Value, error: &str) -> StatusError {
        let object = self.describe(config);
        internal(format!("failed to convert new object ({object}) to proper version: {error}"))
    }

    /// The outer error is one of the request, the inner one is for conflicts.
    #[expect(clippy::type_complexity, reason = "an outcome within an outcome, used once")]
    fn apply_once(
        &self,
        live: &Value,
        config: &Value,
        mut tracked: ManagedFields,
        manager: &str,
        force: bool,
        now: &str,
    ) -> Result<Result<(Option<Value>, ManagedFields), Vec<Conflict>>, StatusError> {
        let updater = Updater { endpoint: self };
        if tracked.fields.is_empty() {
            tracked = self
                .track_change(self.empty, live, tracked, BEFORE_FIRST_APPLY, now)
                .map_err(|error| {
                    internal(format!("failed to create manager for existing fields: {error}"))
                })?;
        }
        if !config["metadata"]["managedFields"].is_null() {
            return Err(StatusError::bad_request("metadata.managedFields must be nil"));
        }
        updater.typed_value(config).validate(DuplicateItems::Rejected).map_err(|error| {
            let object = self.describe(config);
            internal(format!("failed to create typed patch object ({object}): {error}"))
        })?;
        updater.typed_value(live).validate(DuplicateItems::Allowed).map_err(|error| {
            let object = self.describe(live);
            internal(format!("failed to create typed live object ({object}): {error}"))
        })?;
        let owner = self.owner(manager, true);
        let id = owner.id();
        let (object, fields) = match updater.apply(live, config, tracked.fields, &owner, force) {
            Ok(done) => done,
            Err(conflicts) => return Ok(Err(conflicts)),
        };
        tracked.fields = fields;
        strip_unowned_metadata(&mut tracked, &id);
        if object.is_some() {
            tracked.times.insert(id, now.to_owned());
        }
        Ok(Ok((object, tracked)))
    }

    /// Create, update and the other patches: `manager` owns what `new` changes in `live`. Writes
    /// `metadata.managedFields` of `new`.
    ///
    /// A client may edit the managed fields of an object, or drop them with `[]` or `[{}]`.
    pub fn update(&self, live: Option<&Value>, new: &mut Value, manager: &str, now: &str) {
        let live = live.unwrap_or(self.empty);
        let tracked = self.managed_fields_before_update(live, new);
        set_managed_fields(new, None);
        let has_uid = live["metadata"]["uid"].as_str().is_some_and(|uid| !uid.is_empty());
        if tracked.fields.is_empty() && has_uid {
            // No manager is tracked so far; the next apply starts it.
            return;
        }
        let Ok(mut tracked) = self.track_change(live, new, tracked, manager, now) else {
            return;
        };
        tracked.cap_updates();
        set_managed_fields(new, tracked.encode());
    }

    /// Returns the owners before an update: of the request, else of the live object.
    fn managed_fields_before_update(&self, live: &Value, new: &Value) -> ManagedFields {
        let of_live = || ManagedFields::decode(managed_fields(live)).unwrap_or_default();
        if !self.subresource.is_empty() {
            return of_live();
        }
        if managed_fields(new).is_some_and(is_reset) {
            return ManagedFields::default();
        }
        match ManagedFields::decode(managed_fields(new)) {
            Ok(tracked) if !tracked.fields.is_empty() => tracked,
            _ => of_live(),
        }
    }

    /// Adds a change to the fields that its manager owns.
    fn track_change(
        &self,
        live: &Value,
        new: &Value,
        mut tracked: ManagedFields,
        manager: &str,
        now: &str,
    ) -> Result<ManagedFields, String> {
        let updater = Updater { endpoint: self };
        for (role, object) in [("new", new), ("live", live)] {
            updater.typed_value(object).validate(DuplicateItems::Allowed).map_err(|error| {
                let object = self.describe(object);
                format!("failed to convert {role} object ({object}) to smd typed: {error}")
            })?;
        }
        let current = self.owner(CURRENT_OPERATION, false);
        let current_id = current.id();
        tracked.fields = updater.update(live, new, tracked.fields, &current);
        strip_unowned_metadata(&mut tracked, &current_id);
        if let Some(mut owned) = tracked.fields.remove(&current_id) {
            let owner = self.owner(manager, false);
            let id = owner.id();
            if let Some(previous) = tracked.fields.remove(&id) {
                owned.set.extend(previous.set);
            }
            owned.owner = owner;
            tracked.fields.insert(id.clone(), owned);
            tracked.times.insert(id, now.to_owned());
        }
        Ok(tracked)
    }
}

/// Restores the times of the managed fields of `old` if `new` differs in nothing else. So an update
/// without a change is not stored.
pub fn restore_unchanged_times(old: &Value, new: &mut Value) {
    let (before, after) = (managed_fields(old), managed_fields(new));
    if before != after && equal_but_times(before, after) && equal_but_managers(old, new) {
        set_managed_fields(new, managed_fields(old).cloned());
    }
}

/// Whether managed fields differ in times at most.
fn equal_but_times(old: Option<&Value>, new: Option<&Value>) -> bool {
    let (Some(Value::Array(old)), Some(Value::Array(new))) = (old, new) else { return false };
    old.len() == new.len()
        && old.iter().zip(new).all(|(old, new)| match (old, new) {
            (Value::Object(old), Value::Object(new)) => equal_but(old, new, "time"),
            (old, new) => path::equal(old, new),
        })
}

/// Whether objects differ in managed fields at most.
fn equal_but_managers(old: &Value, new: &Value) -> bool {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return false };
    match (old.get("metadata"), new.get("metadata")) {
        (Some(Value::Object(metadata)), Some(Value::Object(other))) => {
            equal_but(metadata, other, "managedFields") && equal_but(old, new, "metadata")
        }
        _ => false,
    }
}

fn equal_but(old: &Map<String, Value>, new: &Map<String, Value>, field: &str) -> bool {
    let count = |map: &Map<String, Value>| map.len() - usize::from(map.contains_key(field));
    let same = |(name, value): (&String, &Value)| {
        name == field || new.get(name).is_some_and(|other| path::equal(value, other))
    };
    count(old) == count(new) && old.iter().all(same)
}

/// Returns the decoding error of invalid managed fields.
pub fn managed_fields_problem(entries: &Value) -> Option<String> {
    ManagedFields::decode(Some(entries)).err()
}

fn managed_fields(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

fn set_managed_fields(object: &mut Value, entries: Option<Value>) {
    let Some(object) = object.as_object_mut() else { return };
    match entries {
        Some(entries) => {
            let metadata = object.entry("metadata").or_insert_with(|| Map::new().into());
            if !metadata.is_object() {
                *metadata = Map::new().into();
            }
            metadata["managedFields"] = entries;
        }
        None => {
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.shift_remove("managedFields");
            }
        }
    }
}

/// An empty list, or a list of one empty entry.
fn is_reset(entries: &Value) -> bool {
    match entries.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([entry]) => entry.as_object().is_some_and(|entry| {
            entry.values().all(|value| value.is_null() || value.as_str() == Some(""))
        }),
        _ => false,
    }
}

/// Removes the unowned metadata fields from the fields of an owner.
fn strip_unowned_metadata(tracked: &mut ManagedFields, id: &str) {
    if let Some(owned) = tracked.fields.get_mut(id) {
        owned.set.subtract(&UNOWNED_METADATA);
        if owned.set.is_empty() {
            tracked.fields.remove(id);
        }
    }
}

/// `apps/v1, Kind=Deployment`, and `/v1, Kind=Pod` in the core group.
fn group_version_kind(api_version: &str, kind: &str) -> String {
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={kind}")
}

fn internal(message: String) -> StatusError {
    StatusError::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
}

fn conflict(conflicts: &[Conflict]) -> StatusError {
    let message = if let [one] = conflicts {
        let (owner, path) = (one.owner.describe(), path::display(&one.path));
        format!("Apply failed with 1 conflict: conflict with {owner}: {path}")
    } else {
        // They come sorted by owner.
        let mut lines = Vec::new();
        let mut last = None;
        for conflict in conflicts {
            let owner = &conflict.owner;
            if last != Some(owner) {
                lines.push(format!("conflicts with {}:", owner.describe()));
                last = Some(owner);
            }
            lines.push(format!("- {}", path::display(&conflict.path)));
        }
        format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
    };
    let failure = StatusError::new(StatusCode::CONFLICT, "Conflict", message);
    conflicts.iter().fold(failure, |failure, conflict| {
        let message = format!("conflict with {}", conflict.owner.describe());
        failure.with_cause("FieldManagerConflict", &message, &path::display(&conflict.path))
    })
}
