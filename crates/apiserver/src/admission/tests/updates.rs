//! How a change is judged against what was there.

use serde_json::{Value, json};

use super::{object, update, widget_crd, widget_with};
use crate::admission::CustomKind;

const NO_ERRORS: [&str; 0] = [];

fn immutable_string() -> Value {
    json!({"type": "string", "x-kubernetes-validations": [
        {"rule": "self == oldSelf", "message": "is immutable"},
    ]})
}

#[test]
fn transition_rules_run_only_with_an_old_value() {
    let kind = widget_with(
        &json!({"a": immutable_string(), "m": {"type": "object", "additionalProperties": immutable_string()}}),
    );
    #[rustfmt::skip]
    let cases = [
        (json!({}),                 json!({"a": "x"}),          &[][..]), // it appears
        (json!({"a": "x"}),         json!({}),                  &[]),     // it goes
        (json!({"a": "x"}),         json!({"a": "x"}),          &[]),
        (json!({"a": "x"}),         json!({"a": "y"}),          &[r#"spec.a: Invalid value: "y": is immutable"#]),
        (json!({"m": {"k": "x"}}),  json!({"m": {"k": "y", "n": "z"}}), &[r#"spec.m[k]: Invalid value: "y": is immutable"#]),
    ];
    for (old, new, expected) in cases {
        assert_eq!(update(&kind, &old, &new), expected, "{old} to {new}");
    }
    assert_eq!(super::create(&kind, &json!({"a": "x"})).1, NO_ERRORS);
}

#[test]
fn transition_rules_match_list_map_items_by_key() {
    let kind = widget_with(&json!({"l": {
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "required": ["k"], "properties": {
            "k": {"type": "string"}, "v": {"type": "integer"},
        }, "x-kubernetes-validations": [
            {"rule": "self.v >= oldSelf.v", "message": "must not shrink"},
        ]},
    }}));
    let old = json!({"l": [{"k": "a", "v": 1}, {"k": "b", "v": 5}]});
    let new = json!({"l": [{"k": "b", "v": 4}, {"k": "c", "v": 0}, {"k": "a", "v": 2}]});
    assert_eq!(update(&kind, &old, &new), ["spec.l[0]: Invalid value: must not shrink"]);
}

#[test]
fn lists_of_type_set_and_map_compare_equal_in_any_order() {
    let keyed = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}});
    let set =
        json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    let plain = json!({"type": "array", "items": {"type": "string"}});
    #[rustfmt::skip]
    let cases = [
        (&set,   json!(["a", "b"]), json!(["b", "a"]), true),
        (&set,   json!(["a", "b"]), json!(["b", "c"]), false),
        (&plain, json!(["a", "b"]), json!(["b", "a"]), false),
        (&keyed, json!([{"k": "a", "v": 1}, {"k": "b"}]), json!([{"k": "b"}, {"k": "a", "v": 1}]), true),
        (&keyed, json!([{"k": "a", "v": 1}, {"k": "b"}]), json!([{"k": "b"}, {"k": "a", "v": 2}]), false),
    ];
    for (schema, old, new, equal) in cases {
        let mut schema = schema.clone();
        schema["x-kubernetes-validations"] =
            json!([{"rule": "self == oldSelf", "message": "differs"}]);
        let kind = widget_with(&json!({"l": schema}));
        let expected: &[&str] = if equal { &[] } else { &["spec.l: Invalid value: differs"] };
        assert_eq!(
            update(&kind, &json!({"l": old}), &json!({"l": new})),
            expected,
            "{old} to {new}"
        );
    }
}

#[test]
fn optional_old_self_runs_transition_rules_on_create() {
    let kind = widget_with(&json!({"a": {"type": "string", "x-kubernetes-validations": [{
        "rule": "oldSelf.hasValue() ? oldSelf.value() != 'frozen' : self == 'new'",
        "optionalOldSelf": true, "message": "starts new, ends frozen",
    }]}}));
    let failure =
        |value: &str| format!(r#"spec.a: Invalid value: "{value}": starts new, ends frozen"#);
    assert_eq!(super::create(&kind, &json!({"a": "new"})).1, NO_ERRORS);
    assert_eq!(super::create(&kind, &json!({"a": "old"})).1, [failure("old")]);
    assert_eq!(update(&kind, &json!({"a": "new"}), &json!({"a": "any"})), NO_ERRORS);
    assert_eq!(update(&kind, &json!({"a": "frozen"}), &json!({"a": "any"})), [failure("any")]);
}

#[test]
fn ratcheting_ignores_errors_in_unchanged_fields() {
    let kind = widget_with(&json!({
        "n": {"type": "integer", "maximum": 5},
        "o": {"type": "object", "properties": {"p": {"type": "string", "minLength": 3}, "q": {"type": "string"}}},
        "l": {"type": "array", "items": {"type": "string", "maxLength": 2}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "r": {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'bad'", "message": "bad"}]},
        "t": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf + '!'", "message": "grows"}]},
    }));
    let long = "spec.l[0]: Too long: may not be more than 2 bytes";
    let waiting = "<nil>: Invalid value: null: some validation rules were not checked because the \
        object was invalid; correct the existing errors to complete validation";
    #[rustfmt::skip]
    let cases = [
        (json!({"n": 9}),                json!({"n": 9, "r": "ok"}),          vec![]),
        (json!({"n": 9}),                json!({"n": 8}), vec!["spec.n: Invalid value: 8: spec.n in body should be less than or equal to 5"]),
        (json!({"o": {"p": "x"}}),       json!({"o": {"p": "x", "q": "new"}}), vec![]), // p is as it was
        (json!({"l": ["long"]}),         json!({"l": ["long"], "n": 1}),      vec![]),
        (json!({"l": ["long"]}),         json!({"l": ["long", "b"]}),         vec![long, waiting]), // a list without keys is one thing
        (json!({"set": ["a", "a"]}),     json!({"set": ["a", "a", "b"]}),     vec![]), // it had duplicates before
        (json!({"set": ["a"]}),          json!({"set": ["a", "a"]}),          vec![r#"spec.set[1]: Duplicate value: "a""#]),
        (json!({"r": "bad"}),            json!({"r": "bad", "n": 1}),         vec![]),
        (json!({}),                      json!({"r": "bad"}),                 vec![r#"spec.r: Invalid value: "bad": bad"#]),
        (json!({"t": "a"}),              json!({"t": "a"}),                   vec![r#"spec.t: Invalid value: "a": grows"#]), // the change is the point
    ];
    for (old, new, expected) in cases {
        assert_eq!(update(&kind, &old, &new), expected, "{old} to {new}");
    }
}

#[test]
fn updates_cannot_change_name_or_uid_or_add_finalizers_on_deletion() {
    let kind = widget_with(&json!({}));
    let mut old = object(&json!({}));
    old["metadata"] = json!({"name": "a", "uid": "1", "finalizers": ["example.com/a"],
        "deletionTimestamp": "2024-01-02T03:04:05Z"});
    let mut new = old.clone();
    new["metadata"]["name"] = json!("b");
    new["metadata"]["uid"] = json!("2");
    new["metadata"]["finalizers"] = json!(["example.com/b"]);
    let lines: Vec<String> =
        kind.validate_update(&new, &old).iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being \
             deleted, found new finalizers []string{\"example.com/b\"}",
            r#"metadata.name: Invalid value: "b": field is immutable"#,
            r#"metadata.uid: Invalid value: "2": field is immutable"#,
        ]
    );
    assert_eq!(kind.validate_update(&old, &old), []);
}

#[test]
fn status_updates_validate_the_status_schema_and_run_all_rules() {
    let mut crd = widget_crd(&json!({"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 1, "x-kubernetes-validations": [{"rule": "self != 'bad'"}]},
    }}));
    let version = &mut crd["spec"]["versions"][0];
    version["subresources"] = json!({"status": {}});
    version["schema"]["openAPIV3Schema"]["properties"]["status"] = json!({
        "type": "object", "properties": {"n": {"type": "integer", "maximum": 5}},
    });
    version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] =
        json!([{"rule": "!has(self.status) || self.status.n != 3", "fieldPath": ".status.n"}]);
    let kind = CustomKind::from_crd(&crd).unwrap();
    assert!(kind.has_status());
    let with_status = |n: i64| {
        let mut object = object(&json!({"a": "long"})); // not the status's business
        object["status"] = json!({"n": n});
        object
    };
    let lines = |new: &Value| -> Vec<String> {
        let errors = kind.validate_status_update(new, &with_status(1));
        errors.iter().map(ToString::to_string).collect()
    };
    assert_eq!(lines(&with_status(2)), NO_ERRORS);
    assert_eq!(
        lines(&with_status(9)),
        ["status.n: Invalid value: 9: n in body should be less than or equal to 5"]
    );
    assert_eq!(
        lines(&with_status(3)),
        ["status.n: Invalid value: failed rule: !has(self.status) || self.status.n != 3"]
    );
}

#[test]
fn scale_replicas_must_be_non_negative_int32() {
    let mut crd =
        widget_crd(&json!({"type": "object", "properties": {"replicas": {"type": "integer"}}}));
    crd["spec"]["versions"][0]["subresources"] = json!({"scale": {
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
    }});
    let kind = CustomKind::from_crd(&crd).unwrap();
    #[rustfmt::skip]
    let cases = [
        (json!({}),                       vec![]),
        (json!({"replicas": 3}),          vec![]),
        (json!({"replicas": -1}),         vec![".spec.replicas: Invalid value: -1: should be a non-negative integer"]),
        (json!({"replicas": 1_i64 << 31}), vec![".spec.replicas: Invalid value: 2147483648: should be less than or equal to 2147483647"]),
        (json!({"replicas": "x"}), vec![
            r#"spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string""#,
            ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: x is of the type string, expected int64",
        ]),
    ];
    for (spec, expected) in cases {
        assert_eq!(super::create(&kind, &spec).1, expected, "{spec}");
    }
}
