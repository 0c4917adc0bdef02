//! Objects of built-in kinds, created, applied and updated, with the managed fields that the
//! libraries of Kubernetes 1.36 give them.
//!
//! Unlike custom objects, these are measured from an object with the fields of its Go type: a
//! manager that leaves an always written field empty does not own it.

use serde_json::{Value, json};

use super::NOW;
use crate::kinds::{self, Resource};
use crate::server_side_apply::{ApiEndpoint, OwnableFields};
use crate::type_model;

const RECORDED: &str = include_str!("built_in.jsonl");

#[test]
fn managed_fields_of_built_in_kinds_match_kubernetes() {
    let (_, resources) = kinds::built_in_resources();
    for recorded in RECORDED.lines() {
        let recorded: Value = serde_json::from_str(recorded).expect("a line is JSON");
        let kind = recorded["kind"].as_str().expect("a kind");
        let resource = resources.iter().find(|resource| &*resource.kind == kind);
        check(resource.unwrap_or_else(|| panic!("{kind} is served")), &recorded);
    }
}

#[track_caller]
fn check(resource: &Resource, recorded: &Value) {
    let types = kinds::types();
    let empty = type_model::zero_value(types, resource.type_id);
    let mut live: Option<Value> = None;
    for (step, operation) in recorded["ops"].as_array().expect("a list").iter().enumerate() {
        let is_status = operation["status"] == json!(true);
        let endpoint = ApiEndpoint {
            types,
            root: resource.type_id,
            api_version: recorded["apiVersion"].as_str().unwrap_or_default(),
            kind: &resource.kind,
            api_versions: &[],
            subresource: if is_status { "status" } else { "" },
            ownable: OwnableFields::AllExcept(if is_status {
                &[&["spec"], &["metadata"]]
            } else {
                &[&["status"]]
            }),
            empty: &empty,
        };
        let (manager, body) =
            (operation["manager"].as_str().unwrap_or_default(), &operation["body"]);
        let mut object = if operation["op"] == "apply" {
            let force = operation["force"] == json!(true);
            match endpoint.apply(live.as_ref(), body, manager, force, NOW) {
                Ok(applied) => applied.object,
                Err(failure) => {
                    assert_eq!(json!(failure.message), operation["error"], "{}", resource.kind);
                    continue;
                }
            }
        } else {
            let mut object = body.clone();
            endpoint.update(live.as_ref(), &mut object, manager, NOW);
            object
        };
        type_model::encode(types, resource.type_id, &mut object);
        object["metadata"]["uid"] = "u".into();
        let mut owners = object["metadata"]["managedFields"].clone();
        for entry in owners.as_array_mut().into_iter().flatten() {
            if entry.get("time").is_some() {
                entry["time"] = "T".into();
            }
        }
        assert_eq!(owners, operation["want"], "{}, step {step}", resource.kind);
        live = Some(object);
    }
}
