//! Reads and writes parts of JSON objects.
//!
//! Decoded objects have the types of their kind, so a part of another type counts as absent.

use std::sync::LazyLock;

use serde_json::{Map, Value};

static NULL: Value = Value::Null;
static EMPTY_MAP: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// The part at a JSON pointer such as `/spec/nodeName`, or null.
pub(super) fn at<'a>(object: &'a Value, pointer: &str) -> &'a Value {
    object.pointer(pointer).unwrap_or(&NULL)
}

/// The text at a JSON pointer; absent is empty.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    at(object, pointer).as_str().unwrap_or_default()
}

pub(super) fn number(object: &Value, pointer: &str) -> i64 {
    at(object, pointer).as_i64().unwrap_or_default()
}

pub(super) fn flag(object: &Value, pointer: &str) -> bool {
    at(object, pointer).as_bool().unwrap_or_default()
}

/// The items at a JSON pointer; absent is empty.
pub(super) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    at(object, pointer).as_array().map_or(&[], Vec::as_slice)
}

/// The entries at a JSON pointer; absent is empty.
pub(super) fn entries<'a>(object: &'a Value, pointer: &str) -> &'a Map<String, Value> {
    at(object, pointer).as_object().unwrap_or(&EMPTY_MAP)
}

/// Whether there is something at a JSON pointer.
pub(super) fn has(object: &Value, pointer: &str) -> bool {
    !at(object, pointer).is_null()
}

/// Returns a part of an object as an object, created if missing.
pub(super) fn ensure_object<'a>(object: &'a mut Value, name: &str) -> &'a mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let fields = object.as_object_mut().expect("it has just been made one");
    coerce_to_object(fields.entry(name).or_insert(Value::Null))
}

/// Returns the fields of a value, which becomes an object if it is none.
pub(super) fn coerce_to_object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it has just been made one")
}

/// Returns the items of a field, which becomes a list if it is none.
pub(super) fn ensure_list<'a>(
    fields: &'a mut Map<String, Value>,
    name: &str,
) -> &'a mut Vec<Value> {
    let value = fields.entry(name).or_insert(Value::Null);
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    value.as_array_mut().expect("it has just been made one")
}

/// Sets a field that is absent, null or empty text.
pub(super) fn set_default(fields: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    if is_unset(fields, name) {
        fields.insert(name.to_owned(), value.into());
    }
}

/// Whether a field is absent, null or empty text.
pub(super) fn is_unset(fields: &Map<String, Value>, name: &str) -> bool {
    match fields.get(name) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    }
}

/// Sets a number that is absent or 0.
pub(super) fn set_default_number(fields: &mut Map<String, Value>, name: &str, value: i64) {
    if fields.get(name).and_then(Value::as_i64).unwrap_or_default() == 0 {
        fields.insert(name.to_owned(), value.into());
    }
}

/// Copies a field to `to`, or removes it there if `from` has none.
pub(super) fn copy_field(to: &mut Value, from: &Value, name: &str) {
    let Some(to) = to.as_object_mut() else { return };
    match from.get(name) {
        Some(value) => {
            to.insert(name.to_owned(), value.clone());
        }
        None => {
            to.shift_remove(name);
        }
    }
}
