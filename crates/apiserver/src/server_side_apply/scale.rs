//! The managed fields of an object as its `scale` sees them, and back.

use serde_json::Value;

use super::managers::{ManagedFields, OwnedFields};
use super::path::{Path, PathElement};
use super::set::FieldSet;

const SCALE_VERSION: &str = "autoscaling/v1";
const SCALE_REPLICAS: &[&[&str]] = &[&["spec", "replicas"]];

/// Where the replicas of a kind are, by version.
#[derive(Debug, Clone, Copy)]
pub struct ScaleFields<'a> {
    pub api_version: &'a str,
    /// `("apps/v1", &["spec", "replicas"])` for each version that is served.
    pub replicas: &'a [(&'a str, &'a [&'a str])],
}

impl ScaleFields<'_> {
    fn path(&self, api_version: &str) -> Option<Path> {
        let (_, path) = self.replicas.iter().find(|(version, _)| *version == api_version)?;
        Some(path.iter().map(|name| PathElement::field(name)).collect())
    }

    /// The entries for the `Scale`: those that own the replicas.
    pub fn to_scale(&self, entries: Option<&Value>) -> Result<Option<Value>, String> {
        let mut managed = ManagedFields::decode(entries)?;
        managed.fields.retain(|_, owned| {
            self.path(&owned.api_version).is_some_and(|path| owned.set.contains(&path))
        });
        for owned in managed.fields.values_mut() {
            SCALE_VERSION.clone_into(&mut owned.api_version);
            owned.set = FieldSet::from_field_names(SCALE_REPLICAS);
        }
        Ok(managed.encode())
    }

    /// The entries for the object after its `Scale` got `scaled`.
    pub fn to_object(
        &self,
        entries: Option<&Value>,
        scaled: Option<&Value>,
    ) -> Result<Option<Value>, String> {
        let object = ManagedFields::decode(entries)?;
        let mut scale = ManagedFields::decode(scaled)?;
        let mut out = ManagedFields { times: object.times, ..ManagedFields::default() };
        for (id, owned) in object.fields {
            let Some(path) = self.path(&owned.api_version) else { continue };
            // Updates are named with their version, so they never meet those of the scale: their
            // fields are taken away here and given back below.
            let kept = if !owned.set.contains(&path) || scale.fields.remove(&id).is_some() {
                owned
            } else {
                let mut replicas = FieldSet::default();
                replicas.insert(&path);
                OwnedFields { set: owned.set.difference(&replicas), ..owned }
            };
            if !kept.set.is_empty() {
                out.fields.insert(id, kept);
            }
        }
        let Some(path) = self.path(self.api_version) else { return Ok(out.encode()) };
        let replicas = FieldSet::from_field_names(SCALE_REPLICAS);
        for (id, owned) in scale.fields {
            if owned.set.intersection(&replicas).is_empty() {
                continue;
            }
            let mut set = FieldSet::default();
            set.insert(&path);
            // The time is the one of the object's own entry, if it has one: as in Kubernetes, an
            // update of the scale leaves an entry without a time.
            let api_version = self.api_version.to_owned();
            out.fields.insert(id, OwnedFields { set, api_version, ..owned });
        }
        Ok(out.encode())
    }
}
