//! RFC 6902, as the API server's library reads it.
//!
//! It is laxer than the RFC in a few places that clients can see: indices count from the end when
//! negative, what stands before the first slash of a path is ignored, a `replace` may add a field,
//! and a missing field equals null in a `test`. No crate does all of that.

use serde_json::{Map, Value};

use super::{does_not_apply, json_kind};
use crate::status::StatusError;

const OPERATIONS_MAX: usize = 10_000;
/// How much all `copy` operations of a patch may copy, as JSON: else a short patch could fill the
/// memory by doubling.
const COPY_BYTES_MAX: usize = 3 * 1024 * 1024;
/// How deep a patch may nest an object: as deep as a parser lets it come. Copies into themselves
/// would else end every recursion over it.
const DEPTH_MAX: usize = 128;

/// Applies a JSON patch, or rejects it as a whole if one operation fails.
pub fn apply_json_patch(object: &Value, patch: &Value) -> Result<Value, StatusError> {
    let operations = match patch {
        Value::Array(operations) => &operations[..],
        Value::Null => &[],
        other => return Err(malformed(json_kind(other), "[]handlers.jsonPatchOp")),
    };
    for operation in operations {
        check_operation(operation)?;
    }
    if operations.len() > OPERATIONS_MAX {
        return Err(StatusError::too_large(format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is \
             {OPERATIONS_MAX}, got {}",
            operations.len()
        )));
    }
    let mut document = Document { root: object.clone(), copied_bytes: 0, depth_max: depth(object) };
    for operation in operations {
        // An operation that is null has no `op`.
        operation.as_object().and_then(|op| document.apply(op)).ok_or_else(does_not_apply)?;
    }
    Ok(document.root)
}

/// Returns one message for each unknown field of an operation. The caller makes it a warning or an
/// error, depending on the field validation of the request.
pub fn json_patch_unknown_fields(patch: &Value) -> Vec<String> {
    let operations = patch.as_array().map_or(&[][..], Vec::as_slice);
    let unknown = operations.iter().enumerate().flat_map(|(i, operation)| {
        let fields = operation.as_object().into_iter().flat_map(Map::keys);
        let unknown = fields.filter(|name| !["op", "path", "from", "value"].contains(&&***name));
        unknown.map(move |name| format!("json patch unknown field \"[{i}].{name}\""))
    });
    unknown.collect()
}

fn check_operation(operation: &Value) -> Result<(), StatusError> {
    let fields = match operation {
        Value::Object(fields) => fields,
        Value::Null => return Ok(()),
        other => return Err(malformed(json_kind(other), "handlers.jsonPatchOp")),
    };
    for name in ["op", "path", "from"] {
        match fields.get(name) {
            None | Some(Value::Null | Value::String(_)) => {}
            Some(other) => {
                let message = format!(
                    "error decoding patch: json: cannot unmarshal {} into Go struct field \
                     jsonPatchOp.{name} of type string",
                    json_kind(other)
                );
                return Err(StatusError::bad_request(message));
            }
        }
    }
    Ok(())
}

fn malformed(kind: &str, go_type: &str) -> StatusError {
    let message = format!(
        "error decoding patch: json: cannot unmarshal {kind} into Go value of type {go_type}"
    );
    StatusError::bad_request(message)
}

struct Document {
    root: Value,
    copied_bytes: usize,
    /// The document is no deeper than this.
    depth_max: usize,
}

/// Every operation gives `None` if it does not apply.
impl Document {
    fn apply(&mut self, operation: &Map<String, Value>) -> Option<()> {
        let text = |name: &str| operation.get(name).and_then(Value::as_str);
        let value = || operation.get("value").cloned().unwrap_or(Value::Null);
        let path = text("path");
        match text("op")? {
            "add" => {
                let value = value();
                self.reserve_depth(path?, depth(&value))?;
                self.add(path?, value)
            }
            "remove" => self.remove(path?).map(drop),
            "replace" => {
                let value = value();
                self.reserve_depth(path?, depth(&value))?;
                self.replace(path?, value)
            }
            kind @ ("move" | "copy") => {
                let from = text("from")?;
                let is_move = kind == "move";
                let value = if is_move { self.remove(from)? } else { self.copy_value(from)? };
                self.reserve_depth(path?, self.depth_max.saturating_sub(steps(from)))?;
                self.add(path?, value)
            }
            "test" => self.test(path?, operation.get("value")),
            _ => None,
        }
    }

    /// Raises the possible depth of the document; `None` above `DEPTH_MAX`.
    fn reserve_depth(&mut self, path: &str, depth: usize) -> Option<()> {
        self.depth_max = self.depth_max.max(steps(path) + depth);
        (self.depth_max <= DEPTH_MAX).then_some(())
    }

    /// What contains the end of a path, and the key there.
    fn parent(&mut self, path: &str) -> Option<(&mut Value, String)> {
        let mut parts: Vec<_> = path.split('/').skip(1).map(unescape).collect();
        let key = parts.pop()?;
        let mut node = &mut self.root;
        for part in parts {
            node = match node {
                Value::Object(fields) => fields.get_mut(&part)?,
                Value::Array(items) => {
                    let index = index(&part, items.len())?;
                    items.get_mut(index)?
                }
                _ => return None,
            };
        }
        matches!(node, Value::Object(_) | Value::Array(_)).then_some((node, key))
    }

    fn add(&mut self, path: &str, value: Value) -> Option<()> {
        match self.parent(path)? {
            (Value::Object(fields), key) => {
                fields.insert(key, value);
            }
            (Value::Array(items), key) if key == "-" => items.push(value),
            (Value::Array(items), key) => {
                let index = index(&key, items.len() + 1)?;
                items.insert(index, value);
            }
            _ => return None,
        }
        Some(())
    }

    fn remove(&mut self, path: &str) -> Option<Value> {
        match self.parent(path)? {
            (Value::Object(fields), key) => fields.shift_remove(&key),
            (Value::Array(items), key) => {
                let index = index(&key, items.len())?;
                Some(items.remove(index))
            }
            _ => None,
        }
    }

    fn replace(&mut self, path: &str, value: Value) -> Option<()> {
        if path.is_empty() {
            let is_container = matches!(value, Value::Object(_) | Value::Array(_));
            return is_container.then(|| self.root = value);
        }
        match self.parent(path)? {
            (Value::Object(fields), key) => {
                fields.insert(key, value);
            }
            (Value::Array(items), key) => {
                let index = index(&key, items.len())?;
                *items.get_mut(index)? = value;
            }
            _ => return None,
        }
        Some(())
    }

    /// The value at a path; null for a field that is not there.
    fn get(&mut self, path: &str) -> Option<Value> {
        match self.parent(path)? {
            (Value::Object(fields), key) => Some(fields.get(&key).cloned().unwrap_or(Value::Null)),
            (Value::Array(items), key) => {
                let index = index(&key, items.len())?;
                items.get(index).cloned()
            }
            _ => None,
        }
    }

    fn copy_value(&mut self, path: &str) -> Option<Value> {
        let value = self.get(path)?;
        self.copied_bytes += value.to_string().len();
        (self.copied_bytes <= COPY_BYTES_MAX).then_some(value)
    }

    fn test(&mut self, path: &str, expected: Option<&Value>) -> Option<()> {
        let expected = expected.unwrap_or(&Value::Null);
        let same =
            if path.is_empty() { self.root == *expected } else { self.get(path)? == *expected };
        same.then_some(())
    }
}

fn steps(path: &str) -> usize {
    path.matches('/').count()
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// An index within a list of `length`; negative ones count from the end.
fn index(key: &str, length: usize) -> Option<usize> {
    let index: i64 = key.parse().ok()?;
    let length = i64::try_from(length).ok()?;
    let index = if index < 0 { index + length } else { index };
    (0..length).contains(&index).then(|| usize::try_from(index).ok())?
}

fn unescape(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    let mut rest = part;
    while let Some((before, after)) = rest.split_once('~') {
        out.push_str(before);
        let (plain, after) = match after.as_bytes().first() {
            Some(b'1') => ("/", &after[1..]),
            Some(b'0') => ("~", &after[1..]),
            _ => ("~", after),
        };
        out.push_str(plain);
        rest = after;
    }
    out.push_str(rest);
    out
}
