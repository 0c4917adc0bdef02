//! Describes the Go struct of a type: its name in messages, its fields that are written when empty,
//! and their numbers in protobuf.

use std::collections::BTreeMap;
use std::ops::Bound;

/// The name of the Go type in messages, and the fields of a struct.
#[derive(Debug, Clone, Default)]
pub(crate) struct GoType {
    /// `v1.PodSpec`, `[]v1.Container`, `int32`.
    pub(crate) name: Box<str>,
    /// Empty for types that are no struct.
    pub(crate) fields: BTreeMap<Box<str>, GoField>,
    /// The fields by their numbers in protobuf. Those of embedded structs have several: one for
    /// each struct on the way.
    pub(crate) numbers: BTreeMap<Box<[u32]>, Box<str>>,
}

/// The field or embedded struct that a protobuf number identifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProtobufField<'a> {
    Field(&'a str),
    /// A struct that is embedded, with its name.
    Embedded(&'a str),
}

impl GoType {
    pub(crate) fn protobuf_field(&self, numbers: &[u32]) -> Option<ProtobufField<'_>> {
        if let Some(name) = self.numbers.get(numbers) {
            return Some(ProtobufField::Field(name));
        }
        let from = (Bound::Excluded(numbers), Bound::Unbounded);
        let (found, name) = self.numbers.range::<[u32], _>(from).next()?;
        // A field that it holds names the structs on the way.
        let via = &self.fields.get(name)?.embedded_structs;
        let part = numbers.len().checked_sub(1).and_then(|at| via.get(at))?;
        found.starts_with(numbers).then_some(ProtobufField::Embedded(part))
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct GoField {
    /// Absent is something else than empty.
    pub(crate) pointer: bool,
    pub(crate) omit: OmitRule,
    /// The embedded structs that contain the field; protobuf errors name them.
    pub(crate) embedded_structs: Vec<Box<str>>,
}

/// The rule by which the encoder omits an empty field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum OmitRule {
    #[default]
    Never,
    /// `omitempty`: structs are written nevertheless.
    Empty,
    /// `omitzero`
    Zero,
}
