//! Applies patches that change an object without owning fields: JSON patch, merge patch and
//! strategic merge patch. Server-side apply is in [`crate::server_side_apply`].
//!
//! All are pure, and differ from their RFCs where the API server does. The caller still has to
//! decode the result, which rejects values that do not have the type of the kind.

mod json;
mod strategic;
#[cfg(test)]
mod tests;

use http::StatusCode;
use serde_json::{Map, Value};

pub use self::json::{apply_json_patch, json_patch_unknown_fields};
pub use self::strategic::apply_strategic_patch;

use crate::status::StatusError;

/// Applies an RFC 7386 merge patch.
///
/// Unlike there, nulls inside of lists and of new objects go too, as long as they do not replace
/// an object.
pub fn apply_merge_patch(object: &Value, patch: &Value) -> Result<Value, StatusError> {
    let patch = match patch {
        Value::Object(patch) => patch,
        Value::Null => return Err(StatusError::bad_request("Invalid JSON Patch")),
        other => {
            let message = format!("error decoding patch: {}", not_a_map(other));
            return Err(StatusError::bad_request(message));
        }
    };
    let mut out = object.clone();
    if !out.is_object() {
        out = Value::Object(Map::new());
    }
    if let Value::Object(out) = &mut out {
        merge_fields(out, patch);
    }
    Ok(out)
}

fn merge_fields(object: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        if value.is_null() {
            object.shift_remove(key);
            continue;
        }
        match (object.get_mut(key), value) {
            (Some(Value::Object(old)), Value::Object(value)) => merge_fields(old, value),
            (Some(old @ Value::Object(_)), value) => old.clone_from(value),
            (_, value) => {
                object.insert(key.clone(), without_nulls(value));
            }
        }
    }
}

/// Lists keep their null items.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), without_nulls(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// The decoder's words for a body that is not an object.
fn not_a_map(value: &Value) -> String {
    let kind = json_kind(value);
    format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
}

fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A patch that is well-formed and does not apply. The API server keeps the reason to itself.
fn does_not_apply() -> StatusError {
    let message = "the server rejected our request due to an error in our request";
    let mut failure = StatusError::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
    failure.details = Some(Box::default());
    failure
}
