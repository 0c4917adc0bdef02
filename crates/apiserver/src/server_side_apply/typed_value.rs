//! A typed value checks whether it has its type, and collects the fields that it sets.
//!
//! All other code of `server_side_apply` relies on values that have passed
//! [`TypedValue::validate`].

use std::collections::{BTreeMap, BTreeSet};

use karpenter_cel::go_text;
use serde_json::{Map, Value};

use super::merge_schema::{ListSchema, MapSchema, MergeSchema, ScalarKind, TypeRef, ValueType};
use super::path::{FieldPathStack, PathElement};
use super::set::FieldSet;
use crate::type_model::{ListKind, Type};

#[derive(Debug, Clone, Copy)]
pub(super) struct TypedValue<'a> {
    pub(super) schema: MergeSchema<'a>,
    pub(super) type_ref: TypeRef,
    pub(super) value: &'a Value,
}

/// Whether a list may have two items with the same key. Stored objects may have them, because they
/// can be older than the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DuplicateItems {
    Rejected,
    Allowed,
}

impl<'a> TypedValue<'a> {
    fn child(self, shape: TypeRef, value: &'a Value) -> Self {
        Self { type_ref: shape, value, ..self }
    }

    /// Says what does not fit the type, in the words of the API server.
    pub(super) fn validate(self, duplicates: DuplicateItems) -> Result<(), String> {
        let mut problems = Vec::new();
        self.collect_problems(duplicates, FieldPathStack::Root, &mut problems);
        match &problems[..] {
            [] => Ok(()),
            [problem] => Err(problem.clone()),
            _ => Err(format!("errors:\n  {}", problems.join("\n  "))),
        }
    }

    fn collect_problems(
        self,
        duplicates: DuplicateItems,
        trail: FieldPathStack<'_>,
        out: &mut Vec<String>,
    ) {
        let problem = match (self.schema.value_type(self.type_ref, self.value), self.value) {
            (ValueType::Map(_) | ValueType::Scalar(_) | ValueType::List(_), Value::Null) => None,
            (ValueType::Map(map), Value::Object(fields)) => {
                return self.check_fields(map, fields, duplicates, trail, out);
            }
            (ValueType::Map(_), other) => {
                Some(format!("expected map, got &{{{}}}", go_text::default_format(other)))
            }
            (ValueType::List(list), Value::Array(items)) => {
                return self.check_items(list, items, duplicates, trail, out);
            }
            (ValueType::List(_), other) => {
                Some(format!("expected list, got &{{{}}}", go_text::default_format(other)))
            }
            (ValueType::Scalar(kind), value) => scalar_problem(kind, value),
            (ValueType::Undeclared, _) => Some("schema error: invalid atom: inlined".to_owned()),
        };
        out.extend(problem.map(|problem| with_path(trail, &problem)));
    }

    fn check_fields(
        self,
        map: MapSchema<'a>,
        fields: &'a Map<String, Value>,
        duplicates: DuplicateItems,
        trail: FieldPathStack<'_>,
        out: &mut Vec<String>,
    ) {
        for (name, value) in fields {
            let trail = FieldPathStack::Field(&trail, name);
            let shape = map.field(name);
            if shape == TypeRef::Undeclared {
                out.push(with_path(trail, "field not declared in schema"));
                return;
            }
            self.child(shape, value).collect_problems(duplicates, trail, out);
        }
    }

    fn check_items(
        self,
        list: ListSchema<'a>,
        items: &'a [Value],
        duplicates: DuplicateItems,
        trail: FieldPathStack<'_>,
        out: &mut Vec<String>,
    ) {
        let mut seen = BTreeSet::new();
        for (i, item) in items.iter().enumerate() {
            let element = match self.schema.path_element(list, item) {
                None => PathElement::Index(i64::try_from(i).unwrap_or(i64::MAX)),
                Some(Ok(element)) => element,
                Some(Err(problem)) => {
                    out.push(with_path(trail, &format!("element {i}: {problem}")));
                    return;
                }
            };
            let is_associative = !matches!(element, PathElement::Index(_));
            if duplicates == DuplicateItems::Rejected
                && is_associative
                && !seen.insert(element.clone())
            {
                let problem = format!("duplicate entries for key {element}");
                out.push(with_path(trail, &problem));
            }
            let trail = FieldPathStack::Item(&trail, &element);
            self.child(list.items, item).collect_problems(duplicates, trail, out);
        }
    }

    /// Returns every field and item that the value sets.
    pub(super) fn to_field_set(self) -> FieldSet {
        let mut set = FieldSet::default();
        self.collect_set(FieldPathStack::Root, &mut set);
        set
    }

    fn collect_set(self, trail: FieldPathStack<'_>, set: &mut FieldSet) {
        match self.schema.value_type(self.type_ref, self.value) {
            ValueType::Scalar(_)
            | ValueType::Map(MapSchema { atomic: true, .. })
            | ValueType::List(ListSchema { kind: ListKind::Atomic, .. }) => set.insert_stack(trail),
            ValueType::Map(map) => {
                let Value::Object(fields) = self.value else { return };
                for (name, value) in fields {
                    let trail = FieldPathStack::Field(&trail, name);
                    self.child(map.field(name), value).collect_set(trail, set);
                    let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                    if is_empty || !map.declares(name) {
                        set.insert_stack(trail);
                    }
                }
            }
            ValueType::List(list) => self.collect_items(list, trail, set),
            ValueType::Undeclared => {}
        }
    }

    fn collect_items(self, list: ListSchema<'a>, trail: FieldPathStack<'_>, set: &mut FieldSet) {
        let Value::Array(items) = self.value else { return };
        let mut counts: BTreeMap<PathElement, usize> = BTreeMap::new();
        let elements: Vec<_> =
            items.iter().map(|item| self.schema.path_element(list, item)).collect();
        for element in elements.iter().flatten().flatten() {
            *counts.entry(element.clone()).or_default() += 1;
        }
        for (element, item) in elements.into_iter().zip(items) {
            let Some(Ok(element)) = element else { continue };
            // The parts of items that share a key cannot be owned.
            let is_single = counts.get(&element) == Some(&1);
            let trail = FieldPathStack::Item(&trail, &element);
            if is_single {
                self.child(list.items, item).collect_set(trail, set);
            }
            set.insert_stack(trail);
        }
    }
}

impl MergeSchema<'_> {
    /// Returns the path element of an item; `None` in an atomic list.
    pub(super) fn path_element(
        self,
        list: ListSchema<'_>,
        item: &Value,
    ) -> Option<Result<PathElement, String>> {
        match list.kind {
            ListKind::Atomic => None,
            ListKind::Set => Some(set_path_element(item)),
            ListKind::Map(keys) => Some(self.keyed_path_element(list, keys, item)),
        }
    }

    fn keyed_path_element(
        self,
        list: ListSchema<'_>,
        keys: &[Box<str>],
        item: &Value,
    ) -> Result<PathElement, String> {
        let fields = match item {
            Value::Object(fields) => fields,
            Value::Null => {
                return Err("associative list with keys may not have a null element".to_owned());
            }
            _ => {
                return Err("associative list with keys may not have non-map elements".to_owned());
            }
        };
        let default = |key: &str| match list.items {
            TypeRef::Typed(id) => match self.0.get(id) {
                Type::Object(object) => object.fields.get(key)?.default.clone(),
                _ => None,
            },
            _ => None,
        };
        let found = keys.iter().filter_map(|key| {
            let value = fields.get(&**key).cloned().or_else(|| default(key))?;
            Some((key.clone(), value))
        });
        let found: Vec<_> = found.collect();
        if found.is_empty() && !keys.is_empty() {
            let keys: Vec<_> = keys.iter().map(|key| go_text::quote(key)).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and \
                 doesn't have default values for any key fields)",
                keys.join(" ")
            ));
        }
        Ok(PathElement::key(found))
    }
}

fn set_path_element(item: &Value) -> Result<PathElement, String> {
    let problem = match item {
        Value::Object(_) => "associative list without keys has an element that's a map type",
        Value::Array(_) => "not supported: associative list with lists as elements",
        Value::Null => "associative list without keys has an element that's an explicit null",
        scalar => return Ok(PathElement::value(scalar.clone())),
    };
    Err(problem.to_owned())
}

fn with_path(trail: FieldPathStack<'_>, problem: &str) -> String {
    match trail {
        FieldPathStack::Root => problem.to_owned(),
        trail => format!("{trail}: {problem}"),
    }
}

fn scalar_problem(kind: ScalarKind, value: &Value) -> Option<String> {
    match (kind, value) {
        (ScalarKind::Numeric, Value::Number(_))
        | (ScalarKind::Text, Value::String(_))
        | (ScalarKind::Boolean, Value::Bool(_))
        | (ScalarKind::Any, Value::Number(_) | Value::String(_) | Value::Bool(_)) => None,
        (ScalarKind::Numeric, _) => {
            Some(format!("expected numeric (int or float), got {}", go_text::type_name(value)))
        }
        (ScalarKind::Text, _) => {
            let value = go_syntax(value);
            Some(format!("expected string, got &value.valueUnstructured{{Value:{value}}}"))
        }
        (ScalarKind::Boolean, _) => {
            Some(format!("expected boolean, got &{{{}}}", go_text::default_format(value)))
        }
        (ScalarKind::Any, _) => {
            Some(format!("expected any scalar, got &{{{}}}", go_text::default_format(value)))
        }
    }
}

/// A value as Go's `%#v` writes it.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => go_text::number(number),
        Value::String(text) => go_text::quote(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            let entries: Vec<_> = entries
                .into_iter()
                .map(|(key, value)| format!("{}:{}", go_text::quote(key), go_syntax(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", entries.join(", "))
        }
    }
}
