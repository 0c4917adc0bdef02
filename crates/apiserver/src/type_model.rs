//! The type model describes objects: their fields, the types of these, and how lists and maps
//! merge.
//!
//! Built-in and custom kinds have one model. Patches, managed fields, decoding and the published
//! OpenAPI all read it. Constraints on values beyond their type (lengths, patterns, rules) are not
//! here: see [`crate::admission`] for custom kinds and [`crate::kinds`] for built-in ones.

pub mod custom;
mod decode;
mod go_types;
mod protobuf;

use std::collections::BTreeMap;

use serde_json::Value;

pub use self::decode::{check, decode, encode, zero_value};
pub(crate) use self::go_types::{GoField, GoType, OmitRule};
pub(crate) use self::protobuf::{BYTES, WireReader, from_protobuf, utf8_lossy};

/// A type in [`Types`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub u32);

/// All types of one API, by number. Types may contain themselves.
#[derive(Debug, Clone, Default)]
pub struct Types {
    entries: Vec<Type>,
    ids_by_name: BTreeMap<Box<str>, TypeId>,
    /// What types of built-in kinds are in Go.
    go_type_by_id: BTreeMap<TypeId, GoType>,
    /// Types that equal another one, except that managers own them field by field.
    granular_bases: BTreeMap<TypeId, TypeId>,
}

/// What a value is made of.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    Scalar(Scalar),
    /// Known fields.
    Object(ObjectType),
    /// Keys of any name, values of one type: labels, limits, data.
    Map {
        values: TypeId,
        atomic: bool,
    },
    List {
        items: TypeId,
        kind: ListKind,
    },
    /// Anything at all: raw extensions, and custom fields without a schema.
    Any,
}

/// A value without parts, or one that is written as text or number and compared as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    Text,
    Boolean,
    Integer,
    Number,
    /// Base64 text.
    Bytes,
    /// RFC 3339 text, whole seconds.
    Time,
    /// RFC 3339 text with microseconds.
    MicroTime,
    /// Text or number.
    Quantity,
    /// Text or integer.
    IntOrString,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct ObjectType {
    pub fields: BTreeMap<Box<str>, Field>,
    /// Owned and replaced as a whole (`x-kubernetes-map-type: atomic`).
    pub atomic: bool,
    /// Whether unknown fields are kept (`x-kubernetes-preserve-unknown-fields`).
    pub preserves_unknown_fields: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub type_id: TypeId,
    pub required: bool,
    /// What the schema says a missing field stands for.
    pub default: Option<Value>,
    /// How a strategic merge patch treats this field.
    pub strategy: PatchStrategy,
}

/// The merge rules of a field: `x-kubernetes-patch-strategy` and `-merge-key`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PatchStrategy {
    /// Lists: items merge by this key, or as a set when it is `Some("")`. `None`: replaced.
    pub merge_key: Option<Box<str>>,
    /// Objects: fields that the patch does not name are dropped (`retainKeys`).
    pub retain_keys: bool,
    /// Objects: a patch replaces the object as a whole (`replaces`).
    pub replaces: bool,
}

/// `x-kubernetes-list-type`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListKind {
    Atomic,
    Set,
    /// These fields identify an item.
    Map(Box<[Box<str>]>),
}

impl Types {
    /// Adds a type, or the promise of one that [`Types::define`] keeps.
    pub fn add(&mut self, shape: Type) -> TypeId {
        let id = u32::try_from(self.entries.len()).expect("an API has fewer types than that");
        self.entries.push(shape);
        TypeId(id)
    }

    /// Replaces what `id` stands for.
    pub fn define(&mut self, id: TypeId, shape: Type) {
        self.entries[id.0 as usize] = shape;
    }

    /// Gives `id` a name, such as `io.k8s.api.core.v1.Pod`.
    pub fn set_name(&mut self, name: &str, id: TypeId) {
        self.ids_by_name.insert(name.into(), id);
    }

    pub fn get(&self, id: TypeId) -> &Type {
        &self.entries[id.0 as usize]
    }

    pub fn find_by_name(&self, name: &str) -> Option<TypeId> {
        self.ids_by_name.get(name).copied()
    }

    /// Every name with its type, in order of names.
    pub fn names(&self) -> impl Iterator<Item = (&str, TypeId)> {
        self.ids_by_name.iter().map(|(name, id)| (&**name, *id))
    }

    /// Adds a type that equals `id`, which is owned as a whole, but is owned field by field.
    /// [`Types::define_granular`] defines it after all other types.
    pub(crate) fn add_granular(&mut self, id: TypeId) -> TypeId {
        let granular = self.add(Type::Any);
        self.granular_bases.insert(granular, id);
        granular
    }

    pub(crate) fn define_granular(&mut self) {
        for (granular, id) in self.granular_bases.clone() {
            let mut shape = self.get(id).clone();
            if let Type::Object(object) = &mut shape {
                object.atomic = false;
            }
            self.define(granular, shape);
            if let Some(go) = self.go_type_by_id.get(&id).cloned() {
                self.set_go_type(granular, go);
            }
        }
    }

    /// Returns the type that `id` equals, except that it is owned field by field.
    pub(crate) fn granular_base(&self, id: TypeId) -> Option<TypeId> {
        self.granular_bases.get(&id).copied()
    }

    pub(crate) fn set_go_type(&mut self, id: TypeId, go: GoType) {
        self.go_type_by_id.insert(id, go);
    }

    pub(crate) fn go_type(&self, id: TypeId) -> Option<&GoType> {
        self.go_type_by_id.get(&id)
    }
}
