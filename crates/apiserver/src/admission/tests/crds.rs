//! Tests of the errors of a CustomResourceDefinition.

use serde_json::{Value, json};

use super::widget_crd;
use crate::admission::{CrdError, CustomKind};

fn compile_error(spec: &Value) -> String {
    match CustomKind::from_crd(&widget_crd(spec)) {
        Ok(_) => "compiles".to_owned(),
        Err(error) => error
            .to_string()
            .replace("spec.versions[v1].schema.openAPIV3Schema.properties[spec]", "spec"),
    }
}

#[test]
fn schema_compile_errors_name_the_schema_path() {
    let field = |schema: Value| json!({"type": "object", "properties": {"x": schema}});
    #[rustfmt::skip]
    let cases = [
        (field(json!({"type": "text"})),                     "spec.properties[x].type: is not a type of JSON Schema"),
        (field(json!({})),                                   "spec.properties[x].type: must not be empty"),
        (field(json!({"type": "array"})),                    "spec.properties[x].items: must be specified for an array"),
        (field(json!({"type": "string", "maxLength": "5"})), "spec.properties[x].maxLength: must be an integer"),
        (field(json!({"$ref": "#/x"})),                      "spec.properties[x].$ref: is not supported in a structural schema"),
        (field(json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true})),
                                                             "spec.properties[x].uniqueItems: must not be true"),
        (field(json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"})),
                                                             "spec.properties[x].x-kubernetes-list-map-keys: must name a key for list type map"),
        (field(json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": true})),
                                                             "spec.properties[x].additionalProperties: must not be used with properties"),
        (field(json!({"type": "integer", "default": "x"})),
            r#"spec.properties[x].default: <nil>: Invalid value: "string":  in body must be of type integer: "string""#),
        (field(json!({"type": "object", "default": {"b": 1}})), r#"spec.properties[x].default: unknown field "b""#),
        (field(json!({"type": "string", "anyOf": [{"x-kubernetes-validations": [{"rule": "true"}]}]})),
                                                             "spec.properties[x].anyOf[0].x-kubernetes-validations: must not be in a nested schema"),
    ];
    for (schema, expected) in cases {
        assert_eq!(compile_error(&schema), expected, "{schema}");
    }
    assert!(
        compile_error(&field(json!({"type": "string", "pattern": "("})))
            .starts_with("spec.properties[x].pattern: does not compile: ")
    );
}

#[test]
fn rule_compile_errors_name_the_cause() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string"}, "l": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
        "m": {"type": "object", "additionalProperties": {"type": "string"}}, "free": {"x-kubernetes-preserve-unknown-fields": true},
    }});
    #[rustfmt::skip]
    let cases = [
        (json!({}),                                         "rule: is required"),
        (json!({"rule": "nobody == 1"}),                    "rule: undeclared reference to 'nobody'"),
        (json!({"rule": "self.a.shout() == ''"}),           "rule: undeclared reference to 'shout'"),
        (json!({"rule": "math.greatest(1, 2) == 2"}),       "rule: undeclared reference to 'math.greatest'"), // not for CRDs
        (json!({"rule": "self.b == ''"}),                   "rule: undefined field 'b'"),
        (json!({"rule": "self.l.all(x, has(x.key))"}),      "rule: undefined field 'key'"),
        (json!({"rule": "self.l.filter(x, true)[0].key == ''"}), "rule: undefined field 'key'"),
        (json!({"rule": "self.a.b == ''"}),                 "rule: type 'string' does not support field selection"),
        (json!({"rule": "self.free == self.free"}),         "rule: undefined field 'free'"), // it has no type
        (json!({"rule": "self.m.anything == ''"}),          "compiles"),
        (json!({"rule": "self.a.matches('(')"}),            "rule: the pattern '(' does not compile: regex parse error:\n    (\n    ^\nerror: unclosed group"),
        (json!({"rule": "self.a == 'x"}),                   "rule: 1:11: a string that is not closed"),
        (json!({"rule": "self.l.sortBy(x, x.k).size() > 0"}), "rule: the macro 'sortBy' is not supported with 2 arguments"),
        (json!({"rule": "true", "messageExpression": "self.b"}), "messageExpression: undefined field 'b'"),
        (json!({"rule": "true", "reason": "Because"}),      "reason: is not one of the reasons for a field"),
        (json!({"rule": "true", "fieldPath": ".b"}),        "fieldPath: does not refer to a valid field"),
    ];
    for (rule, expected) in cases {
        let mut schema = schema.clone();
        schema["x-kubernetes-validations"] = json!([rule]);
        let found = compile_error(&schema);
        assert_eq!(
            found.trim_start_matches("spec.x-kubernetes-validations[0]: "),
            expected,
            "{rule}"
        );
    }
}

#[test]
fn transition_rules_in_lists_require_list_map_keys() {
    let mut list = json!({"type": "array", "items": {
        "type": "object", "properties": {"k": {"type": "string"}},
        "x-kubernetes-validations": [{"rule": "self == oldSelf"}],
    }});
    assert_eq!(
        compile_error(&list),
        "spec.items.x-kubernetes-validations[0]: oldSelf has no meaning inside a list without keys"
    );
    list["x-kubernetes-list-type"] = json!("map");
    list["x-kubernetes-list-map-keys"] = json!(["k"]);
    assert_eq!(compile_error(&list), "compiles");
}

#[test]
fn a_crd_compiles_its_storage_version_unless_a_version_is_named() {
    let mut crd = widget_crd(&json!({"type": "object"}));
    let mut second = crd["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    crd["spec"]["versions"].as_array_mut().unwrap().push(second);
    assert_eq!(CustomKind::from_crd(&crd).unwrap().version(), "v1");
    assert_eq!(CustomKind::from_crd_version(&crd, "v2").unwrap().version(), "v2");
    let missing = CustomKind::from_crd_version(&crd, "v3").unwrap_err();
    assert_eq!(missing, CrdError::VersionNotFound("v3".to_owned()));
    assert_eq!(
        CustomKind::from_crd(&json!({})).unwrap_err(),
        CrdError::MissingField("spec.versions")
    );
}
