//! Tests of the fields that disruption reads besides those of scheduling.

use jiff::SignedDuration;
use karpenter_core::disruption::{ConsolidationPolicy, Reason};
use karpenter_core::snapshot::{ManagedPool, NodeDisruptionState};

use super::*;

const NODE_CLASS: &str =
    r#"{"group": "karpenter.test.sh", "kind": "TestNodeClass", "name": "default"}"#;

fn class() -> Value {
    serde_json::from_str(NODE_CLASS).unwrap()
}

fn condition(kind: &str, status: &str, minute: u32) -> Value {
    json!({"type": kind, "status": status, "reason": "Because", "message": "",
        "lastTransitionTime": format!("2025-06-01T00:{minute:02}:00Z")})
}

#[track_caller]
fn node_standing(
    registered: bool,
    annotations: Value,
    spec: Value,
    conditions: Value,
) -> NodeDisruptionState {
    let mut claim = json!({
        "metadata": {"name": "c", "uid": "u", "creationTimestamp": "2025-06-01T00:00:00Z",
            "annotations": {"karpenter.sh/do-not-disrupt": "claim",
                "karpenter-rs.dev/returned": "claim"}},
        "spec": {"requirements": [], "nodeClassRef": class()},
        "status": {"providerID": "m", "conditions": conditions},
    });
    for (key, value) in spec.as_object().unwrap() {
        claim["spec"][key] = value.clone();
    }
    let mut labels = json!({"karpenter.sh/nodepool": "p", "node.kubernetes.io/instance-type": "t"});
    if registered {
        labels["karpenter.sh/registered"] = json!("true");
    }
    let node = json!({
        "metadata": {"name": "n", "labels": labels, "annotations": annotations},
        "spec": {"providerID": "m"},
        "status": {"conditions": [condition("Ready", "True", 1)]},
    });
    let objects = Objects {
        nodes: vec![object(node)],
        node_claims: vec![object(claim)],
        ..Objects::default()
    };
    let snapshot = snapshot(&objects, &settings()).snapshot;
    snapshot.nodes[0].disruption_state.clone()
}

#[test]
fn nodeclaim_conditions_set_the_lifecycle_of_the_node() {
    let conditions = json!([
        condition("Drifted", "True", 5),
        condition("Consolidatable", "True", 6),
        condition("Rebooting", "False", 7),
        condition("InstanceTerminating", "False", 8),
    ]);
    let spec = json!({"terminationGracePeriod": "5m", "expireAfter": "720h"});
    let found = node_standing(true, json!({}), spec, conditions);
    assert_eq!((found.node_claim.as_str(), found.node_claim_uid.as_str()), ("c", "u"));
    assert!(found.is_registered && found.is_ready && found.is_consolidatable);
    assert!(!found.is_rebooting && !found.is_instance_terminating);
    let at = |text: &str| Some(text.parse::<Timestamp>().unwrap());
    assert_eq!(found.drifted_at, at("2025-06-01T00:05:00Z"));
    assert_eq!(found.rebooted_at, at("2025-06-01T00:07:00Z"));
    assert_eq!(found.termination_grace_period, Some(SignedDuration::from_mins(5)));
    assert_eq!(found.expire_after, Some(SignedDuration::from_hours(720)));
    assert_eq!(found.conditions[0].reason, "Because");
    let none = node_standing(true, json!({}), json!({"expireAfter": "Never"}), json!([]));
    assert_eq!((none.drifted_at, none.expire_after), (None, None));
    assert!(!none.is_consolidatable);
}

#[test]
fn nodeclaim_annotations_count_until_the_node_is_registered() {
    let own = json!({"karpenter.sh/do-not-disrupt": "true", "karpenter.sh/do-not-repair": "true",
        "karpenter-rs.dev/returned": "node"});
    let early = node_standing(false, own.clone(), json!({}), json!([]));
    assert_eq!((early.do_not_disrupt.as_deref(), early.do_not_repair), (Some("claim"), false));
    let late = node_standing(true, own, json!({}), json!([]));
    assert_eq!((late.do_not_disrupt.as_deref(), late.do_not_repair), (Some("true"), true));
    assert!(late.is_registered && !early.is_registered);
    let returned = [early.failed_consolidations, late.failed_consolidations].map(Option::unwrap);
    assert_eq!(returned, ["claim"; 2], "this one is the claim's for ever");
}

#[track_caller]
fn managed_pool(spec: Value) -> Option<ManagedPool> {
    let mut json = json!({"metadata": {"name": "p"}, "spec": {"template": {"spec": {
        "requirements": [], "nodeClassRef": class(),
    }}}});
    for (key, value) in spec.as_object().unwrap() {
        json["spec"][key] = value.clone();
    }
    let objects = Objects { node_pools: vec![object(json)], ..Objects::default() };
    snapshot(&objects, &settings()).snapshot.managed_pools.get("p").cloned()
}

#[test]
fn static_nodepools_are_known_to_disruption() {
    let fixed = managed_pool(json!({"replicas": 3, "limits": {"nodes": "5"}})).unwrap();
    assert_eq!((fixed.replicas, fixed.is_ready, fixed.is_deleting), (Some(3), true, false));
    let foreign = json!({"template": {"spec": {"requirements": [],
        "nodeClassRef": {"group": "other", "kind": "Other", "name": "x"}}}});
    assert_eq!(managed_pool(foreign), None);
}

#[test]
fn nodepool_budgets_are_kept_as_written() {
    let plain = managed_pool(json!({})).unwrap();
    assert_eq!(plain.policy, ConsolidationPolicy::WhenEmptyOrUnderutilized);
    assert_eq!(plain.budgets.len(), 1);
    assert_eq!(plain.budgets[0].nodes, "10%");
    let written = managed_pool(json!({"disruption": {
        "consolidationPolicy": "Balanced",
        "consolidateAfter": "Never",
        "budgets": [
            {"nodes": "nonsense", "schedule": "@daily", "duration": "1h"},
            {"nodes": "2", "reasons": ["Empty", "Unhealthy"]},
            {"nodes": "0", "reasons": []},
        ],
    }}))
    .unwrap();
    assert_eq!(written.policy, ConsolidationPolicy::Balanced);
    assert_eq!(written.pool.consolidate_after, None);
    let [odd, some, none] = &written.budgets[..] else { panic!("{:?}", written.budgets) };
    assert_eq!((odd.nodes.as_str(), odd.schedule.as_deref()), ("nonsense", Some("@daily")));
    assert_eq!(odd.duration.as_deref(), Some("1h0m0s"));
    assert_eq!(some.reasons, Some(vec![Reason::Empty, Reason::Unhealthy]));
    assert_eq!(none.reasons, Some(Vec::new()), "covers no reason at all");
}

#[test]
fn pod_disruption_budgets_have_their_allowed_disruptions() {
    let budget = object(json!({
        "metadata": {"name": "b", "namespace": "n"},
        "spec": {"selector": {}, "maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
        "status": {"disruptionsAllowed": 2, "currentHealthy": 0, "desiredHealthy": 0,
            "expectedPods": 0},
    }));
    let bare = object(json!({"metadata": {"name": "c", "namespace": "n"}, "spec": {}}));
    let objects = Objects { pod_disruption_budgets: vec![budget, bare], ..Objects::default() };
    let snapshot = snapshot(&objects, &settings()).snapshot;
    let [b, c] = &snapshot.disruption_budgets[..] else { panic!("two") };
    assert_eq!((b.name.as_str(), b.disruptions_allowed, b.blocks_all), ("b", 2, false));
    assert!(b.always_evicts_unhealthy);
    assert_eq!((c.disruptions_allowed, c.always_evicts_unhealthy), (0, false));
}

#[test]
fn pod_annotations_set_the_eviction_cost() {
    let cost = |annotations: Value, gate: bool| {
        let pod = object(json!({
            "metadata": {"name": "p", "namespace": "n", "annotations": annotations},
            "spec": {"containers": []},
            "status": {"conditions": [{"type": "Ready", "status": "False"}]},
        }));
        let mut settings = settings();
        settings.gates.pod_deletion_cost_management = gate;
        let objects = Objects { pods: vec![pod], ..Objects::default() };
        let snapshot = snapshot(&objects, &settings).snapshot;
        assert!(snapshot.pods[0].is_unready);
        snapshot.pods[0].eviction_cost
    };
    let deletion = json!({"controller.kubernetes.io/pod-deletion-cost": "134217728"});
    let both = json!({"karpenter.sh/disruption-cost": "-134217728",
        "controller.kubernetes.io/pod-deletion-cost": "134217728"});
    #[rustfmt::skip]
    let cases = [
        ("plain",           json!({}),        false, 1.0),
        ("45/EC-2 off",     deletion.clone(), false, 2.0),
        ("45/EC-2 on",      deletion,         true,  1.0),
        ("45/EC-1 off",     both.clone(),     false, 0.0),
        ("45/EC-1 on",      both,             true,  0.0),
    ];
    for (case, annotations, gate, expected) in cases {
        let found = cost(annotations, gate);
        assert!((found - expected).abs() < 1e-9, "{case}: {found}");
    }
}

#[test]
fn an_invalid_cost_annotation_is_reported() {
    let noted = |annotations: Value, gate: bool| {
        let pod = object(json!({
            "metadata": {"name": "p", "namespace": "n", "annotations": annotations},
            "spec": {"containers": []},
        }));
        let mut settings = settings();
        settings.gates.pod_deletion_cost_management = gate;
        diagnostics(&snapshot(&Objects { pods: vec![pod], ..Objects::default() }, &settings))
    };
    let (new, old) = ("karpenter.sh/disruption-cost", "controller.kubernetes.io/pod-deletion-cost");
    let note = |annotation: &str, value: &str| {
        vec![format!(
            "Pod n/p: annotation {annotation} is no 32-bit integer: {value:?}; it counts as 0"
        )]
    };
    assert_eq!(noted(json!({new: "abc", old: "100"}), false), note(new, "abc"), "45/EC-3");
    assert_eq!(noted(json!({old: "1.5"}), false), note(old, "1.5"), "45/EC-4");
    assert_eq!(noted(json!({old: "1.5"}), true), [""; 0], "it is not read then");
    assert_eq!(noted(json!({new: "-5", old: "1.5"}), false), [""; 0], "it does not count then");
}

#[test]
fn do_not_disrupt_durations_protect_pods_until_they_elapse() {
    let held = |minutes: i64| {
        let pod = |name: &str, time: &str| {
            object(json!({
                "metadata": {"name": name, "namespace": "n",
                    "annotations": {"karpenter.sh/do-not-disrupt": time}},
                "spec": {"containers": []},
                "status": {"phase": "Running", "startTime": "2025-06-01T00:00:00Z"},
            }))
        };
        let start: Timestamp = "2025-06-01T00:00:00Z".parse().unwrap();
        let now = start + SignedDuration::from_mins(minutes);
        let pods = vec![pod("short", "1m"), pod("long", "3m"), pod("odd", "invalid-format")];
        let objects = Objects { pods, ..Objects::default() };
        let found = snapshot(&objects, &Settings { now, ..settings() }).snapshot;
        found.pods.iter().map(|pod| pod.do_not_disrupt).collect::<Vec<_>>()
    };
    assert_eq!(held(0), [true, true, false], "30/CAND-18, 30/CAND-19");
    assert_eq!(held(2), [false, true, false], "30/CAND-18");
    assert_eq!(held(4), [false, false, false], "30/CAND-18");
}

#[test]
fn an_ineffective_do_not_disrupt_annotation_is_reported() {
    let annotation = |value: &str| json!({"karpenter.sh/do-not-disrupt": value});
    let of_pod = |value: &str, phase: &str| {
        let pod = object(json!({
            "metadata": {"name": "p", "namespace": "n", "annotations": annotation(value)},
            "spec": {"containers": []},
            "status": {"phase": phase},
        }));
        diagnostics(&snapshot(&Objects { pods: vec![pod], ..Objects::default() }, &settings()))
    };
    let text = |object: &str, value: &str, allowed: &str| {
        vec![format!(
            "{object}: annotation karpenter.sh/do-not-disrupt is {value:?}, which protects nothing; \
             write {allowed}"
        )]
    };
    let allowed = "\"true\" or a positive duration such as 1h30m";
    for value in ["yes", "True", "5", "-5m", "0s", ""] {
        assert_eq!(of_pod(value, "Running"), text("Pod n/p", value, allowed), "{value:?}");
    }
    for value in ["true", "5m", "1h30m", "false"] {
        assert_eq!(of_pod(value, "Running"), [""; 0], "{value:?}");
    }
    assert_eq!(of_pod("yes", "Succeeded"), [""; 0], "nothing is left to protect");

    let of_node = |value: &str, label: &str| {
        let meta = json!({"name": "n", "annotations": annotation(value), "labels": {
            "karpenter.sh/nodepool": "a", "node.kubernetes.io/instance-type": "t",
            label: "true",
        }});
        let node = object(json!({"metadata": meta, "spec": {"providerID": "m"}}));
        let class = json!({"group": "karpenter.test.sh", "kind": "TestNodeClass", "name": "c"});
        let claim = object(json!({
            "metadata": {"name": "c", "annotations": annotation("no")},
            "spec": {"nodeClassRef": class, "requirements": []},
            "status": {"providerID": "m"},
        }));
        let objects = Objects { nodes: vec![node], node_claims: vec![claim], ..Objects::default() };
        diagnostics(&snapshot(&objects, &settings()))
    };
    let allowed = "\"true\"; durations are for pods";
    let registered = "karpenter.sh/registered";
    assert_eq!(of_node("1h", registered), text("Node /n", "1h", allowed));
    assert_eq!(of_node("true", registered), [""; 0]);
    assert_eq!(of_node("false", registered), [""; 0]);
    assert_eq!(of_node("true", "a"), text("NodeClaim /c", "no", allowed), "the claim's counts");
}
