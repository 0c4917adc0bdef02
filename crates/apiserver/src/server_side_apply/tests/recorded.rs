//! Sequences of applies and updates with what the libraries of Kubernetes 1.36 made of them.
//!
//! Recorded by `tests/e2e/tools/kubernetes/patches` from random sequences, of which a few with
//! every feature are kept.

use serde_json::{Value, json};

use super::{EMPTY_OBJECT, endpoint, status_endpoint};
use crate::patch;
use crate::server_side_apply::ApplyResult;
use crate::status::StatusError;

const RECORDED: &str = include_str!("recorded.jsonl");

#[test]
fn recorded_change_sequences_match_kubernetes() {
    for (line, recorded) in RECORDED.lines().enumerate() {
        let recorded: Value = serde_json::from_str(recorded).expect("a line is JSON");
        let mut live = EMPTY_OBJECT.clone();
        let steps = recorded["ops"].as_array().expect("a list of steps");
        for (step, operation) in steps.iter().enumerate() {
            let live_or_none = (step > 0).then_some(&live);
            let (got, new) = run(live_or_none, operation);
            assert_eq!(got, recorded["want"][step], "line {}, step {step}", line + 1);
            live = new.unwrap_or(live);
        }
    }
}

/// The outcome as it is recorded, and the new object if there is one.
fn run(live: Option<&Value>, operation: &Value) -> (Value, Option<Value>) {
    let is_status = operation["status"] == json!(true);
    let endpoint = if is_status { status_endpoint() } else { endpoint() };
    let manager = operation["manager"].as_str().unwrap_or_default();
    let now = "2026-01-01T00:00:00Z";
    let mut object = if operation["op"] == "apply" {
        let force = operation["force"] == json!(true);
        match endpoint.apply(live, &operation["body"], manager, force, now) {
            Ok(ApplyResult { object, .. }) => object,
            Err(failure) => return (describe(&failure), None),
        }
    } else {
        let patched = patch::apply_merge_patch(live.unwrap_or(&EMPTY_OBJECT), &operation["body"]);
        let mut object = patched.expect("recorded patches are objects");
        endpoint.update(live, &mut object, manager, now);
        object
    };
    object["metadata"]["uid"] = "u".into();
    (without_times(object.clone()), Some(object))
}

fn without_times(mut object: Value) -> Value {
    let entries = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten() {
        if entry.get("time").is_some() {
            entry["time"] = "T".into();
        }
    }
    object
}

fn describe(failure: &StatusError) -> Value {
    let causes = failure.details.as_ref().and_then(|details| details.get("causes"));
    let causes = causes.and_then(Value::as_array).into_iter().flatten();
    let mut causes: Vec<_> = causes
        .map(|cause| {
            let text = |name: &str| cause[name].as_str().unwrap_or_default();
            format!("{}|{}|{}", text("reason"), text("message"), text("field"))
        })
        .collect();
    causes.sort();
    json!({"code": failure.code.as_u16(), "message": failure.message, "causes": causes})
}
