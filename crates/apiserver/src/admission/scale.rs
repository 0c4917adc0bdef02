//! The `scale` subresource: replicas must be a count.

use karpenter_cel::go_text;
use serde_json::Value;

use super::field_error::FieldError;

#[derive(Debug)]
pub(crate) struct ScalePaths {
    spec_replicas: String,
    status_replicas: String,
    label_selector: Option<String>,
}

impl ScalePaths {
    /// Reads the paths from `subresources.scale` of a version.
    pub(crate) fn from_subresource(scale: &Value) -> Option<Self> {
        let text = |field: &str| scale[field].as_str().map(str::to_owned);
        Some(Self {
            spec_replicas: text("specReplicasPath")?,
            status_replicas: text("statusReplicasPath")?,
            label_selector: text("labelSelectorPath"),
        })
    }

    pub(crate) fn validate(&self, object: &Value) -> Vec<FieldError> {
        let mut errors: Vec<FieldError> =
            replicas_error(object, &self.spec_replicas).into_iter().collect();
        errors.extend(self.validate_status(object));
        errors
    }

    pub(crate) fn validate_status(&self, object: &Value) -> Vec<FieldError> {
        let mut errors: Vec<FieldError> =
            replicas_error(object, &self.status_replicas).into_iter().collect();
        if let Some(path) = &self.label_selector {
            match lookup_path(object, path) {
                Ok(None | Some(Value::String(_))) => {}
                Ok(Some(other)) => {
                    let detail = accessor_error(path, other, "string");
                    errors.push(FieldError::invalid(path, "", detail));
                }
                Err(detail) => errors.push(FieldError::invalid(path, "", detail)),
            }
        }
        errors
    }
}

fn replicas_error(object: &Value, path: &str) -> Option<FieldError> {
    let value = match lookup_path(object, path) {
        Ok(value) => value?,
        Err(detail) => return Some(FieldError::invalid(path, 0, detail)),
    };
    match value.as_i64() {
        None => Some(FieldError::invalid(path, 0, accessor_error(path, value, "int64"))),
        Some(replicas @ ..0) => {
            Some(FieldError::invalid(path, replicas, "should be a non-negative integer"))
        }
        Some(replicas) if replicas > i64::from(i32::MAX) => {
            let detail = format!("should be less than or equal to {}", i32::MAX);
            Some(FieldError::invalid(path, replicas, detail))
        }
        Some(_) => None,
    }
}

/// Returns the value at a path such as `.spec.replicas`.
///
/// Fails if a value on the way is no object.
fn lookup_path<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let mut value = object;
    let mut at = String::new();
    for field in path.trim_start_matches('.').split('.') {
        at = format!("{at}.{field}");
        value = match value {
            Value::Object(map) => match map.get(field) {
                Some(value) => value,
                None => return Ok(None),
            },
            Value::Null => return Ok(None),
            other => return Err(accessor_error(&at, other, "map[string]interface{}")),
        };
    }
    Ok(Some(value))
}

fn accessor_error(path: &str, value: &Value, expected: &str) -> String {
    let (path, text) = (path.trim_start_matches('.'), go_text::default_format(value));
    let found = go_text::type_name(value);
    format!(".{path} accessor error: {text} is of the type {found}, expected {expected}")
}
