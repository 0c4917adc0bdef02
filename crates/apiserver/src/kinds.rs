//! The kinds that the API serves: built-in ones, and those of CustomResourceDefinitions.
//!
//! ```text
//! shapes.txt ─▶ table ─▶ Types      what objects are made of          (generated)
//!               resources           plurals, short names, subresources
//!               defaults            what a type gets that was left out (by type, not by kind)
//!               built_in            one value per kind: status, generation, checks
//!               pod, node, …        what only one kind has
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

use serde_json::Value;

use crate::admission::{CustomKind, FieldError, names};
use crate::environment::Environment;
use crate::status::StatusError;
use crate::type_model::{TypeId, Types};

pub use self::event::{convert_event, selectable_event_fields};
pub use self::resource_list::built_in_resources;
pub use self::warnings::warnings;

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
    /// Where the shape of its objects is found in the registry's types.
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

/// Who says what an object of the kind may be.
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

/// What admission sees besides the object.
#[derive(Debug, Clone, Copy)]
pub struct AdmissionContext<'a> {
    pub objects: &'a dyn ObjectReader,
    pub environment: &'a dyn Environment,
    /// Whether pods need a service account, as they do where a controller makes one in each
    /// namespace. Without, they go as they come (`--disable-admission-plugins=ServiceAccount`).
    pub service_accounts: bool,
}

/// The other objects that are stored.
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

/// What the API does with an object of a built-in kind, beyond its shape.
///
/// ```text
/// create   decode ▸ set_defaults ▸ admit_create ▸ name, uid, time ▸ prepare_create ▸
///          validate_create ▸ type_model::encode ▸ stored
/// update   decode ▸ set_defaults ▸ admit_update ▸ prepare_update ▸ validate_update ▸ encode
/// status   decode ▸ set_defaults ▸ admit_status_update ▸ prepare_status_update ▸
///          validate_status_update ▸ encode
/// ```
///
/// All of it is pure: `old` is what is stored, and what the world looks like comes in [`AdmissionContext`].
pub trait ResourceStrategy: fmt::Debug + Sync {
    /// Fills in what the user left out.
    fn set_defaults(&self, _object: &mut Value) {}

    /// What admission plugins add to a new object, or why they refuse it. It may have no name
    /// yet, but it has its namespace.
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

    /// Clears what a create may not set (the status), and sets `metadata.generation` where the
    /// kind has one. The metadata is complete: name, namespace, uid, creation time.
    fn prepare_for_create(&self, _object: &mut Value) {}

    /// Keeps what an update may not change (the status), and counts the generation up where the
    /// spec has changed.
    fn prepare_for_update(&self, _new: &mut Value, _old: &Value) {}

    /// Keeps everything but the status (and what else its writers may touch).
    fn prepare_for_status_update(&self, _new: &mut Value, _old: &Value) {}

    /// What is wrong with an object that is to be created. Names and other metadata are checked
    /// by the API itself, with [`ResourceStrategy::name_problems`] for the name.
    fn validate_create(&self, _object: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn validate_update(&self, _new: &Value, _old: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn validate_status_update(&self, _new: &Value, _old: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    /// What is wrong with a name; the default rule is that of a DNS subdomain.
    fn name_problems(&self, name: &str) -> Vec<String> {
        names::dns_subdomain_problems(name)
    }

    /// How long an object lives on after a graceful delete, in seconds; `None` when it goes at
    /// once. `asked` is what the client asked for.
    fn grace_period(&self, _object: &Value, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// Whether an update of an object that does not exist creates it.
    fn allows_create_on_update(&self) -> bool {
        false
    }

    /// Whether an update without a resource version overwrites whatever is stored.
    fn allows_unconditional_update(&self) -> bool {
        true
    }

    /// The fields, besides `metadata.name` and `metadata.namespace`, that a field selector may
    /// name, with this object's values.
    fn selectable_fields(&self, _object: &Value) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}
