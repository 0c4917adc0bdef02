//! The merge schema: the type model as server-side apply sees it, of scalars, lists and maps.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::type_model::{Field, ListKind, Scalar, Type, TypeId, Types};

/// The type model of one API, extended by types for data without a schema.
#[derive(Debug, Clone, Copy)]
pub(super) struct MergeSchema<'a>(pub(super) &'a Types);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TypeRef {
    Typed(TypeId),
    /// Without a schema: maps are owned key by key, lists as a whole.
    Deduced,
    /// Without a schema, within a list without a schema: owned as a whole.
    Untyped,
    /// Not declared.
    Undeclared,
}

/// What a type allows a value to be. More than one only for data without a schema.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Atom<'a> {
    pub(super) scalar: Option<ScalarKind>,
    pub(super) list: Option<ListSchema<'a>>,
    pub(super) map: Option<MapSchema<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScalarKind {
    Numeric,
    Text,
    Boolean,
    Any,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ListSchema<'a> {
    pub(super) items: TypeRef,
    pub(super) kind: &'a ListKind,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct MapSchema<'a> {
    pub(super) fields: Option<&'a BTreeMap<Box<str>, Field>>,
    /// The type of fields that the map does not declare.
    pub(super) element_type: TypeRef,
    pub(super) atomic: bool,
}

/// The alternative of its type that a value has: map, scalar or list.
#[derive(Debug, Clone, Copy)]
pub(super) enum ValueType<'a> {
    Map(MapSchema<'a>),
    Scalar(ScalarKind),
    List(ListSchema<'a>),
    /// The field is not declared.
    Undeclared,
}

impl MapSchema<'_> {
    pub(super) fn field(&self, name: &str) -> TypeRef {
        match self.fields.and_then(|fields| fields.get(name)) {
            Some(field) => TypeRef::Typed(field.type_id),
            None => self.element_type,
        }
    }

    pub(super) fn declares(&self, name: &str) -> bool {
        self.fields.is_some_and(|fields| fields.contains_key(name))
    }
}

impl<'a> MergeSchema<'a> {
    pub(super) fn resolve(self, shape: TypeRef) -> Atom<'a> {
        let without_schema = |below: TypeRef, atomic: bool| Atom {
            scalar: Some(ScalarKind::Any),
            list: Some(ListSchema { items: TypeRef::Untyped, kind: &ListKind::Atomic }),
            map: Some(MapSchema { fields: None, element_type: below, atomic }),
        };
        let id = match shape {
            TypeRef::Typed(id) => id,
            TypeRef::Deduced => return without_schema(TypeRef::Deduced, false),
            TypeRef::Untyped => return without_schema(TypeRef::Untyped, true),
            TypeRef::Undeclared => return Atom::default(),
        };
        match self.0.get(id) {
            // A raw value in a built-in kind is owned as a whole.
            Type::Any if self.0.go_type(id).is_some() => without_schema(TypeRef::Untyped, true),
            Type::Any => without_schema(TypeRef::Deduced, false),
            Type::Scalar(scalar) => Atom { scalar: Some(scalar_kind(*scalar)), ..Atom::default() },
            Type::List { items, kind } => Atom {
                list: Some(ListSchema { items: TypeRef::Typed(*items), kind }),
                ..Atom::default()
            },
            Type::Map { values, atomic } => {
                let map = MapSchema {
                    fields: None,
                    element_type: TypeRef::Typed(*values),
                    atomic: *atomic,
                };
                Atom { map: Some(map), ..Atom::default() }
            }
            Type::Object(object) => {
                let open = object.preserves_unknown_fields || object.fields.is_empty();
                let map = MapSchema {
                    fields: Some(&object.fields),
                    element_type: if open { TypeRef::Deduced } else { TypeRef::Undeclared },
                    atomic: object.atomic,
                };
                Atom { map: Some(map), ..Atom::default() }
            }
        }
    }

    /// Returns the alternative of the type that `value` has or must have.
    pub(super) fn value_type(self, shape: TypeRef, value: &Value) -> ValueType<'a> {
        self.resolve(shape).value_type(value)
    }
}

impl<'a> Atom<'a> {
    pub(super) fn declares(&self, name: &str) -> bool {
        self.map.is_some_and(|map| map.declares(name))
    }

    pub(super) fn value_type(&self, value: &Value) -> ValueType<'a> {
        match (value, self) {
            (
                Value::Bool(_) | Value::Number(_) | Value::String(_),
                Self { scalar: Some(s), .. },
            ) => ValueType::Scalar(*s),
            (Value::Array(_), Self { list: Some(list), .. }) => ValueType::List(*list),
            (_, Self { map: Some(map), .. }) => ValueType::Map(*map),
            (_, Self { scalar: Some(scalar), .. }) => ValueType::Scalar(*scalar),
            (_, Self { list: Some(list), .. }) => ValueType::List(*list),
            _ => ValueType::Undeclared,
        }
    }
}

/// Accepts any scalar for times and numbers with units, which may be written in several ways.
/// Decoding rejects the invalid ones.
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
