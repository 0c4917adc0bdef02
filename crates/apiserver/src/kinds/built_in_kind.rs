//! Implements the resource strategy that most built-in kinds share, as data.

use karpenter_grammar::names;
use serde_json::Value;

use super::json_access::{coerce_to_object, copy_field, ensure_object};
use super::{AdmissionContext, ObjectReader, ResourceStrategy, defaults, types};
use crate::admission::FieldError;
use crate::status::StatusError;
use crate::type_model::{self, Type};

/// The strategy of one built-in kind, as data.
///
/// [`BASE_KIND`] is that of a kind without status, generation or checks.
#[derive(Debug, Clone, Copy)]
pub(super) struct BuiltInKind {
    /// The name of its type in the type table.
    pub(super) type_name: &'static str,
    pub(super) status_policy: StatusPolicy,
    pub(super) generation_policy: GenerationPolicy,
    pub(super) validate_name: fn(&str) -> Vec<String>,
    /// Runs after the status has been cleared and the generation set.
    pub(super) prepare_for_create: fn(&mut Value),
    /// Runs after the status has been kept, before the generation is incremented.
    pub(super) prepare_for_update: fn(&mut Value, &Value),
    pub(super) prepare_for_status_update: fn(&mut Value, &Value),
    pub(super) admit_create: fn(&mut Value, AdmissionContext<'_>) -> Result<(), StatusError>,
    /// What admission adds to an object of a manifest; it rejects nothing and may run again.
    pub(super) admit_manifest: fn(&mut Value, &dyn ObjectReader),
    pub(super) admit_update:
        fn(&mut Value, &Value, AdmissionContext<'_>) -> Result<(), StatusError>,
    pub(super) admit_status_update: fn(&mut Value, &Value, AdmissionContext<'_>),
    pub(super) validate: fn(&Value) -> Vec<FieldError>,
    pub(super) validate_update: fn(&Value, &Value) -> Vec<FieldError>,
    pub(super) validate_status_update: fn(&Value, &Value) -> Vec<FieldError>,
    pub(super) grace_period: fn(&Value, Option<i64>) -> Option<i64>,
    pub(super) selectable_fields: fn(&Value) -> Vec<(&'static str, String)>,
    pub(super) allows_create_on_update: bool,
    pub(super) allows_unconditional_update: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatusPolicy {
    /// There is no status, or all clients may write it.
    Unmanaged,
    /// A create clears it, an update keeps it, its subresource writes it.
    Subresource,
    /// As [`StatusPolicy::Subresource`], but a create may set it (nodes).
    SubresourceOrCreate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GenerationPolicy {
    None,
    /// The generation is always 1.
    Constant,
    /// The generation is incremented when the spec changes.
    OnSpecChange,
    /// The generation is incremented when the spec or the annotations change.
    OnSpecOrAnnotationChange,
    /// As [`GenerationPolicy::OnSpecChange`], but a new object has no generation.
    OnSpecChangeUnsetOnCreate,
}

pub(super) const BASE_KIND: BuiltInKind = BuiltInKind {
    type_name: "",
    status_policy: StatusPolicy::Unmanaged,
    generation_policy: GenerationPolicy::None,
    validate_name: names::dns_subdomain_errors,
    prepare_for_create: |_| {},
    prepare_for_update: |_, _| {},
    prepare_for_status_update: |_, _| {},
    admit_create: |_, _| Ok(()),
    admit_manifest: |_, _| {},
    admit_update: |_, _, _| Ok(()),
    admit_status_update: |_, _, _| {},
    validate: |_| Vec::new(),
    validate_update: |_, _| Vec::new(),
    validate_status_update: |_, _| Vec::new(),
    grace_period: |_, _| None,
    selectable_fields: |_| Vec::new(),
    allows_create_on_update: false,
    allows_unconditional_update: true,
};

impl ResourceStrategy for BuiltInKind {
    fn set_defaults(&self, object: &mut Value) {
        defaults::apply(self.type_name, object);
    }

    fn admit_create(
        &self,
        object: &mut Value,
        context: AdmissionContext<'_>,
    ) -> Result<(), StatusError> {
        (self.admit_create)(object, context)
    }

    fn admit_update(
        &self,
        new: &mut Value,
        old: &Value,
        context: AdmissionContext<'_>,
    ) -> Result<(), StatusError> {
        (self.admit_update)(new, old, context)
    }

    fn admit_status_update(&self, new: &mut Value, old: &Value, context: AdmissionContext<'_>) {
        (self.admit_status_update)(new, old, context);
    }

    fn prepare_for_create(&self, object: &mut Value) {
        if self.status_policy == StatusPolicy::Subresource {
            coerce_to_object(object).insert("status".to_owned(), zero_status(self.type_name));
        }
        if !matches!(
            self.generation_policy,
            GenerationPolicy::None | GenerationPolicy::OnSpecChangeUnsetOnCreate
        ) {
            ensure_object(object, "metadata").insert("generation".to_owned(), 1.into());
        }
        (self.prepare_for_create)(object);
        // Stored objects are read through the defaults again, so a cleared status gets its own.
        defaults::apply(self.type_name, object);
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        if self.status_policy != StatusPolicy::Unmanaged {
            copy_field(new, old, "status");
        }
        (self.prepare_for_update)(new, old);
        let changed = match self.generation_policy {
            GenerationPolicy::None | GenerationPolicy::Constant => false,
            GenerationPolicy::OnSpecChange | GenerationPolicy::OnSpecChangeUnsetOnCreate => {
                new.get("spec") != old.get("spec")
            }
            GenerationPolicy::OnSpecOrAnnotationChange => {
                new.get("spec") != old.get("spec")
                    || new.pointer("/metadata/annotations") != old.pointer("/metadata/annotations")
            }
        };
        set_generation(new, old, changed);
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value) {
        copy_field(new, old, "spec");
        set_generation(new, old, false);
        (self.prepare_for_status_update)(new, old);
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        (self.validate)(object)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        (self.validate_update)(new, old)
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        (self.validate_status_update)(new, old)
    }

    fn name_problems(&self, name: &str) -> Vec<String> {
        (self.validate_name)(name)
    }

    fn grace_period(&self, object: &Value, requested: Option<i64>) -> Option<i64> {
        (self.grace_period)(object, requested)
    }

    fn allows_create_on_update(&self) -> bool {
        self.allows_create_on_update
    }

    fn allows_unconditional_update(&self) -> bool {
        self.allows_unconditional_update
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, String)> {
        (self.selectable_fields)(object)
    }
}

/// Returns the empty status of a type, which is not null for all kinds.
fn zero_status(model: &str) -> Value {
    let shape = types().find_by_name(model).map(|id| types().get(id));
    match shape {
        Some(Type::Object(object)) => {
            let status = object.fields.get("status");
            status.map_or(Value::Null, |field| type_model::zero_value(types(), field.type_id))
        }
        _ => Value::Null,
    }
}

/// Sets the generation: the old one, or one more after a change.
///
/// Clients cannot write it.
fn set_generation(new: &mut Value, old: &Value, changed: bool) {
    let before = old.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
    let metadata = ensure_object(new, "metadata");
    match before.saturating_add(i64::from(changed)) {
        0 => {
            metadata.shift_remove("generation");
        }
        generation => {
            metadata.insert("generation".to_owned(), generation.into());
        }
    }
}
