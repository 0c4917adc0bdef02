//! Strategic merge patch: a merge patch that knows which lists merge, by which key, and that can
//! hold directives.
//!
//! - `$patch: delete | replace` in an object or an item of a list;
//! - `$deleteFromPrimitiveList/x`: values to take out of the list `x`;
//! - `$setElementOrder/x`: the order of the list `x`, [`order`];
//! - `$retainKeys`: all other fields go.

mod order;

use std::collections::{BTreeMap, BTreeSet};

use http::StatusCode;
use karpenter_cel::go_text;
use serde_json::{Map, Value};

use self::order::{element_key, reorder};
use super::{does_not_apply, not_a_map};
use crate::status::StatusError;
use crate::type_model::{PatchStrategy, Type, TypeId, Types};

const DIRECTIVE: &str = "$patch";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";
const RETAIN_KEYS: &str = "$retainKeys";

type Fields = Map<String, Value>;

/// Applies a strategic merge patch to an object of a built-in kind.
pub fn apply_strategic_patch(
    types: &Types,
    root: TypeId,
    object: &Value,
    patch: &Value,
) -> Result<Value, StatusError> {
    let patch = match patch {
        Value::Object(patch) => patch.clone(),
        Value::Null => Map::new(),
        other => return Err(StatusError::bad_request(not_a_map(other))),
    };
    let object = object.as_object().cloned().unwrap_or_default();
    let merge = StrategicMerge { types };
    merge.merge_objects(root, object, patch).map(Value::Object)
}

#[derive(Clone, Copy)]
struct StrategicMerge<'a> {
    types: &'a Types,
}

/// How the field of an object merges.
struct FieldRule {
    type_id: TypeId,
    strategy: PatchStrategy,
}

impl StrategicMerge<'_> {
    fn merge_objects(
        self,
        shape: TypeId,
        object: Fields,
        mut patch: Fields,
    ) -> Result<Fields, StatusError> {
        let mut object = object;
        match patch.get(DIRECTIVE) {
            None => {}
            Some(Value::String(directive)) if directive == "replace" => {
                patch.shift_remove(DIRECTIVE);
                return Ok(patch);
            }
            Some(Value::String(directive)) if directive == "delete" => return Ok(Map::new()),
            Some(other) => return Err(bad_directive(other, &patch)),
        }
        retain_keys(&mut object, &mut patch)?;
        self.merge_ordered_lists(shape, &mut object, &mut patch)?;
        for (key, value) in patch {
            let deleted_from =
                list_key(&key, DELETE_FROM_LIST, "invalid patch format of primitive list")?;
            let is_delete_list = deleted_from.is_some();
            let key = deleted_from.unwrap_or(key);
            if value.is_null() {
                object.shift_remove(&key);
                continue;
            }
            let old = match object.get_mut(&key) {
                Some(old) if go_text::type_name(old) == go_text::type_name(&value) => old.take(),
                _ if is_delete_list => continue,
                _ => {
                    set_new(&mut object, key, value);
                    continue;
                }
            };
            let merged = match (old, value) {
                (Value::Object(old), Value::Object(value)) => {
                    let rule = self.field_rule(shape, &key)?;
                    Value::Object(if rule.strategy.replaces {
                        value
                    } else {
                        self.merge_objects(rule.type_id, old, value)?
                    })
                }
                (Value::Array(old), Value::Array(value)) => {
                    let rule = self.list_rule(shape, &key)?;
                    Value::Array(self.merge_list_by_rule(&rule, old, value, is_delete_list)?)
                }
                (_, value) => value,
            };
            object.insert(key, merged);
        }
        Ok(object)
    }

    /// Merges the lists whose order the patch gives, and removes both from the patch.
    fn merge_ordered_lists(
        self,
        shape: TypeId,
        object: &mut Fields,
        patch: &mut Fields,
    ) -> Result<(), StatusError> {
        let orders: Vec<String> =
            patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
        for order_key in orders {
            let order = match patch.shift_remove(&order_key) {
                Some(Value::Array(order)) => order,
                other => return Err(not_a_list(&other.unwrap_or(Value::Null))),
            };
            let Some(key) = list_key(&order_key, SET_ORDER, BAD_ORDER)? else { continue };
            let old = list_of(object.get(&key))?;
            let new = list_of(patch.get(&key))?;
            let rule = self.list_rule(shape, &key)?;
            let merge_key = rule.strategy.merge_key.as_deref().unwrap_or_default();
            order::check_patch_order(new.as_deref().unwrap_or_default(), &order, merge_key)?;
            let (merged, server_order) = match (old, new) {
                (None, None) => continue,
                (Some(old), None) => (old.clone(), old),
                (None, Some(new)) => {
                    let new = new.into_iter().filter_map(without_directives).collect();
                    (new, Vec::new())
                }
                (Some(old), Some(new)) => {
                    let server_order = order::server_order_after_merge(&old, &new, merge_key);
                    (self.merge_list_by_rule(&rule, old, new, false)?, server_order)
                }
            };
            let patch_items = list_of(patch.get(&key))?.unwrap_or_default();
            order::element_kind(&[&server_order, &patch_items])?;
            let ordered = reorder(merged, &order, &server_order, merge_key)?;
            object.insert(key.clone(), Value::Array(ordered));
            patch.shift_remove(&key);
        }
        Ok(())
    }

    fn merge_list_by_rule(
        self,
        rule: &FieldRule,
        old: Vec<Value>,
        new: Vec<Value>,
        is_delete_list: bool,
    ) -> Result<Vec<Value>, StatusError> {
        match &rule.strategy.merge_key {
            Some(key) => self.merge_lists(rule.type_id, key, old, new, is_delete_list),
            None if is_delete_list => self.merge_lists(rule.type_id, "", old, new, true),
            None => Ok(new),
        }
    }

    fn merge_lists(
        self,
        items: TypeId,
        merge_key: &str,
        old: Vec<Value>,
        new: Vec<Value>,
        is_delete_list: bool,
    ) -> Result<Vec<Value>, StatusError> {
        if old.is_empty() && new.is_empty() {
            return Ok(old);
        }
        if order::element_kind(&[&old, &new])? != order::ElementKind::Map {
            if is_delete_list {
                let gone: BTreeSet<_> = new.iter().map(Value::to_string).collect();
                return Ok(old
                    .into_iter()
                    .filter(|item| !gone.contains(&item.to_string()))
                    .collect());
            }
            let mut seen = BTreeSet::new();
            let both = old.iter().chain(&new).filter(|item| seen.insert(item.to_string()));
            return reorder(both.cloned().collect(), &new, &old, merge_key);
        }
        if merge_key.is_empty() {
            let kind = self.go_kind(items);
            return Err(internal(format!("cannot merge lists without merge key for {kind}")));
        }
        let (old, new) = apply_item_directives(old, new, merge_key)?;
        let merged = self.merge_keyed_items(items, merge_key, old.clone(), new.clone())?;
        reorder(merged, &new, &old, merge_key)
    }

    fn merge_keyed_items(
        self,
        items: TypeId,
        merge_key: &str,
        mut merged: Vec<Value>,
        new: Vec<Value>,
    ) -> Result<Vec<Value>, StatusError> {
        let mut places = BTreeMap::new();
        for (place, item) in merged.iter().enumerate() {
            if let Some(value) = item.get(merge_key) {
                places.entry(value.to_string()).or_insert(place);
            }
        }
        for item in new {
            let key = element_key(&item, merge_key)?;
            let Some(place) = places.get(&key).copied() else {
                places.insert(key, merged.len());
                merged.push(item);
                continue;
            };
            if let (Value::Object(old), Value::Object(item)) = (merged[place].take(), item) {
                merged[place] = Value::Object(self.merge_objects(items, old, item)?);
            }
        }
        Ok(merged)
    }

    fn field_rule(self, shape: TypeId, name: &str) -> Result<FieldRule, StatusError> {
        let Type::Object(object) = self.types.get(shape) else {
            let kind = self.go_kind(shape);
            return Err(internal(format!(
                "merging an object in json but data type is not struct, instead is: {kind}"
            )));
        };
        let rule = object
            .fields
            .get(name)
            .map(|field| FieldRule { type_id: field.type_id, strategy: field.strategy.clone() });
        rule.ok_or_else(|| self.unknown_field(shape, name))
    }

    /// Returns the merge rule of a list, with the type of its items.
    fn list_rule(self, shape: TypeId, name: &str) -> Result<FieldRule, StatusError> {
        let rule = self.field_rule(shape, name)?;
        let Type::List { items, .. } = self.types.get(rule.type_id) else {
            let kind = self.go_kind(shape);
            return Err(internal(format!("expected slice or array type, but got: {kind}")));
        };
        Ok(FieldRule { type_id: *items, ..rule })
    }

    fn unknown_field(self, shape: TypeId, name: &str) -> StatusError {
        let full = self.types.names().find(|(_, id)| *id == shape).map(|(name, _)| name);
        let short = full.and_then(|full| full.rsplit('.').next()).unwrap_or_default();
        let name = go_text::quote(name);
        internal(format!("unable to find api field in struct {short} for the json field {name}"))
    }

    fn go_kind(self, shape: TypeId) -> &'static str {
        match self.types.get(shape) {
            Type::Object(_) | Type::Any => "struct",
            Type::Map { .. } => "map",
            Type::List { .. } => "slice",
            Type::Scalar(_) => "string",
        }
    }
}

const BAD_ORDER: &str = "invalid patch format of setElementOrder list";

/// Drops what `$retainKeys` does not name; all that the patch sets has to be named.
fn retain_keys(object: &mut Fields, patch: &mut Fields) -> Result<(), StatusError> {
    let malformed = || StatusError::bad_request("invalid patch format of retainKeys");
    let kept: BTreeSet<String> = match patch.shift_remove(RETAIN_KEYS) {
        None => return Ok(()),
        Some(Value::Array(keys)) => {
            keys.iter().filter_map(|key| key.as_str().map(str::to_owned)).collect()
        }
        Some(_) => return Err(malformed()),
    };
    for (key, value) in patch.iter() {
        let is_directive = key.starts_with(DELETE_FROM_LIST) || key.starts_with(SET_ORDER);
        if !value.is_null() && !is_directive && !kept.contains(key) {
            return Err(malformed());
        }
    }
    object.retain(|key, _| kept.contains(key));
    Ok(())
}

/// The list that a directive `$name/list` is about; `None` if the key is another one.
fn list_key(key: &str, directive: &str, malformed: &str) -> Result<Option<String>, StatusError> {
    if !key.starts_with(directive) {
        return Ok(None);
    }
    match key.split_once('/') {
        Some((name, list)) if name == directive => Ok(Some(list.to_owned())),
        _ => Err(StatusError::bad_request(malformed)),
    }
}

fn list_of(value: Option<&Value>) -> Result<Option<Vec<Value>>, StatusError> {
    match value {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items.clone())),
        Some(other) => Err(not_a_list(other)),
    }
}

/// Sets a field that the object does not have, or has with another type.
fn set_new(object: &mut Fields, key: String, mut value: Value) {
    discard_nulls(&mut value);
    match without_directives(value) {
        Some(value) => {
            object.insert(key, value);
        }
        None => {
            object.shift_remove(&key);
        }
    }
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// Returns a new value without its directives; `None` for an object with `$patch`.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => {
            let kept = fields
                .into_iter()
                .filter_map(|(key, value)| Some((key, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => {
            Some(Value::Array(items.into_iter().filter_map(without_directives).collect()))
        }
        other => Some(other),
    }
}

/// Carries out `$patch` in the items of a list: the old items that stay, and the new ones.
fn apply_item_directives(
    mut old: Vec<Value>,
    new: Vec<Value>,
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), StatusError> {
    let mut plain = Vec::new();
    let mut deleted = BTreeSet::new();
    let mut replace = false;
    for item in new {
        match item.get(DIRECTIVE) {
            None => plain.push(item),
            Some(Value::String(directive)) if directive == "delete" => {
                deleted.insert(element_key(&item, merge_key)?);
            }
            Some(Value::String(directive)) if directive == "replace" => replace = true,
            Some(Value::String(directive)) if directive == "merge" => {
                return Err(internal(
                    "merging lists cannot yet be specified in the patch".to_owned(),
                ));
            }
            Some(other) => {
                return Err(bad_directive(other, item.as_object().unwrap_or(&Map::new())));
            }
        }
    }
    if replace {
        return Ok((plain, Vec::new()));
    }
    old.retain(|item| {
        item.get(merge_key).is_none_or(|value| !deleted.contains(&value.to_string()))
    });
    Ok((old, plain))
}

fn bad_directive(directive: &Value, patch: &Fields) -> StatusError {
    let directive = match directive {
        Value::String(text) => text.clone(),
        Value::Null => "%!s(<nil>)".to_owned(),
        other => format!("%!s({}={})", go_text::type_name(other), go_text::default_format(other)),
    };
    let patch = go_text::default_format(&Value::Object(patch.clone()));
    internal(format!("unknown patch type: {directive} in map: {patch}"))
}

fn not_a_list(value: &Value) -> StatusError {
    let received = match value {
        Value::Null => "%!s(<nil>)",
        other => go_text::type_name(other),
    };
    internal(format!("expected a []interface {{}}, but received a {received}"))
}

/// Returns an error that the API server reports as an internal error.
fn internal(message: String) -> StatusError {
    StatusError::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
}
