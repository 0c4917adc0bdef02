//! `pods/binding`: a scheduler has found a node for a pod.

use http::StatusCode;
use serde_json::{Value, json};

use crate::admission::FieldError;
use crate::api::{Answer, Body, Call, State};
use crate::request::Target;
use crate::status::{About, Failure};
use crate::verbs::body::{self, Expected};
use crate::verbs::create::success;
use crate::verbs::options::WriteOptions;
use crate::verbs::update::other_uid;

pub(super) fn bind(state: &mut State, call: &Call) -> Result<Answer, Failure> {
    let options = WriteOptions::parse(&call.request.query, "CreateOptions")?;
    let binding = body::read(&call.request, Expected::built_in("", "v1", "Binding"))?.value;
    bind_pod(state, call, &binding, options)
}

/// `bindings`: as [`bind`], but the body alone names the pod.
pub(crate) fn create(state: &mut State, call: Call) -> Result<Answer, Failure> {
    let options = WriteOptions::parse(&call.request.query, "CreateOptions")?;
    let binding = body::read(&call.request, Expected::built_in("", "v1", "Binding"))?.value;
    let name = binding["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let target = Target { name, ..call.target };
    bind_pod(state, &Call { target, ..call }, &binding, options)
}

fn bind_pod(
    state: &mut State,
    call: &Call,
    binding: &Value,
    options: WriteOptions,
) -> Result<Answer, Failure> {
    check(call, binding)?;
    let served = &call.served;
    let key = call.key();
    let stored = call.stored(state)?;
    let mut pod = State::value(served, &stored);
    let node = binding["target"]["name"].as_str().unwrap_or_default();
    let uid = binding["metadata"]["uid"].as_str().unwrap_or_default();
    if !uid.is_empty() && uid != &*stored.uid {
        return Err(other_uid(served, &key, uid, &stored.uid));
    }
    refuse(&pod).map_or(Ok(()), |why| {
        let about = About { group: "", kind: "pods/binding", name: &call.target.name };
        Err(Failure::conflict(about, &why))
    })?;

    pod["spec"]["nodeName"] = node.into();
    copy_annotations(&mut pod, binding);
    set_scheduled(&mut pod, &state.now());
    if !options.dry_run {
        state.put(served, &key, pod);
    }
    let mut status = success();
    status["code"] = 201.into();
    Ok(Answer::new(StatusCode::CREATED, Body::Value(status)))
}

fn check(call: &Call, binding: &Value) -> Result<(), Failure> {
    let name = binding["metadata"]["name"].as_str().unwrap_or_default();
    if !name.is_empty() && name != call.target.name {
        return Err(Failure::bad_request("name in URL does not match name in Binding object"));
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
    Err(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "", message))
}

/// Why the pod cannot be bound to a node.
fn refuse(pod: &Value) -> Option<String> {
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

fn set_scheduled(pod: &mut Value, now: &str) {
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
