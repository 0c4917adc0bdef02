//! Patches an existing object; server-side apply also creates one.

use karpenter_cel::go_text;
use serde_json::Value;

use crate::admission::FieldError;
use crate::api::{ApiResponse, ResourceRequest, State};
use crate::patch;
use crate::registry::ServedResource;
use crate::request::Request;
use crate::status::{StatusDetails, StatusError};
use crate::verbs::body::{self, ExpectedKind, ParsedBody};
use crate::verbs::create;
use crate::verbs::options::{FieldValidation, WriteOptions};
use crate::verbs::update::ObjectUpdate;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

pub(crate) fn patch(state: &mut State, call: &ResourceRequest) -> Result<ApiResponse, StatusError> {
    let kind = patch_type(&call.request, call.served.custom().is_some())?;
    let options = WriteOptions::parse(&call.request.query, "PatchOptions")?;
    let served = &call.served;
    if kind == PatchType::Apply {
        return apply(state, call, options);
    }
    if call.request.query.flag("force") {
        let error = FieldError::forbidden("force", "may not be specified for non-apply patch");
        let about = StatusDetails { group: "meta.k8s.io", kind: "PatchOptions", name: "" };
        return Err(StatusError::invalid(about, &[error]));
    }
    let stored = call.stored_object(state)?;
    let old = State::object(served, &stored);
    let change = read_patch(&call.request, kind)?;
    let patched = match kind {
        PatchType::Json => patch::apply_json_patch(&old, &change)?,
        PatchType::Merge => patch::apply_merge_patch(&old, &change)?,
        PatchType::Strategic | PatchType::Apply => {
            patch::apply_strategic_patch(served.types(), served.resource.type_id, &old, &change)?
        }
    };
    let (mut new, warnings) =
        decode_patched(kind, served, patched, options.field_validation, || match kind {
            PatchType::Strategic => go_text::default_format(&change),
            PatchType::Json => {
                patch::apply_json_patch(&old, &change).map_or_else(|_| String::new(), document_text)
            }
            _ => patch::apply_merge_patch(&old, &change)
                .map_or_else(|_| String::new(), document_text),
        })?;
    check_name_and_namespace(call, &new)?;
    let write = ObjectUpdate {
        served,
        key: &call.key(),
        stored: &stored,
        old: &old,
        subresource: call.subresource,
        dry_run: options.dry_run,
    };
    write.check_version(&new)?;
    write.update_managed_fields(state, &mut new, &call.request.field_manager());
    ApiResponse::with_warnings(write.commit(state, new), warnings)
}

/// Decodes the patched document. An error message shows it as `text`.
fn decode_patched(
    kind: PatchType,
    served: &ServedResource,
    mut patched: Value,
    validation: FieldValidation,
    text: impl FnOnce() -> String,
) -> Result<(Value, Vec<String>), StatusError> {
    body::check_kind(ExpectedKind::of_resource(served), &mut patched, b"")
        .and_then(|()| {
            body::decode(served, ParsedBody { value: patched, duplicates: Vec::new() }, validation)
        })
        .map_err(|failure| {
            let problem = body::decode_problem(&failure);
            let problem = if kind == PatchType::Strategic {
                strategic_decode_problem(problem)
            } else {
                problem.into()
            };
            let error = FieldError::invalid("patch", text(), problem);
            StatusError::invalid(StatusDetails { group: "", kind: "", name: "" }, &[error])
        })
}

/// Rewords a decoding error as the decoder of strategic merge patches words it.
fn strategic_decode_problem(problem: &str) -> String {
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

/// Returns a patched document as an error shows it: sorted at the top, the rest as it is stored.
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

/// Returns the type of patch that the content type names.
pub(crate) fn patch_type(request: &Request, custom: bool) -> Result<PatchType, StatusError> {
    match request.content_type() {
        "application/json-patch+json" => Ok(PatchType::Json),
        "application/merge-patch+json" => Ok(PatchType::Merge),
        "application/strategic-merge-patch+json" if !custom => Ok(PatchType::Strategic),
        "application/apply-patch+yaml" => Ok(PatchType::Apply),
        _ if custom => Err(StatusError::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, \
             application/apply-patch+yaml",
        )),
        // This patch type is rejected before the resource is read.
        _ => {
            let mut failure = StatusError::unsupported_media_type("415: Unsupported Media Type");
            failure.details = Some(Box::default());
            Err(failure)
        }
    }
}

/// Parses the patch in the body.
pub(crate) fn read_patch(request: &Request, kind: PatchType) -> Result<Value, StatusError> {
    body::parse_json(&request.body).map_err(|problem| {
        StatusError::bad_request(match kind {
            PatchType::Json | PatchType::Merge => format!("error decoding patch: {problem}"),
            PatchType::Strategic | PatchType::Apply => problem,
        })
    })
}

fn apply(
    state: &mut State,
    call: &ResourceRequest,
    options: WriteOptions,
) -> Result<ApiResponse, StatusError> {
    let served = &call.served;
    let manager = call.request.query.get("fieldManager");
    if manager.is_empty() {
        let error = FieldError::required("fieldManager", "is required for apply patch");
        let about = StatusDetails { group: "meta.k8s.io", kind: "PatchOptions", name: "" };
        return Err(StatusError::invalid(about, &[error]));
    }
    let config = body::parse_apply_config(&call.request.body)?;
    check_apply_config(call, &config)?;
    let stored = state.store.get(&served.id, &call.key()).cloned();
    if stored.is_none() && call.subresource.is_some() {
        return Err(StatusError::not_found(served.status_details(&call.target.name)));
    }
    let old = stored.as_ref().map(|stored| State::object(served, stored));
    let force = call.request.query.flag("force");
    let now = state.now();
    let mut new = served.with_endpoint(call.subresource, |endpoint| {
        let applied = endpoint.apply(old.as_ref(), &config, manager, force, &now)?;
        let parsed = ParsedBody { value: applied.object, duplicates: Vec::new() };
        body::decode(served, parsed, FieldValidation::Ignore)
            .map(|(object, _)| object)
            .map_err(|failure| endpoint.conversion_failure(&config, body::decode_problem(&failure)))
    })?;
    body::check_namespace(call, &mut new)?;
    let (Some(stored), Some(old)) = (&stored, &old) else {
        check_no_uid(served, &config)?;
        return create::create_applied(state, served, new, options.dry_run);
    };
    let (key, subresource, dry_run) = (call.key(), call.subresource, options.dry_run);
    let write = ObjectUpdate { served, key: &key, stored, old, subresource, dry_run };
    write.check_preconditions(&config)?;
    write.commit(state, new)
}

/// Rejects an apply that would create an object but names a uid.
fn check_no_uid(served: &ServedResource, config: &Value) -> Result<(), StatusError> {
    let text = |field: &str| config["metadata"][field].as_str().unwrap_or_default();
    match text("uid") {
        "" => Ok(()),
        uid => {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object \
                 was found"
            );
            Err(StatusError::conflict(served.status_details(text("name")), &why))
        }
    }
}

fn check_apply_config(call: &ResourceRequest, config: &Value) -> Result<(), StatusError> {
    let missing = |field: &str| config[field].as_str().is_none_or(str::is_empty);
    if missing("apiVersion") || missing("kind") {
        return Err(StatusError::bad_request("invalid object type: /, Kind="));
    }
    let managed = &config["metadata"]["managedFields"];
    if managed.as_array().is_some_and(|fields| !fields.is_empty()) {
        return Err(StatusError::bad_request("metadata.managedFields must be nil"));
    }
    check_name_and_namespace(call, config)
}

/// Rejects a patch that changes the name or the namespace.
fn check_name_and_namespace(call: &ResourceRequest, object: &Value) -> Result<(), StatusError> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        return Err(crate::verbs::update::missing_name(&call.target.name));
    }
    if name != call.target.name {
        return Err(StatusError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.target.name
        )));
    }
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    if !namespace.is_empty() && namespace != call.target.namespace {
        return Err(StatusError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}
