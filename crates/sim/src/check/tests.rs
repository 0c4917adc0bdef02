//! Tests of the rules and the checker on hand-made world snapshots.

use k8s_openapi::serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn list<T: DeserializeOwned>(objects: Vec<Value>) -> Vec<T> {
    objects.into_iter().map(|object| serde_json::from_value(object).unwrap()).collect()
}

fn snapshot(minute: i64, nodes: Vec<Value>, pods: Vec<Value>) -> WorldSnapshot {
    WorldSnapshot {
        now: Timestamp::from_second(minute * 60).unwrap(),
        nodes: list(nodes),
        pods: list(pods),
        ..WorldSnapshot::default()
    }
}

fn node(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"zone": "z1", "host": name}},
        "spec": {},
        "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "3", "x.io/gpu": "1"}},
    })
}

fn pod(name: &str, on: &str, requests: &Value) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}},
        "spec": {
            "nodeName": if on.is_empty() { Value::Null } else { on.into() },
            "containers": [{"name": "a", "resources": {"requests": requests}}],
        },
        "status": {"phase": "Running"},
    })
}

fn with(mut object: Value, patch: &Value) -> Value {
    fn merge(into: &mut Value, patch: &Value) {
        match patch {
            Value::Object(fields) => {
                for (key, value) in fields {
                    merge(&mut into[key], value);
                }
            }
            other => *into = other.clone(),
        }
    }
    merge(&mut object, patch);
    object
}

fn texts(found: &[Violation]) -> Vec<String> {
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn overcommitted_nodes_are_reported() {
    let of = |requests: Value| pod("a", "n", &requests);
    let small = |name| pod(name, "n", &json!({"cpu": "100m"}));
    for (case, pods, expected) in [
        ("all of it", vec![of(json!({"cpu": "2", "memory": "4Gi", "x.io/gpu": "1"}))], vec![]),
        ("cpu", vec![of(json!({"cpu": "2001m"}))], vec!["pods on node n use 2001 cpu of 2000"]),
        (
            "devices of two",
            vec![of(json!({"x.io/gpu": "1"})), pod("b", "n", &json!({"x.io/gpu": "1"}))],
            vec!["pods on node n use 2 x.io/gpu of 1"],
        ),
        (
            "number of pods",
            vec![small("a"), small("b"), small("c"), small("d")],
            vec!["pods on node n use 4 pods of 3"],
        ),
        (
            "one that has ended takes no room",
            vec![with(of(json!({"cpu": "9"})), &json!({"status": {"phase": "Succeeded"}}))],
            vec![],
        ),
        ("one without a node", vec![pod("a", "", &json!({"cpu": "9"}))], vec![]),
    ] {
        let found = rules::immediate_violations(&snapshot(0, vec![node("n")], pods));
        assert_eq!(texts(&found), expected, "{case}");
    }
}

#[test]
fn anti_affinity_violations_are_reported() {
    let term = |key: &str| {
        json!({"spec": {"affinity": {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}},
            ],
        }}}})
    };
    let plain = |name: &str, on: &str| pod(name, on, &json!({}));
    let against = |key: &str| "pod default/a is with pod default/b in ".to_owned() + key;
    for (case, pods, expected) in [
        ("one node", vec![with(plain("a", "n"), &term("host")), plain("b", "n")], {
            vec![against("host=n, against its anti-affinity")]
        }),
        ("two nodes", vec![with(plain("a", "n"), &term("host")), plain("b", "m")], vec![]),
        ("one zone", vec![with(plain("a", "n"), &term("zone")), plain("b", "m")], {
            vec![against("zone=z1, against its anti-affinity")]
        }),
        ("alone", vec![with(plain("a", "n"), &term("zone"))], vec![]),
        (
            "another namespace",
            vec![
                with(plain("a", "n"), &term("zone")),
                with(plain("b", "n"), &json!({"metadata": {"namespace": "other"}})),
            ],
            vec![],
        ),
        (
            "other labels",
            vec![
                with(plain("a", "n"), &term("zone")),
                with(plain("b", "n"), &json!({"metadata": {"labels": {"app": "db"}}})),
            ],
            vec![],
        ),
    ] {
        let found = rules::immediate_violations(&snapshot(0, vec![node("n"), node("m")], pods));
        assert_eq!(texts(&found), expected, "{case}");
    }
}

#[test]
fn pods_bound_to_tainted_or_cordoned_nodes_are_reported() {
    let taint = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
    let cordon = json!({"spec": {"unschedulable": true}});
    let bound = pod("a", "n", &json!({}));
    let tolerant = with(bound.clone(), &json!({"spec": {"tolerations": [{"operator": "Exists"}]}}));
    let choosy = with(bound.clone(), &json!({"spec": {"nodeSelector": {"zone": "z2"}}}));
    let waiting = pod("a", "", &json!({}));
    let (open, tainted, cordoned) = (node("n"), with(node("n"), &taint), with(node("n"), &cordon));
    let prefix = "pod default/a was bound to node n ";
    #[rustfmt::skip]
    let rows = [
        // case                       node before        pod before     node after        pod after          expected
        ("tainted",                   Some(&tainted),    &waiting,      &tainted,         &bound,            Some("whose taints it does not tolerate")),
        ("tolerated",                 Some(&tainted),    &waiting,      &tainted,         &tolerant,         None),
        ("tainted afterwards",        Some(&open),       &waiting,      &tainted,         &bound,            None),
        ("it was there before",       Some(&tainted),    &bound,        &tainted,         &bound,            None),
        ("cordoned",                  Some(&cordoned),   &waiting,      &cordoned,        &bound,            Some("that is cordoned")),
        ("a new node, tainted since", None,              &waiting,      &tainted,         &bound,            None),
        ("not selected",              Some(&open),       &waiting,      &open,            &choosy,           Some("that it does not select")),
        ("not selected, a new node",  None,              &waiting,      &open,            &choosy,           Some("that it does not select")),
        ("still waiting",             Some(&tainted),    &waiting,      &tainted,         &waiting,          None),
    ];
    for (case, before, pod_before, after, pod_after, expected) in rows {
        let before = snapshot(0, before.into_iter().cloned().collect(), vec![pod_before.clone()]);
        let after = snapshot(1, vec![after.clone()], vec![pod_after.clone()]);
        let mut checker = Checker::default();
        checker.check(&before);
        let expected: Vec<_> = expected.map(|why| format!("{prefix}{why}")).into_iter().collect();
        assert_eq!(texts(&checker.check(&after)), expected, "{case}");
        assert_eq!(texts(&checker.check(&after)), [""; 0], "{case}: told once");
        assert_eq!(checker.violations().count(), expected.len(), "{case}: and remembered");
    }
}

fn evicted(name: &str) -> Value {
    let status = json!({
        "metadata": {"deletionTimestamp": "2026-01-05T08:00:00Z"},
        "status": {"conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"},
        ]},
    });
    with(pod(name, "n", &json!({})), &status)
}

fn healthy(name: &str) -> Value {
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    with(pod(name, "n", &json!({})), &status)
}

fn budgeted(expected: i32, desired: i32, pods: Vec<Value>) -> WorldSnapshot {
    let budget = json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {
            "expectedPods": expected, "desiredHealthy": desired, "currentHealthy": expected,
            "disruptionsAllowed": 0,
        },
    });
    WorldSnapshot { budgets: list(vec![budget]), ..snapshot(0, vec![], pods) }
}

#[test]
fn evictions_beyond_a_pod_disruption_budget_are_reported() {
    let deleted = with(
        evicted("c"),
        &json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
    );
    let unready = with(
        evicted("c"),
        &json!({"status": {"conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"},
        ]}}),
    );
    let other = with(evicted("c"), &json!({"metadata": {"labels": {"app": "db"}}}));
    let too_many = ["2 pods of budget default/web are evicted at once, of 1"];
    for (case, snapshots, expected) in [
        ("as many as allowed", vec![budgeted(3, 2, vec![evicted("a")])], &[][..]),
        ("too many", vec![budgeted(3, 2, vec![evicted("a"), evicted("b")])], &too_many),
        ("a deletion is none", vec![budgeted(3, 2, vec![evicted("a"), deleted])], &[]),
        ("nor one that was not healthy", vec![budgeted(3, 2, vec![evicted("a"), unready])], &[]),
        ("nor one of others", vec![budgeted(3, 2, vec![evicted("a"), other])], &[]),
        (
            "it allowed more when they began to go",
            vec![
                budgeted(4, 2, vec![]),
                budgeted(3, 2, vec![evicted("a"), evicted("b")]),
                budgeted(2, 2, vec![evicted("a"), evicted("b")]),
            ],
            &[],
        ),
        (
            "it asked for fewer when they began to go",
            vec![
                budgeted(3, 2, vec![healthy("c"), healthy("d")]),
                budgeted(12, 11, vec![evicted("a"), evicted("b"), healthy("c"), healthy("d")]),
            ],
            &[],
        ),
        (
            "it allowed more long ago",
            vec![
                budgeted(4, 2, vec![]),
                budgeted(3, 2, vec![]),
                budgeted(3, 2, vec![evicted("a"), evicted("b")]),
            ],
            &too_many,
        ),
    ] {
        let mut checker = Checker::default();
        for snapshot in &snapshots {
            checker.check(snapshot);
        }
        let found: Vec<_> = checker.violations().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{case}");
    }
}

fn claim(name: &str, id: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"requirements": [], "nodeClassRef": {"group": "", "kind": "", "name": ""}},
        "status": {"providerID": id},
    })
}

#[test]
fn unmatched_claims_and_instances_are_reported_after_the_tolerance() {
    let at = |minute, claims: Vec<Value>, instances: Vec<Value>| WorldSnapshot {
        claims: list(claims),
        instances: list(instances),
        ..snapshot(minute, vec![], vec![])
    };
    let wrong = |minute| {
        at(
            minute,
            vec![claim("a", "1"), claim("b", "2"), claim("c", "")],
            vec![claim("a", "1"), claim("x", "9")],
        )
    };
    let expected = [
        "instance 9 has no NodeClaim",
        "NodeClaim b has no instance",
        "NodeClaim c was never launched",
    ];
    assert_eq!(texts(&leaks(&wrong(0))), expected);
    assert_eq!(texts(&violations_at_rest(&wrong(0))), expected);
    let mut checker = Checker::default();
    assert_eq!(texts(&checker.check(&wrong(0))), [""; 0]);
    assert_eq!(texts(&checker.check(&wrong(14))), [""; 0], "within the window");
    checker.check(&at(15, vec![], vec![]));
    assert_eq!(texts(&checker.check(&wrong(16))), [""; 0], "it begins again");
    let mut found = texts(&checker.check(&wrong(31)));
    found.sort();
    assert_eq!(
        found,
        ["NodeClaim b has no instance", "NodeClaim c was never launched", expected[0]]
    );
}

#[test]
fn at_rest_every_pod_runs_or_has_finished() {
    let on = |name: &str, on: &str, phase: &str| {
        with(pod(name, on, &json!({})), &json!({"status": {"phase": phase}}))
    };
    let ending = with(
        on("e", "n", "Running"),
        &json!({"metadata": {"deletionTimestamp": "2026-01-05T08:00:00Z"}}),
    );
    let pods = vec![
        on("a", "n", "Running"),
        on("b", "n", "Succeeded"),
        on("c", "", "Pending"),
        on("d", "n", "Pending"),
        ending,
        on("f", "gone", "Running"),
    ];
    let found = texts(&violations_at_rest(&snapshot(0, vec![node("n")], pods)));
    let expected = [
        "pod default/f is on node gone, which does not exist",
        "pod default/c is pending",
        "pod default/d is bound and does not run",
        "pod default/e is still terminating",
    ];
    assert_eq!(found, expected);
}
