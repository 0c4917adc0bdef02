//! Field sets and their encoding.

use serde_json::{Value, json};

use crate::server_side_apply::path::PathElement;
use crate::server_side_apply::set::FieldSet;

fn set(fields: &Value) -> FieldSet {
    FieldSet::decode(fields).expect("a set")
}

#[test]
fn path_elements_are_encoded_as_in_kubernetes() {
    let rows = [
        (PathElement::field("a.b/c"), "f:a.b/c", ".a.b/c"),
        (PathElement::Index(3), "i:3", "[3]"),
        (PathElement::value(json!("x<y")), "v:\"x\\u003cy\"", "[=\"x<y\"]"),
        (PathElement::value(json!(1.5)), "v:1.5", "[=1.5]"),
        (PathElement::value(json!(true)), "v:true", "[=true]"),
        (
            PathElement::key(vec![("protocol".into(), json!("TCP")), ("port".into(), json!(80))]),
            "k:{\"port\":80,\"protocol\":\"TCP\"}",
            "[port=80,protocol=\"TCP\"]",
        ),
    ];
    for (element, encoded, shown) in rows {
        assert_eq!(element.encode(), encoded);
        assert_eq!(element.to_string(), shown);
        assert_eq!(PathElement::decode(encoded), Ok(Some(element)));
    }
}

#[test]
fn invalid_path_elements_are_rejected_or_skipped() {
    let rows = [
        ("f", Err("key must be 2 characters long:".to_owned())),
        ("fa", Err("missing colon: fa".to_owned())),
        ("x:a", Ok(None)),
    ];
    for (key, expected) in rows {
        assert_eq!(PathElement::decode(key), expected, "{key}");
    }
    for key in ["i:x", "v:{", "k:1", "é"] {
        assert!(PathElement::decode(key).is_err(), "{key}");
    }
}

#[test]
fn path_elements_sort_as_in_kubernetes() {
    let fields = json!({
        "i:10": {}, "i:9": {}, "v:null": {}, "v:true": {}, "v:\"a\"": {}, "v:2": {}, "v:1.5": {},
        "k:{\"name\":\"b\"}": {}, "k:{\"name\":\"a\",\"port\":1}": {}, "k:{\"name\":\"a\"}": {},
        "f:b": {".": {}, "f:x": {}}, "f:B": {},
    });
    assert_eq!(
        set(&fields).encode().to_string(),
        "{\"f:B\":{},\"f:b\":{\".\":{},\"f:x\":{}},\
         \"k:{\\\"name\\\":\\\"a\\\"}\":{},\"k:{\\\"name\\\":\\\"a\\\",\\\"port\\\":1}\":{},\
         \"k:{\\\"name\\\":\\\"b\\\"}\":{},\
         \"v:1.5\":{},\"v:2\":{},\"v:\\\"a\\\"\":{},\"v:true\":{},\"v:null\":{},\
         \"i:9\":{},\"i:10\":{}}"
    );
}

#[test]
fn difference_removes_a_path_and_recursive_difference_its_children() {
    let owned = json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}});
    let gone = json!({"f:a": {}});
    assert_eq!(
        set(&owned).difference(&set(&gone)).encode(),
        json!({"f:a": {"f:b": {}}, "f:c": {}})
    );
    assert_eq!(set(&owned).recursive_difference(&set(&gone)).encode(), json!({"f:c": {}}));
}

#[test]
fn leaves_are_members_without_children() {
    let owned = json!({"f:a": {".": {}, "f:b": {".": {}, "f:c": {}}}, "f:d": {}});
    let leaves = json!({"f:a": {"f:b": {"f:c": {}}}, "f:d": {}});
    assert_eq!(set(&owned).leaves().encode(), leaves);
}

#[test]
fn patterns_keep_the_fields_below_them() {
    let owned = json!({"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {
        ".": {}, "f:image": {}, "f:resources": {".": {}, "f:limits": {}}}}, "f:nodeName": {}}});
    let kept = json!({"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {
        "f:resources": {".": {}, "f:limits": {}}}}}});
    let owned = set(&owned);
    // A step on the way is kept too where it is a member, as in Kubernetes.
    let resize = owned.matching_patterns(&[&["spec", "containers", "*", "resources"]]);
    let mut expected = set(&kept);
    let item = PathElement::key(vec![("name".into(), json!("a"))]);
    expected.insert(&[PathElement::field("spec"), PathElement::field("containers"), item]);
    assert_eq!(resize, expected);
}
