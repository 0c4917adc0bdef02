//! A strict decoder that only looks: it finds unknown keys and values of the wrong type.
//!
//! It goes through a document in the order of upstream's decoder and speaks in its words. Two
//! rules of that decoder shape the code: a value of a plain type that does not fit is remembered
//! and decoding goes on, while a text that a type parses by itself (a duration, a quantity) ends
//! it at once. Either is then the only message. Duplicate keys, which upstream reports too, cannot
//! be seen here: a JSON value has lost them, and the API server keeps only the last one anyway.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::shape::{KUBELET_CONFIGURATION, Shape, Struct};
use crate::grammar::{Amount, QuantityError, parse_duration};

/// Most unknown keys that are listed; a document of junk must not make a message of megabytes.
const UNKNOWN_MAX: usize = 100;

/// What is wrong with `config` as a KubeletConfiguration: one error of type, or else every unknown
/// key.
pub(super) fn errors(config: &Map<String, Value>) -> Vec<String> {
    let mut decoder = Decoder::default();
    // The keys of the outermost object come sorted, those inside as they are stored.
    let mut keys: Vec<_> = config.iter().collect();
    keys.sort_by_key(|(key, _)| *key);
    let top = Place { go_struct: short(KUBELET_CONFIGURATION.go), go_path: "", json_path: "" };
    match decoder.fields(keys.into_iter(), &KUBELET_CONFIGURATION, top) {
        Err(end) => vec![end],
        Ok(()) => decoder.mismatch.map_or(decoder.unknown, |mismatch| vec![mismatch]),
    }
}

#[derive(Default)]
struct Decoder {
    /// The first value of the wrong type.
    mismatch: Option<String>,
    unknown: Vec<String>,
}

/// Where in the document the decoder is, in both notations that messages use.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// Name of the innermost Go struct.
    go_struct: &'a str,
    /// Path of fields, without indexes.
    go_path: &'a str,
    /// Path of keys, with indexes.
    json_path: &'a str,
}

/// Ends the decoding with that message.
type End = String;

impl Decoder {
    fn fields<'v>(
        &mut self,
        keys: impl Iterator<Item = (&'v String, &'v Value)>,
        shape: &Struct,
        place: Place<'_>,
    ) -> Result<(), End> {
        for (key, value) in keys {
            let json_path = join(place.json_path, key);
            let Some(field) = shape.fields.iter().find(|field| field.name == key) else {
                self.unknown(&json_path);
                continue;
            };
            let go_path = match field.embedded_in {
                Some(parent) => join(&join(place.go_path, parent), key),
                None => join(place.go_path, key),
            };
            let place =
                Place { go_struct: short(shape.go), go_path: &go_path, json_path: &json_path };
            self.value(value, &field.shape, place)?;
        }
        Ok(())
    }

    fn value(&mut self, value: &Value, shape: &Shape, place: Place<'_>) -> Result<(), End> {
        match (shape, value) {
            (Shape::Duration { optional: false }, Value::Null) => parsed(parse_duration("")),
            (_, Value::Null)
            | (Shape::Text(_), Value::String(_))
            | (Shape::Bool, Value::Bool(_))
            | (Shape::Float, Value::Number(_)) => Ok(()),
            (Shape::Integer { min, max, .. }, Value::Number(number))
                if number.as_i64().is_some_and(|n| (*min..=*max).contains(&n)) =>
            {
                Ok(())
            }
            (Shape::List(_, items), Value::Array(values)) => {
                for (index, value) in values.iter().enumerate() {
                    let json_path = format!("{}[{index}]", place.json_path);
                    self.value(value, items, Place { json_path: &json_path, ..place })?;
                }
                Ok(())
            }
            (Shape::Map(_, values), Value::Object(object)) => {
                for (key, value) in object {
                    let json_path = join(place.json_path, key);
                    self.value(value, values, Place { json_path: &json_path, ..place })?;
                }
                Ok(())
            }
            (Shape::Struct(shape), Value::Object(object)) => {
                self.fields(object.iter(), shape, place)
            }
            (Shape::Duration { .. } | Shape::DurationOrNanos, Value::String(text)) => {
                parsed(parse_duration(text))
            }
            (Shape::DurationOrNanos, _) => nanos(value),
            (Shape::Quantity, _) => quantity(value),
            (Shape::Time, Value::String(text)) => time(text),
            (Shape::Duration { .. } | Shape::Time, _) => Err(mismatch(value, shape, place)),
            _ => {
                self.mismatch.get_or_insert_with(|| mismatch(value, shape, place));
                Ok(())
            }
        }
    }

    fn unknown(&mut self, path: &str) {
        if self.unknown.len() < UNKNOWN_MAX {
            self.unknown.push(format!("unknown field {path:?}"));
        }
    }
}

fn parsed<T, E: ToString>(result: Result<T, E>) -> Result<(), End> {
    result.map(drop).map_err(|error| error.to_string())
}

fn nanos(value: &Value) -> Result<(), End> {
    if value.as_i64().is_some() {
        return Ok(());
    }
    let text = value.to_string();
    let found = describe(value, true);
    Err(format!(
        "invalid duration {text:?}: json: cannot unmarshal {found} into Go value of type time.Duration"
    ))
}

/// A quantity is read from the JSON text of any value, so `5` is one and `true` is a bad one.
fn quantity(value: &Value) -> Result<(), End> {
    match value {
        Value::String(text) => parsed(text.trim().parse::<Amount>()),
        Value::Number(number) => parsed(number.to_string().parse::<Amount>()),
        _ => parsed::<(), _>(Err(QuantityError::Format)),
    }
}

fn time(text: &str) -> Result<(), End> {
    match text.parse::<Timestamp>() {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\"")),
    }
}

fn mismatch(value: &Value, shape: &Shape, place: Place<'_>) -> String {
    let found = describe(value, matches!(shape, Shape::Integer { .. }));
    let go = go_type(shape);
    let Place { go_struct, go_path, .. } = place;
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

fn go_type(shape: &Shape) -> &'static str {
    match shape {
        Shape::Text(go) | Shape::Integer { go, .. } | Shape::List(go, _) | Shape::Map(go, _) => go,
        Shape::Struct(shape) => shape.go,
        Shape::Bool => "bool",
        Shape::Float => "float64",
        Shape::Duration { .. } | Shape::DurationOrNanos | Shape::Quantity | Shape::Time => "string",
    }
}

/// The Go name without its package.
fn short(go: &'static str) -> &'static str {
    go.rsplit('.').next().unwrap_or(go)
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
