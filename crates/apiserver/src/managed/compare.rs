//! What changed between two objects of one type.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::path::{Path, PathElement, equal};
use super::set::FieldSet;
use super::shape::{Form, List, MapShape, Ref, Shapes};
use crate::shape::ListKind;

#[derive(Debug, Clone, Default)]
pub(super) struct Comparison {
    pub(super) removed: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) added: FieldSet,
}

impl Comparison {
    pub(super) fn new(shapes: Shapes<'_>, shape: Ref, old: &Value, new: &Value) -> Self {
        let mut walk = Walk { shapes, path: Vec::new(), found: Self::default() };
        walk.compare(shape, Some(old), Some(new));
        walk.found
    }

    /// The same without what `keep` does not let through.
    pub(super) fn filtered(&self, keep: impl Fn(&FieldSet) -> FieldSet) -> Self {
        Self {
            removed: keep(&self.removed),
            modified: keep(&self.modified),
            added: keep(&self.added),
        }
    }
}

struct Walk<'a> {
    shapes: Shapes<'a>,
    path: Path,
    found: Comparison,
}

impl Walk<'_> {
    fn compare(&mut self, shape: Ref, old: Option<&Value>, new: Option<&Value>) {
        let atom = self.shapes.resolve(shape);
        let forms = [old, new].map(|value| value.map(|value| atom.form(value)));
        let is_leaf = match forms {
            [Some(old_form), Some(new_form)] if !same_kind(old_form, new_form) => {
                // Data without a schema that became something else: both readings count.
                self.descend(old_form, old, new);
                self.descend(new_form, old, new)
            }
            [_, Some(form)] | [Some(form), None] => self.descend(form, old, new),
            [None, None] => return,
        };
        if !is_leaf {
            match (old, new) {
                (None, _) => self.found.added.insert(&self.path),
                (_, None) => self.found.removed.insert(&self.path),
                _ => {}
            }
        }
    }

    /// Returns whether the value has been compared as a whole.
    fn descend(&mut self, form: Form<'_>, old: Option<&Value>, new: Option<&Value>) -> bool {
        match form {
            Form::Map(map) => {
                let (left, right) =
                    (old.and_then(Value::as_object), new.and_then(Value::as_object));
                let is_empty = left.is_none_or(Map::is_empty) && right.is_none_or(Map::is_empty);
                if map.atomic || is_empty {
                    return self.leaf(old, new);
                }
                self.compare_fields(map, left, right);
                false
            }
            Form::List(list) => {
                let (left, right) = (old.and_then(Value::as_array), new.and_then(Value::as_array));
                let is_empty = left.is_none_or(Vec::is_empty) && right.is_none_or(Vec::is_empty);
                if *list.kind == ListKind::Atomic || is_empty {
                    return self.leaf(old, new);
                }
                self.compare_items(list, left, right);
                false
            }
            Form::Scalar(_) | Form::Nothing => self.leaf(old, new),
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) -> bool {
        match (old, new) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (Some(old), Some(new)) if !equal(old, new) => self.found.modified.insert(&self.path),
            _ => {}
        }
        true
    }

    fn compare_fields(
        &mut self,
        map: MapShape<'_>,
        old: Option<&Map<String, Value>>,
        new: Option<&Map<String, Value>>,
    ) {
        let is_old = |name: &str| old.is_some_and(|old| old.contains_key(name));
        let added = new.into_iter().flat_map(Map::keys).filter(|name| !is_old(name));
        for name in old.into_iter().flat_map(Map::keys).chain(added) {
            self.path.push(PathElement::field(name));
            self.compare(map.field(name), field(old, name), field(new, name));
            self.path.pop();
        }
    }

    fn compare_items(
        &mut self,
        list: List<'_>,
        old: Option<&Vec<Value>>,
        new: Option<&Vec<Value>>,
    ) {
        let mut items: BTreeMap<PathElement, [Vec<&Value>; 2]> = BTreeMap::new();
        for (side, values) in [old, new].into_iter().enumerate() {
            for item in values.into_iter().flatten() {
                if let Some(Ok(element)) = self.shapes.item(list, item) {
                    items.entry(element).or_default()[side].push(item);
                }
            }
        }
        for (element, [old, new]) in items {
            self.path.push(element);
            match (&old[..], &new[..]) {
                ([] | [_], [] | [_]) => {
                    self.compare(list.items, old.first().copied(), new.first().copied());
                }
                // Items that share a key are owned together.
                ([_, _, ..], [_, _, ..]) => {
                    let same = old.len() == new.len()
                        && old.iter().zip(&new).all(|(old, new)| equal(old, new));
                    if !same {
                        self.found.modified.insert(&self.path);
                    }
                }
                ([_, _, ..], rest) => {
                    if let [single] = rest {
                        self.compare(list.items, None, Some(single));
                    }
                    self.found.removed.insert(&self.path);
                }
                (rest, [_, _, ..]) => {
                    if let [single] = rest {
                        self.compare(list.items, Some(single), None);
                    }
                    self.found.added.insert(&self.path);
                }
            }
            self.path.pop();
        }
    }
}

fn same_kind(left: Form<'_>, right: Form<'_>) -> bool {
    matches!(
        (left, right),
        (Form::Map(_), Form::Map(_))
            | (Form::Scalar(_), Form::Scalar(_))
            | (Form::List(_), Form::List(_))
            | (Form::Nothing, Form::Nothing)
    )
}

pub(super) fn field<'v>(map: Option<&'v Map<String, Value>>, name: &str) -> Option<&'v Value> {
    map?.get(name)
}
