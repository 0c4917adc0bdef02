//! Types as merging sees them: a scalar, a list or a map, each owned in parts or as a whole.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::shape::{Field, ListKind, Scalar, Type, TypeId, Types};

/// The types of one API, with the two that stand for data without a schema.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shapes<'a>(pub(super) &'a Types);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ref {
    Typed(TypeId),
    /// Without a schema: maps are owned key by key, lists as a whole.
    Deduced,
    /// Without a schema, below a list of such: owned as a whole.
    Untyped,
    /// Not declared.
    None,
}

/// What a type allows a value to be. More than one only for data without a schema.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Atom<'a> {
    pub(super) scalar: Option<ScalarKind>,
    pub(super) list: Option<List<'a>>,
    pub(super) map: Option<MapShape<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScalarKind {
    Numeric,
    Text,
    Boolean,
    Any,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct List<'a> {
    pub(super) items: Ref,
    pub(super) kind: &'a ListKind,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct MapShape<'a> {
    pub(super) fields: Option<&'a BTreeMap<Box<str>, Field>>,
    /// The type of what is not a declared field.
    pub(super) others: Ref,
    pub(super) atomic: bool,
}

/// Which of the things that its type allows a value is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form<'a> {
    Map(MapShape<'a>),
    Scalar(ScalarKind),
    List(List<'a>),
    /// The field is not declared.
    Nothing,
}

impl MapShape<'_> {
    pub(super) fn field(&self, name: &str) -> Ref {
        match self.fields.and_then(|fields| fields.get(name)) {
            Some(field) => Ref::Typed(field.shape),
            None => self.others,
        }
    }

    pub(super) fn declares(&self, name: &str) -> bool {
        self.fields.is_some_and(|fields| fields.contains_key(name))
    }
}

impl<'a> Shapes<'a> {
    pub(super) fn resolve(self, shape: Ref) -> Atom<'a> {
        let without_schema = |below: Ref, atomic: bool| Atom {
            scalar: Some(ScalarKind::Any),
            list: Some(List { items: Ref::Untyped, kind: &ListKind::Atomic }),
            map: Some(MapShape { fields: None, others: below, atomic }),
        };
        let id = match shape {
            Ref::Typed(id) => id,
            Ref::Deduced => return without_schema(Ref::Deduced, false),
            Ref::Untyped => return without_schema(Ref::Untyped, true),
            Ref::None => return Atom::default(),
        };
        match self.0.get(id) {
            // What is raw in a built-in kind is owned as a whole.
            Type::Any if self.0.go(id).is_some() => without_schema(Ref::Untyped, true),
            Type::Any => without_schema(Ref::Deduced, false),
            Type::Scalar(scalar) => Atom { scalar: Some(scalar_kind(*scalar)), ..Atom::default() },
            Type::List { items, kind } => {
                Atom { list: Some(List { items: Ref::Typed(*items), kind }), ..Atom::default() }
            }
            Type::Map { values, atomic } => {
                let map = MapShape { fields: None, others: Ref::Typed(*values), atomic: *atomic };
                Atom { map: Some(map), ..Atom::default() }
            }
            Type::Object(object) => {
                let open = object.open || object.fields.is_empty();
                let map = MapShape {
                    fields: Some(&object.fields),
                    others: if open { Ref::Deduced } else { Ref::None },
                    atomic: object.atomic,
                };
                Atom { map: Some(map), ..Atom::default() }
            }
        }
    }

    /// What `value` is, or has to be.
    pub(super) fn form(self, shape: Ref, value: &Value) -> Form<'a> {
        self.resolve(shape).form(value)
    }
}

impl<'a> Atom<'a> {
    pub(super) fn declares(&self, name: &str) -> bool {
        self.map.is_some_and(|map| map.declares(name))
    }

    pub(super) fn form(&self, value: &Value) -> Form<'a> {
        match (value, self) {
            (
                Value::Bool(_) | Value::Number(_) | Value::String(_),
                Self { scalar: Some(s), .. },
            ) => Form::Scalar(*s),
            (Value::Array(_), Self { list: Some(list), .. }) => Form::List(*list),
            (_, Self { map: Some(map), .. }) => Form::Map(*map),
            (_, Self { scalar: Some(scalar), .. }) => Form::Scalar(*scalar),
            (_, Self { list: Some(list), .. }) => Form::List(*list),
            _ => Form::Nothing,
        }
    }
}

/// Times and numbers with units may be written in more than one way, so any scalar is let through
/// here; decoding says what is wrong with it.
fn scalar_kind(scalar: Scalar) -> ScalarKind {
    match scalar {
        Scalar::Text | Scalar::Bytes => ScalarKind::Text,
        Scalar::Boolean => ScalarKind::Boolean,
        Scalar::Integer | Scalar::Number => ScalarKind::Numeric,
        Scalar::Time | Scalar::MicroTime | Scalar::Quantity | Scalar::IntOrString => {
            ScalarKind::Any
        }
    }
}
