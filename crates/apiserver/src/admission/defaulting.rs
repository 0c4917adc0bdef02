//! Sets the defaults of a schema in an object.
//!
//! The depth is that of the object, which the JSON parser bounds.

use serde_json::Value;

use super::schema::{AdditionalProperties, Schema};
use super::{CrdError, pruning, schema_validation};

/// Applies the defaults of `schema`, after dropping each null that is not allowed and has no
/// default: for the API server such a null says "not set".
pub(crate) fn apply(object: &mut Value, schema: &Schema) {
    drop_nulls(object, Some(schema));
    fill_defaults(object, schema);
}

/// Only fields are dropped: a null in a list keeps its place and meets the validator.
fn drop_nulls(value: &mut Value, schema: Option<&Schema>) {
    match value {
        Value::Object(map) => map.retain(|name, value| {
            let schema = schema.and_then(|schema| schema.child(name));
            let drop = value.is_null()
                && schema
                    .is_some_and(|schema| !schema.structure.nullable && schema.default.is_none());
            if !drop {
                drop_nulls(value, schema);
            }
            !drop
        }),
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items.as_deref());
            for item in items {
                drop_nulls(item, schema);
            }
        }
        _ => {}
    }
}

fn fill_defaults(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(map) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else { continue };
                let missing = map
                    .get(name)
                    .is_none_or(|value| value.is_null() && !property.structure.nullable);
                if missing {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in map.iter_mut() {
                match (schema.properties.get(name), &schema.additional_properties) {
                    (Some(property), _) => fill_defaults(value, property),
                    (None, AdditionalProperties::Schema(values)) => {
                        replace_null_and_fill_defaults(value, values);
                    }
                    (None, AdditionalProperties::Any | AdditionalProperties::Absent) => {}
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return };
            for item in items {
                replace_null_and_fill_defaults(item, schema);
            }
        }
        _ => {}
    }
}

fn replace_null_and_fill_defaults(value: &mut Value, schema: &Schema) {
    if value.is_null()
        && !schema.structure.nullable
        && let Some(default) = &schema.default
    {
        *value = default.clone();
    }
    fill_defaults(value, schema);
}

/// Checks that all defaults are valid against the schema.
pub(crate) fn validate_defaults(schema: &Schema, path: &str) -> Result<(), CrdError> {
    if let Some(default) = &schema.default {
        let at = format!("{path}.default");
        let unknown = pruning::unknown_fields(&mut default.clone(), schema);
        if let Some(field) = unknown.first() {
            return Err(CrdError::schema(at, format!("unknown field \"{field}\"")));
        }
        // Nested defaults complete a default, as they will when it is applied.
        let mut complete = default.clone();
        fill_defaults(&mut complete, schema);
        if let Some(error) = schema_validation::validate(&complete, schema, None, None).first() {
            return Err(CrdError::schema(at, error.to_string()));
        }
    }
    if let Some(items) = &schema.items {
        validate_defaults(items, &format!("{path}.items"))?;
    }
    if let AdditionalProperties::Schema(values) = &schema.additional_properties {
        validate_defaults(values, &format!("{path}.additionalProperties"))?;
    }
    for (name, property) in &schema.properties {
        validate_defaults(property, &format!("{path}.properties[{name}]"))?;
    }
    Ok(())
}
