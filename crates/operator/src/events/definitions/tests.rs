//! Tests of the event definitions against the committed list.

use super::*;

fn object(kind: &str) -> ObjectReference {
    ObjectReference {
        kind: Some(kind.to_owned()),
        namespace: Some("namespace".to_owned()),
        name: Some("name".to_owned()),
        uid: Some("uid".to_owned()),
        ..ObjectReference::default()
    }
}

/// Returns the events of all constructors.
fn all_events() -> Vec<Event> {
    let [pod, node, claim, pool] = ["Pod", "Node", "NodeClaim", "NodePool"].map(object);
    let time: Timestamp = "2026-11-01T10:00:00Z".parse().unwrap();
    let score = BalancedScore {
        score: 1.5,
        threshold: 0.5,
        k: 2,
        savings_percent: 30.0,
        disruption_percent: 20.0,
    };
    let mut all = vec![
        insufficient_capacity(claim.clone(), "<error>"),
        insufficient_capacity_for_pod(pod.clone(), "claim", "<error>"),
        reboot_observed(claim.clone(), time),
        reboot_failed(claim.clone(), "<message>", time),
        node_class_not_ready(claim.clone(), "<error>"),
        unregistered_taint_missing(claim.clone()),
        failed_consistency_check(claim.clone(), "<issue>"),
        termination_grace_period_expiring(claim.clone(), "<time>"),
        termination_grace_period_expiring(node.clone(), "<time>"),
        failed_draining(node.clone(), "<error>"),
        awaiting_volume_detachment(node.clone(), &["a", "b", "c", "d", "e", "f", "g"]),
        evicted(pod.clone(), "<reason>"),
        disrupted(pod.clone(), time, 7, 30),
    ];
    all.extend(node_repair_blocked([node.clone(), claim.clone(), pool.clone()], "<message>"));
    all.extend([
        invalid_do_not_disrupt_annotation(pod.clone(), "<why>"),
        do_not_disrupt_until(pod.clone(), time),
        do_not_disrupt_grace_period_elapsed(pod.clone()),
        nominated(pod.clone(), Some("claim"), Some("node")),
        failed_scheduling(pod.clone(), "<error>"),
        no_compatible_instance_types(pool.clone(), false),
        no_compatible_instance_types(pool.clone(), true),
        disruption_launching(claim.clone(), "drifted"),
        disruption_waiting_readiness(claim.clone()),
    ]);
    all.extend(disruption_terminating(node.clone(), claim.clone(), "drifted"));
    all.extend(unconsolidatable(node.clone(), claim.clone(), "<message>"));
    all.extend(disruption_blocked(Some(node.clone()), Some(claim.clone()), "<message>"));
    all.push(nodepool_blocked(pool.clone()));
    all.push(nodepool_blocked_for_reason(pool.clone(), "Empty"));
    all.push(nodepool_budgets_invalid(pool.clone(), "<flaw>"));
    all.extend(consolidation_candidate(node.clone(), claim.clone(), "<cmd>", 1.2));
    all.extend(consolidation_rejected(node.clone(), claim.clone(), "<cmd>", "<r>", 1.2));
    all.extend(consolidation_approved([node, claim.clone(), pool], score));
    let transition = |message| {
        condition_transitioned(claim.clone(), "Launched", ("Unknown", "True"), "Why", message)
    };
    all.extend([transition("<message>"), transition("")]);
    all.push(finalized(claim.clone(), "karpenter.sh/termination"));
    all
}

#[test]
fn events_match_the_committed_list() {
    let line = |event: &Event| {
        let kind = event.object.kind.as_deref().unwrap_or_default();
        let limit = event.shared_limiter.map(|limit| format!("{limit:?}")).unwrap_or_default();
        format!(
            "{} | {} | {kind} | {} | {} | {}m | {limit}",
            event.reason,
            event.severity.name(),
            event.message,
            event.dedupe_values.join(", "),
            event.dedupe_timeout.as_secs() / 60,
        )
        .trim_end()
        .to_owned()
    };
    let written: Vec<_> = all_events().iter().map(line).collect();
    let list = include_str!("list.txt").lines().filter(|line| !line.starts_with('#'));
    let list: Vec<_> = list.map(str::trim_end).collect();
    for (written, wanted) in written.iter().zip(&list) {
        assert_eq!(written, wanted);
    }
    assert_eq!(written.len(), list.len());
}

#[test]
fn pod_events_are_deduplicated_by_namespace_and_name() {
    let other = ObjectReference { namespace: Some("other".to_owned()), ..object("Pod") };
    let dedupe_values = |pod: ObjectReference| {
        let deleted = disrupted(pod.clone(), Timestamp::UNIX_EPOCH, 1, 2);
        [evicted(pod, "Drifted"), deleted].map(|event| event.dedupe_values)
    };
    let (one, other) = (dedupe_values(object("Pod")), dedupe_values(other));
    assert_ne!(one[0], other[0], "40/OB-03, decided otherwise by 40/Q5");
    assert_ne!(one[1], other[1], "40/Q5");
}

#[test]
fn long_launch_errors_are_truncated() {
    let event = insufficient_capacity(object("NodeClaim"), &"\u{e4}".repeat(2000));
    assert!(event.message.ends_with("\u{e4}..."), "{}", event.message);
    assert!((1022..=1024).contains(&event.message.len()), "{}", event.message.len());
    let whole = insufficient_capacity(object("NodeClaim"), &"x".repeat(1024 - 22)).message;
    assert_eq!((whole.len(), whole.ends_with('x')), (1024, true));
}

#[test]
fn a_single_volume_attachment_is_named() {
    let event = awaiting_volume_detachment(object("Node"), &["a"]);
    assert_eq!(event.message, "Awaiting deletion of bound volumeattachments (a)");
}

#[test]
fn a_nomination_names_the_nodeclaim_and_the_node() {
    for (claim, node, wanted) in
        [(Some("a"), None, "nodeclaim/a"), (None, Some("b"), "node/b"), (None, None, "")]
    {
        let event = nominated(object("Pod"), claim, node);
        assert_eq!(event.message, format!("Pod should schedule on: {wanted}"));
    }
}
