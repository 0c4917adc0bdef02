//! The text of each check of the schema.

use serde_json::{Value, json};

use super::{create, object, widget, widget_with};

/// One field `x`: its schema, a value, and the errors without the leading path.
struct Case(Value, Value, &'static [&'static str]);

#[track_caller]
fn check(cases: &[Case]) {
    for Case(schema, value, expected) in cases {
        let kind = widget_with(&json!({"x": schema}));
        let (_, errors) = create(&kind, &json!({"x": value}));
        assert_eq!(errors, *expected, "{value} against {schema}");
    }
}

#[test]
fn type_errors_name_the_expected_and_the_actual_type() {
    #[rustfmt::skip]
    check(&[
        Case(json!({"type": "integer"}), json!("a"),
            &[r#"spec.x: Invalid value: "string": spec.x in body must be of type integer: "string""#]),
        Case(json!({"type": "string"}), json!({}),
            &[r#"spec.x: Invalid value: "object": spec.x in body must be of type string: "object""#]),
        Case(json!({"type": "object"}), json!([]),
            &[r#"spec.x: Invalid value: "array": spec.x in body must be of type object: "array""#]),
        Case(json!({"type": "boolean"}), json!(1),
            &[r#"spec.x: Invalid value: "integer": spec.x in body must be of type boolean: "integer""#]),
        Case(json!({"type": "number"}), json!(1), &[]),    // an integer is a number
        Case(json!({"type": "integer"}), json!(1.0), &[]), // and so is a whole number an integer
        Case(json!({"type": "integer"}), json!(1.5), &[
            r#"spec.x: Invalid value: "number": spec.x in body must be of type integer: "number""#,
            r#"<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.x"#,
        ]),
        // With a format, the text speaks of formats.
        Case(json!({"type": "integer", "format": "int32"}), json!(true),
            &[r#"spec.x: Invalid value: "": spec.x in body must be of type int32: """#]),
        Case(json!({"type": "array", "items": {"type": "string"}}), json!(["a", null]),
            &[r#"spec.x[1]: Invalid value: "null": spec.x[1] in body must be of type string: "null""#]),
        Case(json!({"x-kubernetes-int-or-string": true}), json!(true),
            &[r#"spec.x: Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean""#]),
        Case(json!({"x-kubernetes-int-or-string": true}), json!("50%"), &[]),
    ]);
}

#[test]
fn numbers_outside_the_schema_bounds_are_invalid() {
    let bounded = json!({"type": "integer", "minimum": 1, "maximum": 100});
    let open = json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true,
        "maximum": 9, "exclusiveMaximum": true});
    #[rustfmt::skip]
    check(&[
        Case(bounded.clone(), json!(1),   &[]),
        Case(bounded.clone(), json!(100), &[]),
        Case(bounded.clone(), json!(101), &["spec.x: Invalid value: 101: spec.x in body should be less than or equal to 100"]),
        Case(bounded,         json!(0),   &["spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1"]),
        Case(open.clone(),    json!(1),   &["spec.x: Invalid value: 1: spec.x in body should be greater than 1"]),
        Case(open,            json!(9),   &["spec.x: Invalid value: 9: spec.x in body should be less than 9"]),
        Case(json!({"type": "number", "maximum": 0.5}), json!(1.5),
            &["spec.x: Invalid value: 1.5: spec.x in body should be less than or equal to 0.5"]),
        Case(json!({"type": "integer", "multipleOf": 5}), json!(7),
            &["spec.x: Invalid value: 7: spec.x in body should be a multiple of 5"]),
        Case(json!({"type": "number", "multipleOf": 0.1}), json!(0.3), &[]),
        Case(json!({"type": "integer", "format": "int32"}), json!(2_147_483_648_i64),
            &[r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.x"#]),
        Case(json!({"type": "integer"}), json!(9_223_372_036_854_775_808_u64), &[
            r#"spec.x: Invalid value: "number": spec.x in body must be of type integer: "number""#,
            r#"<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.x"#,
        ]),
    ]);
}

#[test]
fn strings_are_checked_for_length_pattern_and_format() {
    let sized = json!({"type": "string", "minLength": 2, "maxLength": 5});
    #[rustfmt::skip]
    check(&[
        Case(sized.clone(), json!("ééééé"),  &[]),
        Case(sized.clone(), json!("abcdef"), &["spec.x: Too long: may not be more than 5 bytes"]),
        Case(sized,         json!("é"),      &[r#"spec.x: Invalid value: "é": spec.x in body should be at least 2 chars long"#]),
        Case(json!({"type": "string", "pattern": r"^[\w.]+$"}), json!("é"),
            &[r#"spec.x: Invalid value: "é": spec.x in body should match '^[\w.]+$'"#]),
        Case(json!({"type": "string", "pattern": "b"}), json!("abc"), &[]), // found anywhere
        Case(json!({"type": "string", "format": "date-time"}), json!("2024-01-02T03:04:05Z"), &[]),
        Case(json!({"type": "string", "format": "date-time"}), json!("soon"),
            &[r#"spec.x: Invalid value: "soon": spec.x in body must be of type date-time: "soon""#]),
        Case(json!({"type": "string", "format": "unheard-of"}), json!("x"), &[]),
        Case(json!({"type": "string", "enum": ["In", "NotIn"]}), json!("x\n"),
            &[r#"spec.x: Unsupported value: "x\n": supported values: "In", "NotIn""#]),
        Case(json!({"type": "integer", "enum": [1, 2]}), json!(3),
            &[r#"spec.x: Unsupported value: 3: supported values: "1", "2""#]),
        // A value may fail several checks.
        Case(json!({"type": "string", "enum": ["a"]}), json!(3), &[
            r#"spec.x: Invalid value: "integer": spec.x in body must be of type string: "integer""#,
            r#"spec.x: Unsupported value: 3: supported values: "a""#,
        ]),
    ]);
}

#[test]
fn lists_and_maps_are_checked_for_size() {
    let list = json!({"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}});
    let map = json!({"type": "object", "minProperties": 1, "maxProperties": 1,
        "additionalProperties": {"type": "string", "maxLength": 3}});
    #[rustfmt::skip]
    check(&[
        Case(list.clone(), json!([]),              &["spec.x: Invalid value: 0: spec.x in body should have at least 1 items"]),
        Case(list,         json!(["a", "b", "c"]), &["spec.x: Too many: 3: must have at most 2 items"]),
        Case(map.clone(),  json!({}),              &["spec.x: Invalid value: 0: spec.x in body should have at least 1 properties"]),
        Case(map.clone(),  json!({"a": "", "b": ""}), &["spec.x: Too many: 2: must have at most 1 item"]),
        Case(map,          json!({"a.b/c": "abcd"}), &["spec.x.a.b/c: Too long: may not be more than 3 bytes"]),
    ]);
}

#[test]
fn every_missing_required_field_is_reported() {
    let schema = json!({"type": "object", "required": ["a", "b"],
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}}});
    #[rustfmt::skip]
    check(&[
        Case(schema.clone(), json!({}), &["spec.x.a: Required value", "spec.x.b: Required value"]),
        Case(schema, json!({"a": null, "b": ""}), &["spec.x.a: Required value"]), // null is absent
    ]);
}

#[test]
fn duplicate_items_in_lists_of_type_set_and_map_are_rejected() {
    let set =
        json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    let map = |keys: &Value| {
        json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
        "items": {"type": "object", "properties": {
            "k": {"type": "string"}, "p": {"type": "string", "default": "TCP"},
        }}})
    };
    #[rustfmt::skip]
    check(&[
        Case(set, json!(["a", "b", "a", "a"]), &[r#"spec.x[2]: Duplicate value: "a""#]), // reported once
        Case(map(&json!(["k"])), json!([{"k": "a"}, {"k": "b"}, {"k": "a"}]),
            &[r#"spec.x[2]: Duplicate value: {"k":"a"}"#]),
        Case(map(&json!(["k"])), json!([{}, {}]), &["spec.x[1]: Duplicate value: {}"]),
        Case(map(&json!(["k", "p"])), json!([{"k": "a"}, {"k": "a", "p": "UDP"}, {"k": "a", "p": "TCP"}]),
            &[r#"spec.x[2]: Duplicate value: {"k":"a","p":"TCP"}"#]),
    ]);
}

#[test]
fn any_of_and_one_of_report_the_errors_of_the_best_matching_schema() {
    let two = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}});
    let with = |keyword: &str, branches: Value| {
        let mut schema = two.clone();
        schema[keyword] = branches;
        schema
    };
    let either = json!([{"required": ["a"]}, {"required": ["b"]}]);
    let quantity = json!({"x-kubernetes-int-or-string": true, "pattern": "^[0-9]+%$",
        "anyOf": [{"type": "integer"}, {"type": "string"}]});
    #[rustfmt::skip]
    check(&[
        Case(with("anyOf", either.clone()), json!({"b": 1}), &[]),
        Case(with("anyOf", either.clone()), json!({}), &[
            r#"<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)"#,
            "spec.x.a: Required value",
        ]),
        Case(with("oneOf", either.clone()), json!({}), &[
            r#"<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found none valid"#,
            "spec.x.a: Required value",
        ]),
        Case(with("oneOf", either.clone()), json!({"a": "", "b": 1}), &[
            r#"<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
        ]),
        Case(with("allOf", either), json!({"a": ""}), &[
            "spec.x.b: Required value",
            r#"<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf)"#,
        ]),
        Case(with("not", json!({"required": ["a"]})), json!({"a": ""}), &[
            r#"<nil>: Invalid value: "": "spec.x" must not validate the schema (not)"#,
        ]),
        Case(quantity.clone(), json!(5), &[]),
        Case(quantity.clone(), json!("5%"), &[]),
        Case(quantity.clone(), json!("5"), &[r#"spec.x: Invalid value: "5": spec.x in body should match '^[0-9]+%$'"#]),
        Case(quantity, json!(true), &[
            r#"spec.x: Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean""#,
            r#"<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)"#,
            r#"spec.x: Invalid value: "boolean": spec.x in body must be of type integer: "boolean""#,
        ]),
    ]);
}

#[test]
fn object_metadata_is_validated() {
    let kind = widget_with(&json!({}));
    let lines = |metadata: Value| {
        let mut object = object(&json!({}));
        object["metadata"] = metadata;
        let errors = kind.validate_create(&object);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(lines(json!({})), @"metadata.name: Required value: name or generateName is required");
    insta::assert_snapshot!(lines(json!({"name": "a", "namespace": "b"})), @"metadata.namespace: Forbidden: not allowed on this type");
    insta::assert_snapshot!(lines(json!({"name": "Big"})), @r#"
    metadata.name: Invalid value: "Big": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
    "#);
    insta::assert_snapshot!(lines(json!({"name": "a", "labels": {"a/b/c": "-"}})), @r#"
    metadata.labels: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')
    metadata.labels: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
    "#);
    insta::assert_snapshot!(lines(json!({"name": "a", "annotations": {"/x": "any thing"}})), @r#"metadata.annotations: Invalid value: "/x": prefix part must be non-empty"#);
}

#[test]
fn kind_and_api_version_are_checked_first() {
    let kind = widget(&json!({"type": "object", "required": ["a"]}));
    let mut object = object(&json!({}));
    object["kind"] = json!("Gadget");
    object["apiVersion"] = json!("example.com/v2");
    let errors: Vec<String> =
        kind.validate_create(&object).iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            r#"kind: Invalid value: "Gadget": must be Widget"#,
            r#"apiVersion: Invalid value: "example.com/v2": must be example.com/v1"#,
        ]
    );
}
