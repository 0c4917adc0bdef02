//! Merges an applied configuration into an object, and removes fields from an object.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::compare::field;
use super::merge_schema::{ListSchema, MapSchema, MergeSchema, TypeRef, ValueType};
use super::path::PathElement;
use super::set::FieldSet;
use crate::type_model::ListKind;

impl MergeSchema<'_> {
    /// `live` with the fields of `config`. Removes nothing. Items keep their order in `live`, as
    /// far as `config` does not ask for another one.
    pub(super) fn merge(self, shape: TypeRef, live: &Value, config: &Value) -> Value {
        self.merge_sides(shape, Some(live), Some(config)).unwrap_or(Value::Null)
    }

    fn merge_sides(
        self,
        shape: TypeRef,
        live: Option<&Value>,
        config: Option<&Value>,
    ) -> Option<Value> {
        match self.resolve(shape).value_type(config.or(live)?) {
            ValueType::Map(map) => {
                let left = live.and_then(Value::as_object);
                let right = config.and_then(Value::as_object);
                let is_empty = left.is_none_or(Map::is_empty) && right.is_none_or(Map::is_empty);
                if map.atomic || is_empty {
                    return config.or(live).cloned();
                }
                let merged = self.merge_fields(map, left, right);
                (!merged.is_empty()).then_some(Value::Object(merged))
            }
            ValueType::List(list) => {
                let left = live.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let right = config.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                if *list.kind == ListKind::Atomic || (left.is_empty() && right.is_empty()) {
                    return config.or(live).cloned();
                }
                let merged = self.merge_items(list, left, right);
                (!merged.is_empty()).then_some(Value::Array(merged))
            }
            ValueType::Scalar(_) | ValueType::Undeclared => config.or(live).cloned(),
        }
    }

    fn merge_fields(
        self,
        map: MapSchema<'_>,
        live: Option<&Map<String, Value>>,
        config: Option<&Map<String, Value>>,
    ) -> Map<String, Value> {
        let mut out = Map::new();
        let names = live.into_iter().chain(config).flat_map(Map::keys);
        for name in names {
            if out.contains_key(name) {
                continue;
            }
            let shape = map.field(name);
            if let Some(value) = self.merge_sides(shape, field(live, name), field(config, name)) {
                out.insert(name.clone(), value);
            }
        }
        out
    }

    fn merge_items(self, list: ListSchema<'_>, live: &[Value], config: &[Value]) -> Vec<Value> {
        let live = ItemIndex::new(self, list, live);
        let config = ItemIndex::new(self, list, config);
        let mut out = Vec::with_capacity(live.items.len().max(config.items.len()));
        let mut merge = |live: Option<&Value>, config: Option<&Value>| {
            out.extend(self.merge_sides(list.items, live, config));
        };
        // The items of both, in the order of `config`: a live item that comes too early is left
        // for later.
        let mut shared: VecDeque<&PathElement> = config
            .items
            .iter()
            .map(|(element, _)| element)
            .filter(|element| live.by_element.contains_key(element))
            .collect();
        let mut next_shared = shared.pop_front();
        let mut merged = BTreeSet::new();
        let (mut l, mut r) = (0, 0);
        while l < live.items.len() || r < config.items.len() {
            if let (Some((left, _)), Some((right, _))) = (live.items.get(l), config.items.get(r)) {
                if left == right {
                    merged.insert(left);
                    merge(live.get(left), config.get(left));
                    l += 1;
                    r += 1;
                    next_shared = shared.pop_front();
                    continue;
                }
                let is_early = next_shared.is_some_and(|next| next != left);
                if config.by_element.contains_key(left) && is_early {
                    l += 1;
                    continue;
                }
            }
            if let Some((left, item)) = live.items.get(l) {
                if !config.by_element.contains_key(left) {
                    merge(Some(item), None);
                    l += 1;
                    continue;
                }
                if merged.contains(left) {
                    l += 1;
                }
            }
            if let Some((right, _)) = config.items.get(r) {
                merged.insert(right);
                merge(live.get(right), config.get(right));
                r += 1;
                if next_shared == Some(right) {
                    next_shared = shared.pop_front();
                }
            }
        }
        out
    }

    /// Returns `value` without the fields in `set`.
    pub(super) fn remove_fields(self, shape: TypeRef, value: &Value, set: &FieldSet) -> Value {
        match (self.value_type(shape, value), value) {
            (ValueType::Scalar(_), value) => value.clone(),
            (ValueType::Map(map), Value::Object(fields)) if !map.atomic => {
                let kept = fields.iter().filter_map(|(name, value)| {
                    let element = PathElement::field(name);
                    if set.has_member(&element) {
                        return None;
                    }
                    let value = match set.child(&element) {
                        Some(below) => self.remove_fields(map.field(name), value, below),
                        None => value.clone(),
                    };
                    Some((name.clone(), value))
                });
                let kept: Map<_, _> = kept.collect();
                if kept.is_empty() { Value::Null } else { Value::Object(kept) }
            }
            (ValueType::List(list), Value::Array(items)) => {
                let kept = items.iter().filter_map(|item| {
                    let element = self.path_element(list, item)?.ok()?;
                    if set.has_member(&element) {
                        return None;
                    }
                    Some(match set.child(&element) {
                        Some(below) => self.remove_fields(list.items, item, below),
                        None => item.clone(),
                    })
                });
                let kept: Vec<_> = kept.collect();
                if kept.is_empty() { Value::Null } else { Value::Array(kept) }
            }
            // An atomic value is owned as a whole: it has no parts to remove, so all of it is
            // removed.
            _ => Value::Null,
        }
    }
}

/// The items of a list with their path elements, in order and by element.
struct ItemIndex<'a> {
    items: Vec<(PathElement, &'a Value)>,
    /// `None` for elements that occur more than once.
    by_element: BTreeMap<PathElement, Option<&'a Value>>,
}

/// What takes the place of items that share a key.
const DUPLICATED: &Value = &Value::Null;

impl<'a> ItemIndex<'a> {
    fn new(shapes: MergeSchema<'_>, list: ListSchema<'_>, items: &'a [Value]) -> Self {
        let mut out = Self { items: Vec::with_capacity(items.len()), by_element: BTreeMap::new() };
        for item in items {
            let Some(Ok(element)) = shapes.path_element(list, item) else { continue };
            let is_duplicate = out.by_element.contains_key(&element);
            out.by_element.insert(element.clone(), (!is_duplicate).then_some(item));
            out.items.push((element, item));
        }
        out
    }

    fn get(&self, element: &PathElement) -> Option<&'a Value> {
        self.by_element.get(element).map(|item| item.unwrap_or(DUPLICATED))
    }
}
