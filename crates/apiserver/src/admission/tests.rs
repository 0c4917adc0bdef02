//! Claims about whole objects, on small kinds that each test makes for itself.
//!
//! The expected texts were compared with those of a kube-apiserver 1.36.

mod crds;
mod messages;
mod objects;
mod properties;
mod rules;
mod updates;

use serde_json::{Value, json};

use super::CustomKind;

/// A CustomResourceDefinition of kind `Widget` with the given schema for its `spec`.
fn widget_crd(spec: &Value) -> Value {
    json!({
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "apiVersion": {"type": "string"},
                        "kind": {"type": "string"},
                        "metadata": {"type": "object"},
                        "spec": spec,
                    },
                }},
            }],
        },
    })
}

#[track_caller]
fn widget(spec: &Value) -> CustomKind {
    CustomKind::from_crd(&widget_crd(spec)).unwrap_or_else(|error| panic!("{error}"))
}

/// A kind whose `spec` has these fields.
#[track_caller]
fn widget_with(fields: &Value) -> CustomKind {
    widget(&json!({"type": "object", "properties": fields}))
}

fn object(spec: &Value) -> Value {
    json!({
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": spec,
    })
}

/// What a server makes of a new object: pruned, completed, and its errors as lines.
fn create(kind: &CustomKind, spec: &Value) -> (Value, Vec<String>) {
    let mut object = object(spec);
    kind.prune(&mut object);
    kind.apply_defaults(&mut object);
    let errors = kind.validate_create(&object).iter().map(ToString::to_string).collect();
    (object["spec"].take(), errors)
}

fn update(kind: &CustomKind, old: &Value, new: &Value) -> Vec<String> {
    let errors = kind.validate_update(&object(new), &object(old));
    errors.iter().map(ToString::to_string).collect()
}
