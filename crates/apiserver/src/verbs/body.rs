//! Decodes the body of a request into an object of the kind.

mod json;
mod protobuf;

use serde_json::{Map, Value};

pub(crate) use self::json::ParsedBody;
use crate::admission::FieldError;
use crate::api::ResourceRequest;
use crate::kinds;
use crate::registry::{ServedResource, api_version};
use crate::request::Request;
use crate::status::{StatusDetails, StatusError};
use crate::type_model;
use crate::verbs::options::FieldValidation;

/// The kind that a body must have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpectedKind<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    /// Custom kinds have to be named in the body.
    pub(crate) custom: bool,
}

impl<'a> ExpectedKind<'a> {
    pub(crate) fn of_resource(served: &'a ServedResource) -> Self {
        let resource = &served.resource;
        Self {
            group: &resource.group,
            version: &resource.version,
            kind: &resource.kind,
            custom: served.custom().is_some(),
        }
    }

    pub(crate) fn built_in(group: &'a str, version: &'a str, kind: &'a str) -> Self {
        Self { group, version, kind, custom: false }
    }

    fn api_version(&self) -> String {
        api_version(self.group, self.version)
    }
}

/// Reads the body as an object of the expected kind. The content type selects JSON, YAML or
/// protobuf.
pub(crate) fn read_object(
    request: &Request,
    expected: ExpectedKind<'_>,
) -> Result<ParsedBody, StatusError> {
    if request.content_type() == protobuf::MEDIA_TYPE {
        let mut value = protobuf::read_object(&request.body, expected)?;
        check_kind(expected, &mut value, &request.body)?;
        return Ok(ParsedBody { value, duplicates: Vec::new() });
    }
    let mut parsed = parse_body(request)?.map_err(|problem| {
        let (kind, body) = (expected.kind, summary(&request.body));
        StatusError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {problem} ({body})"
        ))
    })?;
    check_kind(expected, &mut parsed.value, &request.body)?;
    Ok(parsed)
}

/// Reads the options of a delete, of any group version.
pub(crate) fn read_delete_options(request: &Request) -> Result<Option<Value>, StatusError> {
    if request.body.is_empty() {
        return Ok(None);
    }
    let options = match request.content_type() {
        protobuf::MEDIA_TYPE => protobuf::read_delete_options(&request.body),
        _ => parse_body(request)?.map(|parsed| parsed.value),
    };
    let options = options.map_err(StatusError::bad_request)?;
    let kind = options["kind"].as_str().unwrap_or_default();
    if !matches!(kind, "" | "DeleteOptions") {
        let version = options["apiVersion"].as_str().unwrap_or_default();
        return Err(StatusError::bad_request(not_registered(version, kind)));
    }
    match &options["gracePeriodSeconds"] {
        Value::Null => {}
        seconds if seconds.is_i64() => {}
        other => {
            return Err(StatusError::bad_request(format!(
                "json: cannot unmarshal {} into Go struct field DeleteOptions.gracePeriodSeconds \
                 of type int64",
                json_kind(other)
            )));
        }
    }
    Ok(Some(options))
}

/// A message of a type as a body is read.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn from_protobuf(id: type_model::TypeId, bytes: &[u8]) -> Result<Value, String> {
    protobuf::decode(id, bytes)
}

/// Returns the type of the objects of a kind in request bodies.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn message_type(group: &str, version: &str, kind: &str) -> Option<type_model::TypeId> {
    protobuf::message_type(group, version, kind)
}

/// Parses the body. The outer error is for media types, the inner one is the decoder's message.
fn parse_body(request: &Request) -> Result<Result<ParsedBody, String>, StatusError> {
    let parsed = match request.content_type() {
        "" | "application/json" | "application/*" | "*/*" => json::parse(&request.body)
            .and_then(object)
            .map_err(|problem| format!("couldn't get version/kind; json parse error: {problem}")),
        "application/yaml" => parse_yaml(&request.body)
            .map(|value| ParsedBody { value, duplicates: Vec::new() })
            .and_then(object),
        _ => return Err(unsupported()),
    };
    Ok(parsed)
}

fn object(parsed: ParsedBody) -> Result<ParsedBody, String> {
    match parsed.value {
        Value::Object(_) => Ok(parsed),
        Value::Null => Ok(ParsedBody { value: Value::Object(Map::new()), ..parsed }),
        other => Err(format!(
            "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
             \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            json_kind(&other)
        )),
    }
}

/// Parses the JSON of a patch. The error is the decoder's message.
pub(crate) fn parse_json(bytes: &[u8]) -> Result<Value, String> {
    json::parse(bytes).map(|parsed| parsed.value)
}

/// Parses the configuration of a server-side apply.
pub(crate) fn parse_apply_config(bytes: &[u8]) -> Result<Value, StatusError> {
    parse_yaml(bytes).map_err(|problem| {
        StatusError::bad_request(format!(
            "error decoding YAML: error converting YAML to JSON: {problem}"
        ))
    })
}

/// Parses YAML. The error is that of Go's package, where it is known.
fn parse_yaml(bytes: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| format!("yaml: {error}"))?;
    serde_saphyr::from_str(text).map_err(|error| {
        // `error: line 1 column 5: mapping values …`, and then an excerpt.
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        let place = first.strip_prefix("error: line ").and_then(|rest| rest.split_once(": "));
        match place {
            Some((line, problem)) if problem.starts_with("unclosed bracket") => {
                let line = line.split(' ').next().unwrap_or_default();
                format!("yaml: line {line}: did not find expected node content")
            }
            Some((line, problem)) => match line.split(' ').next() {
                // Errors of the first line come without its number.
                Some("1") | None => format!("yaml: {problem}"),
                Some(line) => format!("yaml: line {line}: {problem}"),
            },
            None => format!("yaml: {first}"),
        }
    })
}

/// The start of a body, for messages.
fn summary(body: &[u8]) -> String {
    const MOST: usize = 30;
    let start = &body[..body.len().min(MOST)];
    let text = match body.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(start).into_owned(),
        Some(_) => start.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}")),
    };
    if body.len() > MOST { text + " ..." } else { text }
}

fn unsupported() -> StatusError {
    StatusError::unsupported_media_type(
        "the body of the request was in an unknown format - accepted media types include: \
         application/json, application/yaml, application/vnd.kubernetes.protobuf",
    )
}

/// Decodes an object of the kind, with defaults, and warnings about unknown fields.
pub(crate) fn decode(
    served: &ServedResource,
    parsed: ParsedBody,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), StatusError> {
    let mut object = parsed.value;
    let unknown = served.decode(&mut object)?;
    let duplicates = parsed.duplicates.iter().map(|path| format!("duplicate field {path:?}"));
    let unknown = unknown.iter().map(|path| format!("unknown field {path:?}"));
    let problems: Vec<String> = duplicates.chain(unknown).collect();
    match validation {
        FieldValidation::Ignore => Ok((object, Vec::new())),
        FieldValidation::Warn => Ok((object, problems)),
        FieldValidation::Strict if problems.is_empty() => Ok((object, problems)),
        FieldValidation::Strict => {
            let (kind, version) = (&served.resource.kind, &served.resource.version);
            Err(StatusError::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: strict decoding \
                 error: {}",
                problems.join(", ")
            )))
        }
    }
}

/// Returns the reason of an error from [`decode`], without the kind.
pub(crate) fn decode_problem(failure: &StatusError) -> &str {
    let message = failure.message.as_str();
    let problem = message.split_once(" cannot be handled as a ").map_or(message, |(_, rest)| rest);
    problem.split_once(": ").map_or(problem, |(_, problem)| problem)
}

/// Checks the kind of an object, and completes what a body may leave out.
pub(crate) fn check_kind(
    expected: ExpectedKind<'_>,
    object: &mut Value,
    body: &[u8],
) -> Result<(), StatusError> {
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let (found_version, found_kind) = (text("apiVersion"), text("kind"));
    if found_version.matches('/').count() > 1 {
        let (kind, start) = (expected.kind, summary(body));
        return Err(StatusError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): unexpected \
             GroupVersion string: {found_version} ({start})"
        )));
    }
    if expected.custom {
        check_custom_kind(expected, object, &found_version, &found_kind, body)?;
    } else {
        let or = |found: &str, expected: &str| {
            if found.is_empty() { expected.to_owned() } else { found.to_owned() }
        };
        let version = or(&found_version, &expected.api_version());
        let kind = or(&found_kind, expected.kind);
        if version != expected.api_version() || kind != expected.kind {
            return Err(wrong_kind(expected, object, &version, &kind));
        }
    }
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".to_owned(), expected.api_version().into());
        fields.insert("kind".to_owned(), expected.kind.into());
        // A metadata of another type is found by the decoder.
        if fields.get("metadata").is_none_or(Value::is_null) {
            fields.insert("metadata".to_owned(), Value::Object(Map::new()));
        }
    }
    Ok(())
}

fn check_custom_kind(
    expected: ExpectedKind<'_>,
    object: &Value,
    version: &str,
    kind: &str,
    body: &[u8],
) -> Result<(), StatusError> {
    if kind.is_empty() {
        let (text, start) = (String::from_utf8_lossy(body), summary(body));
        return Err(StatusError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing \
             in '{text}' ({start})",
            expected.kind
        )));
    }
    if version != expected.api_version() {
        let message = format!(
            "the API version in the data ({version}) does not match the expected API version ({})",
            expected.api_version()
        );
        let mut failure = StatusError::bad_request(message);
        if !version.is_empty() {
            // The fields of a version that is not served are unknown.
            let fields = object.as_object().into_iter().flatten().map(|(field, _)| field);
            failure.warnings = fields
                .filter(|field| !matches!(field.as_str(), "apiVersion" | "kind" | "metadata"))
                .map(|field| format!("unknown field {field:?}"))
                .collect();
        }
        return Err(failure);
    }
    if kind != expected.kind {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let error = FieldError::invalid("kind", kind, format!("must be {}", expected.kind));
        return Err(StatusError::invalid(
            StatusDetails { group: expected.group, kind, name },
            &[error],
        ));
    }
    Ok(())
}

fn wrong_kind(
    expected: ExpectedKind<'_>,
    object: &Value,
    api_version: &str,
    kind: &str,
) -> StatusError {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let (types, resources) = kinds::built_in_resources();
    let known = resources.iter().find(|resource| {
        (&*resource.group, &*resource.version, &*resource.kind) == (group, version, kind)
    });
    let problem = if let Some(known) = known {
        // It is read as what it says first.
        if let Err(failure) = type_model::decode(&types, known.type_id, &mut object.clone()) {
            return failure;
        }
        let package = go_package(expected.group);
        format!(
            "converting ({version}.{kind}) to ({package}.{}): unknown conversion",
            expected.kind
        )
    } else {
        not_registered(api_version, kind)
    };
    StatusError::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {}: {problem}",
        expected.kind
    ))
}

/// Returns the Go package of a group.
pub(crate) fn go_package(group: &str) -> &str {
    match group {
        "" => "core",
        group => group.split('.').next().unwrap_or_default(),
    }
}

fn not_registered(api_version: &str, kind: &str) -> String {
    format!(
        "no kind {kind:?} is registered for version {api_version:?} in scheme \
         \"pkg/runtime/scheme.go:111\""
    )
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

/// Checks the namespace of a body against the path; fills in a missing one.
pub(crate) fn check_namespace(
    call: &ResourceRequest,
    object: &mut Value,
) -> Result<(), StatusError> {
    let metadata = &mut object["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or_default().to_owned();
    if !call.served.resource.namespaced {
        crate::registry::remove_field(metadata, "namespace");
        return Ok(());
    }
    if namespace.is_empty() {
        metadata["namespace"] = call.target.namespace.as_str().into();
    } else if namespace != call.target.namespace {
        return Err(StatusError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}
