//! Tests of managed fields against the behaviour of Kubernetes.

mod apply;
mod built_in;
mod properties;
mod recorded;
mod sets;
mod update;

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::{ApiEndpoint, OwnableFields};
use crate::type_model::{TypeId, Types, custom};

const NOW: &str = "2026-01-01T00:00:00Z";
const LATER: &str = "2026-01-01T00:01:00Z";

/// A test kind that has every way to own a field.
static TEST_TYPES: LazyLock<(Types, TypeId)> = LazyLock::new(|| {
    let text = || json!({"type": "string"});
    let number = || json!({"type": "integer"});
    let object = |fields: Value| json!({"type": "object", "properties": fields});
    let set =
        |items: Value| json!({"type": "array", "items": items, "x-kubernetes-list-type": "set"});
    let keyed = |keys: Value, fields: Value| {
        json!({"type": "array", "items": {"type": "object", "properties": fields},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys})
    };
    let map = |values: Value| json!({"type": "object", "additionalProperties": values});
    let atomic = |mut schema: Value| {
        schema["x-kubernetes-map-type"] = "atomic".into();
        schema
    };
    let spec = object(json!({
        "text": text(), "num": number(), "flag": {"type": "boolean"},
        "ios": {"x-kubernetes-int-or-string": true},
        "labels": map(text()), "amap": atomic(map(text())),
        "aobj": atomic(object(json!({"a": text(), "b": number()}))),
        "obj": object(json!({"a": text(), "b": number(),
            "nested": object(json!({"c": text(), "d": number()}))})),
        "alist": {"type": "array", "items": text()}, "set": set(text()), "nset": set(number()),
        "items": keyed(json!(["name"]), json!({"name": text(), "value": text(), "port": number(),
            "sub": object(json!({"x": text(), "y": text()})), "tags": set(text())})),
        "multi": keyed(json!(["port", "protocol"]), json!({"port": number(), "v": text(),
            "protocol": {"type": "string", "default": "TCP"}})),
        "any": {"x-kubernetes-preserve-unknown-fields": true},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"k": text(), "o": object(json!({"z": text()}))}},
        "free": {"type": "object"},
        "mobj": map(object(json!({"p": text(), "q": text()}))),
    }));
    let conditions = keyed(json!(["type"]), json!({"type": text(), "status": text()}));
    let status = object(json!({"phase": text(), "conds": conditions}));
    custom::types_from_schema(&object(json!({"spec": spec, "status": status})))
});

static EMPTY_OBJECT: LazyLock<Value> =
    LazyLock::new(|| json!({"apiVersion": "test.io/v1", "kind": "Thing"}));

fn endpoint() -> ApiEndpoint<'static> {
    ApiEndpoint {
        types: &TEST_TYPES.0,
        root: TEST_TYPES.1,
        api_version: "test.io/v1",
        kind: "Thing",
        api_versions: &[],
        subresource: "",
        ownable: OwnableFields::AllExcept(&[&["status"]]),
        empty: &EMPTY_OBJECT,
    }
}

fn status_endpoint() -> ApiEndpoint<'static> {
    let ownable = OwnableFields::AllExcept(&[&["metadata"], &["spec"]]);
    ApiEndpoint { subresource: "status", ownable, ..endpoint() }
}

fn test_object(spec: Value) -> Value {
    let mut object = EMPTY_OBJECT.clone();
    object["metadata"] = json!({"name": "n"});
    object["spec"] = spec;
    object
}

/// Adds the uid that a created object has.
fn with_uid(mut object: Value) -> Value {
    object["metadata"]["uid"] = "u".into();
    object
}

/// Applies `spec` to `live` as `manager`; panics on a conflict.
#[track_caller]
fn apply_spec(live: Option<&Value>, manager: &str, spec: Value) -> Value {
    let applied = endpoint().apply(live, &test_object(spec), manager, false, NOW);
    with_uid(applied.expect("no conflict").object)
}

/// Updates `live` with `spec` as `manager`.
fn update_spec(live: Option<&Value>, manager: &str, spec: Value) -> Value {
    let mut new = live.cloned().unwrap_or_else(|| test_object(json!({})));
    new["spec"] = spec;
    endpoint().update(live, &mut new, manager, LATER);
    with_uid(new)
}

/// Returns the managed fields as texts `manager operation fields`.
fn describe_managed_fields(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array();
    let entries = entries.into_iter().flatten();
    entries
        .map(|entry| {
            let text = |name: &str| entry[name].as_str().unwrap_or_default();
            format!("{} {} {}", text("manager"), text("operation"), entry["fieldsV1"])
        })
        .collect()
}
