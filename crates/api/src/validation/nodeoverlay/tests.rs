//! The runtime halves of the NodeOverlay cases.

use serde_json::{Value, json};

use super::*;

fn check(spec: &Value) -> Vec<String> {
    let spec: NodeOverlaySpec = serde_json::from_value(spec.clone()).unwrap();
    nodeoverlay(&spec, &ProviderRules::aws()).errors
}

fn with_requirement(key: &str, operator: &str, values: &[&str]) -> Vec<String> {
    check(&json!({"requirements": [{"key": key, "operator": operator, "values": values}]}))
}

fn with_capacity(name: &str) -> Vec<String> {
    check(&json!({"requirements": [], "capacity": {name: "1"}}))
}

#[test]
fn in_and_not_in_need_values() {
    let errors = with_requirement("k", "In", &[]);
    assert_eq!(
        errors,
        [
            "invalid value: key k with operator In must have a value defined in requirements, restricted"
        ],
        "10/NO-1"
    );
    let errors = with_requirement("k", "NotIn", &[]);
    assert_eq!(errors, ["key k with operator NotIn must have a value defined"], "10/NO-1");
}

#[test]
fn requirement_keys_are_qualified_names() {
    for key in ["a", "Test", "test.com/Test", "test.com.com/test"] {
        assert!(with_requirement(key, "Exists", &[]).is_empty(), "10/NO-2: {key}");
    }
    for key in ["test.com.com}", "Test.com/test", "test/test/test", "test/", "/test", ""] {
        assert!(!with_requirement(key, "Exists", &[]).is_empty(), "10/NO-2: {key:?}");
    }
}

#[test]
fn an_overlay_may_select_a_pool() {
    assert!(with_requirement("karpenter.sh/nodepool", "In", &["x"]).is_empty(), "10/NO-3");
}

#[test]
fn over_long_key_parts_are_refused() {
    for key in [format!("{}.com/a", "a".repeat(260)), "a".repeat(255)] {
        assert_eq!(with_requirement(&key, "Exists", &[]).len(), 1, "10/NO-4");
    }
}

#[test]
fn operators_are_the_eight_known_ones() {
    #[rustfmt::skip]
    let cases: [(&str, &[&str]); 8] = [
        ("In", &["a"]), ("NotIn", &["a"]), ("Exists", &[]), ("DoesNotExist", &[]),
        ("Gt", &["1"]), ("Lt", &["1"]), ("Gte", &["1"]), ("Lte", &["1"]),
    ];
    for (operator, values) in cases {
        assert!(with_requirement("k", operator, values).is_empty(), "10/NO-5: {operator}");
    }
    let errors = with_requirement("k", "unknown", &["a"]);
    assert!(errors[0].contains("unsupported operator unknown"), "10/NO-5: {errors:?}");
}

#[test]
fn numeric_operators_take_one_integer_from_zero() {
    for operator in ["Gt", "Lt", "Gte", "Lte"] {
        for values in [&[][..], &["1", "2"], &["a"], &["-1"]] {
            let errors = with_requirement("k", operator, values);
            assert!(errors[0].contains("single positive integer value"), "10/NO-6: {errors:?}");
        }
    }
}

#[test]
fn only_extended_resources_may_be_stated() {
    assert!(with_capacity("smarter-devices/fuse").is_empty(), "10/NO-13");
    assert!(with_capacity("nvidia.com/gpu").is_empty(), "GPUs are not well known on purpose");
    for name in ["cpu", "memory", "pods"] {
        let expected = format!("invalid capacity: {name} in resource, restricted");
        assert_eq!(with_capacity(name), [expected], "10/NO-14");
    }
    for name in ["ephemeral-storage", "vpc.amazonaws.com/efa", "habana.ai/gaudi"] {
        assert_eq!(with_capacity(name).len(), 1, "{name}");
    }
}

#[test]
fn unknown_values_next_to_known_ones_are_a_warning() {
    let spec = serde_json::from_value(json!({"requirements": [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "xspot"]},
    ]}))
    .unwrap();
    let findings = nodeoverlay(&spec, &ProviderRules::kwok());
    assert_eq!(findings.message(), None);
    assert_eq!(findings.warnings[0].invalid, ["xspot"]);
}
