//! Tests of CEL rules: when they run, and the messages of their failures.

use serde_json::{Value, json};

use super::{create, object, widget, widget_with};
use crate::admission::CustomKind;

fn with_rules(mut schema: Value, rules: Value) -> Value {
    schema["x-kubernetes-validations"] = rules;
    schema
}

fn string(rules: Value) -> Value {
    with_rules(json!({"type": "string"}), rules)
}

#[test]
fn rule_failures_show_scalar_values_but_no_objects() {
    let kind = widget(&with_rules(
        json!({"type": "object", "properties": {
            "name": string(json!([{"rule": "self != 'bad'", "message": " do not "}])),
            "list": with_rules(
                json!({"type": "array", "items": {"type": "string"}}),
                json!([{"rule": "self.size() < 2"}]),
            ),
            "map": {"type": "object", "additionalProperties": string(json!([{"rule": "self != ''"}]))},
        }}),
        json!([{"rule": "!has(self.name) || self.name != 'bad'", "message": "no bad names"}]),
    ));
    let (_, errors) =
        create(&kind, &json!({"name": "bad", "list": ["a", "b"], "map": {"a/b": ""}}));
    assert_eq!(
        errors,
        [
            "spec: Invalid value: no bad names",
            r#"spec.name: Invalid value: "bad": do not"#,
            "spec.list: Invalid value: failed rule: self.size() < 2",
            r#"spec.map[a/b]: Invalid value: "": failed rule: self != ''"#,
        ]
    );
}

#[test]
fn cel_evaluation_errors_reject_the_object_and_name_the_rule() {
    let kind = widget(&with_rules(
        json!({"type": "object", "properties": {
            "a": {"type": "string"}, "l": {"type": "array", "items": {"type": "string"}},
            "any": {"x-kubernetes-int-or-string": true},
        }}),
        json!([
            {"rule": "self.a == 'x'", "message": "a is x"},
            {"rule": "self.l[2] == 'x'"},
            {"rule": "self.any > 3", "message": "more than 3"},
            {"rule": "int(self.l[0]) > 0", "message": "a number"},
        ]),
    ));
    let (_, errors) = create(&kind, &json!({"l": ["x"], "any": "5"}));
    assert_eq!(
        errors,
        [
            r#"spec: Invalid value: "object": no such key: a evaluating rule: a is x"#,
            r#"spec: Invalid value: "object": index out of bounds: 2 evaluating rule: self.l[2] == 'x'"#,
            r#"spec: Invalid value: "object": 'no such overload': call arguments did not match a supported operator, function or macro signature for rule: more than 3"#,
            r#"spec: Invalid value: "object": type conversion error from 'string' to 'int' evaluating rule: a number"#,
        ]
    );
}

#[test]
fn rules_do_not_run_on_objects_that_violate_the_schema() {
    let kind = widget_with(&json!({
        "n": {"type": "integer", "maximum": 5},
        "e": {"type": "string", "enum": ["a"]},
        "s": string(json!([{"rule": "self != 'bad'"}])),
    }));
    let waiting = "<nil>: Invalid value: null: some validation rules were not checked because the \
        object was invalid; correct the existing errors to complete validation";
    #[rustfmt::skip]
    let cases = [
        (json!({"s": "bad", "n": 9}), // a bound is no obstacle
            vec!["spec.n: Invalid value: 9: spec.n in body should be less than or equal to 5",
                 r#"spec.s: Invalid value: "bad": failed rule: self != 'bad'"#]),
        (json!({"s": "bad", "e": "b"}),
            vec![r#"spec.e: Unsupported value: "b": supported values: "a""#, waiting]),
        (json!({"s": "bad", "n": "x"}),
            vec![r#"spec.n: Invalid value: "string": spec.n in body must be of type integer: "string""#, waiting]),
    ];
    for (spec, expected) in cases {
        assert_eq!(create(&kind, &spec).1, expected, "{spec}");
    }
}

#[test]
fn rule_failures_use_message_expression_reason_and_field_path() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string"}, "m": {"type": "object", "additionalProperties": {"type": "string"}},
    }});
    let always = |extra: Value| {
        let mut rule = json!({"rule": "!has(self.a)", "message": "fallback"});
        rule.as_object_mut().unwrap().append(&mut extra.as_object().unwrap().clone());
        rule
    };
    #[rustfmt::skip]
    let cases = [
        (json!({"messageExpression": "' a is ' + self.a"}), "spec: Invalid value: a is x"),
        (json!({"messageExpression": "self.m['none']"}),    "spec: Invalid value: fallback"), // it fails
        (json!({"messageExpression": "'  '"}),              "spec: Invalid value: fallback"),
        (json!({"messageExpression": r"'two\nlines'"}),     "spec: Invalid value: fallback"),
        (json!({"reason": "FieldValueForbidden"}),          "spec: Forbidden: fallback"),
        (json!({"reason": "FieldValueRequired"}),           "spec: Required value: fallback"),
        (json!({"reason": "FieldValueDuplicate"}),          "spec: Duplicate value"),
        (json!({"fieldPath": ".a"}),                        "spec.a: Invalid value: fallback"),
        (json!({"fieldPath": ".m['x.y']"}),                 "spec.m[x.y]: Invalid value: fallback"),
    ];
    for (extra, expected) in cases {
        let kind = widget(&with_rules(schema.clone(), json!([always(extra.clone())])));
        assert_eq!(create(&kind, &json!({"a": "x"})).1, [expected], "{extra}");
    }
}

#[test]
fn root_rules_can_read_kind_and_metadata_name() {
    let mut crd = super::widget_crd(&json!({"type": "object"}));
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] =
        json!([{"rule": "self.metadata.name != 'w' || self.kind != 'Widget'"}]);
    let kind = CustomKind::from_crd(&crd).unwrap();
    let errors = kind.validate_create(&object(&json!({})));
    let line = "<nil>: Invalid value: failed rule: \
                self.metadata.name != 'w' || self.kind != 'Widget'";
    assert_eq!(errors[0].to_string(), line);
}

#[test]
fn rules_skip_null_values_and_untyped_fields() {
    let kind = widget_with(&json!({
        "n": {"type": "string", "nullable": true, "x-kubernetes-validations": [{"rule": "self == 'x'"}]},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "x-kubernetes-validations": [{"rule": "self == self"}]},
    }));
    assert_eq!(create(&kind, &json!({"n": null, "free": {"any": [1]}})).1, [""; 0]);
}

#[test]
fn a_rule_over_the_cost_limit_is_aborted() {
    let rule = "self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d != ''))))";
    let kind = widget_with(&json!({
        "l": {"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": [
            {"rule": rule, "message": "slow"}, {"rule": "false"},
        ]},
    }));
    let items: Vec<&str> = vec!["x"; 200];
    let (_, errors) = create(&kind, &json!({"l": items}));
    assert_eq!(
        errors,
        [
            "spec.l: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no \
             further validation rules will be run due to call cost exceeds limit for rule: slow"
        ]
    );
}
