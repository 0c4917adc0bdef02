//! Tests of patches against the behaviour of Kubernetes.

mod recorded;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{apply_json_patch, apply_merge_patch, json_patch_unknown_fields};
use crate::status::StatusError;

#[track_caller]
fn refused(outcome: Result<Value, StatusError>) -> (u16, &'static str, String) {
    let failure = outcome.expect_err("a patch that is refused");
    (failure.code.as_u16(), failure.reason, failure.message)
}

#[test]
fn json_patches_change_the_named_fields() {
    #[rustfmt::skip]
    let rows = [
        (json!({"a": 1}), json!([{"op": "add", "path": "/b", "value": 2}]), json!({"a": 1, "b": 2})),
        (json!({"a": [1, 3]}), json!([{"op": "add", "path": "/a/1", "value": 2}]), json!({"a": [1, 2, 3]})),
        (json!({"a": [1]}), json!([{"op": "add", "path": "/a/-", "value": 2}]), json!({"a": [1, 2]})),
        (json!({"a": [1, 2]}), json!([{"op": "remove", "path": "/a/-1"}]), json!({"a": [1]})),
        (json!({"a": [1, 2]}), json!([{"op": "add", "path": "/a/-1", "value": 3}]), json!({"a": [1, 2, 3]})),
        (json!({"a/b": {"c~d": 1}}), json!([{"op": "remove", "path": "/a~1b/c~0d"}]), json!({"a/b": {}})),
        (json!({"a": 1}), json!([{"op": "move", "from": "/a", "path": "/b"}]), json!({"b": 1})),
        (json!({"a": {"x": 1}}), json!([{"op": "copy", "from": "/a", "path": "/b"}]), json!({"a": {"x": 1}, "b": {"x": 1}})),
        // Where the API server is laxer than the RFC.
        (json!({}), json!([{"op": "replace", "path": "/a", "value": 1}]), json!({"a": 1})),
        (json!({}), json!([{"op": "test", "path": "/a", "value": null}]), json!({})),
        (json!({"a": 1}), json!([{"op": "remove", "path": "x/a"}]), json!({})),
        (json!({"a": 1}), json!([{"op": "add", "path": "/b"}]), json!({"a": 1, "b": null})),
        (json!({"a": 1}), json!(null), json!({"a": 1})),
    ];
    for (object, patch, expected) in rows {
        assert_eq!(apply_json_patch(&object, &patch), Ok(expected), "{patch}");
    }
}

#[test]
fn json_patches_that_do_not_apply_are_unprocessable_without_a_reason() {
    let object = json!({"a": [1], "b": 1});
    #[rustfmt::skip]
    let rows = [
        json!({"op": "remove", "path": "/c"}),
        json!({"op": "remove", "path": ""}),
        json!({"op": "add", "path": "/a/5", "value": 1}),
        json!({"op": "add", "path": "/b/c", "value": 1}),
        json!({"op": "replace", "path": "/a/x", "value": 1}),
        json!({"op": "test", "path": "/b", "value": 2}),
        json!({"op": "test", "path": "/b"}),
        json!({"op": "move", "path": "/c"}),
        json!({"op": "copy", "from": "/a/7", "path": "/c"}),
        json!({"op": "add"}),
        json!({"op": "frobnicate", "path": "/b"}),
        json!({"path": "/b"}),
        json!(null),
    ];
    for operation in rows {
        let failure =
            apply_json_patch(&object, &json!([operation])).expect_err("it does not apply");
        assert_eq!(failure.code.as_u16(), 422, "{operation}");
        assert_eq!(failure.reason, "Invalid");
        let message = "the server rejected our request due to an error in our request";
        assert_eq!(failure.message, message);
        assert_eq!(failure.details.as_deref(), Some(&Map::new()));
    }
}

#[test]
fn malformed_patches_are_bad_requests() {
    let wrong = "error decoding patch: json: cannot unmarshal";
    let object = json!({});
    #[rustfmt::skip]
    let rows = [
        (apply_json_patch(&object, &json!({})), format!("{wrong} object into Go value of type []handlers.jsonPatchOp")),
        (apply_json_patch(&object, &json!(["x"])), format!("{wrong} string into Go value of type handlers.jsonPatchOp")),
        (apply_json_patch(&object, &json!([{"op": 1}])), format!("{wrong} number into Go struct field jsonPatchOp.op of type string")),
        (apply_merge_patch(&object, &json!([])), format!("{wrong} array into Go value of type map[string]interface {{}}")),
        (apply_merge_patch(&object, &json!(null)), "Invalid JSON Patch".to_owned()),
    ];
    for (outcome, message) in rows {
        assert_eq!(refused(outcome), (400, "BadRequest", message));
    }
}

#[test]
fn json_patches_have_operation_and_copy_limits() {
    let one = json!({"op": "test", "path": "/a", "value": null});
    let many = |count| Value::Array(vec![one.clone(); count]);
    assert!(apply_json_patch(&json!({}), &many(10_000)).is_ok());
    let (code, reason, message) = refused(apply_json_patch(&json!({}), &many(10_001)));
    assert_eq!((code, reason), (413, "RequestEntityTooLarge"));
    let words = "The allowed maximum operations in a JSON patch is 10000, got 10001";
    assert_eq!(message, format!("Request entity too large: {words}"));

    // Thirty doublings of a kilobyte would be a terabyte.
    let doubling: Value = (0..30)
        .flat_map(|_| ["/a/x", "/a/y"])
        .map(|to| json!({"op": "copy", "from": "/a", "path": to}))
        .collect();
    assert_eq!(refused(apply_json_patch(&json!({"a": {"z": "x".repeat(1000)}}), &doubling)).0, 422);
}

#[test]
fn json_patches_cannot_nest_deeper_than_the_parser_limit() {
    let nest = |times: usize| -> Value {
        let steps =
            (1..=times).map(|depth| json!({"op": "add", "path": "/a".repeat(depth), "value": {}}));
        steps.collect()
    };
    assert!(apply_json_patch(&json!({}), &nest(127)).is_ok());
    assert_eq!(refused(apply_json_patch(&json!({}), &nest(128))).0, 422);
    let nesting: Value =
        (0..200).map(|_| json!({"op": "copy", "from": "/a", "path": "/a/a"})).collect();
    assert_eq!(refused(apply_json_patch(&json!({"a": {"b": 1}}), &nesting)).0, 422);
}

#[test]
fn unknown_fields_of_json_patch_operations_are_reported() {
    let patch = json!([{"op": "add", "path": "/a", "value": 1}, {"op": "remove", "pathh": "/a"}]);
    assert_eq!(json_patch_unknown_fields(&patch), ["json patch unknown field \"[1].pathh\""]);
}

#[test]
fn merge_patches_drop_nulls_unless_a_list_replaces_an_object() {
    #[rustfmt::skip]
    let rows = [
        (json!({"a": 1, "b": 2}), json!({"a": null}), json!({"b": 2})),
        (json!({}), json!({"a": {"b": null, "c": [{"d": null}, null]}}), json!({"a": {"c": [{}, null]}})),
        (json!({"a": [1]}), json!({"a": [{"d": null}]}), json!({"a": [{}]})),
        (json!({"a": {"x": 1}}), json!({"a": [{"d": null}]}), json!({"a": [{"d": null}]})),
        (json!({"a": {"x": 1}}), json!({"a": {"y": {"z": null}}}), json!({"a": {"x": 1, "y": {}}})),
    ];
    for (object, patch, expected) in rows {
        assert_eq!(apply_merge_patch(&object, &patch), Ok(expected), "{patch}");
    }
}

fn data() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        (0..3_i64).prop_map(Value::from),
        "[a-c]".prop_map(Value::from),
        Just(json!(true))
    ];
    scalar.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            btree_map("[a-c]", inner, 0..3).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    btree_map("[a-c]", data(), 0..4).prop_map(|map| map.into_iter().collect())
}

/// Applies a merge patch literally as in RFC 7386, section 2.
fn rfc_merge(target: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut target = if let Value::Object(target) = target { target } else { Map::new() };
    for (name, value) in patch {
        let old = target.remove(name);
        if !value.is_null() {
            target.insert(name.clone(), rfc_merge(old.unwrap_or_default(), value));
        }
    }
    Value::Object(target)
}

fn pointer() -> impl Strategy<Value = String> {
    vec("[a-c0-2]", 1..4).prop_map(|parts| format!("/{}", parts.join("/")))
}

fn operation() -> impl Strategy<Value = Value> {
    let pair = (pointer(), pointer(), data());
    (0..3_usize, pair).prop_map(|(op, (path, from, value))| {
        let op = ["add", "remove", "move"][op];
        json!({"op": op, "path": path, "from": from, "value": value})
    })
}

proptest! {
    #[test]
    fn merge_patches_match_rfc_7386(object in object(), patch in object(), gone in "[a-c]") {
        let mut patch = patch;
        patch[gone] = Value::Null;
        prop_assert_eq!(apply_merge_patch(&object, &patch).unwrap(), rfc_merge(object, &patch));
    }

    /// Only for the operations in which the API server keeps to the RFC.
    #[test]
    fn json_patches_match_rfc_6902(object in object(), operations in vec(operation(), 1..4)) {
        let patch = Value::Array(operations);
        let mut expected = object.clone();
        let operations: json_patch::Patch = serde_json::from_value(patch.clone()).unwrap();
        let moves_into_itself = operations.0.iter().any(|operation| {
            matches!(operation, json_patch::PatchOperation::Move(op) if op.path.starts_with(&op.from))
        });
        prop_assume!(!moves_into_itself);
        // `patch` would undo what it did before an error, and panics where it cannot.
        match (json_patch::patch_unsafe(&mut expected, &operations), apply_json_patch(&object, &patch)) {
            (Ok(()), got) => prop_assert_eq!(got, Ok(expected)),
            (Err(_), got) => prop_assert!(got.is_err(), "{:?}", got),
        }
    }
}
