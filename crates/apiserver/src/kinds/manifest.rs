//! Completes objects of manifests as the API completes new objects, for callers without a cluster.
//!
//! The same rules as for a request: canonical form, defaults by type, and what admission plugins add.
//! Left out is what belongs to the act of creation (uid, time, generation, an empty status), since
//! manifests also hold objects that were read from a cluster. For those nothing changes.

use serde_json::Value;

use super::built_in_kind::BuiltInKind;
use super::{ObjectReader, ResourceStrategy as _, resource_list, types};
use crate::builtin_controllers;
use crate::status::StatusError;
use crate::type_model::{self, TypeId};

/// A built-in kind, for objects of manifests.
#[derive(Debug, Clone, Copy)]
pub struct ManifestKind {
    built_in_kind: &'static BuiltInKind,
    type_id: TypeId,
}

impl ManifestKind {
    /// Returns the built-in kind of an object.
    pub fn find(object: &Value) -> Option<Self> {
        let (api_version, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
        let built_in_kind = resource_list::find_built_in_kind(api_version, kind)?;
        Some(Self { built_in_kind, type_id: types().find_by_name(built_in_kind.type_name)? })
    }

    /// Returns the error of the API's decoder for an object with a wrong type.
    pub fn check(&self, object: &Value) -> Result<(), StatusError> {
        type_model::check(types(), self.type_id, object).map(|_| ())
    }

    /// Completes an object that [`ManifestKind::check`] accepts; running it again changes nothing.
    ///
    /// `objects` are the other objects of the cluster. A status stays as written: the zero values
    /// of a new object would pass for observations.
    pub fn complete(&self, object: &mut Value, objects: &dyn ObjectReader) {
        let status = object.get_mut("status").map(Value::take);
        type_model::encode(types(), self.type_id, object);
        if let Some(fields) = object.as_object_mut() {
            match status {
                Some(status) => {
                    fields.insert("status".to_owned(), status);
                }
                None => {
                    fields.shift_remove("status");
                }
            }
        }
        self.built_in_kind.set_defaults(object);
        (self.built_in_kind.admit_manifest)(object, objects);
    }
}

/// Returns the PriorityClasses that every cluster has.
pub fn system_priority_classes() -> impl Iterator<Item = Value> {
    let objects = builtin_controllers::cluster_default_objects().into_iter();
    objects.filter(|(_, plural, _)| *plural == "priorityclasses").map(|(_, _, object)| object)
}

#[cfg(test)]
mod tests;
