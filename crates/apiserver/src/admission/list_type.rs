//! Uniqueness in lists of type `set` and `map`.

use std::collections::HashMap;

use karpenter_cel::go_text;
use serde_json::{Map, Value};

use super::field_error::{FieldError, FieldPath};
use super::schema::{AdditionalProperties, ListType, Schema};

/// Reports the items that repeat an earlier one; each repeated value once.
pub(crate) fn validate(object: &Value, schema: &Schema) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_lists(object, schema, &FieldPath::Root, &mut errors);
    errors
}

fn check_lists(value: &Value, schema: &Schema, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Array(items) => {
            match &schema.structure.list_type {
                ListType::Atomic => {}
                ListType::Set => check_set(items, path, errors),
                ListType::Map(keys) => check_map(items, keys, path, errors),
            }
            let Some(schema) = &schema.items else { return };
            for (index, item) in items.iter().enumerate() {
                check_lists(item, schema, &path.index(index), errors);
            }
        }
        Value::Object(map) => {
            for (name, value) in map {
                match (&schema.additional_properties, schema.properties.get(name)) {
                    (AdditionalProperties::Schema(schema), _) => {
                        check_lists(value, schema, &path.key(name), errors);
                    }
                    (_, Some(schema)) => check_lists(value, schema, &path.field(name), errors),
                    (_, None) => {}
                }
            }
        }
        _ => {}
    }
}

fn check_set(items: &[Value], path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    for index in duplicate_indexes(items.iter().map(go_text::json)) {
        let path = path.index(index).format_bracketed();
        errors.push(FieldError::duplicate(path, Some(items[index].clone())));
    }
}

fn check_map(items: &[Value], keys: &[String], path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let not_an_object = |item: &Value| !item.is_null() && !item.is_object();
    if let Some(index) = items.iter().position(not_an_object) {
        errors.push(FieldError::invalid(
            path.index(index).format_bracketed(),
            items[index].clone(),
            "must be an object for an array of list-type map",
        ));
        return;
    }
    // A missing key is a key too: two items without any are duplicates.
    let key_of = |item: &Value| {
        let present = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
        Value::Object(present.collect::<Map<String, Value>>())
    };
    let item_keys: Vec<Value> = items.iter().map(key_of).collect();
    for index in duplicate_indexes(item_keys.iter().map(go_text::json)) {
        let path = path.index(index).format_bracketed();
        errors.push(FieldError::duplicate(path, Some(item_keys[index].clone())));
    }
}

/// Returns the index of the second occurrence of each repeated text.
fn duplicate_indexes(texts: impl Iterator<Item = String>) -> Vec<usize> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut repeated = Vec::new();
    for (index, text) in texts.enumerate() {
        let times = seen.entry(text).or_default();
        *times += 1;
        if *times == 2 {
            repeated.push(index);
        }
    }
    repeated
}
