//! Tests of the node filters: selectors, affinity, taints, capacity and host ports.

use super::*;

/// A required affinity with these terms.
fn terms(terms: Value) -> Value {
    json!({ "affinity": { "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms },
    } } })
}

fn expression(key: &str, operator: &str, values: Value) -> Value {
    json!([{ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] }])
}

#[test]
fn selectors_and_affinity_choose_nodes_by_label_and_name() {
    let more =
        json!({ "metadata": { "labels": { "size": "8", "beta.kubernetes.io/arch": "arm" } } });
    let nodes = [node("a", "1", json!({})), node("b", "2", more)];
    let no_node = "2 node(s) didn't match Pod's node affinity/selector";
    let by_name = |name: &str| {
        terms(json!([{ "matchFields": [
            { "key": "metadata.name", "operator": "In", "values": [name] },
        ] }]))
    };
    #[rustfmt::skip]
    let cases = [
        ("selector",             json!({ "nodeSelector": { ZONE: "2" } }),                 "b"),
        ("selector, nobody",     json!({ "nodeSelector": { ZONE: "3" } }),                 no_node),
        ("In",                   terms(expression(ZONE, "In", json!(["2", "3"]))),         "b"),
        ("NotIn",                terms(expression(ZONE, "NotIn", json!(["2"]))),           "a"),
        ("NotIn, absent",        terms(expression("size", "NotIn", json!(["8"]))),         "a"),
        ("Exists",               terms(expression("size", "Exists", Value::Null)),         "b"),
        ("DoesNotExist",         terms(expression("size", "DoesNotExist", Value::Null)),   "a"),
        ("Gt",                   terms(expression("size", "Gt", json!(["7"]))),            "b"),
        ("Gt, equal",            terms(expression("size", "Gt", json!(["8"]))),            no_node),
        ("Lt",                   terms(expression("size", "Lt", json!(["9"]))),            "b"),
        ("beyond all integers",  terms(expression("size", "Gt", json!([i64::MAX.to_string()]))), no_node),
        ("old keys are theirs",  terms(expression("kubernetes.io/arch", "Exists", Value::Null)), no_node),
        ("both parts of a key",  terms(json!([{ "matchExpressions": [
            { "key": "size", "operator": "In", "values": ["8"] },
            { "key": "size", "operator": "NotIn", "values": ["8"] },
        ] }])),                                                                            no_node),
        ("empty term",           terms(json!([{}])),                                       no_node),
        ("one of two terms",     terms(json!([{}, { "matchExpressions": [
            { "key": "size", "operator": "Exists" },
        ] }])),                                                                            "b"),
        ("no term",              terms(json!([])),                                         no_node),
        ("named",                by_name("b"),                                             "b"),
        ("named, not there",     by_name("c"),   "2 node(s) didn't satisfy plugin(s) [NodeAffinity]"),
    ];
    for (case, spec, expected) in cases {
        assert_eq!(reasons(&mut cache_with(&nodes, &[]), &pod("p", "p", spec)), expected, "{case}");
    }
}

#[test]
fn a_pod_pinned_to_a_tainted_node_is_rejected_for_the_taint() {
    let spec = terms(json!([{ "matchFields": [
        { "key": "metadata.name", "operator": "In", "values": ["b"] },
    ] }]));
    let nodes = ["a", "b", "c"].map(|name| {
        node(
            name,
            "1",
            json!({ "spec": {
        "taints": [{ "key": "k", "effect": "NoExecute" }],
    } }),
        )
    });
    assert_eq!(
        reasons(&mut cache_with(&nodes, &[]), &pod("p", "p", spec)),
        "1 node(s) had untolerated taint(s), 2 node(s) didn't satisfy plugin(s) [NodeAffinity]"
    );
}

#[test]
fn taints_and_cordons_keep_pods_away_unless_tolerated() {
    let taint = |effect: &str| json!({ "spec": { "taints": [{ "key": "k", "effect": effect }] } });
    let cordon = json!({ "spec": { "unschedulable": true } });
    let tolerate = |key: &str| json!({ "tolerations": [{ "key": key, "operator": "Exists" }] });
    let tainted = "1 node(s) had untolerated taint(s)";
    #[rustfmt::skip]
    let cases = [
        ("NoSchedule",        taint("NoSchedule"),       json!({}),                     tainted),
        ("NoExecute",         taint("NoExecute"),        json!({}),                     tainted),
        ("PreferNoSchedule",  taint("PreferNoSchedule"), json!({}),                     "a"),
        ("tolerated",         taint("NoSchedule"),       tolerate("k"),                 "a"),
        ("cordon",            cordon.clone(),            json!({}),                     "1 node(s) were unschedulable"),
        ("tolerated cordon",  cordon,                    tolerate("node.kubernetes.io/unschedulable"), "a"),
    ];
    for (case, more, spec, expected) in cases {
        let nodes = [node("a", "1", more)];
        assert_eq!(reasons(&mut cache_with(&nodes, &[]), &pod("p", "p", spec)), expected, "{case}");
    }
}

#[test]
fn bound_pods_use_capacity_until_they_are_removed() {
    let mut cache = cache_with(&[node("a", "1", json!({}))], &[]);
    for n in 0..4 {
        let name = format!("p{n}");
        assert_eq!(placed(&mut cache, &pod(&name, "p", json!({}))), "a");
        cache.set_pod(PodInfo::read(&on("a", pod(&name, "p", json!({})))));
    }
    let next = pod("next", "p", json!({}));
    assert_eq!(reasons(&mut cache, &next), "1 Insufficient cpu");
    cache.remove_pod(&key("p2"));
    assert_eq!(placed(&mut cache, &next), "a");
}

#[test]
fn a_node_rejects_pods_beyond_its_pod_limit() {
    let nothing =
        json!({ "containers": [{ "name": "c", "resources": { "requests": { "cpu": "0" } } }] });
    let bound: Vec<_> =
        (0..10).map(|n| on("a", pod(&format!("p{n}"), "p", nothing.clone()))).collect();
    let mut cache = cache_with(&[node("a", "1", json!({}))], &bound);
    assert_eq!(reasons(&mut cache, &pod("next", "p", nothing)), "1 Too many pods");
}

#[test]
fn host_ports_of_containers_and_sidecars_conflict() {
    let port = json!([{ "containerPort": 80, "hostPort": 80 }]);
    let container = json!({ "containers": [{ "name": "c", "ports": port }] });
    let sidecar = |policy: Value| json!({ "initContainers": [{ "name": "s", "restartPolicy": policy, "ports": port }] });
    let taken = "1 node(s) didn't have free ports for the requested pod ports";
    #[rustfmt::skip]
    let cases = [
        ("container",      container.clone(),        taken),
        ("sidecar",        sidecar(json!("Always")), taken),
        ("init container", sidecar(Value::Null),     "a"),
    ];
    for (case, spec, expected) in cases {
        let bound = [on("a", pod("p", "p", container.clone()))];
        let mut cache = cache_with(&[node("a", "1", json!({}))], &bound);
        let next = pod("next", "p", spec);
        assert_eq!(reasons(&mut cache, &next), expected, "{case}");
        cache.remove_pod(&key("p"));
        assert_eq!(placed(&mut cache, &next), "a", "{case}: free again");
    }
}

#[test]
fn pods_bound_before_their_node_appears_use_its_capacity() {
    let mut cache = cache_with(&[], &[on("a", pod("p", "p", json!({})))]);
    cache.set_node(&node("a", "1", json!({ "status": { "allocatable": { "cpu": "1" } } })));
    let next = pod("next", "p", json!({}));
    assert_eq!(reasons(&mut cache, &next), "1 Insufficient cpu");
    cache.remove_node("a");
    cache.remove_pod(&key("p"));
    cache.set_node(&node("a", "1", json!({ "status": { "allocatable": { "cpu": "1" } } })));
    assert_eq!(placed(&mut cache, &next), "a");
}

#[test]
fn a_node_update_returns_the_blockers_it_may_remove() {
    let plain = node("a", "1", json!({}));
    let mut cache = cache_with(&[], &[]);
    #[rustfmt::skip]
    let steps = [
        ("new",      plain.clone(),                                                            Blockers::ALL),
        ("the same", plain,                                                                    Blockers::NONE),
        ("larger",   node("a", "1", json!({ "status": { "allocatable": { "cpu": "8" } } })),   Blockers::CAPACITY),
        ("moved",    node("a", "2", json!({ "status": { "allocatable": { "cpu": "8" } } })),
                     Blockers::LABELS | Blockers::SPREAD | Blockers::PODS | Blockers::VOLUMES),
        ("cordoned", node("a", "2", json!({
            "spec": { "unschedulable": true }, "status": { "allocatable": { "cpu": "8" } },
        })),         Blockers::TAINTS | Blockers::SPREAD),
    ];
    for (case, node, expected) in steps {
        assert_eq!(cache.set_node(&node), expected, "{case}");
    }
}
