//! The kinds that the API serves: built-in ones, and those of CustomResourceDefinitions.
//!
//! ```text
//! shapes.txt ─▶ type_table ─▶ Types  the types of objects              (generated)
//!               resource_list        plurals, short names, subresources
//!               defaults             the defaults of a type            (by type, not by kind)
//!               built_in_kind        one value per kind: status, generation, validation
//!               pod, node, …         the strategy of a single kind
//! ```

mod apps;
mod batch;
mod built_in_kind;
mod core;
mod crd;
mod defaults;
mod dynamic_resources;
mod event;
mod field_errors;
mod json_access;
mod manifest;
mod node;
mod pod;
mod pod_spec;
mod policy;
mod rbac;
mod resource_list;
mod review;
mod scheduling;
mod service;
mod storage;
#[cfg(test)]
mod tests;
mod type_table;
mod validation;
mod warnings;

use std::fmt;
use std::sync::{Arc, OnceLock};

use karpenter_grammar::names;
use serde_json::Value;

pub use self::event::{convert_event, selectable_event_fields};
pub use self::manifest::{ManifestKind, system_priority_classes};
pub use self::resource_list::built_in_resources;
pub use self::warnings::warnings;
use crate::admission::{CustomKind, FieldError};
use crate::environment::Environment;
use crate::status::StatusError;
use crate::type_model::{TypeId, Types};

/// One resource of one version of one group.
#[derive(Debug, Clone)]
pub struct Resource {
    /// Empty for the core group.
    pub group: Box<str>,
    pub version: Box<str>,
    pub plural: Box<str>,
    pub singular: Box<str>,
    pub kind: Box<str>,
    pub list_kind: Box<str>,
    pub short_names: Vec<Box<str>>,
    pub categories: Vec<Box<str>>,
    pub namespaced: bool,
    pub subresources: Vec<Subresource>,
    /// The type of its objects in the registry's types.
    pub type_id: TypeId,
    pub definition: KindDefinition,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subresource {
    Status,
    Scale,
    Binding,
    Eviction,
    /// Namespaces: the step that removes what keeps them.
    Finalize,
    /// Pods: new resources for running containers.
    Resize,
    /// Service accounts: a token for a bearer.
    Token,
    EphemeralContainers,
    Log,
}

/// How the objects of a resource are handled: built in or custom.
#[derive(Debug, Clone)]
pub enum KindDefinition {
    BuiltIn(&'static dyn ResourceStrategy),
    Custom(Arc<CustomKind>),
}

/// The types of the built-in kinds. Their numbers are those of [`built_in_resources`].
pub fn types() -> &'static Types {
    static TYPES: OnceLock<Types> = OnceLock::new();
    TYPES.get_or_init(type_table::read_types)
}

/// What admission may read besides the object.
#[derive(Debug, Clone, Copy)]
pub struct AdmissionContext<'a> {
    pub objects: &'a dyn ObjectReader,
    pub environment: &'a dyn Environment,
    /// Whether pods need a service account.
    ///
    /// They do where a controller creates one in each namespace, and do not with
    /// `--disable-admission-plugins=ServiceAccount`.
    pub service_accounts: bool,
}

/// Reads the other stored objects.
pub trait ObjectReader: fmt::Debug {
    /// `namespace` is empty for kinds without one.
    fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value>;

    /// The labels of an object, without the rest of it.
    fn labels(
        &self,
        group: &str,
        plural: &str,
        namespace: &str,
        name: &str,
    ) -> Option<Vec<(String, String)>>;

    /// The objects of one namespace, or of all when it is empty.
    fn list(&self, group: &str, plural: &str, namespace: &str) -> Vec<Value>;
}

/// How the API handles the objects of a built-in kind, beyond their type.
///
/// ```text
/// create   decode ▸ set_defaults ▸ admit_create ▸ name, uid, time ▸ prepare_for_create ▸
///          validate_create ▸ type_model::encode ▸ stored
/// update   decode ▸ set_defaults ▸ admit_update ▸ prepare_for_update ▸ validate_update ▸ encode
/// status   decode ▸ set_defaults ▸ admit_status_update ▸ prepare_for_status_update ▸
///          validate_status_update ▸ encode
/// ```
///
/// All functions are pure: `old` is the stored object, and the [`AdmissionContext`] has the rest.
pub trait ResourceStrategy: fmt::Debug + Sync {
    /// Fills in what the user left out.
    fn set_defaults(&self, _object: &mut Value) {}

    /// Applies admission plugins to a new object, which may reject it.
    ///
    /// It may have no name yet, but it has its namespace.
    fn admit_create(
        &self,
        _object: &mut Value,
        _context: AdmissionContext<'_>,
    ) -> Result<(), StatusError> {
        Ok(())
    }

    fn admit_update(
        &self,
        _new: &mut Value,
        _old: &Value,
        _context: AdmissionContext<'_>,
    ) -> Result<(), StatusError> {
        Ok(())
    }

    fn admit_status_update(&self, _new: &mut Value, _old: &Value, _context: AdmissionContext<'_>) {}

    /// Clears what a create may not set (the status).
    ///
    /// It also sets `metadata.generation` where the kind has one. The metadata is complete: name,
    /// namespace, uid, creation time.
    fn prepare_for_create(&self, _object: &mut Value) {}

    /// Keeps what an update may not change (the status).
    ///
    /// It also increments the generation where the spec has changed.
    fn prepare_for_update(&self, _new: &mut Value, _old: &Value) {}

    /// Keeps everything but the status (and what else its writers may change).
    fn prepare_for_status_update(&self, _new: &mut Value, _old: &Value) {}

    /// Validates an object that is to be created.
    ///
    /// The API itself validates names and other metadata, with [`ResourceStrategy::name_problems`]
    /// for the name.
    fn validate_create(&self, _object: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn validate_update(&self, _new: &Value, _old: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn validate_status_update(&self, _new: &Value, _old: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    /// Returns the problems of a name; the default rule is that of a DNS subdomain.
    fn name_problems(&self, name: &str) -> Vec<String> {
        names::dns_subdomain_errors(name)
    }

    /// Returns the grace period of a delete in seconds; `None` deletes at once.
    ///
    /// `_requested` is the grace period of the delete options.
    fn grace_period(&self, _object: &Value, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// Returns whether an update of an object that does not exist creates it.
    fn allows_create_on_update(&self) -> bool {
        false
    }

    /// Returns whether an update without a resource version overwrites the stored object.
    fn allows_unconditional_update(&self) -> bool {
        true
    }

    /// The fields, besides `metadata.name` and `metadata.namespace`, that a field selector may
    /// name, with this object's values.
    fn selectable_fields(&self, _object: &Value) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}
