//! The runtime halves of the NodePool cases; the schema halves are tested where the CRDs are.

use serde_json::{Value, json};

use super::*;
use crate::condition_set::{ConditionSet, Subject};
use crate::conditions::{NODE_CLASS_READY, NODEPOOL_DEPENDENTS, READY, VALIDATION_SUCCEEDED};
use crate::nodepool::NodePool;
use crate::reasons::nodepool::NODEPOOL_VALIDATION_FAILED;
use crate::validation::IgnoredValues;

/// A pool with these labels, taints, startup taints and requirements.
fn pool(
    labels: &Value,
    taints: &Value,
    startup_taints: &Value,
    requirements: &Value,
) -> NodePoolSpec {
    serde_json::from_value(json!({"template": {
        "metadata": {"labels": labels},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "taints": taints,
            "startupTaints": startup_taints,
            "requirements": requirements,
        },
    }}))
    .unwrap()
}

fn with_label(key: &str, value: &str) -> Vec<String> {
    errors(&pool(&json!({key: value}), &json!([]), &json!([]), &json!([])))
}

fn with_taints(taints: &Value, startup_taints: &Value) -> Vec<String> {
    errors(&pool(&json!({}), taints, startup_taints, &json!([])))
}

fn with_requirement(key: &str, operator: &str, values: &[&str]) -> Vec<String> {
    errors(&pool_requiring(&json!([{"key": key, "operator": operator, "values": values}])))
}

fn pool_requiring(requirements: &Value) -> NodePoolSpec {
    pool(&json!({}), &json!([]), &json!([]), requirements)
}

fn errors(spec: &NodePoolSpec) -> Vec<String> {
    nodepool(spec, &ProviderRules::aws()).errors
}

#[track_caller]
fn assert_one(errors: &[String], start: &str, end: &str, id: &str) {
    assert_eq!(errors.len(), 1, "{id}: {errors:?}");
    assert!(errors[0].starts_with(start) && errors[0].ends_with(end), "{id}: {}", errors[0]);
}

const GOOD_KEYS: [&str; 4] = ["a", "Test", "test.com/Test", "test.com.com/test"];
const BAD_KEYS: [&str; 6] =
    ["test.com.com}", "Test.com/test", "test/test/test", "test/", "/test", ""];

#[test]
fn taint_keys_are_qualified_names() {
    for key in GOOD_KEYS {
        let taint = json!([{"key": key, "effect": "NoSchedule"}]);
        assert!(with_taints(&taint, &json!([])).is_empty(), "10/NP-T1: {key}");
    }
    for key in BAD_KEYS {
        let taint = json!([{"key": key, "effect": "NoSchedule"}]);
        for (field, errors) in [
            ("taints", with_taints(&taint, &json!([]))),
            ("startupTaints", with_taints(&json!([]), &taint)),
        ] {
            assert!(!errors.is_empty(), "10/NP-T2: {key:?} in {field}");
            for error in errors {
                assert!(error.starts_with("invalid value: "), "10/NP-T2: {error}");
                assert!(error.ends_with(&format!(" in {field}")), "10/NP-T2: {error}");
            }
        }
    }
}

#[test]
fn taint_values_and_effects_are_checked() {
    let value =
        with_taints(&json!([{"key": "a", "value": "???", "effect": "NoSchedule"}]), &json!([]));
    assert_one(&value, "invalid value: name part must consist of", "in taints", "10/NP-T3");
    let effect = with_taints(&json!([]), &json!([{"key": "a", "effect": "???"}]));
    assert_eq!(effect, [r#"invalid value: "???" in startupTaints"#], "10/NP-T3");
}

#[test]
fn a_taint_may_repeat_its_key_but_not_its_effect() {
    let no_schedule = json!({"key": "a", "effect": "NoSchedule"});
    let no_execute = json!({"key": "a", "effect": "NoExecute"});
    let both = with_taints(&json!([no_schedule, no_execute]), &json!([]));
    assert!(both.is_empty(), "10/NP-T4: {both:?}");
    for (taints, startup) in [
        (json!([no_schedule, no_schedule]), json!([])),
        (json!([no_schedule]), json!([no_schedule])),
        (json!([]), json!([no_schedule, no_schedule])),
    ] {
        let errors = with_taints(&taints, &startup);
        assert_eq!(errors, ["duplicate taint Key/Effect pair a=NoSchedule"], "10/NP-T5");
    }
}

#[test]
fn over_long_key_parts_are_refused() {
    let long_prefix = format!("{}.com/a", "a".repeat(260));
    let long_name = "a".repeat(255);
    for key in [&long_prefix, &long_name] {
        let taint = json!([{"key": key, "effect": "NoSchedule"}]);
        assert_one(
            &with_taints(&taint, &json!([])),
            "invalid value: ",
            "bytes in taints",
            "10/NP-R1",
        );
        let requirement = with_requirement(key, "Exists", &[]);
        assert_one(
            &requirement,
            "invalid value: key ",
            "bytes in requirements, restricted",
            "10/NP-R1",
        );
        assert_one(&with_label(key, "v"), "invalid key name ", "bytes\"", "10/NP-R1");
    }
}

#[test]
fn requirement_keys_are_qualified_names() {
    for key in GOOD_KEYS {
        assert!(with_requirement(key, "Exists", &[]).is_empty(), "10/NP-R2: {key}");
    }
    for key in BAD_KEYS {
        let start = format!("invalid value: key {key} is not a qualified name, ");
        assert_one(
            &with_requirement(key, "Exists", &[]),
            &start,
            " in requirements, restricted",
            "10/NP-R2",
        );
    }
}

#[test]
fn requirements_may_not_use_karpenters_own_labels() {
    let errors = with_requirement("karpenter.sh/nodepool", "In", &["default"]);
    let expected = [r#"invalid key: "karpenter.sh/nodepool" in requirements, restricted"#];
    assert_eq!(errors, expected, "10/NP-R3");
    for key in ["karpenter.sh/test", "kubernetes.io/hostname"] {
        let start =
            format!("invalid value: using label {key} is not allowed as it might interfere");
        let errors = with_requirement(key, "In", &["test"]);
        assert_one(&errors, &start, "in requirements, restricted", "10/NP-R4");
    }
    for key in ["kubernetes.io/test", "k8s.io/test", "subdomain.k8s.io/test"] {
        assert!(with_requirement(key, "In", &["test"]).is_empty(), "10/NP-R5: {key}");
    }
}

#[test]
fn well_known_labels_take_any_value_unless_values_are_fixed() {
    let fixed = [labels::NODEPOOL, labels::CAPACITY_TYPE, labels::aws::INSTANCE_TENANCY];
    for provider in [ProviderRules::aws(), ProviderRules::kwok()] {
        for key in provider.well_known_labels().filter(|key| !fixed.contains(key)) {
            let spec = pool_requiring(&json!([{"key": key, "operator": "In", "values": ["test"]}]));
            assert_eq!(nodepool(&spec, &provider), Findings::default(), "10/NP-R6: {key}");
        }
    }
}

#[test]
fn a_pool_may_have_no_requirements() {
    assert!(errors(&pool_requiring(&json!([]))).is_empty(), "10/NP-R7");
}

#[test]
fn numeric_operators_take_one_integer_from_zero() {
    for operator in ["Gt", "Lt", "Gte", "Lte"] {
        for values in [&[][..], &["1", "2"], &["a"], &["-1"]] {
            let errors = with_requirement("k", operator, values);
            let expected = format!(
                "invalid value: key k with operator {operator} must have a single positive integer \
                 value in requirements, restricted"
            );
            // `-1` is no label value either, so its error comes first.
            assert!(
                errors.len() == 1 && errors[0].ends_with(&expected["invalid value: ".len()..]),
                "10/NP-R8: {errors:?}"
            );
        }
        assert!(with_requirement("k", operator, &["0"]).is_empty(), "10/NP-R8: zero is fine");
        let errors = with_requirement("k", operator, &["99999999999999999999"]);
        assert_one(
            &errors,
            "invalid value: key k with operator",
            "must have a single positive integer value in requirements, restricted",
            "10/RV-5",
        );
    }
}

#[test]
fn in_needs_values_and_operators_are_known() {
    let none = [
        "invalid value: key k with operator In must have a value defined in requirements, restricted",
    ];
    assert_eq!(with_requirement("k", "In", &[]), none);
    let unknown = [
        "invalid value: key k has an unsupported operator unknown not in [In NotIn Exists DoesNotExist Gt Lt Gte Lte] in requirements, restricted",
    ];
    assert_eq!(with_requirement("k", "unknown", &["a"]), unknown);
    let too_few =
        pool_requiring(&json!([{"key": "k", "operator": "In", "values": ["a"], "minValues": 2}]));
    assert_eq!(
        errors(&too_few),
        [
            "invalid value: key k with operator In must have at least minimum number of values defined in 'values' field in requirements, restricted"
        ]
    );
    assert!(with_requirement("k", "NotIn", &[]).is_empty(), "means Exists");
    assert_one(
        &with_requirement("k", "In", &["?"]),
        "invalid value: invalid value ? for key k, a valid label must be",
        "restricted",
        "",
    );
}

#[test]
fn template_labels_are_checked_by_key_and_value() {
    for key in ["foo", "kops.k8s.io/gpu", "k8s.io", "subdomain.kubernetes.io/key"] {
        assert!(with_label(key, "v").is_empty(), "10/NP-L1: {key}");
    }
    let errors = with_label("spaces are not allowed", "v");
    assert_one(
        &errors,
        r#"invalid key name "spaces are not allowed" in labels, "name part must consist of"#,
        "[A-Za-z0-9]')\"",
        "10/NP-L2",
    );
    let errors = with_label("foo", "/ is not allowed");
    assert_one(
        &errors,
        "invalid value: / is not allowed for label[foo], a valid label must be",
        ")?')",
        "10/NP-L3",
    );
}

#[test]
fn template_labels_may_not_use_karpenters_domain() {
    let unknown = with_label("karpenter.sh/unknown", "v");
    let start = r#"invalid key name "karpenter.sh/unknown" in labels, using label karpenter.sh/unknown is not allowed"#;
    assert_one(&unknown, start, "[karpenter.k8s.aws karpenter.sh]", "10/NP-L4");
    let nodepool = with_label("karpenter.sh/nodepool", "v");
    assert_eq!(
        nodepool,
        [r#"invalid key name "karpenter.sh/nodepool" in labels, restricted"#],
        "10/NP-L4"
    );
    // Only the schema refuses this one.
    assert!(with_label("notkarpenter.sh/x", "v").is_empty(), "10/NP-L4");
}

#[test]
fn values_of_fixed_labels_are_checked_for_in_only() {
    let capacity_type = with_requirement("karpenter.sh/capacity-type", "In", &["xspot"]);
    assert_eq!(
        capacity_type,
        [
            "invalid value: no valid values found in [xspot] for karpenter.sh/capacity-type, expected one of: [on-demand reserved spot], got: [xspot] in requirements, restricted"
        ],
        "10/NP-A1"
    );
    let tenancy = with_requirement("karpenter.k8s.aws/instance-tenancy", "In", &["xdedicated"]);
    assert_eq!(
        tenancy,
        [
            "invalid value: no valid values found in [xdedicated] for karpenter.k8s.aws/instance-tenancy, expected one of: [dedicated default], got: [xdedicated] in requirements, restricted"
        ],
        "10/NP-A1"
    );
    assert!(
        with_requirement("karpenter.sh/capacity-type", "NotIn", &["xspot"]).is_empty(),
        "10/RV-4"
    );
}

#[test]
fn unknown_values_next_to_known_ones_are_a_warning() {
    let spec = pool_requiring(&json!([
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand", "xspot"]},
    ]));
    let findings = nodepool(&spec, &ProviderRules::aws());
    let ignored = IgnoredValues {
        key: labels::CAPACITY_TYPE.to_owned(),
        valid: vec!["on-demand".to_owned()],
        invalid: vec!["xspot".to_owned()],
    };
    let expected = Findings { errors: vec![], warnings: vec![ignored] };
    assert_eq!(findings, expected, "10/NP-A2");
    assert_eq!(findings.message(), None, "10/NP-A2");
}

#[test]
fn the_node_class_label_is_not_well_known() {
    let errors = with_requirement("karpenter.k8s.aws/ec2nodeclass", "In", &["default"]);
    let start = "invalid value: using label karpenter.k8s.aws/ec2nodeclass is not allowed";
    assert_one(&errors, start, "in requirements, restricted", "10/NP-A3");
}

#[test]
fn all_errors_make_one_message() {
    let spec = pool(
        &json!({"karpenter.sh/nodepool": "x"}),
        &json!([{"key": "a", "effect": "Bad"}]),
        &json!([]),
        &json!([{"key": "k", "operator": "In", "values": []}]),
    );
    assert_eq!(
        nodepool(&spec, &ProviderRules::aws()).message().unwrap(),
        r#"invalid key name "karpenter.sh/nodepool" in labels, restricted; invalid value: "Bad" in taints; invalid value: key k with operator In must have a value defined in requirements, restricted"#,
        "10/RV-1"
    );
}

#[test]
fn old_spellings_are_checked_as_the_keys_they_stand_for() {
    let errors = with_requirement("beta.kubernetes.io/arch", "In", &[]);
    assert_one(
        &errors,
        "invalid value: key kubernetes.io/arch with operator In",
        "restricted",
        "10/RV-2",
    );
    assert!(with_requirement("beta.kubernetes.io/arch", "In", &["arm64"]).is_empty(), "10/RV-2");
}

#[test]
fn min_values_counts_known_values_only() {
    let spec = pool_requiring(&json!([
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "xspot"], "minValues": 2},
    ]));
    assert_eq!(
        errors(&spec),
        [
            "invalid value: not enough valid values found in [spot xspot] for karpenter.sh/capacity-type, expected at least 2 valid values from: [on-demand reserved spot], got: 1 in requirements, restricted"
        ],
        "10/RV-3"
    );
}

#[test]
fn a_corrected_pool_becomes_ready_again() {
    let mut conditions = Vec::new();
    let mut reconcile = |spec: &NodePoolSpec, generation: i64| {
        let subject = Subject { generation, created: None, deleting: false };
        let now = jiff::Timestamp::UNIX_EPOCH;
        let mut set = ConditionSet::new(&mut conditions, NODEPOOL_DEPENDENTS, subject, now);
        set.set_true(NODE_CLASS_READY);
        match nodepool(spec, &ProviderRules::aws()).message() {
            Some(message) => {
                set.set_false(VALIDATION_SUCCEEDED, NODEPOOL_VALIDATION_FAILED, &message)
            }
            None => set.set_true(VALIDATION_SUCCEEDED),
        };
        (set.is_true(VALIDATION_SUCCEEDED), set.is_true(READY))
    };
    let bad = pool_requiring(&json!([{"key": "k", "operator": "In", "values": []}]));
    let good = pool_requiring(&json!([{"key": "k", "operator": "In", "values": ["v"]}]));
    assert_eq!(reconcile(&bad, 1), (false, false), "10/RV-6");
    assert_eq!(reconcile(&good, 2), (true, true), "10/RV-6");
}

#[test]
fn an_overflowing_duration_makes_one_pool_invalid() {
    let template = |expire_after: &str| {
        json!({"metadata": {"name": expire_after}, "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "g", "kind": "k", "name": "n"},
            "requirements": [],
            "expireAfter": expire_after,
        }}}})
    };
    let list = json!([template("9999999h"), template("720h")]);
    let pools: Vec<NodePool> = serde_json::from_value(list).unwrap();
    let errors: Vec<_> = pools.iter().map(|pool| errors(&pool.spec)).collect();
    let expected = [r#"invalid value: time: invalid duration "9999999h" in expireAfter"#];
    assert_eq!(errors[0], expected, "10/DU-5");
    assert!(errors[1].is_empty(), "10/DU-5");
}

#[test]
fn invalid_durations_and_quantities_are_reported_by_field() {
    let mut spec = pool_requiring(&json!([]));
    spec.template.spec.termination_grace_period = Some("9999999h".into());
    spec.limits = serde_json::from_value(json!({"cpu": "1e1.5", "memory": "1Gi"})).unwrap();
    spec.disruption = serde_json::from_value(json!({
        "consolidateAfter": "9999999h",
        "budgets": [{"nodes": "1", "schedule": "@daily", "duration": "9999999h"}],
    }))
    .unwrap();
    let fields: Vec<_> =
        errors(&spec).iter().map(|e| e.rsplit(" in ").next().unwrap().to_owned()).collect();
    assert_eq!(fields, ["terminationGracePeriod", "consolidateAfter", "budgets", "limits[cpu]"]);
}
