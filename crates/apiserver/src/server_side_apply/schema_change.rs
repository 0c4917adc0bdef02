//! Adapts field sets that were written under an older schema.
//!
//! The owner of a part of a value that has become atomic since then owns the whole value.

use std::collections::BTreeMap;

use super::merge_schema::{MergeSchema, TypeRef, ValueType};
use super::path::{FieldPathStack, PathElement};
use super::set::FieldSet;
use crate::type_model::ListKind;

impl MergeSchema<'_> {
    pub(super) fn reconcile_with_schema(self, shape: TypeRef, mut set: FieldSet) -> FieldSet {
        let mut walk = AtomicFieldVisitor { schema: self, atomic: FieldSet::default() };
        walk.visit(FieldPathStack::Root, shape, Some(&set), false);
        if !walk.atomic.is_empty() {
            set.subtract_all(&walk.atomic);
            set.extend(walk.atomic);
        }
        set
    }
}

struct AtomicFieldVisitor<'a> {
    schema: MergeSchema<'a>,
    /// The paths of values that are atomic now and of which parts are owned.
    atomic: FieldSet,
}

impl AtomicFieldVisitor<'_> {
    /// `is_leaf`: the path is a member and nothing below it is.
    fn visit(
        &mut self,
        trail: FieldPathStack<'_>,
        shape: TypeRef,
        set: Option<&FieldSet>,
        is_leaf: bool,
    ) {
        let atom = self.schema.resolve(shape);
        // A type without a schema allows all forms; the visitor treats it as a map.
        match atom.value_type(&serde_json::Value::Null) {
            ValueType::Map(map) => {
                if map.element_type == TypeRef::Deduced && map.fields.is_none_or(BTreeMap::is_empty)
                {
                    return;
                }
                if !is_leaf && map.atomic {
                    if set.is_some_and(|set| !set.is_empty()) {
                        self.atomic.insert_stack(trail);
                    }
                    return;
                }
                self.visit_children(trail, set, |element| match element {
                    PathElement::Field(name) => map.field(name),
                    _ => map.element_type,
                });
            }
            ValueType::List(list) => {
                if !is_leaf && *list.kind == ListKind::Atomic {
                    self.atomic.insert_stack(trail);
                    return;
                }
                self.visit_children(trail, set, |_| list.items);
            }
            ValueType::Scalar(_) | ValueType::Undeclared => {}
        }
    }

    fn visit_children(
        &mut self,
        trail: FieldPathStack<'_>,
        set: Option<&FieldSet>,
        shape: impl Fn(&PathElement) -> TypeRef,
    ) {
        let Some(set) = set else { return };
        let parents = set.children().map(|(element, _)| element);
        let parents = parents.filter(|element| !set.has_member(element)).map(|e| (e, false));
        let elements: Vec<_> =
            parents.chain(set.members().map(|element| (element, true))).collect();
        for (element, is_member) in elements {
            let shape = shape(element);
            if shape == TypeRef::Undeclared {
                continue;
            }
            let below = set.child(element);
            let trail = FieldPathStack::Item(&trail, element);
            self.visit(trail, shape, below, is_member && below.is_none());
        }
    }
}
