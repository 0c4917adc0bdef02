//! A strict decoder that only looks: it finds unknown keys and values of the wrong type.
//!
//! It goes through a document in the order of upstream's decoder and speaks in its words. Two
//! rules of that decoder shape the code: a value of a plain type that does not fit is remembered
//! and decoding goes on, while a text that a type parses by itself (a duration, a quantity) ends
//! it at once. Either is then the only message. Duplicate keys, which upstream reports too, cannot
//! be seen here: a JSON value has lost them, and the API server keeps only the last one anyway.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::type_model::{KUBELET_CONFIGURATION, StructType, ValueType};
use crate::grammar::{Amount, QuantityError, parse_duration};

/// The most unknown keys that are reported.
/// A document of junk must not make a message of megabytes.
const UNKNOWN_KEYS_MAX: usize = 100;

/// Returns the errors of `config` as a KubeletConfiguration.
/// One error of type, or else every unknown key.
pub(super) fn errors(config: &Map<String, Value>) -> Vec<String> {
    let mut decoder = Decoder::default();
    // The keys of the outermost object come sorted, those inside as they are stored.
    let mut keys: Vec<_> = config.iter().collect();
    keys.sort_by_key(|(key, _)| *key);
    let top = DecodePath {
        go_struct: unqualified_name(KUBELET_CONFIGURATION.go),
        go_path: "",
        json_path: "",
    };
    match decoder.check_fields(keys.into_iter(), &KUBELET_CONFIGURATION, top) {
        Err(end) => vec![end],
        Ok(()) => decoder.mismatch.map_or(decoder.unknown_keys, |mismatch| vec![mismatch]),
    }
}

#[derive(Default)]
struct Decoder {
    /// The first value of the wrong type.
    mismatch: Option<String>,
    unknown_keys: Vec<String>,
}

/// The position in the document, in both notations that messages use.
#[derive(Clone, Copy)]
struct DecodePath<'a> {
    /// Name of the innermost Go struct.
    go_struct: &'a str,
    /// Path of fields, without indexes.
    go_path: &'a str,
    /// Path of keys, with indexes.
    json_path: &'a str,
}

/// The message of an error that ends the decoding.
type DecodeFailure = String;

impl Decoder {
    fn check_fields<'v>(
        &mut self,
        keys: impl Iterator<Item = (&'v String, &'v Value)>,
        value_type: &StructType,
        path: DecodePath<'_>,
    ) -> Result<(), DecodeFailure> {
        for (key, value) in keys {
            let json_path = join(path.json_path, key);
            let Some(field) = value_type.fields.iter().find(|field| field.name == key) else {
                self.report_unknown_key(&json_path);
                continue;
            };
            let go_path = match field.embedded_in {
                Some(parent) => join(&join(path.go_path, parent), key),
                None => join(path.go_path, key),
            };
            let path = DecodePath {
                go_struct: unqualified_name(value_type.go),
                go_path: &go_path,
                json_path: &json_path,
            };
            self.check_value(value, &field.value_type, path)?;
        }
        Ok(())
    }

    fn check_value(
        &mut self,
        value: &Value,
        value_type: &ValueType,
        path: DecodePath<'_>,
    ) -> Result<(), DecodeFailure> {
        match (value_type, value) {
            (ValueType::Duration { optional: false }, Value::Null) => {
                check_parsed(parse_duration(""))
            }
            (_, Value::Null)
            | (ValueType::Text(_), Value::String(_))
            | (ValueType::Bool, Value::Bool(_))
            | (ValueType::Float, Value::Number(_)) => Ok(()),
            (ValueType::Integer { min, max, .. }, Value::Number(number))
                if number.as_i64().is_some_and(|n| (*min..=*max).contains(&n)) =>
            {
                Ok(())
            }
            (ValueType::List(_, items), Value::Array(values)) => {
                for (index, value) in values.iter().enumerate() {
                    let json_path = format!("{}[{index}]", path.json_path);
                    self.check_value(value, items, DecodePath { json_path: &json_path, ..path })?;
                }
                Ok(())
            }
            (ValueType::Map(_, values), Value::Object(object)) => {
                for (key, value) in object {
                    let json_path = join(path.json_path, key);
                    self.check_value(value, values, DecodePath { json_path: &json_path, ..path })?;
                }
                Ok(())
            }
            (ValueType::Struct(value_type), Value::Object(object)) => {
                self.check_fields(object.iter(), value_type, path)
            }
            (ValueType::Duration { .. } | ValueType::DurationOrNanos, Value::String(text)) => {
                check_parsed(parse_duration(text))
            }
            (ValueType::DurationOrNanos, _) => check_nanos(value),
            (ValueType::Quantity, _) => check_quantity(value),
            (ValueType::Time, Value::String(text)) => check_time(text),
            (ValueType::Duration { .. } | ValueType::Time, _) => {
                Err(mismatch_error(value, value_type, path))
            }
            _ => {
                self.mismatch.get_or_insert_with(|| mismatch_error(value, value_type, path));
                Ok(())
            }
        }
    }

    fn report_unknown_key(&mut self, path: &str) {
        if self.unknown_keys.len() < UNKNOWN_KEYS_MAX {
            self.unknown_keys.push(format!("unknown field {path:?}"));
        }
    }
}

fn check_parsed<T, E: ToString>(result: Result<T, E>) -> Result<(), DecodeFailure> {
    result.map(drop).map_err(|error| error.to_string())
}

fn check_nanos(value: &Value) -> Result<(), DecodeFailure> {
    if value.as_i64().is_some() {
        return Ok(());
    }
    let text = value.to_string();
    let found = describe(value, true);
    Err(format!(
        "invalid duration {text:?}: json: cannot unmarshal {found} into Go value of type time.Duration"
    ))
}

/// Checks a quantity, which is read from the JSON text of any value.
/// So `5` is one and `true` is an invalid one.
fn check_quantity(value: &Value) -> Result<(), DecodeFailure> {
    match value {
        Value::String(text) => check_parsed(text.trim().parse::<Amount>()),
        Value::Number(number) => check_parsed(number.to_string().parse::<Amount>()),
        _ => check_parsed::<(), _>(Err(QuantityError::Format)),
    }
}

fn check_time(text: &str) -> Result<(), DecodeFailure> {
    match text.parse::<Timestamp>() {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\"")),
    }
}

fn mismatch_error(value: &Value, value_type: &ValueType, path: DecodePath<'_>) -> String {
    let found = describe(value, matches!(value_type, ValueType::Integer { .. }));
    let go = go_type(value_type);
    let DecodePath { go_struct, go_path, .. } = path;
    format!(
        "json: cannot unmarshal {found} into Go struct field {go_struct}.{go_path} of type {go}"
    )
}

/// The kind of value that was found; a number that does not fit an integer is shown.
fn describe(value: &Value, into_integer: bool) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(number) if into_integer => format!("number {number}"),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    }
}

fn go_type(value_type: &ValueType) -> &'static str {
    match value_type {
        ValueType::Text(go)
        | ValueType::Integer { go, .. }
        | ValueType::List(go, _)
        | ValueType::Map(go, _) => go,
        ValueType::Struct(value_type) => value_type.go,
        ValueType::Bool => "bool",
        ValueType::Float => "float64",
        ValueType::Duration { .. }
        | ValueType::DurationOrNanos
        | ValueType::Quantity
        | ValueType::Time => "string",
    }
}

/// Returns the Go name without its package.
fn unqualified_name(go: &'static str) -> &'static str {
    go.rsplit('.').next().unwrap_or(go)
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
