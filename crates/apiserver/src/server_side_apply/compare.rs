//! What changed between two objects of one type.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::merge_schema::{ListSchema, MapSchema, MergeSchema, TypeRef, ValueType};
use super::path::{FieldPathStack, PathElement, equal};
use super::set::FieldSet;
use crate::type_model::ListKind;

#[derive(Debug, Clone, Default)]
pub(super) struct Comparison {
    pub(super) removed: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) added: FieldSet,
}

impl Comparison {
    pub(super) fn new(schema: MergeSchema<'_>, shape: TypeRef, old: &Value, new: &Value) -> Self {
        let mut walk = Comparer { schema, found: Self::default() };
        walk.compare(FieldPathStack::Root, shape, Some(old), Some(new));
        walk.found
    }

    /// Returns the comparison with each set reduced by `keep`.
    pub(super) fn filtered(self, keep: impl Fn(FieldSet) -> FieldSet) -> Self {
        Self { removed: keep(self.removed), modified: keep(self.modified), added: keep(self.added) }
    }
}

struct Comparer<'a> {
    schema: MergeSchema<'a>,
    found: Comparison,
}

impl Comparer<'_> {
    fn compare(
        &mut self,
        trail: FieldPathStack<'_>,
        shape: TypeRef,
        old: Option<&Value>,
        new: Option<&Value>,
    ) {
        let atom = self.schema.resolve(shape);
        let forms = [old, new].map(|value| value.map(|value| atom.value_type(value)));
        let is_leaf = match forms {
            [Some(old_form), Some(new_form)] if !same_kind(old_form, new_form) => {
                // Data without a schema that became something else: both readings count.
                self.descend(trail, old_form, old, new);
                self.descend(trail, new_form, old, new)
            }
            [_, Some(form)] | [Some(form), None] => self.descend(trail, form, old, new),
            [None, None] => return,
        };
        if !is_leaf {
            match (old, new) {
                (None, _) => self.found.added.insert_stack(trail),
                (_, None) => self.found.removed.insert_stack(trail),
                _ => {}
            }
        }
    }

    /// Returns whether the value has been compared as a whole.
    fn descend(
        &mut self,
        trail: FieldPathStack<'_>,
        form: ValueType<'_>,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> bool {
        match form {
            ValueType::Map(map) => {
                let (left, right) =
                    (old.and_then(Value::as_object), new.and_then(Value::as_object));
                let is_empty = left.is_none_or(Map::is_empty) && right.is_none_or(Map::is_empty);
                if map.atomic || is_empty {
                    return self.leaf(trail, old, new);
                }
                self.compare_fields(trail, map, left, right);
                false
            }
            ValueType::List(list) => {
                let (left, right) = (old.and_then(Value::as_array), new.and_then(Value::as_array));
                let is_empty = left.is_none_or(Vec::is_empty) && right.is_none_or(Vec::is_empty);
                if *list.kind == ListKind::Atomic || is_empty {
                    return self.leaf(trail, old, new);
                }
                self.compare_items(trail, list, left, right);
                false
            }
            ValueType::Scalar(_) | ValueType::Undeclared => self.leaf(trail, old, new),
        }
    }

    fn leaf(
        &mut self,
        trail: FieldPathStack<'_>,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> bool {
        match (old, new) {
            (None, _) => self.found.added.insert_stack(trail),
            (_, None) => self.found.removed.insert_stack(trail),
            (Some(old), Some(new)) if !equal(old, new) => self.found.modified.insert_stack(trail),
            _ => {}
        }
        true
    }

    fn compare_fields(
        &mut self,
        trail: FieldPathStack<'_>,
        map: MapSchema<'_>,
        old: Option<&Map<String, Value>>,
        new: Option<&Map<String, Value>>,
    ) {
        let is_old = |name: &str| old.is_some_and(|old| old.contains_key(name));
        let added = new.into_iter().flat_map(Map::keys).filter(|name| !is_old(name));
        for name in old.into_iter().flat_map(Map::keys).chain(added) {
            let trail = FieldPathStack::Field(&trail, name);
            self.compare(trail, map.field(name), field(old, name), field(new, name));
        }
    }

    fn compare_items(
        &mut self,
        trail: FieldPathStack<'_>,
        list: ListSchema<'_>,
        old: Option<&Vec<Value>>,
        new: Option<&Vec<Value>>,
    ) {
        let mut items: BTreeMap<PathElement, [Vec<&Value>; 2]> = BTreeMap::new();
        for (side, values) in [old, new].into_iter().enumerate() {
            for item in values.into_iter().flatten() {
                if let Some(Ok(element)) = self.schema.path_element(list, item) {
                    items.entry(element).or_default()[side].push(item);
                }
            }
        }
        for (element, [old, new]) in items {
            let trail = FieldPathStack::Item(&trail, &element);
            match (&old[..], &new[..]) {
                ([] | [_], [] | [_]) => {
                    self.compare(trail, list.items, old.first().copied(), new.first().copied());
                }
                // Items that share a key are owned together.
                ([_, _, ..], [_, _, ..]) => {
                    let same = old.len() == new.len()
                        && old.iter().zip(&new).all(|(old, new)| equal(old, new));
                    if !same {
                        self.found.modified.insert_stack(trail);
                    }
                }
                ([_, _, ..], rest) => {
                    if let [single] = rest {
                        self.compare(trail, list.items, None, Some(single));
                    }
                    self.found.removed.insert_stack(trail);
                }
                (rest, [_, _, ..]) => {
                    if let [single] = rest {
                        self.compare(trail, list.items, Some(single), None);
                    }
                    self.found.added.insert_stack(trail);
                }
            }
        }
    }
}

fn same_kind(left: ValueType<'_>, right: ValueType<'_>) -> bool {
    matches!(
        (left, right),
        (ValueType::Map(_), ValueType::Map(_))
            | (ValueType::Scalar(_), ValueType::Scalar(_))
            | (ValueType::List(_), ValueType::List(_))
            | (ValueType::Undeclared, ValueType::Undeclared)
    )
}

pub(super) fn field<'v>(map: Option<&'v Map<String, Value>>, name: &str) -> Option<&'v Value> {
    map?.get(name)
}
