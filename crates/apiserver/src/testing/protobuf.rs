//! Objects written as protobuf, for tests that send it. What the product reads and never writes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::kinds;
use crate::type_model::{GoType, Scalar, Type, TypeId};

/// Reads a message of a type such as `io.k8s.api.core.v1.Pod`, as the body of a request is read.
pub fn from_protobuf(name: &str, bytes: &[u8]) -> Result<Value, String> {
    let id = kinds::types().find_by_name(name).ok_or_else(|| format!("{name} is unknown"))?;
    crate::verbs::body::from_protobuf(id, bytes)
}

/// A body with the object in it. `None` if its kind is not a built-in one.
pub fn body(object: &Value) -> Option<Vec<u8>> {
    let text = |field: &str| object[field].as_str();
    let (version, kind) = (text("apiVersion")?, text("kind")?);
    let (group, short) = version.rsplit_once('/').unwrap_or(("", version));
    let id = match kind {
        "DeleteOptions" => {
            kinds::types().find_by_name("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")
        }
        kind => crate::verbs::body::message_type(group, short, kind),
    }?;
    let raw = message(id, object.as_object()?);
    Some(envelope(version, kind, &raw))
}

/// Returns the envelope of a message.
pub fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let kind = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), bytes(1, &kind), bytes(2, raw)].concat()
}

/// A field of bytes, text or a message.
pub fn bytes(number: u32, value: &[u8]) -> Vec<u8> {
    let length = u64::try_from(value.len()).expect("it is in memory");
    [varint(u64::from(number) << 3 | 2), varint(length), value.to_vec()].concat()
}

/// A field of a number.
pub fn int(number: u32, value: i64) -> Vec<u8> {
    [varint(u64::from(number) << 3), varint(value.cast_unsigned())].concat()
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut written = Vec::new();
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            written.push(low & 0x7f);
            return written;
        }
        written.push(low | 0x80);
    }
}

fn message(id: TypeId, fields: &Map<String, Value>) -> Vec<u8> {
    let types = kinds::types();
    let (Type::Object(object), Some(go)) = (types.get(id), types.go_type(id)) else {
        return Vec::new();
    };
    let mut written = Vec::new();
    for (name, value) in fields {
        let (Some(field), Some(numbers)) = (object.fields.get(name.as_str()), numbers(go, name))
        else {
            continue;
        };
        let [embedded @ .., number] = numbers else { continue };
        let field = field_of(field.type_id, *number, value);
        // Each field of an embedded struct comes in a message of its own: they are read as one.
        written.extend(embedded.iter().rev().fold(field, |field, number| bytes(*number, &field)));
    }
    written
}

fn numbers<'a>(go: &'a GoType, name: &str) -> Option<&'a [u32]> {
    go.numbers.iter().find(|(_, field)| ***field == *name).map(|(numbers, _)| &**numbers)
}

/// Returns a value with its tag, or nothing for null.
fn field_of(id: TypeId, number: u32, value: &Value) -> Vec<u8> {
    let types = kinds::types();
    match (types.get(id), value) {
        (_, Value::Null) => Vec::new(),
        (Type::Object(_), Value::Object(fields)) => bytes(number, &message(id, fields)),
        (Type::List { items, .. }, Value::Array(values)) => {
            values.iter().flat_map(|value| field_of(*items, number, value)).collect()
        }
        (Type::Map { values, .. }, Value::Object(entries)) => entries
            .iter()
            .flat_map(|(key, value)| {
                let entry = [bytes(1, key.as_bytes()), field_of(*values, 2, value)].concat();
                bytes(number, &entry)
            })
            .collect(),
        (Type::Any, value) => any(id, number, value),
        (Type::Scalar(scalar), value) => scalar_of(*scalar, number, value),
        _ => Vec::new(),
    }
}

fn any(id: TypeId, number: u32, value: &Value) -> Vec<u8> {
    const SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    let name = kinds::types().go_type(id).map_or("", |go| &*go.name);
    let schema = kinds::types().find_by_name(SCHEMA).expect("the table has it");
    let inner = match (name, value) {
        ("v1.JSONSchemaPropsOrBool", Value::Bool(allows)) => int(1, i64::from(*allows)),
        ("v1.JSONSchemaPropsOrBool", value) => [int(1, 1), field_of(schema, 2, value)].concat(),
        ("v1.JSONSchemaPropsOrArray", Value::Object(_)) => field_of(schema, 1, value),
        ("v1.JSONSchemaPropsOrStringArray", Value::Array(texts)) => {
            texts.iter().flat_map(|text| scalar_of(Scalar::Text, 2, text)).collect()
        }
        (_, value) => bytes(1, value.to_string().as_bytes()),
    };
    bytes(number, &inner)
}

fn scalar_of(scalar: Scalar, number: u32, value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap_or_default();
    let integer = value.as_i64().unwrap_or_default();
    match scalar {
        Scalar::Text => bytes(number, text.as_bytes()),
        Scalar::Boolean => int(number, i64::from(value.as_bool().unwrap_or_default())),
        Scalar::Integer => int(number, integer),
        Scalar::Number => {
            let double = value.as_f64().unwrap_or_default().to_le_bytes();
            [varint(u64::from(number) << 3 | 1), double.to_vec()].concat()
        }
        Scalar::Bytes => bytes(number, &STANDARD.decode(text).unwrap_or_default()),
        Scalar::Time | Scalar::MicroTime => {
            let time: Timestamp = text.parse().unwrap_or_default();
            let nanos = i64::from(time.subsec_nanosecond());
            bytes(number, &[int(1, time.as_second()), int(2, nanos)].concat())
        }
        Scalar::Quantity => {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            bytes(number, &bytes(1, text.as_bytes()))
        }
        Scalar::IntOrString if value.is_string() => {
            bytes(number, &[int(1, 1), bytes(3, text.as_bytes())].concat())
        }
        Scalar::IntOrString => bytes(number, &[int(1, 0), int(2, integer)].concat()),
    }
}
