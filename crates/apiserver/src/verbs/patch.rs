//! A change of an object that is there; with server-side apply also one that is not.

use serde_json::Value;

use crate::admission::{FieldError, go_text};
use crate::api::{Answer, Call, State};
use crate::patch;
use crate::registry::Served;
use crate::request::Request;
use crate::status::{About, Failure};
use crate::verbs::body::{self, Expected, Parsed};
use crate::verbs::create;
use crate::verbs::options::{FieldValidation, WriteOptions};
use crate::verbs::update::Write;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Json,
    Merge,
    Strategic,
    Apply,
}

pub(crate) fn patch(state: &mut State, call: &Call) -> Result<Answer, Failure> {
    let kind = kind(&call.request, call.served.custom().is_some())?;
    let options = WriteOptions::parse(&call.request.query, "PatchOptions")?;
    let served = &call.served;
    if kind == Kind::Apply {
        return apply(state, call, options);
    }
    if call.request.query.flag("force") {
        let error = FieldError::forbidden("force", "may not be specified for non-apply patch");
        let about = About { group: "meta.k8s.io", kind: "PatchOptions", name: "" };
        return Err(Failure::invalid(about, &[error]));
    }
    let stored = call.stored(state)?;
    let old = State::value(served, &stored);
    let change = change(&call.request, kind)?;
    let patched = match kind {
        Kind::Json => patch::json(&old, &change)?,
        Kind::Merge => patch::merge(&old, &change)?,
        Kind::Strategic | Kind::Apply => {
            patch::strategic(served.types(), served.resource.shape, &old, &change)?
        }
    };
    let (mut new, warnings) =
        decode(kind, served, patched, options.field_validation, || match kind {
            Kind::Strategic => go_text::plain(&change),
            Kind::Json => patch::json(&old, &change).map_or_else(|_| String::new(), document_text),
            _ => patch::merge(&old, &change).map_or_else(|_| String::new(), document_text),
        })?;
    check_place(call, &new)?;
    let write = Write {
        served,
        key: &call.key(),
        stored: &stored,
        old: &old,
        subresource: call.subresource,
        dry_run: options.dry_run,
    };
    write.check_version(&new)?;
    write.manage(state, &mut new, &call.request.field_manager());
    Answer::warn(write.commit(state, new), warnings)
}

/// What the patched document is. `text` is what a failure shows of it.
fn decode(
    kind: Kind,
    served: &Served,
    mut patched: Value,
    validation: FieldValidation,
    text: impl FnOnce() -> String,
) -> Result<(Value, Vec<String>), Failure> {
    body::check_kind(Expected::of(served), &mut patched, b"")
        .and_then(|()| {
            body::decode(served, Parsed { value: patched, duplicates: Vec::new() }, validation)
        })
        .map_err(|failure| {
            let problem = body::problem_of(&failure);
            let problem = if kind == Kind::Strategic { restored(problem) } else { problem.into() };
            let error = FieldError::invalid("patch", text(), problem);
            Failure::invalid(About { group: "", kind: "", name: "" }, &[error])
        })
}

/// Strategic merges are not decoded from JSON, and their decoder has words of its own.
fn restored(problem: &str) -> String {
    let parts = problem
        .strip_prefix("json: cannot unmarshal ")
        .and_then(|rest| rest.split_once(" into Go struct field "))
        .and_then(|(found, rest)| Some((found, rest.rsplit_once(" of type ")?.1)));
    match parts {
        Some((found, expected)) if expected.starts_with("[]") => {
            format!("cannot restore slice from {found}")
        }
        Some((found, expected)) if expected.starts_with("map[") => {
            format!("cannot restore map from {found}")
        }
        Some((found, expected)) if expected.contains('.') => {
            format!("cannot restore struct from: {found}")
        }
        Some((found, expected)) => format!("cannot convert {found} to {expected}"),
        None => problem.to_owned(),
    }
}

/// A patched document as a failure shows it: sorted at the top, the rest as it is stored.
fn document_text(document: Value) -> String {
    const METADATA: [&str; 15] = [
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "managedFields",
    ];
    let Value::Object(mut fields) = document else { return document.to_string() };
    fields.sort_keys();
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        let mut entries: Vec<_> = std::mem::take(metadata).into_iter().collect();
        entries.sort_by_key(|(key, _)| METADATA.iter().position(|field| field == key));
        metadata.extend(entries);
    }
    Value::Object(fields).to_string()
}

/// The kind of patch that the content type says.
pub(crate) fn kind(request: &Request, custom: bool) -> Result<Kind, Failure> {
    match request.content_type() {
        "application/json-patch+json" => Ok(Kind::Json),
        "application/merge-patch+json" => Ok(Kind::Merge),
        "application/strategic-merge-patch+json" if !custom => Ok(Kind::Strategic),
        "application/apply-patch+yaml" => Ok(Kind::Apply),
        _ if custom => Err(Failure::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, \
             application/apply-patch+yaml",
        )),
        // This one is refused before anybody looks at the resource.
        _ => {
            let mut failure = Failure::unsupported_media_type("415: Unsupported Media Type");
            failure.details = Some(Box::default());
            Err(failure)
        }
    }
}

/// The patch of the body.
pub(crate) fn change(request: &Request, kind: Kind) -> Result<Value, Failure> {
    body::json(&request.body).map_err(|problem| {
        Failure::bad_request(match kind {
            Kind::Json | Kind::Merge => format!("error decoding patch: {problem}"),
            Kind::Strategic | Kind::Apply => problem,
        })
    })
}

fn apply(state: &mut State, call: &Call, options: WriteOptions) -> Result<Answer, Failure> {
    let served = &call.served;
    let manager = call.request.query.get("fieldManager");
    if manager.is_empty() {
        let error = FieldError::required("fieldManager", "is required for apply patch");
        let about = About { group: "meta.k8s.io", kind: "PatchOptions", name: "" };
        return Err(Failure::invalid(about, &[error]));
    }
    let config = body::config(&call.request.body)?;
    check_config(call, &config)?;
    let stored = state.store.get(&served.id, &call.key()).cloned();
    if stored.is_none() && call.subresource.is_some() {
        return Err(Failure::not_found(served.about(&call.target.name)));
    }
    let old = stored.as_ref().map(|stored| State::value(served, stored));
    let force = call.request.query.flag("force");
    let now = state.now();
    let mut new = served.endpoint(call.subresource, |endpoint| {
        let applied = endpoint.apply(old.as_ref(), &config, manager, force, &now)?;
        let parsed = Parsed { value: applied.object, duplicates: Vec::new() };
        body::decode(served, parsed, FieldValidation::Ignore)
            .map(|(object, _)| object)
            .map_err(|failure| endpoint.undecodable(&config, body::problem_of(&failure)))
    })?;
    body::check_place(call, &mut new)?;
    let (Some(stored), Some(old)) = (&stored, &old) else {
        check_no_uid(served, &config)?;
        return create::create_applied(state, served, new, options.dry_run);
    };
    let (key, subresource, dry_run) = (call.key(), call.subresource, options.dry_run);
    let write = Write { served, key: &key, stored, old, subresource, dry_run };
    write.check_preconditions(&config)?;
    write.commit(state, new)
}

/// Who names the uid of an object does not want a new one.
fn check_no_uid(served: &Served, config: &Value) -> Result<(), Failure> {
    let text = |field: &str| config["metadata"][field].as_str().unwrap_or_default();
    match text("uid") {
        "" => Ok(()),
        uid => {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object \
                 was found"
            );
            Err(Failure::conflict(served.about(text("name")), &why))
        }
    }
}

fn check_config(call: &Call, config: &Value) -> Result<(), Failure> {
    let missing = |field: &str| config[field].as_str().is_none_or(str::is_empty);
    if missing("apiVersion") || missing("kind") {
        return Err(Failure::bad_request("invalid object type: /, Kind="));
    }
    let managed = &config["metadata"]["managedFields"];
    if managed.as_array().is_some_and(|fields| !fields.is_empty()) {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    check_place(call, config)
}

/// A patch may not move an object.
fn check_place(call: &Call, object: &Value) -> Result<(), Failure> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        return Err(crate::verbs::update::nameless(&call.target.name));
    }
    if name != call.target.name {
        return Err(Failure::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.target.name
        )));
    }
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    if !namespace.is_empty() && namespace != call.target.namespace {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}
