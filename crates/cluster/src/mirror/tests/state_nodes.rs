//! Tests of joining Nodes and NodeClaims into StateNodes.

use karpenter_core::lifecycle::repair::NodeCondition;
use karpenter_core::lifecycle::repair::matching::resolve;
use karpenter_core::lifecycle::repair::policy::{Policies, RepairAction, RepairPolicy};

use super::*;

#[test]
fn a_state_node_falls_back_to_its_nodeclaim_without_a_node() {
    let bench = Bench::new();
    bench.claim("c", "m");
    bench.ready_node("n", "m");
    assert_eq!(bench.pool_total(), Some((4, 1)));
    bench.delete_node("n");
    let state_node = bench.tracked_node("m");
    assert!(state_node.node.is_none() && state_node.is_managed(), "40/CS-06");
    assert_eq!(bench.pool_total(), Some((8, 1)), "40/CS-06");
}

#[test]
fn deleting_a_node_and_nodeclaim_of_equal_name_leaves_nothing() {
    for (case, node_first) in [("40/CS-07 node first", true), ("40/CS-07 claim first", false)] {
        let bench = Bench::new();
        bench.claim("same", "m");
        bench.ready_node("same", "m");
        assert_eq!(bench.mirror.node_count(), 1, "{case}");
        if node_first {
            bench.delete_node("same");
            bench.delete_claim("same");
        } else {
            bench.delete_claim("same");
            bench.delete_node("same");
        }
        assert_eq!((bench.mirror.node_count(), bench.pool_total()), (0, None), "{case}");
        assert_eq!(bench.snapshot().nodes.len(), 0, "{case}");
        assert_eq!(bench.counts(), (0, 0, 0), "{case}");
    }
}

#[test]
fn a_node_that_gets_its_provider_id_stays_one_state_node() {
    let bench = Bench::new();
    bench.pod_on("p", "n", 500, "Running");
    bench.node("n", json!({}), json!({}), json!({}));
    assert_eq!(bench.mirror.provider_id_of("n").as_deref(), Some("n"));
    bench.node("n", json!({}), json!({"providerID": "id/n"}), json!({}));
    assert_eq!(bench.mirror.provider_id_of("n").as_deref(), Some("id/n"), "40/CS-08");
    assert_eq!(bench.mirror.node_count(), 1, "40/CS-08");
    assert_eq!(bench.cpu_on("n"), 500, "40/CS-08");
}

#[test]
fn nodes_of_nodepools_are_tracked_once_they_have_a_type_and_id() {
    let pool = json!({"karpenter.sh/nodepool": "pool"});
    let typed = json!({"karpenter.sh/nodepool": "pool", "node.kubernetes.io/instance-type": "m"});
    let initialized = json!({"karpenter.sh/nodepool": "pool", "karpenter.sh/initialized": "true"});
    #[rustfmt::skip]
    let cases = [
        ("40/CS-09",             &typed,       "",  0),
        ("40/CS-10",             &pool,        "m", 0),
        ("40/CS-10 label",       &typed,       "m", 1),
        ("40/CS-10 initialized", &initialized, "m", 1),
    ];
    let bench = Bench::new();
    for (case, labels, state_node, expected) in cases {
        bench.node("n", labels.clone(), json!({"providerID": state_node}), json!({}));
        assert_eq!(bench.mirror.node_count(), expected, "{case}");
    }
}

#[test]
fn a_changed_nodeclaim_keeps_the_usage_of_its_pods() {
    let bench = Bench::new();
    bench.claim("c", "m");
    bench.ready_node("n", "m");
    let ports = json!([{"containerPort": 80, "hostPort": 80}]);
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    let spec = json!({"nodeName": "n", "volumes": volumes, "containers": [
        {"name": "c", "ports": ports, "resources": {"requests": {"cpu": "1"}}}]});
    let annotations = json!({"karpenter.sh/disruption-cost": (1_i64 << 26).to_string()});
    bench.pod("p", json!({"annotations": annotations}), spec, json!({"phase": "Running"}));
    let before = bench.tracked_node("m").usage;
    bench.claim_with("c", "m", json!({"annotations": {"a": "b"}}), json!({}), json!({}));
    let snapshot = bench.snapshot();
    let pod = &snapshot.pods[0];
    assert_eq!(pod.node.map(|id| snapshot.node(id).provider_id.as_str()), Some("m"), "40/CS-11");
    assert_eq!((pod.spec.host_ports.len(), pod.volume_claims.len()), (1, 1), "40/CS-11");
    assert_eq!(bench.tracked_node("m").usage, before, "40/CS-11");
    assert!((before.disruption_cost - 2.5).abs() < 1e-9, "40/Q8: 1 and one pod of 1.5");
}

#[test]
fn volume_limits_come_with_the_csi_node() {
    let bench = Bench::new();
    let drivers = json!([{"name": "ebs", "nodeID": "n", "allocatable": {"count": 3}},
        {"name": "nfs", "nodeID": "n"}]);
    let csi: Arc<k8s_openapi::api::storage::v1::CSINode> =
        object(json!({"metadata": {"name": "n"}, "spec": {"drivers": drivers}}));
    let expected = [("ebs".to_owned(), Some(3)), ("nfs".to_owned(), None)].into();
    bench.mirror.set_csi_node("n", Some(&csi));
    bench.plain_node("n");
    assert_eq!(bench.tracked_node("id/n").state_node.published_volume_limits, expected, "40/CS-12");
    for _ in 0..2 {
        bench.pod_on("p", "n", 500, "Running");
    }
    assert_eq!(bench.snapshot().pods.len(), 1, "40/CS-12: it is one pod still");
    bench.mirror.set_csi_node("n", None);
    assert_eq!(bench.tracked_node("id/n").state_node.published_volume_limits, [].into());
}

#[test]
fn a_state_node_is_deleting_with_its_nodeclaim_not_with_its_node() {
    let deleted = json!({"deletionTimestamp": "2025-06-15T00:00:00Z"});
    let terminating = json!({"conditions": [{"type": "InstanceTerminating", "status": "True",
        "reason": "", "message": "", "lastTransitionTime": "2025-06-15T00:00:00Z"}]});
    #[rustfmt::skip]
    let cases = [
        ("40/CS-13 claim",       Some((deleted.clone(), json!({}))), false, true),
        ("40/CS-13 terminating", Some((json!({}), terminating)),     false, true),
        ("40/CS-13 node alone",  Some((json!({}), json!({}))),       true,  false),
        ("40/CS-13 no claim",    None,                               true,  true),
    ];
    for (case, claim, is_node_deleted, expected) in cases {
        let bench = Bench::new();
        if let Some((meta, status)) = claim {
            bench.claim_with("c", "m", meta, json!({}), status);
        }
        let mut node = json!({"metadata": {"name": "n", "labels": ready_labels()}, "spec": {"providerID": "m"}});
        if is_node_deleted {
            node["metadata"]["deletionTimestamp"] = deleted["deletionTimestamp"].clone();
        }
        bench.mirror.set_node("n", Some(object(node)));
        assert_eq!(bench.tracked_node("m").is_marked_for_deletion(), expected, "{case}");
    }
}

fn taints(bench: &Bench) -> Vec<String> {
    bench.tracked_node("m").state_node.taints.iter().map(|taint| taint.key.clone()).collect()
}

#[test]
fn ephemeral_and_startup_taints_count_only_once_initialized() {
    let node_taints = json!([
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        {"key": "readiness.k8s.io/net", "effect": "NoSchedule"},
        {"key": "startup", "effect": "NoSchedule"},
        {"key": "custom", "effect": "NoSchedule"},
    ]);
    let all = ["node.kubernetes.io/not-ready", "readiness.k8s.io/net", "startup", "custom"];
    let registered = json!({"karpenter.sh/nodepool": "pool", "node.kubernetes.io/instance-type": "m",
        "karpenter.sh/registered": "true"});
    #[rustfmt::skip]
    let cases: [(&str, bool, &Value, &[&str]); 3] = [
        ("40/CS-24 starting",    true,  &registered, &["custom"]),
        ("40/CS-24 initialized", true,  &ready_labels(),    &all),
        ("40/CS-25",             false, &registered, &all),
    ];
    for (case, is_managed, labels, expected) in cases {
        let bench = Bench::new();
        if is_managed {
            let startup = json!({"startupTaints": [{"key": "startup", "effect": "NoSchedule"}]});
            bench.claim_with("c", "m", json!({}), startup, json!({}));
        }
        let spec = json!({"providerID": "m", "taints": node_taints});
        bench.node("n", labels.clone(), spec, json!({}));
        assert_eq!(taints(&bench), expected, "{case}");
    }
}

#[test]
fn the_rebooting_taint_counts_only_after_the_reboot() {
    let fence = json!([{"key": "karpenter.sh/rebooting", "effect": "NoSchedule"},
        {"key": "custom", "effect": "NoSchedule"}]);
    let cases: [(&str, &str, &[&str]); 2] = [
        ("45/ST-3 rebooting", "True", &["custom"]),
        ("45/ST-3 finished", "False", &["karpenter.sh/rebooting", "custom"]),
    ];
    for (case, rebooting, expected) in cases {
        let bench = Bench::new();
        let status = json!({"conditions": [{"type": "Rebooting", "status": rebooting, "reason": "",
            "message": "", "lastTransitionTime": "2025-06-15T00:00:00Z"}]});
        bench.claim_with("c", "m", json!({}), json!({}), status);
        bench.node("n", ready_labels(), json!({"providerID": "m", "taints": fence}), json!({}));
        assert_eq!(taints(&bench), expected, "{case}");
        assert_eq!(bench.tracked_node("m").is_rebooting(), rebooting == "True", "{case}");
    }
}

/// Returns a policy that replaces a node ten minutes after the condition.
fn replace_policy(condition_type: &str, reason_regex: &str) -> RepairPolicy {
    RepairPolicy {
        condition_type: condition_type.to_owned(),
        condition_status: "True".to_owned(),
        reason_regex: reason_regex.to_owned(),
        toleration_duration: Duration::from_mins(10),
        termination_grace_period: None,
        priority: 0,
        action: RepairAction::ReplaceNode,
    }
}

#[test]
fn repair_depends_only_on_the_node_conditions() {
    let policies = Policies::new(vec![replace_policy("Bad", "")]);
    let policies = policies.expect("a set that makes sense");
    let bench = Bench::new();
    // How many conditions match, and whether something is due.
    let repair = || {
        let state_node = bench.tracked_node("m");
        let standing = &state_node.state_node.disruption_state;
        let conditions: Vec<_> = standing.conditions.iter().map(NodeCondition::from).collect();
        let matches = policies.matches(&conditions, Timestamp::UNIX_EPOCH);
        (matches.len(), resolve(&matches, bench.now(), standing.rebooted_at).is_some())
    };
    let since = bench.now().to_string();
    let node = |status: &str| {
        let condition = json!({"type": "Bad", "status": status, "lastTransitionTime": since,
            "lastHeartbeatTime": bench.now().to_string()});
        let status = json!({"conditions": [condition]});
        bench.node("n", ready_labels(), json!({"providerID": "m"}), status);
    };
    bench.claim("c", "m");
    assert_eq!(repair(), (0, false), "no node");
    node("False");
    assert_eq!(repair(), (0, false), "a good one");
    node("True");
    assert_eq!(repair(), (1, false), "45/ST-1 set, and put up with");
    bench.advance(600);
    assert_eq!(repair(), (1, true), "45/ST-1 set");
    bench.claim_with("c", "m", json!({"annotations": {"a": "b"}}), json!({}), json!({}));
    node("True");
    assert_eq!(repair(), (1, true), "45/ST-1 kept: a claim and a heartbeat");
    node("False");
    assert_eq!(repair(), (0, false), "45/ST-1 cleared");
    node("True");
    bench.delete_node("n");
    assert_eq!(repair(), (0, false), "45/ST-2");
}

#[test]
fn repair_policy_matches_depend_only_on_type_status_and_reason() {
    let policies = Policies::new(vec![replace_policy("Bad", ""), replace_policy("Worse", ".*")]);
    let policies = policies.expect("a set that makes sense");
    let time = |minute: u8| format!("2025-06-15T00:{minute:02}:00Z");
    let bench = Bench::new();
    bench.claim("c", "m");
    let matches = |metadata: &Value, conditions: &[&Value]| {
        let node = json!({"metadata": metadata, "spec": {"providerID": "m"},
            "status": {"conditions": conditions}});
        bench.mirror.set_node("n", Some(object(node)));
        let state_node = bench.tracked_node("m");
        let standing = &state_node.state_node.disruption_state;
        let conditions: Vec<_> = standing.conditions.iter().map(NodeCondition::from).collect();
        policies.matches(&conditions, standing.node_created_at.expect("it has a time"))
    };
    let with = |object: &Value, field: &str, value: Value| {
        let mut changed = object.clone();
        changed[field] = value;
        changed
    };
    let meta = json!({"name": "n", "labels": ready_labels(), "creationTimestamp": time(0)});
    let bad = json!({"type": "Bad", "status": "True", "reason": "R", "message": "m",
        "lastHeartbeatTime": time(10), "lastTransitionTime": time(10)});
    let first = matches(&meta, &[&bad]);
    assert_eq!(first.len(), 1);
    let labels = with(&meta, "labels", with(&ready_labels(), "team", json!("a")));
    let worse = with(&bad, "type", json!("Worse"));
    #[rustfmt::skip]
    let cases = [
        // what changes   metadata                                       conditions                                             kept
        ("heartbeat",     &meta,                                         vec![with(&bad, "lastHeartbeatTime", json!(time(20)))],  true),
        ("message",       &meta,                                         vec![with(&bad, "message", json!("other"))],             true),
        ("label",         &labels,                                       vec![bad.clone()],                                       true),
        ("type",          &meta,                                         vec![worse.clone()],                                     false),
        ("status",        &meta,                                         vec![with(&bad, "status", json!("False"))],              false),
        ("reason",        &meta,                                         vec![with(&bad, "reason", json!("S"))],                  false),
        ("transition",    &meta,                                         vec![with(&bad, "lastTransitionTime", json!(time(20)))], false),
        ("added",         &meta,                                         vec![bad.clone(), worse],                                false),
        ("creation",      &with(&meta, "creationTimestamp", json!(time(30))), vec![bad.clone()],                                  false),
    ];
    for (case, metadata, conditions, is_kept) in cases {
        let changed = matches(metadata, &conditions.iter().collect::<Vec<_>>());
        assert_eq!(changed == first, is_kept, "45/RP-11: {case}");
        assert_eq!(matches(&meta, &[&bad]), first, "45/RP-11: {case}, and back");
    }
}

#[test]
fn capacity_includes_the_node_as_a_resource() {
    let starting = json!({"karpenter.sh/nodepool": "pool", "node.kubernetes.io/instance-type": "m",
        "karpenter.sh/registered": "true"});
    #[rustfmt::skip]
    let cases = [
        // case                     labels            cpu
        ("40/CS-28 initialized",    Some(ready_labels()),    4),
        ("40/CS-28 claim only",     None,             8),
        ("40/CS-28 uninitialized",  Some(starting),   4),
    ];
    for (case, labels, cpu) in cases {
        let bench = Bench::new();
        bench.claim_with(
            "c",
            "m",
            json!({}),
            json!({}),
            json!({"capacity": {"cpu": "8", "gpu": "1"}}),
        );
        let is_starting = labels.as_ref().is_none_or(|l| l["karpenter.sh/initialized"].is_null());
        if let Some(labels) = labels {
            let status = json!({"capacity": {"cpu": "4", "gpu": "0"}});
            bench.node("n", labels, json!({"providerID": "m"}), status);
        }
        let capacity = bench.tracked_node("m").capacity();
        let units = |name: &str| capacity.amount(name).units();
        assert_eq!((units("cpu"), units("nodes")), (cpu, 1), "{case}");
        assert_eq!(units("gpu"), i128::from(is_starting), "{case}: zero is filled from the claim");
    }
}

#[test]
fn nodepool_totals_follow_every_change() {
    let bench = Bench::new();
    let id = "40/CS-26";
    bench.claim("a", "m1");
    bench.claim("b", "m2");
    assert_eq!(bench.pool_total(), Some((16, 2)), "{id}: added");
    bench.ready_node("n", "m1");
    assert_eq!(bench.pool_total(), Some((12, 2)), "{id}: the node says what it has");
    let mut labels = ready_labels();
    labels["karpenter.sh/nodepool"] = json!("other");
    bench.node("n", labels, json!({"providerID": "m1"}), json!({"capacity": {"cpu": "4"}}));
    assert_eq!(bench.pool_total(), Some((8, 1)), "{id}: other pool");
    assert!(bench.mirror.pool_usages().contains_key("other"), "{id}: other pool");
    bench.ready_node("n", "m1");
    assert_eq!(bench.pool_total(), Some((12, 2)), "{id}: back again");
    bench.claim("b", "m3");
    assert_eq!(bench.pool_total(), Some((12, 2)), "{id}: other machine");
    bench.delete_node("n");
    assert_eq!(bench.pool_total(), Some((16, 2)), "{id}: node gone");
    bench.mark("m1", 600);
    assert_eq!(bench.pool_total(), Some((8, 1)), "{id}: marked");
    bench.unmark("m1");
    assert_eq!(bench.pool_total(), Some((16, 2)), "{id}: unmarked");
    bench.mark("m1", 600);
    let deleted = json!({"deletionTimestamp": "2025-06-15T00:00:00Z"});
    bench.claim_with("a", "m1", deleted, json!({}), json!({}));
    assert_eq!(bench.pool_total(), Some((8, 1)), "{id}: marked, then deleted");
    bench.delete_claim("a");
    assert_eq!(bench.pool_total(), Some((8, 1)), "{id}: gone");
    bench.delete_claim("b");
    assert_eq!(bench.pool_total(), None, "40/CS-27");
}

#[test]
fn a_duplicate_nodeclaim_takes_over_when_the_first_is_deleted() {
    let bench = Bench::new();
    bench.claim("a", "m");
    bench.claim("b", "m");
    assert_eq!(bench.tracked_node("m").node_claim.unwrap().metadata.name.as_deref(), Some("a"));
    assert_eq!(bench.pool_total(), Some((8, 1)), "one machine");
    bench.delete_claim("a");
    assert_eq!(bench.tracked_node("m").node_claim.unwrap().metadata.name.as_deref(), Some("b"));
    assert_eq!(bench.pool_total(), Some((8, 1)), "one machine");
}

#[test]
fn nodeclaims_of_other_node_classes_are_not_tracked() {
    let bench = Bench::new();
    let class = json!({"nodeClassRef": {"group": "other", "kind": "Class", "name": "x"}});
    bench.claim_with("c", "", json!({}), class, json!({}));
    assert!(!bench.mirror.has_node_claim("c"));
    assert_eq!(bench.counts(), (0, 0, 0));
}

#[test]
fn a_heartbeat_does_not_change_the_snapshot() {
    let bench = Bench::new();
    bench.ready_node("n", "m");
    let (before, generation) = (bench.snapshot(), bench.mirror.generation());
    bench.ready_node("n", "m");
    assert_eq!(bench.mirror.generation(), generation);
    assert!(Arc::ptr_eq(&before, &bench.snapshot()));
}

#[test]
fn a_pod_change_copies_only_that_pod() {
    let bench = Bench::new();
    bench.plain_node("one");
    bench.plain_node("two");
    bench.pod_on("p", "one", 100, "Running");
    bench.pod_on("q", "two", 100, "Running");
    let before = bench.snapshot();
    bench.pod_on("q", "two", 200, "Running");
    let after = bench.snapshot();
    assert!(after.pods[0].ptr_eq(&before.pods[0]) && !after.pods[1].ptr_eq(&before.pods[1]));
    assert!(after.nodes.iter().zip(&before.nodes).all(|(a, b)| a.ptr_eq(b)));
    assert!(after.namespaces.ptr_eq(&before.namespaces));
    assert!(after.volumes.ptr_eq(&before.volumes));
}
