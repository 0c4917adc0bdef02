//! Schemas of values, as far as expressions depend on them.
//!
//! Children are shared, so that an owner of a larger schema tree keeps a CEL schema in each of its
//! nodes at the cost of a pointer.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The schema of a value that expressions read.
#[derive(Debug, Default)]
pub struct Schema {
    /// `None` for data without a type, which expressions can only compare.
    pub value_type: Option<SchemaType>,
    pub int_or_string: bool,
    pub nullable: bool,
    /// Whether the value is a whole resource, which has `apiVersion`, `kind` and `metadata`.
    pub embedded_resource: bool,
    pub format: Option<StringFormat>,
    pub properties: BTreeMap<String, Arc<Schema>>,
    /// The schema of map values.
    pub map_values: Option<Arc<Schema>>,
    pub items: Option<Arc<Schema>>,
    pub list_type: ListType,
}

/// The `type` of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaType {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// A string format that gives a string another CEL type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StringFormat {
    /// Bytes in Base64.
    Byte,
    Date,
    DateTime,
    Duration,
}

/// `x-kubernetes-list-type`. Atomic is the default.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum ListType {
    #[default]
    Atomic,
    Set,
    /// With `x-kubernetes-list-map-keys`.
    Map(Vec<String>),
}

impl SchemaType {
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

impl Schema {
    /// Returns whether CEL has a type for values of this schema.
    ///
    /// It has none for data without a schema, nor for lists and maps of such data. Expressions
    /// cannot read such fields, and rules below them never run.
    pub fn has_cel_type(&self) -> bool {
        match self.value_type {
            _ if self.int_or_string => true,
            None => false,
            Some(SchemaType::Array) => {
                self.items.as_ref().is_some_and(|items| items.has_cel_type())
            }
            Some(SchemaType::Object) => {
                self.map_values.as_ref().is_none_or(|values| values.has_cel_type())
            }
            Some(_) => true,
        }
    }
}
