//! Tests of the node scores.

use super::*;

fn two() -> [Node; 2] {
    [node("a", "1", json!({})), node("b", "2", json!({}))]
}

#[test]
fn the_scheduler_picks_the_first_of_equal_nodes_by_name() {
    let nodes = ["c", "a", "b"].map(|name| node(name, "1", json!({})));
    assert_eq!(placed(&mut cache_with(&nodes, &[]), &pod("p", "p", json!({}))), "a");
}

#[test]
fn the_scheduler_prefers_the_emptier_node() {
    let bound = [on("a", pod("x", "x", json!({})))];
    assert_eq!(placed(&mut cache_with(&two(), &bound), &pod("p", "p", json!({}))), "b");
}

#[test]
fn the_scheduler_prefers_the_node_with_more_balanced_usage() {
    let requests = |cpu: &str, memory: &str| {
        json!({ "containers": [
        { "name": "c", "resources": { "requests": { "cpu": cpu, "memory": memory } } },
    ] })
    };
    // As much of both together is used on each.
    let bound = [
        on("a", pod("x", "x", requests("2", "2Gi"))),
        on("b", pod("y", "y", requests("500m", "8Gi"))),
    ];
    let next = pod("p", "p", requests("1", "100Mi"));
    assert_eq!(placed(&mut cache_with(&two(), &bound), &next), "b");
}

#[test]
fn preferred_terms_of_the_pod_raise_the_score() {
    let soft = json!({ "spec": { "taints": [{ "key": "k", "effect": "PreferNoSchedule" }] } });
    let bound = [on("a", pod("o", "other", json!({})))];
    let wish = |kind: &str| {
        json!({ "affinity": { kind: {
        "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 10, "podAffinityTerm": {
            "topologyKey": ZONE, "labelSelector": { "matchLabels": { "app": "other" } },
        } }],
    } } })
    };
    let zone_two = json!({ "affinity": { "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1, "preference": {
            "matchExpressions": [{ "key": ZONE, "operator": "In", "values": ["2"] }],
        } }],
    } } });
    let anyway = json!({ "topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": { "matchLabels": { "app": "other" } },
    }] });
    let [a, b] = two();
    let roomy =
        node("a", "1", json!({ "status": { "allocatable": { "cpu": "64", "memory": "256Gi" } } }));
    #[rustfmt::skip]
    let cases = vec![
        ("soft taint",          [node("a", "1", soft), b.clone()], &[][..], json!({}),              "b"),
        ("node affinity",       [a.clone(), b.clone()],            &[],     zone_two,               "b"),
        ("pod affinity",        [a.clone(), b.clone()],            &bound,  wish("podAffinity"),     "a"),
        ("pod anti-affinity",   [roomy.clone(), b.clone()],        &bound,  wish("podAntiAffinity"), "b"),
        ("spread",              [roomy.clone(), b.clone()],        &bound,  anyway,                  "b"),
        ("none",                [roomy, b],                        &bound,  json!({}),               "a"),
    ];
    for (case, nodes, bound, spec, expected) in cases {
        assert_eq!(
            placed(&mut cache_with(&nodes, bound), &pod("p", "p", spec)),
            expected,
            "{case}"
        );
    }
}

#[test]
fn preferred_terms_of_bound_pods_raise_the_score() {
    let likes = |weight: i32, kind: &str| {
        json!({ "affinity": { kind: {
        "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": weight, "podAffinityTerm": {
            "topologyKey": ZONE, "labelSelector": { "matchLabels": { "app": "p" } },
        } }],
    } } })
    };
    for (kind, expected) in [("podAffinity", "a"), ("podAntiAffinity", "b")] {
        let bound = [on("a", pod("o", "other", likes(10, kind)))];
        assert_eq!(
            placed(&mut cache_with(&two(), &bound), &pod("p", "p", json!({}))),
            expected,
            "{kind}"
        );
    }
}
