//! Decodes bodies in protobuf: the envelope that names the kind, and the message in it.
//!
//! Responses are JSON nevertheless: clients that send protobuf accept both.

use serde_json::Value;

use super::{ExpectedKind, go_package, json, summary};
use crate::kinds;
use crate::registry::api_version;
use crate::status::StatusError;
use crate::type_model::{BYTES, TypeId, WireReader, from_protobuf, utf8_lossy};

pub(super) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";

/// Reads the object of a body. A missing kind or version becomes the expected one.
pub(super) fn read_object(body: &[u8], expected: ExpectedKind<'_>) -> Result<Value, StatusError> {
    if expected.custom {
        // The protobuf numbers of custom fields are unknown. The real server breaks the connection.
        return Err(StatusError::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json, application/yaml",
        ));
    }
    let envelope = Envelope::parse(body).map_err(|problem| {
        let (kind, body) = (expected.kind, summary(body));
        StatusError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {problem} ({body})"
        ))
    })?;
    let (group, version) = match envelope.group_version() {
        ("", "") => (expected.group, expected.version),
        found => found,
    };
    let kind = if envelope.kind.is_empty() { expected.kind } else { &envelope.kind };
    let object = match message_type(group, version, kind) {
        Some(shape) => decode(shape, envelope.raw),
        None => Ok(Value::Object(serde_json::Map::new())), // the caller reports the error
    };
    let mut object = object.map_err(|problem| {
        StatusError::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {}: {problem}",
            expected.kind
        ))
    })?;
    object["apiVersion"] = api_version(group, version).into();
    object["kind"] = kind.into();
    Ok(object)
}

/// Reads the options of a delete, of any group.
pub(super) fn read_delete_options(body: &[u8]) -> Result<Value, String> {
    let envelope = Envelope::parse(body)?;
    let mut options = match envelope.kind.as_str() {
        "" | "DeleteOptions" => {
            let name = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
            let shape = kinds::types().find_by_name(name).ok_or("no options are known")?;
            decode(shape, envelope.raw)?
        }
        _ => Value::Object(serde_json::Map::new()), // the caller reports the error
    };
    options["apiVersion"] = envelope.api_version.into();
    options["kind"] = envelope.kind.into();
    Ok(options)
}

pub(super) fn decode(shape: TypeId, bytes: &[u8]) -> Result<Value, String> {
    let read = |raw: &[u8]| json::parse(raw).map(|parsed| parsed.value);
    from_protobuf(kinds::types(), shape, bytes, read)
}

/// Returns the type of a built-in kind, also of one that only subresources use.
pub(super) fn message_type(group: &str, version: &str, kind: &str) -> Option<TypeId> {
    let resources = kinds::built_in_resources().1;
    let resource = resources.iter().find(|resource| {
        (&*resource.group, &*resource.version, &*resource.kind) == (group, version, kind)
    });
    match resource {
        Some(resource) => Some(resource.type_id),
        None => kinds::types()
            .find_by_name(&format!("io.k8s.api.{}.{version}.{kind}", go_package(group))),
    }
}

struct Envelope<'a> {
    api_version: String,
    kind: String,
    raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    fn parse(body: &'a [u8]) -> Result<Self, String> {
        if body.is_empty() {
            return Err("empty data".to_owned());
        }
        let rest = body.strip_prefix(MAGIC).ok_or_else(|| {
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
                .to_owned()
        })?;
        if rest.is_empty() {
            return Err("empty body".to_owned());
        }
        let mut envelope = Self { api_version: String::new(), kind: String::new(), raw: &[] };
        let mut wire = WireReader::new(rest);
        while !wire.is_empty() {
            let tag = wire.tag("Unknown")?;
            match tag.number {
                1 => {
                    tag.check(BYTES, "TypeMeta")?;
                    envelope.read_type(wire.bytes()?)?;
                }
                2 => {
                    tag.check(BYTES, "Raw")?;
                    envelope.raw = wire.bytes()?;
                }
                // The encoding of the rest: clients send no value here.
                3 => {
                    tag.check(BYTES, "ContentEncoding")?;
                    wire.bytes()?;
                }
                4 => {
                    tag.check(BYTES, "ContentType")?;
                    wire.bytes()?;
                }
                _ => wire.skip(tag)?,
            }
        }
        Ok(envelope)
    }

    fn read_type(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut wire = WireReader::new(bytes);
        while !wire.is_empty() {
            let tag = wire.tag("TypeMeta")?;
            match tag.number {
                1 => {
                    tag.check(BYTES, "APIVersion")?;
                    self.api_version = utf8_lossy(wire.bytes()?).into_owned();
                }
                2 => {
                    tag.check(BYTES, "Kind")?;
                    self.kind = utf8_lossy(wire.bytes()?).into_owned();
                }
                _ => wire.skip(tag)?,
            }
        }
        Ok(())
    }

    /// Both empty if the version is none: it is then as if it had been left out.
    fn group_version(&self) -> (&str, &str) {
        match self.api_version.split_once('/') {
            None => ("", &self.api_version),
            Some((_, version)) if version.contains('/') => ("", ""),
            Some(both) => both,
        }
    }
}

#[cfg(test)]
mod tests;
