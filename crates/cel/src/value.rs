//! Values of expressions: a view into an object through its schema, or something computed.

use std::borrow::Cow;
use std::sync::Arc;

use karpenter_grammar::Amount;
use kube_cel::cel::Value as LibraryValue;
use serde_json::{Map as JsonMap, Value};

use crate::{Error, Schema, SchemaType, StringFormat, go_text, library};

#[derive(Debug, Clone)]
pub enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Double(f64),
    String(Cow<'a, str>),
    Bytes(Arc<[u8]>),
    List(List<'a>),
    Map(Map<'a>),
    Type(&'static str),
    Optional(Option<Arc<Val<'a>>>),
    Quantity(Amount),
    /// What only the library knows: durations, timestamps, versions, addresses, ...
    Library(LibraryValue),
    /// Data without a schema. It can only be compared.
    Untyped(&'a Value),
}

#[derive(Debug, Clone)]
pub enum List<'a> {
    Data { items: &'a [Value], schema: &'a Schema },
    Computed(Arc<[Val<'a>]>),
}

#[derive(Debug, Clone)]
pub enum Map<'a> {
    Data {
        fields: &'a JsonMap<String, Value>,
        schema: &'a Schema,
        root: bool,
    },
    /// A map of a few entries, each key once.
    Computed(Arc<[(Val<'a>, Val<'a>)]>),
    /// As `Computed` with text keys, but any missing key yields an empty map.
    ///
    /// The operator `in` still finds only the existing keys.
    ByDomain(Arc<[(Val<'a>, Val<'a>)]>),
}

impl<'a> Val<'a> {
    /// Converts the value of `self` or `oldSelf`.
    ///
    /// The root of a resource has its type and name besides its schema.
    pub fn from_self(value: &'a Value, schema: &'a Schema, root: bool) -> Result<Self, Error> {
        match (value, root) {
            (Value::Object(fields), true) => Ok(Self::Map(Map::Data { fields, schema, root })),
            _ => Self::from_json(value, schema),
        }
    }

    pub(crate) fn from_json(value: &'a Value, schema: &'a Schema) -> Result<Self, Error> {
        if value.is_null() {
            let refused = || Error::new("invalid data, got null for schema with nullable=false");
            return schema.nullable.then_some(Self::Null).ok_or_else(refused);
        }
        if schema.int_or_string {
            return match value {
                Value::String(text) => Ok(Self::String(Cow::Borrowed(text))),
                Value::Number(number) if number.is_i64() => {
                    Ok(Self::Int(number.as_i64().unwrap_or_default()))
                }
                _ => Err(Error::new(
                    "invalid data, expected XIntOrString value to be either a string or integer",
                )),
            };
        }
        let mismatch = |expected: &str| {
            Err(Error::new(format!(
                "invalid data, expected {expected}, got {}",
                go_text::type_name(value)
            )))
        };
        match (schema.value_type, value) {
            (Some(SchemaType::Object), Value::Object(fields)) => {
                Ok(Self::Map(Map::Data { fields, schema, root: schema.embedded_resource }))
            }
            (Some(SchemaType::Object), _) => Err(Error::new(
                "invalid data, expected a map for the provided schema with type=object",
            )),
            (Some(SchemaType::Array), Value::Array(items)) => {
                Ok(Self::List(List::Data { items, schema }))
            }
            (Some(SchemaType::Array), _) => Err(Error::new(
                "invalid data, expected an array for the provided schema with type=array",
            )),
            (Some(SchemaType::String), Value::String(text)) => Self::from_string(text, schema),
            (Some(SchemaType::String), _) => mismatch("string"),
            (Some(SchemaType::Number), Value::Number(number)) => {
                Ok(Self::Double(number.as_f64().unwrap_or(f64::NAN)))
            }
            (Some(SchemaType::Number), _) => mismatch("float"),
            (Some(SchemaType::Integer), Value::Number(number)) if number.is_i64() => {
                Ok(Self::Int(number.as_i64().unwrap_or_default()))
            }
            (Some(SchemaType::Integer), _) => mismatch("int"),
            (Some(SchemaType::Boolean), Value::Bool(value)) => Ok(Self::Bool(*value)),
            (Some(SchemaType::Boolean), _) => mismatch("bool"),
            (None, value) => Ok(Self::Untyped(value)),
        }
    }

    fn from_string(text: &'a str, schema: &'a Schema) -> Result<Self, Error> {
        let convert = Self::convert_string;
        match schema.format {
            Some(StringFormat::DateTime) => convert("timestamp", Cow::Borrowed(text)),
            Some(StringFormat::Date) => {
                convert("timestamp", Cow::Owned(format!("{text}T00:00:00Z")))
            }
            Some(StringFormat::Duration) => convert("duration", Cow::Borrowed(text)),
            Some(StringFormat::Byte) => convert("base64.decode", Cow::Borrowed(text)),
            None => Ok(Self::String(Cow::Borrowed(text))),
        }
    }

    /// Converts a text with a library function: to a timestamp, a version, ...
    pub(crate) fn convert_string(
        function: &'static str,
        text: impl Into<Cow<'a, str>>,
    ) -> Result<Self, Error> {
        library::call(function, None, vec![Val::String(text.into())])
    }

    pub fn text(text: impl Into<String>) -> Self {
        Self::String(Cow::Owned(text.into()))
    }

    pub(crate) fn list(items: Vec<Val<'a>>) -> Self {
        Self::List(List::Computed(items.into()))
    }

    pub fn some(value: Val<'a>) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    pub fn as_bool(&self) -> Result<bool, Error> {
        match self {
            Self::Bool(value) => Ok(*value),
            _ => Err(Error::no_such_overload()),
        }
    }

    /// The name that `type()` gives and that conversion errors use.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::UInt(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Library(LibraryValue::Duration(_)) => "google.protobuf.Duration",
            Self::Library(LibraryValue::Timestamp(_)) => "google.protobuf.Timestamp",
            Self::Library(_) => "kubernetes.Opaque",
            Self::Untyped(_) => "unknown",
        }
    }
}

impl<'a> List<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Data { items, .. } => items.len(),
            Self::Computed(items) => items.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Result<Val<'a>, Error>> {
        match self {
            Self::Data { items, schema } => {
                let value = items.get(index)?;
                Some(match &schema.items {
                    Some(schema) => Val::from_json(value, schema),
                    None => Ok(Val::Untyped(value)),
                })
            }
            Self::Computed(items) => items.get(index).cloned().map(Ok),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<Val<'a>, Error>> {
        (0..self.len()).map_while(|index| self.get(index))
    }
}

/// The schema of `apiVersion` and `kind` at the root of every resource.
static STRING_SCHEMA: std::sync::LazyLock<Schema> = std::sync::LazyLock::new(|| Schema {
    value_type: Some(SchemaType::String),
    ..Schema::default()
});

/// The schema of `metadata` at the root of every resource.
static METADATA_SCHEMA: std::sync::LazyLock<Schema> = std::sync::LazyLock::new(|| {
    let string = || Arc::new(Schema { value_type: Some(SchemaType::String), ..Schema::default() });
    Schema {
        value_type: Some(SchemaType::Object),
        properties: ["name", "generateName"].map(|name| (name.to_owned(), string())).into(),
        ..Schema::default()
    }
});

/// The schema of a field, if expressions can see it.
pub(crate) fn field_schema<'a>(schema: &'a Schema, root: bool, name: &str) -> Option<&'a Schema> {
    match name {
        "apiVersion" | "kind" if root => Some(&STRING_SCHEMA),
        "metadata" if root => Some(&METADATA_SCHEMA),
        _ if root || !schema.properties.is_empty() => schema.properties.get(name).map(Arc::as_ref),
        _ => schema.map_values.as_deref(),
    }
}

impl<'a> Map<'a> {
    /// As the API server counts: fields that the schema does not know count too.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Data { fields, .. } => fields.len(),
            Self::Computed(entries) | Self::ByDomain(entries) => entries.len(),
        }
    }

    /// A struct has declared fields under escaped names; a map has free keys.
    fn is_struct(&self) -> bool {
        match self {
            Self::Data { schema, root, .. } => *root || !schema.properties.is_empty(),
            Self::Computed(_) | Self::ByDomain(_) => false,
        }
    }

    /// The value of a key. For a struct, null is the same as absent, and `field` is its name in
    /// the expression with the escapes undone; `None` if that is not possible.
    pub(crate) fn select(&self, key: &str, field: Option<&str>) -> Option<Result<Val<'a>, Error>> {
        match self {
            Self::Data { fields, schema, root } => {
                let is_struct = self.is_struct();
                let name = if is_struct { field? } else { key };
                let value = fields.get(name).filter(|value| !is_struct || !value.is_null())?;
                Some(Val::from_json(value, field_schema(schema, *root, name)?))
            }
            Self::Computed(entries) => find_string_key(entries, key).map(Ok),
            Self::ByDomain(entries) => Some(Ok(find_string_key(entries, key)
                .unwrap_or_else(|| Val::Map(Self::Computed(Vec::new().into()))))),
        }
    }

    /// Whether there is a value of a computed key.
    pub(crate) fn has_key(&self, key: &Val<'_>) -> Result<bool, Error> {
        match (self, key) {
            (Self::ByDomain(entries), Val::String(key)) => {
                Ok(find_string_key(entries, key).is_some())
            }
            _ => Ok(self.get(key).transpose()?.is_some()),
        }
    }

    /// The value of a computed key.
    pub(crate) fn get(&self, key: &Val<'_>) -> Option<Result<Val<'a>, Error>> {
        match (self, key) {
            (_, Val::String(key)) => self.select(key, Some(key)),
            (Self::Computed(entries), key) => entries
                .iter()
                .find(|(found, _)| is_same_key(found, key))
                .map(|(_, value)| Ok(value.clone())),
            (Self::Data { .. } | Self::ByDomain(_), _) => Some(Err(Error::no_such_overload())),
        }
    }

    /// The keys that an iteration visits, in the order of the object.
    pub(crate) fn keys(&self) -> Vec<Val<'a>> {
        match self {
            Self::Data { fields, schema, root } => fields
                .keys()
                .filter(|name| field_schema(schema, *root, name).is_some())
                .map(|name| Val::String(Cow::Borrowed(name.as_str())))
                .collect(),
            Self::Computed(entries) | Self::ByDomain(entries) => {
                entries.iter().map(|(key, _)| key.clone()).collect()
            }
        }
    }

    /// Returns the data of a field without a schema; it compares as plain JSON.
    pub(crate) fn untyped_field(&self, name: &str) -> Option<&'a Value> {
        match self {
            Self::Data { fields, schema, root } => {
                field_schema(schema, *root, name).is_none().then(|| fields.get(name)).flatten()
            }
            Self::Computed(_) | Self::ByDomain(_) => None,
        }
    }
}

fn find_string_key<'a>(entries: &[(Val<'a>, Val<'a>)], key: &str) -> Option<Val<'a>> {
    let found = entries.iter().find(|(k, _)| matches!(k, Val::String(known) if known == key));
    found.map(|(_, value)| value.clone())
}

/// Keys are booleans, integers and strings; an integer equals its unsigned form.
pub(crate) fn is_same_key(a: &Val<'_>, b: &Val<'_>) -> bool {
    match (a, b) {
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::String(a), Val::String(b)) => a == b,
        (Val::Int(a), Val::Int(b)) => a == b,
        (Val::UInt(a), Val::UInt(b)) => a == b,
        (Val::Int(a), Val::UInt(b)) | (Val::UInt(b), Val::Int(a)) => u64::try_from(*a) == Ok(*b),
        _ => false,
    }
}
