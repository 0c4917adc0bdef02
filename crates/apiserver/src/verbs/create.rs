//! A new object.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use crate::api::{Answer, Body, Call, State};
use crate::environment;
use crate::registry::{Served, remove};
use crate::status::Failure;
use crate::store::{Key, ResourceId};
use crate::verbs::body::{self, Expected};
use crate::verbs::options::WriteOptions;

pub(crate) fn create(state: &mut State, call: &Call) -> Result<Answer, Failure> {
    if call.subresource.is_some() {
        return Err(Failure::method_not_allowed());
    }
    let options = WriteOptions::parse(&call.request.query, "CreateOptions")?;
    let object = body::read(&call.request, Expected::of(&call.served))?;
    let (mut object, warnings) = body::decode(&call.served, object, options.field_validation)?;
    body::check_place(call, &mut object)?;
    let manager = call.request.field_manager();
    let answer = create_object(state, &call.served, object, &manager, options.dry_run);
    Answer::warn(answer, warnings)
}

/// Creates an object that has been decoded.
pub(crate) fn create_object(
    state: &mut State,
    served: &Arc<Served>,
    mut object: Value,
    manager: &str,
    dry_run: bool,
) -> Result<Answer, Failure> {
    check_version(&object)?;
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        remove(&mut object["metadata"], field);
    }
    let now = state.now();
    served.endpoint(None, |endpoint| endpoint.update(None, &mut object, manager, &now));
    create_applied(state, served, object, dry_run)
}

/// Creates an object whose managed fields are known.
pub(crate) fn create_applied(
    state: &mut State,
    served: &Arc<Served>,
    object: Value,
    dry_run: bool,
) -> Result<Answer, Failure> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    check_definition(state, served, name)?;
    let (key, object) = complete(state, served, object)?;
    if state.store.get(&served.id, &key).is_some() {
        return Err(Failure::already_exists(served.about(key.name())));
    }
    let warnings = served.warnings(&object);
    let body = if dry_run {
        Body::Object(served.clone(), object)
    } else {
        Body::Stored(served.clone(), state.put(served, &key, object))
    };
    Answer::warn(Ok(Answer::new(StatusCode::CREATED, body)), warnings)
}

/// A kind that is on its way out has no new objects.
fn check_definition(state: &State, served: &Served, name: &str) -> Result<(), Failure> {
    if served.custom().is_none() {
        return Ok(());
    }
    let definitions = ResourceId::new("apiextensions.k8s.io", "customresourcedefinitions");
    let definition = format!("{}.{}", served.resource.plural, served.resource.group);
    let stored = state.store.get(&definitions, &Key::new("", &definition));
    if stored.is_some_and(|stored| stored.is_ending) {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(Failure::forbidden(served.about(name), why));
    }
    Ok(())
}

/// Everything between decoding and storing.
pub(crate) fn complete(
    state: &mut State,
    served: &Served,
    mut object: Value,
) -> Result<(Key, Value), Failure> {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    check_namespace(state, served, &namespace, name)?;
    served.admit_create(&mut object, state.around())?;
    fill_metadata(state, &mut object);
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    served.prepare_create(&mut object);
    let errors = served.validate_create(&object);
    if !errors.is_empty() {
        return Err(Failure::invalid(served.about_kind(&name), &errors));
    }
    served.encode(&mut object);
    Ok((Key::new(&namespace, &name), object))
}

fn check_version(object: &Value) -> Result<(), Failure> {
    match object["metadata"]["resourceVersion"].as_str() {
        None | Some("" | "0") => Ok(()),
        Some(_) => {
            let message = "resourceVersion should not be set on objects to be created";
            Err(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "", message))
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
        let suffix = environment::suffix(state.environment.random());
        metadata["name"] = format!("{prefix}{suffix}").into();
    }
}

fn check_namespace(
    state: &State,
    served: &Served,
    namespace: &str,
    name: &str,
) -> Result<(), Failure> {
    if !served.resource.namespaced {
        return Ok(());
    }
    let namespaces = ResourceId::new("", "namespaces");
    let Some(stored) = state.store.get(&namespaces, &Key::new("", namespace)) else {
        let about = crate::status::About { group: "", kind: "namespaces", name: namespace };
        return Err(Failure::not_found(about));
    };
    // Events may tell how a namespace ends.
    if &*served.resource.kind != "Event" && stored.is_ending {
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let cause = format!("namespace {namespace} is being terminated");
        return Err(Failure::forbidden(served.about(name), &why).cause(
            "NamespaceTerminating",
            &cause,
            "metadata.namespace",
        ));
    }
    Ok(())
}

/// A `Status` that says that all went well.
pub(crate) fn success() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
}
