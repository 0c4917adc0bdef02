//! Creates a new object.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use crate::api::{ApiResponse, Body, ResourceRequest, State};
use crate::environment;
use crate::registry::{ServedResource, remove_field};
use crate::status::StatusError;
use crate::store::{ObjectKey, ResourceId};
use crate::verbs::body::{self, ExpectedKind};
use crate::verbs::options::WriteOptions;

pub(crate) fn create(
    state: &mut State,
    call: &ResourceRequest,
) -> Result<ApiResponse, StatusError> {
    if call.subresource.is_some() {
        return Err(StatusError::method_not_allowed());
    }
    let options = WriteOptions::parse(&call.request.query, "CreateOptions")?;
    let object = body::read_object(&call.request, ExpectedKind::of_resource(&call.served))?;
    let (mut object, warnings) = body::decode(&call.served, object, options.field_validation)?;
    body::check_namespace(call, &mut object)?;
    let manager = call.request.field_manager();
    let answer = create_object(state, &call.served, object, &manager, options.dry_run);
    ApiResponse::with_warnings(answer, warnings)
}

/// Creates an object that has been decoded.
pub(crate) fn create_object(
    state: &mut State,
    served: &Arc<ServedResource>,
    mut object: Value,
    manager: &str,
    dry_run: bool,
) -> Result<ApiResponse, StatusError> {
    check_no_resource_version(&object)?;
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        remove_field(&mut object["metadata"], field);
    }
    let now = state.now();
    served.with_endpoint(None, |endpoint| endpoint.update(None, &mut object, manager, &now));
    create_applied(state, served, object, dry_run)
}

/// Creates an object whose managed fields are known.
pub(crate) fn create_applied(
    state: &mut State,
    served: &Arc<ServedResource>,
    object: Value,
    dry_run: bool,
) -> Result<ApiResponse, StatusError> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    check_crd_not_terminating(state, served, name)?;
    let (key, object) = admit_and_validate(state, served, object)?;
    if state.store.get(&served.id, &key).is_some() {
        return Err(StatusError::already_exists(served.status_details(key.name())));
    }
    let warnings = served.warnings(&object);
    let body = if dry_run {
        Body::Object(served.clone(), object)
    } else {
        Body::Stored(served.clone(), state.put(served, &key, object))
    };
    ApiResponse::with_warnings(Ok(ApiResponse::new(StatusCode::CREATED, body)), warnings)
}

/// Rejects new objects of a custom kind whose definition is terminating.
fn check_crd_not_terminating(
    state: &State,
    served: &ServedResource,
    name: &str,
) -> Result<(), StatusError> {
    if served.custom().is_none() {
        return Ok(());
    }
    let definitions = ResourceId::new("apiextensions.k8s.io", "customresourcedefinitions");
    let definition = format!("{}.{}", served.resource.plural, served.resource.group);
    let stored = state.store.get(&definitions, &ObjectKey::new("", &definition));
    if stored.is_some_and(|stored| stored.is_terminating) {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(StatusError::forbidden(served.status_details(name), why));
    }
    Ok(())
}

/// Runs admission, defaulting of metadata and validation of a new object.
pub(crate) fn admit_and_validate(
    state: &mut State,
    served: &ServedResource,
    mut object: Value,
) -> Result<(ObjectKey, Value), StatusError> {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    check_namespace(state, served, &namespace, name)?;
    served.admit_create(&mut object, state.admission_context())?;
    fill_metadata(state, &mut object);
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    served.prepare_for_create(&mut object);
    let errors = served.validate_create(&object);
    if !errors.is_empty() {
        return Err(StatusError::invalid(served.status_details_of_kind(&name), &errors));
    }
    served.encode(&mut object);
    Ok((ObjectKey::new(&namespace, &name), object))
}

fn check_no_resource_version(object: &Value) -> Result<(), StatusError> {
    match object["metadata"]["resourceVersion"].as_str() {
        None | Some("" | "0") => Ok(()),
        Some(_) => {
            let message = "resourceVersion should not be set on objects to be created";
            Err(StatusError::new(StatusCode::INTERNAL_SERVER_ERROR, "", message))
        }
    }
}

/// What the API alone says of an object.
fn fill_metadata(state: &State, object: &mut Value) {
    let metadata = &mut object["metadata"];
    metadata["uid"] = environment::uuid(state.environment.random()).into();
    metadata["creationTimestamp"] = state.now().into();
    let has_name = metadata["name"].as_str().is_some_and(|name| !name.is_empty());
    if !has_name && let Some(prefix) = metadata["generateName"].as_str().filter(|p| !p.is_empty()) {
        // A name has at most 63 characters, five of which are ours.
        let prefix: String = prefix.chars().take(58).collect();
        let suffix = environment::generated_name_suffix(state.environment.random());
        metadata["name"] = format!("{prefix}{suffix}").into();
    }
}

fn check_namespace(
    state: &State,
    served: &ServedResource,
    namespace: &str,
    name: &str,
) -> Result<(), StatusError> {
    if !served.resource.namespaced {
        return Ok(());
    }
    let namespaces = ResourceId::new("", "namespaces");
    let Some(stored) = state.store.get(&namespaces, &ObjectKey::new("", namespace)) else {
        let about = crate::status::StatusDetails { group: "", kind: "namespaces", name: namespace };
        return Err(StatusError::not_found(about));
    };
    // Events may report how a namespace terminates.
    if &*served.resource.kind != "Event" && stored.is_terminating {
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let cause = format!("namespace {namespace} is being terminated");
        return Err(StatusError::forbidden(served.status_details(name), &why).with_cause(
            "NamespaceTerminating",
            &cause,
            "metadata.namespace",
        ));
    }
    Ok(())
}

/// Returns a `Status` of success.
pub(crate) fn success_status() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
}
