//! What most built-in kinds have in common, as data.

use serde_json::Value;

use super::access::{carry, fields_of, part};
use super::{Around, Rules, defaults, types};
use crate::admission::{FieldError, names};
use crate::shape::{self, Type};
use crate::status::Failure;

/// The rules of one kind. [`BASE`] is that of a kind without status, generation or checks.
#[derive(Debug, Clone, Copy)]
pub(super) struct BuiltIn {
    /// The name of its type in the table.
    pub(super) model: &'static str,
    pub(super) status: Status,
    pub(super) generation: Generation,
    pub(super) name: fn(&str) -> Vec<String>,
    /// After the status has been cleared and the generation set.
    pub(super) create: fn(&mut Value),
    /// After the status has been kept, before the generation is counted up.
    pub(super) update: fn(&mut Value, &Value),
    pub(super) update_status: fn(&mut Value, &Value),
    pub(super) admit_create: fn(&mut Value, Around<'_>) -> Result<(), Failure>,
    pub(super) admit_update: fn(&mut Value, &Value, Around<'_>) -> Result<(), Failure>,
    pub(super) admit_status: fn(&mut Value, &Value, Around<'_>),
    pub(super) validate: fn(&Value) -> Vec<FieldError>,
    pub(super) validate_update: fn(&Value, &Value) -> Vec<FieldError>,
    pub(super) validate_status: fn(&Value, &Value) -> Vec<FieldError>,
    pub(super) grace_period: fn(&Value, Option<i64>) -> Option<i64>,
    pub(super) fields: fn(&Value) -> Vec<(&'static str, String)>,
    pub(super) creates_on_update: bool,
    pub(super) updates_unconditionally: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// There is none, or everybody may write it.
    Open,
    /// Cleared on create, kept on update, written through its subresource.
    Own,
    /// As [`Status::Own`], but a create may bring one (nodes).
    Brought,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Generation {
    None,
    /// 1, and never counted up.
    One,
    /// Counted up when the spec changes.
    Spec,
    /// Counted up when the spec or the annotations change.
    SpecAndAnnotations,
    /// As [`Generation::Spec`], but a new object has none.
    SpecFromNone,
}

pub(super) const BASE: BuiltIn = BuiltIn {
    model: "",
    status: Status::Open,
    generation: Generation::None,
    name: names::subdomain_problems,
    create: |_| {},
    update: |_, _| {},
    update_status: |_, _| {},
    admit_create: |_, _| Ok(()),
    admit_update: |_, _, _| Ok(()),
    admit_status: |_, _, _| {},
    validate: |_| Vec::new(),
    validate_update: |_, _| Vec::new(),
    validate_status: |_, _| Vec::new(),
    grace_period: |_, _| None,
    fields: |_| Vec::new(),
    creates_on_update: false,
    updates_unconditionally: true,
};

impl Rules for BuiltIn {
    fn set_defaults(&self, object: &mut Value) {
        defaults::apply(self.model, object);
    }

    fn admit_create(&self, object: &mut Value, around: Around<'_>) -> Result<(), Failure> {
        (self.admit_create)(object, around)
    }

    fn admit_update(
        &self,
        new: &mut Value,
        old: &Value,
        around: Around<'_>,
    ) -> Result<(), Failure> {
        (self.admit_update)(new, old, around)
    }

    fn admit_status_update(&self, new: &mut Value, old: &Value, around: Around<'_>) {
        (self.admit_status)(new, old, around);
    }

    fn prepare_create(&self, object: &mut Value) {
        if self.status == Status::Own {
            fields_of(object).insert("status".to_owned(), empty_status(self.model));
        }
        if !matches!(self.generation, Generation::None | Generation::SpecFromNone) {
            part(object, "metadata").insert("generation".to_owned(), 1.into());
        }
        (self.create)(object);
        // Stored objects are read through the defaults again, so a cleared status gets its own.
        defaults::apply(self.model, object);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        if self.status != Status::Open {
            carry(new, old, "status");
        }
        (self.update)(new, old);
        let changed = match self.generation {
            Generation::None | Generation::One => false,
            Generation::Spec | Generation::SpecFromNone => new.get("spec") != old.get("spec"),
            Generation::SpecAndAnnotations => {
                new.get("spec") != old.get("spec")
                    || new.pointer("/metadata/annotations") != old.pointer("/metadata/annotations")
            }
        };
        keep_generation(new, old, changed);
    }

    fn prepare_status_update(&self, new: &mut Value, old: &Value) {
        carry(new, old, "spec");
        keep_generation(new, old, false);
        (self.update_status)(new, old);
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        (self.validate)(object)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        (self.validate_update)(new, old)
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        (self.validate_status)(new, old)
    }

    fn name_problems(&self, name: &str) -> Vec<String> {
        (self.name)(name)
    }

    fn grace_period(&self, object: &Value, asked: Option<i64>) -> Option<i64> {
        (self.grace_period)(object, asked)
    }

    fn creates_on_update(&self) -> bool {
        self.creates_on_update
    }

    fn updates_unconditionally(&self) -> bool {
        self.updates_unconditionally
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, String)> {
        (self.fields)(object)
    }
}

/// A status that says nothing, which is not nothing for all kinds.
fn empty_status(model: &str) -> Value {
    let shape = types().named(model).map(|id| types().get(id));
    match shape {
        Some(Type::Object(object)) => {
            let status = object.fields.get("status");
            status.map_or(Value::Null, |field| shape::zero(types(), field.shape))
        }
        _ => Value::Null,
    }
}

/// A client does not write the generation: it is the old one, or one more.
fn keep_generation(new: &mut Value, old: &Value, changed: bool) {
    let before = old.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
    let metadata = part(new, "metadata");
    match before.saturating_add(i64::from(changed)) {
        0 => {
            metadata.shift_remove("generation");
        }
        generation => {
            metadata.insert("generation".to_owned(), generation.into());
        }
    }
}
