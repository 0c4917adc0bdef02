//! The updater calculates the owners after a change and the result of an apply: the core, on typed
//! values and field sets, without metadata and time.

use std::collections::BTreeMap;

use serde_json::Value;

use super::ApiEndpoint;
use super::compare::Comparison;
use super::managers::{FieldOwner, OwnedFields};
use super::merge_schema::{MergeSchema, TypeRef};
use super::path::{Path, equal};
use super::set::FieldSet;
use super::typed_value::TypedValue;

type FieldsByOwner = BTreeMap<String, OwnedFields>;

/// Fields that an apply would take from other owners.
#[derive(Debug, Clone)]
pub(super) struct Conflict {
    pub(super) owner: FieldOwner,
    pub(super) path: Path,
}

/// The core for one endpoint.
#[derive(Debug, Clone, Copy)]
pub(super) struct Updater<'a> {
    pub(super) endpoint: &'a ApiEndpoint<'a>,
}

impl<'a> Updater<'a> {
    fn schema(self) -> MergeSchema<'a> {
        MergeSchema(self.endpoint.types)
    }

    fn root(self) -> TypeRef {
        TypeRef::Typed(self.endpoint.root)
    }

    pub(super) fn typed_value(self, value: &'a Value) -> TypedValue<'a> {
        TypedValue { schema: self.schema(), type_ref: self.root(), value }
    }

    fn set_of(self, value: &Value) -> FieldSet {
        TypedValue { schema: self.schema(), type_ref: self.root(), value }.to_field_set()
    }

    pub(super) fn compare(self, old: &Value, new: &Value) -> Comparison {
        Comparison::new(self.schema(), self.root(), old, new)
    }

    /// `owner` changed `live` into `new`: others lose what it changed.
    pub(super) fn update(
        self,
        live: &Value,
        new: &Value,
        fields: FieldsByOwner,
        owner: &FieldOwner,
    ) -> FieldsByOwner {
        let id = owner.id();
        let fields = self.reconcile_with_schema(fields);
        let compare = self.compare(live, new);
        // A forced change has no conflicts.
        let (mut fields, compare) =
            self.transfer_ownership(compare, fields, &id, true).unwrap_or_default();
        let mut set = fields.remove(&id).map(|owned| owned.set).unwrap_or_default();
        set.subtract(&compare.removed);
        set.extend(compare.modified);
        set.extend(compare.added);
        let set = self.endpoint.retain_ownable(set);
        fields.insert(id, self.owned_fields(owner, set, false));
        fields.retain(|_, owned| !owned.set.is_empty());
        fields
    }

    /// `owner` applies `config` to `live`. The object is `None` if nothing changes.
    pub(super) fn apply(
        self,
        live: &Value,
        config: &Value,
        fields: FieldsByOwner,
        owner: &FieldOwner,
        force: bool,
    ) -> Result<(Option<Value>, FieldsByOwner), Vec<Conflict>> {
        let id = owner.id();
        let mut fields = self.reconcile_with_schema(fields);
        let merged = self.schema().merge(self.root(), live, config);
        let set = self.endpoint.retain_ownable(self.set_of(config));
        let last = fields.insert(id.clone(), self.owned_fields(owner, set, true));
        let new = self.prune(merged, &fields, last.as_ref());
        let compare = self.compare(live, &new);
        let (fields, _) = self.transfer_ownership(compare, fields, &id, force)?;
        let changed = !equal(live, &new);
        Ok((changed.then_some(new), fields))
    }

    fn owned_fields(self, owner: &FieldOwner, set: FieldSet, applied: bool) -> OwnedFields {
        let api_version = self.endpoint.api_version.to_owned();
        OwnedFields { owner: owner.clone(), set, api_version, applied }
    }

    /// Adapts the owned fields to the served versions and the current schema. Fields of versions
    /// that are not served are dropped; owners of parts of atomic values own them as a whole.
    fn reconcile_with_schema(self, fields: FieldsByOwner) -> FieldsByOwner {
        let is_served = |owned: &OwnedFields| self.endpoint.serves(&owned.api_version);
        let served = fields.into_iter().filter(|(_, owned)| is_served(owned));
        served
            .map(|(id, owned)| {
                let set = self.schema().reconcile_with_schema(self.root(), owned.set);
                (id, OwnedFields { set, ..owned })
            })
            .collect()
    }

    /// Takes the changed fields from all owners but `id`. Returns the owners, and the part of the
    /// change that this endpoint can own.
    fn transfer_ownership(
        self,
        compare: Comparison,
        mut fields: FieldsByOwner,
        id: &str,
        force: bool,
    ) -> Result<(FieldsByOwner, Comparison), Vec<Conflict>> {
        // What this endpoint does not own is named in its own version only.
        let is_own_version = |owned: &OwnedFields| owned.api_version == self.endpoint.api_version;
        let all = if fields.values().all(is_own_version) { None } else { Some(compare.clone()) };
        let kept = compare.filtered(|set| self.endpoint.retain_ownable(set));
        let mut conflicts = Vec::new();
        for (other, owned) in &mut fields {
            if other == id {
                continue;
            }
            let compare = if is_own_version(owned) { &kept } else { all.as_ref().unwrap_or(&kept) };
            if !force {
                let mut taken = owned.set.intersection(&compare.modified);
                taken.extend(owned.set.intersection(&compare.added));
                conflicts.extend(
                    taken
                        .paths()
                        .into_iter()
                        .map(|path| Conflict { owner: owned.owner.clone(), path }),
                );
            }
            owned.set.subtract(&compare.modified);
            owned.set.subtract(&compare.added);
            owned.set.subtract(&compare.removed);
        }
        if !conflicts.is_empty() {
            return Err(conflicts);
        }
        fields.retain(|_, owned| !owned.set.is_empty());
        Ok((fields, kept))
    }

    /// Removes the fields that the owner applied last time, does not apply now, and that have no
    /// other owner.
    fn prune(self, merged: Value, fields: &FieldsByOwner, last: Option<&OwnedFields>) -> Value {
        let Some(last) = last.filter(|last| !last.set.is_empty()) else { return merged };
        let named = |set: &FieldSet| set.with_named_parents(self.schema(), self.root());
        let remove =
            |value: &Value, set: &FieldSet| self.schema().remove_fields(self.root(), value, set);
        let merged_set = named(&self.set_of(&merged));
        let mut pruned = remove(&merged, &named(&last.set));
        // One version at a time, that of the last apply first.
        let mut by_version: BTreeMap<(bool, &str), FieldSet> = BTreeMap::new();
        for owned in fields.values() {
            let version = (owned.api_version != last.api_version, &*owned.api_version);
            let set = by_version.entry(version).or_default();
            *set = set.union(&owned.set);
        }
        for owned in by_version.values() {
            let kept = named(&self.set_of(&pruned)).union(&named(owned));
            pruned = remove(&merged, &merged_set.difference(&kept));
        }
        let pruned_set = named(&self.set_of(&pruned));
        let gone = merged_set.difference(&pruned_set).intersection(&named(&last.set));
        remove(&merged, &gone)
    }
}
