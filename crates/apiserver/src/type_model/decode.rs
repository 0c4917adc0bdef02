//! Decodes and encodes objects as the API server's Go types do.
//!
//! A client sees both sides: the errors for rejected values ([`decode`]), and the canonical form of
//! stored objects ([`encode`]): quantities and times are rewritten, nulls and most empty fields
//! removed, and some empty fields added. Only types with a description in Go are changed.

use karpenter_cel::go_text;
use karpenter_grammar::{Amount, QuantityError};
use serde_json::{Map, Number, Value};

use super::go_types::{GoField, OmitRule};
use super::{Scalar, Type, TypeId, Types};
use crate::path_stack::PathStack;
use crate::status::StatusError;

mod time;

pub(super) use self::time::{unix_micros, unix_seconds};

/// Reads an object: wrong types are an error, unknown fields are dropped and their paths
/// returned, the rest becomes canonical.
pub fn decode(types: &Types, root: TypeId, value: &mut Value) -> Result<Vec<String>, StatusError> {
    let unknown = check(types, root, value)?;
    encode(types, root, value);
    Ok(unknown)
}

/// Returns the paths of the unknown fields of an object, or the error of a wrong type.
pub fn check(types: &Types, root: TypeId, value: &Value) -> Result<Vec<String>, StatusError> {
    let mut check =
        DecodeCheck { types, unknown: Vec::new(), first_error: None, field_path: Vec::new() };
    let aborted = check.value(root, value, None, PathStack::Root).err();
    if let Some(problem) = aborted.or(check.first_error) {
        let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
        let version = value.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        let version = go_text::quote(version.rsplit('/').next().unwrap_or_default());
        let own =
            types.go_type(root).map_or("", |go| go.name.rsplit('.').next().unwrap_or_default());
        let message =
            format!("{kind} in version {version} cannot be handled as a {own}: {problem}");
        return Err(StatusError::bad_request(message));
    }
    Ok(check.unknown)
}

/// Brings an object into the form in which the API server would write it. What does not have the
/// right type stays as it is.
pub fn encode(types: &Types, id: TypeId, value: &mut Value) {
    match (types.get(id), value) {
        (Type::Object(_), Value::Object(fields)) => encode_fields(types, id, fields),
        (Type::List { items, .. }, Value::Array(values)) => {
            for value in values {
                encode_item(types, *items, value);
            }
        }
        (Type::Map { values, .. }, Value::Object(entries)) => {
            let rounds = types.go_type(id).is_some_and(|go| &*go.name == "v1.ResourceList");
            for (_, value) in entries.iter_mut() {
                encode_item(types, *values, value);
                if rounds {
                    round(value);
                }
            }
        }
        (Type::Scalar(scalar), value) => encode_scalar(*scalar, value),
        _ => {}
    }
}

/// Returns the value of a field that no client has set.
pub fn zero_value(types: &Types, id: TypeId) -> Value {
    match types.get(id) {
        Type::Object(_) => {
            let mut fields = Map::new();
            encode_fields(types, id, &mut fields);
            Value::Object(fields)
        }
        Type::Scalar(Scalar::Text) => "".into(),
        Type::Scalar(Scalar::Boolean) => false.into(),
        Type::Scalar(Scalar::Integer | Scalar::Number | Scalar::IntOrString) => 0.into(),
        Type::Scalar(Scalar::Quantity) => "0".into(),
        Type::Scalar(Scalar::Bytes | Scalar::Time | Scalar::MicroTime)
        | Type::Map { .. }
        | Type::List { .. }
        | Type::Any => Value::Null,
    }
}

/// The default of a resource list: thousandths are the smallest there is.
fn round(value: &mut Value) {
    if let Some(Ok(amount)) = value.as_str().map(Amount::parse) {
        *value = amount.round_up_to_milli().to_string().into();
    }
}

fn encode_item(types: &Types, id: TypeId, value: &mut Value) {
    if value.is_null() {
        *value = zero_value(types, id);
    }
    encode(types, id, value);
}

fn encode_fields(types: &Types, id: TypeId, fields: &mut Map<String, Value>) {
    let (Type::Object(object), Some(go)) = (types.get(id), types.go_type(id)) else { return };
    // Types have many more fields than objects set, so only fields that are set are checked in
    // full.
    let mut gone = Vec::new();
    fields.retain(|name, value| {
        let Some((name, field)) = object.fields.get_key_value(name.as_str()) else { return false };
        if value.is_null() {
            return false;
        }
        let Some(how) = go.fields.get(name) else { return true };
        encode(types, field.type_id, value);
        let is_list = matches!(types.get(field.type_id), Type::List { .. } | Type::Map { .. });
        if is_omitted(types, field.type_id, how, value) {
            gone.push(name);
        } else if is_list && !how.pointer && is_empty(value) {
            // Stored objects do not distinguish an empty list from none.
            *value = Value::Null;
        }
        true
    });
    gone.sort_unstable();
    let mut gone = gone.into_iter().peekable();
    // By name: what goes and what comes says which order the fields have at the end.
    for (name, how) in &go.fields {
        if gone.next_if_eq(&name).is_some() {
            fields.remove(&**name);
        } else if let Some(field) = object.fields.get(name).filter(|_| may_be_written(how))
            && !fields.contains_key(&**name)
            && let Some(value) = value_when_absent(types, field.type_id, how)
        {
            fields.insert(name.to_string(), value);
        }
    }
}

/// Whether a field that is not there may be written nevertheless.
fn may_be_written(how: &GoField) -> bool {
    match how.omit {
        OmitRule::Never => true,
        OmitRule::Empty => !how.pointer,
        OmitRule::Zero => false,
    }
}

/// Returns the value that the server writes for an absent field, if any.
fn value_when_absent(types: &Types, id: TypeId, how: &GoField) -> Option<Value> {
    if how.pointer {
        return (how.omit == OmitRule::Never).then_some(Value::Null);
    }
    let is_struct = match types.get(id) {
        Type::Object(_) | Type::Any => true,
        Type::Scalar(scalar) => matches!(
            scalar,
            Scalar::Time | Scalar::MicroTime | Scalar::Quantity | Scalar::IntOrString
        ),
        Type::Map { .. } | Type::List { .. } => false,
    };
    let written = match how.omit {
        OmitRule::Never => true,
        OmitRule::Empty => is_struct,
        OmitRule::Zero => false,
    };
    written.then(|| zero_value(types, id))
}

fn is_omitted(types: &Types, id: TypeId, how: &GoField, value: &Value) -> bool {
    if how.pointer {
        return false;
    }
    match how.omit {
        OmitRule::Never => false,
        OmitRule::Empty => match types.get(id) {
            Type::Object(_)
            | Type::Any
            | Type::Scalar(
                Scalar::Time | Scalar::MicroTime | Scalar::Quantity | Scalar::IntOrString,
            ) => false,
            _ => is_empty(value),
        },
        OmitRule::Zero => is_empty(value) || *value == zero_value(types, id),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// Returns the text that Go's `Quantity` prints after it has parsed `text`.
fn canonical_quantity(text: &str) -> Result<String, QuantityError> {
    let text = text.trim();
    Ok(Amount::parse(text)?.canonical_text(text).into_owned())
}

fn encode_scalar(scalar: Scalar, value: &mut Value) {
    let rewritten = match (scalar, &*value) {
        (Scalar::Quantity, Value::String(text)) => canonical_quantity(text).ok(),
        (Scalar::Quantity, Value::Number(number)) => canonical_quantity(&number.to_string()).ok(),
        (Scalar::Time, Value::String(text)) => time::normalize_seconds(text).ok(),
        (Scalar::MicroTime, Value::String(text)) => time::normalize_micros(text).ok(),
        _ => None,
    };
    if let Some(text) = rewritten {
        *value = text.into();
    }
}

/// Checks a value as the Go decoder does: collects its error and the unknown fields.
struct DecodeCheck<'a> {
    types: &'a Types,
    unknown: Vec<String>,
    /// The first type error. The decoder continues after it, and reports it only if no later error
    /// stops it.
    first_error: Option<String>,
    /// The path of the current field, as error messages show it.
    field_path: Vec<&'a str>,
}

impl<'a> DecodeCheck<'a> {
    /// `Err` is what stops the decoder: a type that reads itself and cannot.
    fn value(
        &mut self,
        id: TypeId,
        value: &Value,
        within: Option<TypeId>,
        place: PathStack<'_>,
    ) -> Result<(), String> {
        if value.is_null() {
            return Ok(());
        }
        match (self.types.get(id), value) {
            (Type::Any, _) => Ok(()),
            (Type::Scalar(scalar), value) => self.scalar(*scalar, id, value, within),
            (Type::Object(_), Value::Object(fields)) => self.object(id, fields, place),
            (Type::Map { values, .. }, Value::Object(entries)) => {
                for (key, value) in entries {
                    self.value(*values, value, within, PathStack::Field(&place, key))?;
                }
                Ok(())
            }
            (Type::List { items, .. }, Value::Array(values)) => {
                for (index, value) in values.iter().enumerate() {
                    self.value(*items, value, within, PathStack::Item(&place, index))?;
                }
                Ok(())
            }
            (_, value) => {
                self.record_type_error(json_kind(value), self.go_name(id), within);
                Ok(())
            }
        }
    }

    fn object(
        &mut self,
        id: TypeId,
        fields: &Map<String, Value>,
        place: PathStack<'_>,
    ) -> Result<(), String> {
        let (Type::Object(object), Some(go)) = (self.types.get(id), self.types.go_type(id)) else {
            return Ok(());
        };
        for (name, value) in fields {
            let place = PathStack::Field(&place, name);
            let Some((known, field)) = object.fields.get_key_value(name.as_str()) else {
                self.unknown.push(place.to_string());
                continue;
            };
            let depth = self.field_path.len();
            let via = go.fields.get(name.as_str()).map_or(&[][..], |field| &field.embedded_structs);
            self.field_path.extend(via.iter().map(|part| &**part));
            self.field_path.push(known);
            self.value(field.type_id, value, Some(id), place)?;
            self.field_path.truncate(depth);
        }
        Ok(())
    }

    fn scalar(
        &mut self,
        scalar: Scalar,
        id: TypeId,
        value: &Value,
        within: Option<TypeId>,
    ) -> Result<(), String> {
        match (scalar, value) {
            (Scalar::Text | Scalar::IntOrString, Value::String(_))
            | (Scalar::Boolean, Value::Bool(_))
            | (Scalar::Number, Value::Number(_)) => {}
            (Scalar::Integer, Value::Number(number)) => {
                let go = self.go_name(id);
                if !fits_go_type(number, go) {
                    self.record_type_error(&literal(number), go, within);
                }
            }
            (Scalar::IntOrString, Value::Number(number)) if fits_go_type(number, "int32") => {}
            (Scalar::IntOrString, Value::Number(number)) => {
                return Err(self.type_error(&literal(number), "int32", within));
            }
            (Scalar::IntOrString, value) => {
                return Err(self.type_error(json_kind(value), "int32", within));
            }
            (Scalar::Bytes, Value::String(text)) => {
                if let Some(at) = base64_problem(text) {
                    let problem = format!("illegal base64 data at input byte {at}");
                    self.first_error.get_or_insert(problem);
                }
            }
            (Scalar::Quantity, value) => {
                let text = match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                Amount::parse(text.trim()).map_err(|error| error.to_string())?;
            }
            (Scalar::Time, Value::String(text)) => {
                time::normalize_seconds(text)?;
            }
            (Scalar::MicroTime, Value::String(text)) => {
                time::normalize_micros(text)?;
            }
            (Scalar::Time | Scalar::MicroTime, value) => {
                return Err(self.type_error(json_kind(value), "string", within));
            }
            (_, value) => self.record_type_error(json_kind(value), self.go_name(id), within),
        }
        Ok(())
    }

    fn go_name(&self, id: TypeId) -> &'a str {
        self.types.go_type(id).map_or("interface {}", |go| &go.name)
    }

    fn record_type_error(&mut self, found: &str, go: &str, within: Option<TypeId>) {
        if self.first_error.is_none() {
            self.first_error = Some(self.type_error(found, go, within));
        }
    }

    fn type_error(&self, found: &str, go: &str, within: Option<TypeId>) -> String {
        match within {
            None => format!("json: cannot unmarshal {found} into Go value of type {go}"),
            Some(id) => {
                let name = self.go_name(id);
                let name = name.rsplit('.').next().unwrap_or(name);
                let field = self.field_path.join(".");
                format!(
                    "json: cannot unmarshal {found} into Go struct field {name}.{field} of type {go}"
                )
            }
        }
    }
}

fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn literal(number: &Number) -> String {
    format!("number {number}")
}

fn fits_go_type(number: &Number, go: &str) -> bool {
    match number.as_i64() {
        Some(number) if go == "int32" => i32::try_from(number).is_ok(),
        Some(_) => true,
        None => false,
    }
}

/// Where padded base64 text stops being that. Line breaks do not count.
fn base64_problem(text: &str) -> Option<usize> {
    let bytes: Vec<(usize, u8)> =
        text.bytes().enumerate().filter(|(_, byte)| !matches!(byte, b'\r' | b'\n')).collect();
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let digits = bytes.iter().take_while(|(_, byte)| is_digit(*byte)).count();
    let padding = match digits % 4 {
        0 => 0,
        2 => 2,
        3 => 1,
        _ => 3,
    };
    let rest = &bytes[digits..];
    if rest.is_empty() && padding > 0 {
        // The last group ends too early, which is blamed on where it begins.
        return Some(text.len() - digits % 4);
    }
    if digits % 4 == 1 {
        return Some(rest[0].0);
    }
    let right = rest.iter().take_while(|(_, byte)| *byte == b'=').count();
    match (right.min(padding), rest.len()) {
        (found, _) if found < padding => Some(rest.get(found).map_or(text.len(), |(at, _)| *at)),
        (found, len) if len > found => Some(rest[found].0),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
