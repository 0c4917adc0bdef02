//! The structural schema of a custom kind, compiled once.
//!
//! One type serves two readers, as in the API server. Pruning, defaults, list types and CEL
//! follow the *spine*: `properties`, `items` and `additionalProperties` of the schema itself.
//! The validator also enters the branches of `allOf`, `anyOf`, `oneOf` and `not`, which check
//! values and give them no structure.
//!
//! Invariant: depth is that of the CRD, which a JSON or YAML parser has bounded; nothing here
//! adds a level, since `$ref` is not part of structural schemas.

mod compile;

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use karpenter_cel::{ListType, SchemaType};
use regex::Regex;
use serde_json::Value;

use super::format::Format;
use super::validation_rule::ValidationRule;

#[derive(Debug, Default)]
pub(crate) struct Schema {
    /// The types, which CEL reads too.
    pub(crate) structure: Arc<karpenter_cel::Schema>,
    pub(crate) preserve_unknown_fields: bool,
    pub(crate) default: Option<Value>,
    pub(crate) properties: BTreeMap<String, Schema>,
    pub(crate) additional_properties: AdditionalProperties,
    pub(crate) items: Option<Box<Schema>>,
    pub(crate) value_validation: ValueValidation,
    pub(crate) rules: Vec<ValidationRule>,
    /// Whether this node or one below it on the spine has rules.
    ///
    /// Most subtrees have none, and the walk over rules does not enter them.
    pub(crate) contains_rules: bool,
}

/// The `additionalProperties` of a schema.
#[derive(Debug, Default)]
pub(crate) enum AdditionalProperties {
    #[default]
    Absent,
    /// `true`: keys are free and their values have no schema.
    Any,
    Schema(Box<Schema>),
}

/// The validations of a value, beyond its type.
#[derive(Debug, Default)]
pub(crate) struct ValueValidation {
    pub(crate) format: Option<Format>,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) min_length: Option<i64>,
    pub(crate) max_length: Option<i64>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) min_items: Option<i64>,
    pub(crate) max_items: Option<i64>,
    pub(crate) min_properties: Option<i64>,
    pub(crate) max_properties: Option<i64>,
    pub(crate) required: Vec<String>,
    pub(crate) enum_values: Vec<Value>,
    pub(crate) all_of: Vec<Schema>,
    pub(crate) any_of: Vec<Schema>,
    pub(crate) one_of: Vec<Schema>,
    pub(crate) not: Option<Box<Schema>>,
}

impl ValueValidation {
    pub(crate) fn has_nested_schemas(&self) -> bool {
        self.not.is_some()
            || [&self.all_of, &self.any_of, &self.one_of].iter().any(|list| !list.is_empty())
    }
}

#[derive(Debug)]
pub(crate) struct Pattern {
    /// As the CRD writes it, for messages.
    pub(crate) source: String,
    pub(crate) regex: Regex,
}

impl Schema {
    /// The schema of a field by its name: a property, else what `additionalProperties` says.
    pub(crate) fn child(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name).or(match &self.additional_properties {
            AdditionalProperties::Schema(schema) => Some(schema),
            AdditionalProperties::Any | AdditionalProperties::Absent => None,
        })
    }

    /// The word for the type in messages about rules; empty for an int-or-string.
    pub(crate) fn type_name(&self) -> &'static str {
        self.structure.value_type.map_or("", SchemaType::name)
    }
}
