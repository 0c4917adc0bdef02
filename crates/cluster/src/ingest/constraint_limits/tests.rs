//! Tests of the bound on the constraints of one pod.

use serde_json::{Value, json};

use super::{MAX_COMBINATIONS, MAX_EXPRESSIONS, MAX_TERMS, excess, suggest_fix};
use crate::ingest::tests::read_pod;
use crate::wire::PodSpec as WireSpec;

fn spec(fields: &Value) -> WireSpec {
    let mut spec = json!({"containers": []});
    for (key, value) in fields.as_object().expect("the fields are an object") {
        spec[key] = value.clone();
    }
    serde_json::from_value(spec).expect("the fields are those of a pod spec")
}

fn list(count: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..count).map(item).collect()
}

fn pod_term(index: usize) -> Value {
    json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": index.to_string()}}})
}

fn node_term(index: usize) -> Value {
    json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [index.to_string()]}]})
}

/// Returns pod specs in which `count` terms of one sort are the only constraints.
fn specs_with_terms(count: usize) -> Vec<(&'static str, Value)> {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let weighted = |index| json!({"weight": 1, "podAffinityTerm": pod_term(index)});
    let preference = |index| json!({"weight": 1, "preference": node_term(index)});
    let spread = |index: usize| json!({"topologyKey": index.to_string(), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"});
    let toleration = |index: usize| json!({"key": index.to_string(), "operator": "Exists"});
    let labels: Value = (0..count)
        .map(|index| (index.to_string(), json!("x")))
        .collect::<serde_json::Map<_, _>>()
        .into();
    vec![
        ("node selector", json!({"nodeSelector": labels})),
        (
            "required node affinity",
            json!({"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": list(count, node_term)}}}}),
        ),
        (
            "preferred node affinity",
            json!({"affinity": {"nodeAffinity": {preferred: list(count, preference)}}}),
        ),
        (
            "required pod affinity",
            json!({"affinity": {"podAffinity": {required: list(count, pod_term)}}}),
        ),
        (
            "preferred pod affinity",
            json!({"affinity": {"podAffinity": {preferred: list(count, weighted)}}}),
        ),
        (
            "required pod anti-affinity",
            json!({"affinity": {"podAntiAffinity": {required: list(count, pod_term)}}}),
        ),
        (
            "preferred pod anti-affinity",
            json!({"affinity": {"podAntiAffinity": {preferred: list(count, weighted)}}}),
        ),
        ("topology spread", json!({"topologySpreadConstraints": list(count, spread)})),
        ("tolerations", json!({"tolerations": list(count, toleration)})),
    ]
}

#[test]
fn each_sort_of_term_is_bounded() {
    for (name, fields) in specs_with_terms(MAX_TERMS) {
        assert_eq!(excess(&spec(&fields)), None, "{name}");
    }
    for (name, fields) in specs_with_terms(MAX_TERMS + 1) {
        let expected = "pod has 1101 scheduling terms; at most 1100 are supported";
        assert_eq!(excess(&spec(&fields)).as_deref(), Some(expected), "{name}");
        let fix = suggest_fix(expected).unwrap();
        assert!(fix.starts_with("use at most 1100 terms: merge affinity terms"), "{name}: {fix}");
    }
}

#[test]
fn expressions_and_values_are_bounded() {
    let with = |values: usize| {
        let expression = json!({"key": "zone", "operator": "In", "values": list(values, |index| json!(index.to_string()))});
        let terms = json!([{"matchExpressions": [expression]}]);
        let required = json!({"nodeSelectorTerms": terms});
        spec(
            &json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}),
        )
    };
    assert_eq!(excess(&with(MAX_EXPRESSIONS - 1)), None);
    let fix = suggest_fix(&excess(&with(MAX_EXPRESSIONS)).unwrap()).unwrap();
    assert!(fix.starts_with("use at most 5000: label the nodes"), "{fix}");
    let expected = "the scheduling terms of the pod have 5001 expressions and values; \
                    at most 5000 are supported";
    assert_eq!(excess(&with(MAX_EXPRESSIONS)).as_deref(), Some(expected));
}

#[test]
fn combinations_of_node_affinity_and_spread_are_bounded() {
    let with = |terms: usize, constraints: usize| {
        let mut all = specs_with_terms(constraints).swap_remove(7).1;
        all["affinity"] = specs_with_terms(terms).swap_remove(1).1["affinity"].clone();
        spec(&all)
    };
    assert_eq!(excess(&with(100, MAX_COMBINATIONS / 100)), None);
    let expected = "the node affinity and topology spread constraints of the pod have 10100 \
                    combinations; at most 10000 are supported";
    assert_eq!(excess(&with(101, MAX_COMBINATIONS / 100)).as_deref(), Some(expected));
}

#[test]
fn a_pod_beyond_the_bound_is_ignored_with_a_reason_and_not_parsed() {
    let (_, mut fields) = specs_with_terms(MAX_TERMS + 1).swap_remove(4);
    fields["containers"] = json!([{"name": "main", "resources": {"requests": {"cpu": "1"}}}]);
    let pod = read_pod(json!({}), fields, json!({}));
    let problem = pod.problem.expect("the pod is ignored");
    assert_eq!(problem.text, "pod has 1102 scheduling terms; at most 1100 are supported");
    assert!(pod.has_unparsed_constraints, "its node is not disrupted");
    assert!(pod.spec.preferred_pod_affinity.is_empty());
    assert_eq!(pod.spec.requests.amount("cpu").to_string(), "1");
}

#[test]
fn each_excess_has_a_fix_and_other_problems_have_none() {
    for (excess, start) in [
        (
            "the node affinity and topology spread constraints of the pod have 10001 combinations; \
          at most 10000 are supported",
            "use at most 10000: merge required node affinity terms",
        ),
        ("pod has 1101 scheduling terms; at most 1100 are supported", "use at most 1100 terms: "),
    ] {
        let fix = suggest_fix(excess).unwrap();
        assert!(fix.starts_with(start), "{fix}");
    }
    assert_eq!(suggest_fix("spec.nodeName: at most one"), None);
}
