//! Tests of pruning and defaulting.

use serde_json::{Value, json};

use super::{create, object, widget, widget_with};
use crate::admission::CustomKind;

#[track_caller]
fn pruned(kind: &CustomKind, spec: &Value) -> (Value, Vec<String>) {
    let mut object = object(spec);
    let unknown = kind.prune(&mut object);
    (object["spec"].take(), unknown)
}

#[test]
fn pruning_removes_and_reports_unknown_fields() {
    let kind = widget_with(&json!({
        "a": {"type": "object", "properties": {"b": {"type": "string"}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"k": {"type": "string"}}}},
    }));
    let (spec, unknown) = pruned(
        &kind,
        &json!({
            "z": 1, "a": {"b": "", "c": {"d": 1}},
            "list": [{"k": ""}, {"k": "", "x": 1}],
            "map": {"any/key": {"k": "", "x": 1}},
        }),
    );
    assert_eq!(
        spec,
        json!({"a": {"b": ""}, "list": [{"k": ""}, {"k": ""}], "map": {"any/key": {"k": ""}}})
    );
    assert_eq!(unknown, ["spec.a.c", "spec.list[1].x", "spec.map.any/key.x", "spec.z"]);
    assert_eq!(
        kind.strict_decoding_message(&unknown[..2]),
        "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: \
         unknown field \"spec.a.c\", unknown field \"spec.list[1].x\""
    );
}

#[test]
fn preserved_unknown_fields_survive_pruning() {
    let known = json!({"k": {"type": "object", "properties": {"z": {"type": "string"}}}});
    #[rustfmt::skip]
    let cases = [
        // schema of x, value, remaining value
        (json!({"x-kubernetes-preserve-unknown-fields": true}), json!({"a": [{"b": 1}]}), json!({"a": [{"b": 1}]})),
        (json!({"x-kubernetes-preserve-unknown-fields": true, "type": "object", "properties": known}),
            json!({"a": {"b": 1}, "k": {"z": "", "y": 1}}), json!({"a": {"b": 1}, "k": {"z": ""}})),
        (json!({"x-kubernetes-preserve-unknown-fields": true, "type": "array", "items": {"type": "object", "properties": known}}),
            json!([{"a": 1, "k": {"y": 1}}]), json!([{"a": 1, "k": {}}])),
        (json!({"type": "object", "additionalProperties": true}),
            json!({"a": 1, "b": {"c": 1}}), json!({"a": 1, "b": {}})), // only scalars survive
        (json!({"x-kubernetes-int-or-string": true}), json!("50%"), json!("50%")),
        (json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": known}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "zone": 1}, "spec": {}}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}})),
    ];
    for (schema, value, left) in cases {
        let kind = widget_with(&json!({"x": schema}));
        let (spec, _) = pruned(&kind, &json!({"x": value}));
        assert_eq!(spec["x"], left, "{value} against {schema}");
    }
}

#[test]
fn pruning_keeps_type_and_metadata_but_no_unknown_metadata_fields() {
    let kind = widget_with(&json!({}));
    let mut object = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "status": {},
        "metadata": {"name": "w", "labels": {}, "creationTimestamp": null, "color": "red",
            "ownerReferences": [{"name": "o", "size": 1}]},
    });
    let unknown = kind.prune(&mut object);
    assert_eq!(unknown, ["metadata.color", "metadata.ownerReferences[0].size", "status"]);
    assert_eq!(
        object,
        json!({
            "apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": "w", "ownerReferences": [{"name": "o"}]},
        })
    );
}

#[test]
fn defaults_fill_missing_fields_at_every_level() {
    let kind = widget(&json!({"type": "object", "default": {}, "properties": {
        "mode": {"type": "string", "default": "Fast"},
        "deep": {"type": "object", "default": {}, "properties": {"n": {"type": "integer", "default": 3}}},
        "shallow": {"type": "object", "properties": {"n": {"type": "integer", "default": 3}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"p": {"type": "string", "default": "TCP"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"v": {"type": "integer", "default": 7}}}},
    }}));
    let mut bare = json!({"apiVersion": "example.com/v1", "kind": "Widget"});
    kind.apply_defaults(&mut bare);
    assert_eq!(bare["spec"], json!({"mode": "Fast", "deep": {"n": 3}}));

    let (spec, errors) = create(
        &kind,
        &json!({"mode": "Slow", "shallow": {}, "list": [{}, {"p": "UDP"}], "map": {"a": {}}}),
    );
    assert_eq!(
        spec,
        json!({
            "mode": "Slow", "deep": {"n": 3}, "shallow": {"n": 3},
            "list": [{"p": "TCP"}, {"p": "UDP"}], "map": {"a": {"v": 7}},
        })
    );
    assert_eq!(errors, [""; 0]);
}

#[test]
fn null_fields_are_kept_defaulted_or_dropped() {
    let string = |extra: Value| {
        let mut schema = json!({"type": "string"});
        schema.as_object_mut().unwrap().append(&mut extra.as_object().unwrap().clone());
        schema
    };
    let kind = widget_with(&json!({
        "plain": string(json!({})),
        "defaulted": string(json!({"default": "d"})),
        "nullable": string(json!({"nullable": true})),
        "both": string(json!({"nullable": true, "default": "d"})),
        "map": {"type": "object", "additionalProperties": string(json!({}))},
        "list": {"type": "array", "items": string(json!({"default": "d"}))},
        "nulls": {"type": "array", "items": string(json!({"nullable": true}))},
    }));
    let (spec, errors) = create(
        &kind,
        &json!({
            "plain": null, "defaulted": null, "nullable": null, "both": null,
            "map": {"a": null}, "list": [null], "nulls": [null],
        }),
    );
    assert_eq!(
        spec,
        json!({
            "defaulted": "d", "nullable": null, "both": null,
            "map": {}, "list": ["d"], "nulls": [null],
        })
    );
    assert_eq!(errors, [""; 0]);
}
