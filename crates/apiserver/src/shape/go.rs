//! What a type is in Go: its name in messages, and which of its fields are written when empty.

use std::collections::BTreeMap;

/// How Go calls a type, and how it writes the fields of a struct.
#[derive(Debug, Clone, Default)]
pub(crate) struct GoType {
    /// `v1.PodSpec`, `[]v1.Container`, `int32`.
    pub(crate) name: Box<str>,
    /// Empty for what is no struct.
    pub(crate) fields: BTreeMap<Box<str>, GoField>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct GoField {
    /// Absent is something else than empty.
    pub(crate) pointer: bool,
    pub(crate) omit: Omit,
    /// The embedded structs that it comes from; messages name them.
    pub(crate) via: Vec<Box<str>>,
}

/// When a field is left out of what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Omit {
    #[default]
    Never,
    /// `omitempty`: structs are written nevertheless.
    Empty,
    /// `omitzero`
    Zero,
}
