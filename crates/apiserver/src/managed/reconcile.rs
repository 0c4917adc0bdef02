//! Field sets that were written when the schema was another one.
//!
//! What has become atomic since is owned as a whole by whoever owned a part of it.

use std::collections::BTreeMap;

use super::path::{PathElement, Trail};
use super::set::FieldSet;
use super::shape::{Form, Ref, Shapes};
use crate::shape::ListKind;

impl Shapes<'_> {
    pub(super) fn reconcile(self, shape: Ref, mut set: FieldSet) -> FieldSet {
        let mut walk = Walk { shapes: self, atomic: FieldSet::default() };
        walk.visit(Trail::Root, shape, Some(&set), false);
        if !walk.atomic.is_empty() {
            set.subtract_all(&walk.atomic);
            set.extend(walk.atomic);
        }
        set
    }
}

struct Walk<'a> {
    shapes: Shapes<'a>,
    /// Where parts are owned of what is atomic now.
    atomic: FieldSet,
}

impl Walk<'_> {
    /// `is_leaf`: the path is a member and nothing below it is.
    fn visit(&mut self, trail: Trail<'_>, shape: Ref, set: Option<&FieldSet>, is_leaf: bool) {
        let atom = self.shapes.resolve(shape);
        // A type without a schema allows all forms; it is looked at as a map.
        match atom.form(&serde_json::Value::Null) {
            Form::Map(map) => {
                if map.others == Ref::Deduced && map.fields.is_none_or(BTreeMap::is_empty) {
                    return;
                }
                if !is_leaf && map.atomic {
                    if set.is_some_and(|set| !set.is_empty()) {
                        self.atomic.add(trail);
                    }
                    return;
                }
                self.visit_below(trail, set, |element| match element {
                    PathElement::Field(name) => map.field(name),
                    _ => map.others,
                });
            }
            Form::List(list) => {
                if !is_leaf && *list.kind == ListKind::Atomic {
                    self.atomic.add(trail);
                    return;
                }
                self.visit_below(trail, set, |_| list.items);
            }
            Form::Scalar(_) | Form::Nothing => {}
        }
    }

    fn visit_below(
        &mut self,
        trail: Trail<'_>,
        set: Option<&FieldSet>,
        shape: impl Fn(&PathElement) -> Ref,
    ) {
        let Some(set) = set else { return };
        let parents = set.children().map(|(element, _)| element);
        let parents = parents.filter(|element| !set.has_member(element)).map(|e| (e, false));
        let elements: Vec<_> =
            parents.chain(set.members().map(|element| (element, true))).collect();
        for (element, is_member) in elements {
            let shape = shape(element);
            if shape == Ref::None {
                continue;
            }
            let below = set.child(element);
            let trail = Trail::Item(&trail, element);
            self.visit(trail, shape, below, is_member && below.is_none());
        }
    }
}
