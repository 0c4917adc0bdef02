//! `pods/binding`: the scheduler binds a pod to a node.

use http::StatusCode;
use serde_json::{Value, json};

use crate::admission::FieldError;
use crate::api::{ApiResponse, Body, ResourceRequest, State};
use crate::request::Target;
use crate::status::{StatusDetails, StatusError};
use crate::verbs::body::{self, ExpectedKind};
use crate::verbs::create::success_status;
use crate::verbs::options::WriteOptions;
use crate::verbs::update::uid_conflict;

pub(super) fn bind(state: &mut State, call: &ResourceRequest) -> Result<ApiResponse, StatusError> {
    let options = WriteOptions::parse(&call.request.query, "CreateOptions")?;
    let binding =
        body::read_object(&call.request, ExpectedKind::built_in("", "v1", "Binding"))?.value;
    bind_pod(state, call, &binding, options)
}

/// `bindings`: as [`bind`], but the body alone names the pod.
pub(crate) fn create(state: &mut State, call: ResourceRequest) -> Result<ApiResponse, StatusError> {
    let options = WriteOptions::parse(&call.request.query, "CreateOptions")?;
    let binding =
        body::read_object(&call.request, ExpectedKind::built_in("", "v1", "Binding"))?.value;
    let name = binding["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let target = Target { name, ..call.target };
    bind_pod(state, &ResourceRequest { target, ..call }, &binding, options)
}

fn bind_pod(
    state: &mut State,
    call: &ResourceRequest,
    binding: &Value,
    options: WriteOptions,
) -> Result<ApiResponse, StatusError> {
    check_binding(call, binding)?;
    let served = &call.served;
    let key = call.key();
    let stored = call.stored_object(state)?;
    let mut pod = State::object(served, &stored);
    let node = binding["target"]["name"].as_str().unwrap_or_default();
    let uid = binding["metadata"]["uid"].as_str().unwrap_or_default();
    if !uid.is_empty() && uid != &*stored.uid {
        return Err(uid_conflict(served, &key, uid, &stored.uid));
    }
    binding_conflict(&pod).map_or(Ok(()), |why| {
        let about = StatusDetails { group: "", kind: "pods/binding", name: &call.target.name };
        Err(StatusError::conflict(about, &why))
    })?;

    pod["spec"]["nodeName"] = node.into();
    copy_annotations(&mut pod, binding);
    set_pod_scheduled(&mut pod, &state.now());
    if !options.dry_run {
        state.put(served, &key, pod);
    }
    let mut status = success_status();
    status["code"] = 201.into();
    Ok(ApiResponse::new(StatusCode::CREATED, Body::Value(status)))
}

fn check_binding(call: &ResourceRequest, binding: &Value) -> Result<(), StatusError> {
    let name = binding["metadata"]["name"].as_str().unwrap_or_default();
    if !name.is_empty() && name != call.target.name {
        return Err(StatusError::bad_request("name in URL does not match name in Binding object"));
    }
    let target = &binding["target"];
    let text = |field: &str| target[field].as_str().unwrap_or_default();
    let mut errors = Vec::new();
    if !matches!(text("kind"), "" | "Node") {
        let supported = [Value::from("Node"), Value::from("<empty>")];
        errors.push(FieldError::not_supported("target.kind", target["kind"].clone(), &supported));
    }
    if text("name").is_empty() {
        errors.push(FieldError::required("target.name", ""));
    }
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let message = match errors.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    Err(StatusError::new(StatusCode::INTERNAL_SERVER_ERROR, "", message))
}

/// Returns the reason why the pod cannot be bound to a node.
fn binding_conflict(pod: &Value) -> Option<String> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    if pod["metadata"].get("deletionTimestamp").is_some() {
        return Some(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    match pod["spec"]["nodeName"].as_str().unwrap_or_default() {
        "" => {}
        other => return Some(format!("pod {name} is already assigned to node {other:?}")),
    }
    let gates = pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
    gates.then(|| format!("pod {name} has non-empty .spec.schedulingGates"))
}

fn copy_annotations(pod: &mut Value, binding: &Value) {
    for map in ["annotations", "labels"] {
        for (key, value) in binding["metadata"][map].as_object().into_iter().flatten() {
            // Labels of the binding are for topology only, and do not replace.
            if map == "annotations" || pod["metadata"]["labels"].get(key).is_none() {
                pod["metadata"][map][key] = value.clone();
            }
        }
    }
}

fn set_pod_scheduled(pod: &mut Value, now: &str) {
    let mut conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let old = conditions.iter().position(|condition| condition["type"] == "PodScheduled");
    let was_true = old.is_some_and(|at| conditions[at]["status"] == "True");
    if was_true {
        return;
    }
    let condition = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
    });
    match old {
        Some(at) => {
            let generation = conditions[at].get("observedGeneration").cloned();
            conditions[at] = condition;
            if let Some(generation) = generation {
                conditions[at]["observedGeneration"] = generation;
            }
        }
        None => conditions.push(condition),
    }
    pod["status"]["conditions"] = conditions.into();
}
