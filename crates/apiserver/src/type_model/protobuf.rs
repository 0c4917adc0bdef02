//! Decodes protobuf objects, which Go clients prefer, into the JSON that the same client would send
//! otherwise. So all later steps see one form.
//!
//! The numbers of fields are in the description of a type in Go ([`GoType::numbers`]). The decoder
//! skips unknown fields and merges a repeated field into the earlier value, as the generated
//! decoders do. Both depth and number of values are limited: definitions of custom kinds contain
//! themselves, and two bytes can make a whole object.

mod wire;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karpenter_grammar::Amount;
use serde_json::{Map, Number, Value};

pub(crate) use self::wire::{BYTES, Tag, WireReader, utf8_lossy};
use self::wire::{FIXED_64, VARINT};
use super::go_types::ProtobufField;
use super::{GoType, Scalar, Type, TypeId, Types, decode};

/// The maximum nesting of lists and objects; less than that of JSON.
const MAX_DEPTH: usize = 100;

/// The maximum number of fields, items and entries of a body.
const MAX_VALUES: usize = 1 << 19;

const TOO_DEEP: &str = "exceeded max depth";

/// The type of schemas, which contain themselves through types that are no structs in JSON.
const SCHEMA_TYPE_NAME: &str =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

/// Reads a message of a type that is described in Go. `json` reads the JSON within it. The error
/// is what the decoder says.
pub(crate) fn from_protobuf(
    types: &Types,
    root: TypeId,
    bytes: &[u8],
    json: fn(&[u8]) -> Result<Value, String>,
) -> Result<Value, String> {
    let mut fields = Map::new();
    let mut reader = MessageReader { types, json, value_count: 0 };
    reader.message(root, &[], bytes, &mut fields, 0)?;
    let mut value = Value::Object(fields);
    decode::encode(types, root, &mut value);
    Ok(value)
}

struct MessageReader<'a> {
    types: &'a Types,
    json: fn(&[u8]) -> Result<Value, String>,
    /// The number of values read so far.
    value_count: usize,
}

/// The position of a value: its field name for errors, and its depth.
#[derive(Clone, Copy)]
struct FieldPosition<'a> {
    field: &'a str,
    depth: usize,
}

impl FieldPosition<'_> {
    fn child(self) -> Result<Self, String> {
        if self.depth >= MAX_DEPTH {
            return Err(TOO_DEEP.to_owned());
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }
}

impl MessageReader<'_> {
    /// Reads a struct, or the struct at the numbers `within` that is embedded in it: JSON knows
    /// nothing of that, but here it is a message of its own.
    fn message(
        &mut self,
        id: TypeId,
        within: &[u32],
        bytes: &[u8],
        into: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), String> {
        let types = self.types;
        let (Type::Object(object), Some(go)) = (types.get(id), types.go_type(id)) else {
            return Err("the object has no form in protobuf".to_owned());
        };
        let own_name = message_name(go, within);
        let mut wire = WireReader::new(bytes);
        let mut numbers = within.to_vec();
        while !wire.is_empty() {
            let tag = wire.tag(own_name)?;
            self.count()?;
            numbers.truncate(within.len());
            numbers.push(tag.number);
            match go.protobuf_field(&numbers) {
                None => wire.skip(tag)?,
                Some(ProtobufField::Embedded(name)) => {
                    tag.check(BYTES, name)?;
                    self.message(id, &numbers, wire.bytes()?, into, depth)?;
                }
                Some(ProtobufField::Field(name)) => {
                    let Some(field) = object.fields.get(name) else { continue };
                    let go_name = go_field_name(name);
                    let place = FieldPosition { field: &go_name, depth: depth + 1 };
                    let slot = into.entry(name).or_insert(Value::Null);
                    self.field(field.type_id, tag, &mut wire, slot, place)?;
                }
            }
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), String> {
        self.value_count += 1;
        if self.value_count > MAX_VALUES {
            return Err(format!("more than {MAX_VALUES} values"));
        }
        Ok(())
    }

    /// Reads what comes next into what the field holds already.
    fn field(
        &mut self,
        id: TypeId,
        tag: Tag,
        wire: &mut WireReader<'_>,
        slot: &mut Value,
        place: FieldPosition<'_>,
    ) -> Result<(), String> {
        let types = self.types;
        match types.get(id) {
            Type::Object(_) => {
                tag.check(BYTES, place.field)?;
                let depth = place.child()?.depth;
                self.message(id, &[], wire.bytes()?, object_in(slot), depth)
            }
            Type::Map { values, .. } => {
                tag.check(BYTES, place.field)?;
                let (key, value) = self.entry(*values, wire.bytes()?, place.child()?)?;
                object_in(slot).insert(key, value);
                Ok(())
            }
            Type::List { items, .. } => {
                if !slot.is_array() {
                    *slot = Value::Array(Vec::new());
                }
                let Value::Array(list) = slot else { return Ok(()) };
                let place = place.child()?;
                if tag.wire_type == BYTES && wire_type_of(types.get(*items)) != BYTES {
                    return self.packed_list(*items, wire.bytes()?, list, place);
                }
                let mut item = Value::Null;
                self.field(*items, tag, wire, &mut item, place)?;
                list.push(item);
                Ok(())
            }
            Type::Scalar(scalar) => {
                tag.check(wire_type_of(types.get(id)), place.field)?;
                *slot = self.scalar(id, *scalar, wire)?;
                Ok(())
            }
            Type::Any => {
                tag.check(BYTES, place.field)?;
                *slot = self.any(id, wire.bytes()?, place)?;
                Ok(())
            }
        }
    }

    /// Reads a packed list: numbers in sequence, without tags.
    fn packed_list(
        &mut self,
        items: TypeId,
        bytes: &[u8],
        list: &mut Vec<Value>,
        place: FieldPosition<'_>,
    ) -> Result<(), String> {
        let mut wire = WireReader::new(bytes);
        let tag = Tag { number: 0, wire_type: wire_type_of(self.types.get(items)) };
        while !wire.is_empty() {
            self.count()?;
            let mut item = Value::Null;
            self.field(items, tag, &mut wire, &mut item, place)?;
            list.push(item);
        }
        Ok(())
    }

    /// An entry of a map: a message of a key and a value, of which either may be left out.
    fn entry(
        &mut self,
        values: TypeId,
        bytes: &[u8],
        place: FieldPosition<'_>,
    ) -> Result<(String, Value), String> {
        let mut key = String::new();
        let mut value = Value::Null;
        let mut wire = WireReader::new(bytes);
        while !wire.is_empty() {
            let tag = wire.tag(place.field)?;
            self.count()?;
            match tag.number {
                1 => {
                    tag.check(BYTES, place.field)?;
                    key = utf8_lossy(wire.bytes()?).into_owned();
                }
                2 if matches!(self.types.get(values), Type::List { .. }) => {
                    tag.check(BYTES, place.field)?;
                    self.list_message(values, wire.bytes()?, &mut value, place)?;
                }
                2 => self.field(values, tag, &mut wire, &mut value, place)?,
                _ => wire.skip(tag)?,
            }
        }
        if value.is_null() {
            value = decode::zero_value(self.types, values);
        }
        Ok((key, value))
    }

    /// Reads a list that is the value of a map. It is a message of its items, because protobuf maps
    /// cannot hold lists.
    fn list_message(
        &mut self,
        list: TypeId,
        bytes: &[u8],
        slot: &mut Value,
        place: FieldPosition<'_>,
    ) -> Result<(), String> {
        let mut wire = WireReader::new(bytes);
        if !slot.is_array() {
            *slot = Value::Array(Vec::new());
        }
        while !wire.is_empty() {
            let tag = wire.tag(place.field)?;
            self.count()?;
            match tag.number {
                1 => self.field(list, tag, &mut wire, slot, place)?,
                _ => wire.skip(tag)?,
            }
        }
        Ok(())
    }

    fn scalar(
        &mut self,
        id: TypeId,
        scalar: Scalar,
        wire: &mut WireReader<'_>,
    ) -> Result<Value, String> {
        Ok(match scalar {
            Scalar::Text => utf8_lossy(wire.bytes()?).into(),
            Scalar::Boolean => (wire.varint()? != 0).into(),
            Scalar::Integer if self.types.go_type(id).is_some_and(|go| &*go.name == "int64") => {
                wire.int64()?.into()
            }
            Scalar::Integer => wire.int32()?.into(),
            Scalar::Number => number(wire.double()?)?,
            Scalar::Bytes => STANDARD.encode(wire.bytes()?).into(),
            Scalar::Time => time(wire.bytes()?, "Timestamp", decode::unix_seconds)?,
            Scalar::MicroTime => time(wire.bytes()?, "Timestamp", decode::unix_micros)?,
            Scalar::Quantity => quantity(wire.bytes()?)?,
            Scalar::IntOrString => int_or_string(wire.bytes()?)?,
        })
    }

    /// What may be anything in JSON is a message here, most often of JSON text.
    fn any(&mut self, id: TypeId, bytes: &[u8], place: FieldPosition<'_>) -> Result<Value, String> {
        let Some(go) = self.types.go_type(id) else { return Ok(Value::Null) };
        let name = go.name.rsplit('.').next().unwrap_or_default();
        match name {
            "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrStringArray" => {
                self.schema_union(name, bytes, place)
            }
            _ => self.raw_extension(bytes, place),
        }
    }

    fn raw_extension(&mut self, bytes: &[u8], place: FieldPosition<'_>) -> Result<Value, String> {
        let mut raw: &[u8] = &[];
        let mut wire = WireReader::new(bytes);
        while !wire.is_empty() {
            let tag = wire.tag("RawExtension")?;
            match tag.number {
                1 => {
                    tag.check(BYTES, "Raw")?;
                    raw = wire.bytes()?;
                }
                _ => wire.skip(tag)?,
            }
        }
        if raw.is_empty() {
            return Ok(Value::Null);
        }
        let value = (self.json)(raw)?;
        if place.depth + depth(&value) > MAX_DEPTH {
            return Err(TOO_DEEP.to_owned());
        }
        Ok(value)
    }

    /// Reads a schema, or the bool or list that may replace it.
    fn schema_union(
        &mut self,
        name: &str,
        bytes: &[u8],
        place: FieldPosition<'_>,
    ) -> Result<Value, String> {
        let id = self
            .types
            .find_by_name(SCHEMA_TYPE_NAME)
            .ok_or_else(|| format!("proto: {name}: unknown"))?;
        let is_bool = name == "JSONSchemaPropsOrBool";
        let (mut schema, mut is_allowed, mut list) = (Value::Null, false, Vec::new());
        let mut wire = WireReader::new(bytes);
        while !wire.is_empty() {
            let tag = wire.tag(name)?;
            self.count()?;
            match (tag.number, is_bool) {
                (1, true) => {
                    tag.check(VARINT, "Allows")?;
                    is_allowed = wire.varint()? != 0;
                }
                (2, true) | (1, false) => {
                    let place = FieldPosition { field: "Schema", ..place };
                    self.field(id, tag, &mut wire, &mut schema, place)?;
                }
                (2, false) if name == "JSONSchemaPropsOrArray" => {
                    let place = FieldPosition { field: "JSONSchemas", ..place }.child()?;
                    let mut item = Value::Null;
                    self.field(id, tag, &mut wire, &mut item, place)?;
                    list.push(item);
                }
                (2, false) => {
                    tag.check(BYTES, "Property")?;
                    list.push(utf8_lossy(wire.bytes()?).into());
                }
                _ => wire.skip(tag)?,
            }
        }
        for value in list.iter_mut().chain([&mut schema]) {
            decode::encode(self.types, id, value);
        }
        Ok(match (list.is_empty(), schema) {
            (false, _) => list.into(),
            (true, Value::Null) if is_bool => is_allowed.into(),
            (true, schema) => schema,
        })
    }
}

/// The object in `slot`, which becomes one if it is none yet.
fn object_in(slot: &mut Value) -> &mut Map<String, Value> {
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    slot.as_object_mut().expect("it has just been made one")
}

/// Returns the wire type of the values of a type.
fn wire_type_of(shape: &Type) -> u8 {
    match shape {
        Type::Scalar(Scalar::Boolean | Scalar::Integer) => VARINT,
        Type::Scalar(Scalar::Number) => FIXED_64,
        _ => BYTES,
    }
}

/// Returns the name of a struct in messages; an embedded struct has its name in its fields.
fn message_name<'a>(go: &'a GoType, within: &[u32]) -> &'a str {
    match go.protobuf_field(within) {
        Some(ProtobufField::Embedded(name)) if !within.is_empty() => name,
        _ => go.name.rsplit('.').next().unwrap_or_default(),
    }
}

/// Returns the approximate Go name of a field. Go writes abbreviations in capitals; this does not.
fn go_field_name(name: &str) -> String {
    if name == "metadata" {
        return "ObjectMeta".to_owned(); // it is embedded, and JSON calls it otherwise
    }
    let mut letters = name.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

/// Whole numbers are written without a fraction, as Go does.
fn number(number: f64) -> Result<Value, String> {
    /// Below this, each whole number has a double of its own.
    const WHOLE: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < WHOLE {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and small")]
        return Ok((number as i64).into());
    }
    let value = Number::from_f64(number).map(Value::Number);
    value.ok_or_else(|| format!("json: unsupported value: {number}"))
}

fn time(
    bytes: &[u8],
    message: &str,
    written: fn(i64, i32) -> Option<String>,
) -> Result<Value, String> {
    /// The first second of the first year, which stands for no time at all.
    const ZERO: i64 = -62_135_596_800;
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut wire = WireReader::new(bytes);
    while !wire.is_empty() {
        let tag = wire.tag(message)?;
        match tag.number {
            1 => {
                tag.check(VARINT, "Seconds")?;
                seconds = wire.int64()?;
            }
            2 => {
                tag.check(VARINT, "Nanos")?;
                nanos = wire.int32()?;
            }
            _ => wire.skip(tag)?,
        }
    }
    if seconds == ZERO && nanos == 0 {
        return Ok(Value::Null);
    }
    let text = written(seconds, nanos);
    text.map(Value::String).ok_or_else(|| "year outside of range [0,9999]".to_owned())
}

fn quantity(bytes: &[u8]) -> Result<Value, String> {
    let mut found = "0".to_owned();
    let mut wire = WireReader::new(bytes);
    while !wire.is_empty() {
        let tag = wire.tag("Quantity")?;
        match tag.number {
            1 => {
                tag.check(BYTES, "String_")?;
                found = utf8_lossy(wire.bytes()?).into_owned();
                Amount::parse(&found).map_err(|error| error.to_string())?;
            }
            _ => wire.skip(tag)?,
        }
    }
    Ok(found.into())
}

fn int_or_string(bytes: &[u8]) -> Result<Value, String> {
    let (mut kind, mut int, mut string) = (0, 0, Value::from(""));
    let mut wire = WireReader::new(bytes);
    while !wire.is_empty() {
        let tag = wire.tag("IntOrString")?;
        match tag.number {
            1 => {
                tag.check(VARINT, "Type")?;
                kind = wire.int64()?;
            }
            2 => {
                tag.check(VARINT, "IntVal")?;
                int = wire.int32()?;
            }
            3 => {
                tag.check(BYTES, "StrVal")?;
                string = utf8_lossy(wire.bytes()?).into();
            }
            _ => wire.skip(tag)?,
        }
    }
    match kind {
        0 => Ok(int.into()),
        1 => Ok(string),
        _ => Err("impossible IntOrString.Type".to_owned()),
    }
}

/// How many lists and objects are within each other. A parser has bounded that.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(fields) => {
            1 + fields.iter().map(|(_, value)| depth(value)).max().unwrap_or_default()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
