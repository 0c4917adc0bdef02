//! Tests of nominations, deletion marks, node reservations and the consolidation state.

use super::*;

/// Ten minutes, in seconds.
const TEN_MINUTES: i64 = 600;

#[test]
fn nominations_hold_for_two_batches() {
    let bench = Bench::new();
    bench.claim("c", "m");
    bench.nominate("m");
    bench.nominate("unknown");
    bench.advance(10);
    assert!(bench.mirror.is_nominated("m", bench.now()), "40/CS-14: after 10 s");
    bench.advance(11);
    assert!(!bench.mirror.is_nominated("m", bench.now()), "40/CS-14: after 21 s");
    assert!(!bench.mirror.is_nominated("unknown", bench.now()));
}

#[test]
fn nominations_survive_changes_of_both_objects() {
    let bench = Bench::new();
    bench.claim("c", "m");
    bench.nominate("m");
    bench.ready_node("n", "m");
    bench.claim("c", "m");
    assert!(bench.mirror.is_nominated("m", bench.now()));
}

#[test]
fn deletion_marks_expire() {
    let bench = Bench::new();
    bench.claim("c", "m");
    bench.mark("m", TEN_MINUTES);
    bench.mark("unknown", TEN_MINUTES);
    let is_going = || bench.snapshot().nodes[0].is_deleting;
    bench.claim("c", "m");
    assert!(
        is_going() && bench.tracked_node("m").is_marked_by_command,
        "also after a change of the claim"
    );
    bench.advance(599);
    assert!(is_going());
    bench.advance(1);
    assert!(!is_going() && !bench.tracked_node("m").is_marked_by_command);
    assert_eq!((bench.pool_total(), bench.counts()), (Some((8, 1)), (1, 0, 0)));
}

#[test]
fn a_nodeclaim_is_counted_in_exactly_one_state() {
    let bench = Bench::new();
    bench.claim("a", "m1");
    bench.claim("b", "m2");
    assert_eq!(bench.counts(), (2, 0, 0));
    bench.mark("m1", TEN_MINUTES);
    assert_eq!(bench.counts(), (1, 1, 0), "marked");
    bench.unmark("m1");
    assert_eq!(bench.counts(), (2, 0, 0), "unmarked");
    bench.mark("m1", TEN_MINUTES);
    bench.mirror.mark_pending_disruption("a");
    assert_eq!(bench.counts(), (1, 0, 1), "pending");
    bench.claim("a", "m1");
    assert_eq!(bench.counts(), (1, 0, 1), "a change of the claim is no end of it");
    bench.unmark("m1");
    assert_eq!(bench.counts(), (2, 0, 0), "40/CS-33");
    let deleted = json!({"deletionTimestamp": "2025-06-15T00:00:00Z"});
    bench.claim_with("a", "m1", deleted, json!({}), json!({}));
    bench.unmark("m1");
    assert_eq!(bench.counts(), (1, 1, 0), "unmarking brings nothing back that is deleted");
    bench.delete_claim("a");
    bench.delete_claim("b");
    assert_eq!(bench.counts(), (0, 0, 0));
}

#[test]
fn node_reservations_stay_within_the_limit() {
    let bench = Bench::new();
    let mirror = &bench.mirror;
    bench.claim("a", "m1");
    assert_eq!(mirror.reserve_nodes("pool", 3, 5), 2, "40/CS-32");
    assert_eq!(mirror.reserve_nodes("pool", 3, 5), 0, "40/CS-32: nothing left");
    mirror.release_nodes("pool", 1);
    assert_eq!(mirror.reserve_nodes("pool", 3, 5), 1, "40/CS-32: released");
    mirror.release_nodes("pool", 100);
    assert_eq!(mirror.reserve_nodes("pool", 3, 5), 2, "40/CS-32: never below nothing");
    assert_eq!(mirror.reserve_nodes("pool", 0, 5), 0, "over the limit already");
    mirror.release_nodes("unknown", 1);
    assert_eq!(mirror.reserve_nodes("unknown", 1, 1), 1, "45/ST-4");
}

#[test]
fn nodepool_reservations_are_kept_while_a_claim_is_pending_disruption() {
    let bench = Bench::new();
    bench.claim("a", "m1");
    bench.claim("b", "m2");
    bench.mirror.mark_pending_disruption("a");
    assert_eq!(bench.mirror.reserve_nodes("pool", 3, 1), 1);
    bench.delete_claim("b");
    assert_eq!(bench.counts(), (0, 0, 1), "40/Q12");
    assert_eq!(bench.mirror.reserve_nodes("pool", 3, 5), 1, "40/Q12: what is reserved is kept");
}

#[test]
fn the_consolidation_state_changes_with_the_cluster_or_after_five_minutes() {
    type Do = fn(&Bench);
    let pool = |generation: i64| -> Arc<karpenter_api::nodepool::NodePool> {
        object(json!({"metadata": {"name": "pool", "generation": generation},
            "spec": {"template": {"spec": {"requirements": [], "nodeClassRef":
                {"group": "karpenter.test.sh", "kind": "TestNodeClass", "name": "default"}}}}}))
    };
    #[rustfmt::skip]
    let cases: [(&str, Do, bool); 9] = [
        ("nothing",               |_| {},                                             false),
        ("40/CS-29",              |b| b.advance(300),                                    true),
        ("a new machine",         |b| b.claim("d", "m2"),                             true),
        ("a machine gone",        |b| b.delete_node("n"),                                 true),
        ("the same again",        |b| b.ready_node("n", "m"),                         false),
        ("a new binding",         |b| b.pod_on("q", "n", 1, "Running"),               true),
        ("a binding known",       |b| b.pod_on("p", "n", 1, "Running"),               false),
        ("a pod gone",            |b| b.delete_pod("p"),                                  true),
        ("a mark",                |b| b.mark("m", TEN_MINUTES),        true),
    ];
    for (case, change, expected) in cases {
        let bench = Bench::new();
        bench.mirror.set_node_pool("pool", Some(&pool(1)));
        bench.ready_node("n", "m");
        bench.pod_on("p", "n", 1, "Running");
        let before = bench.mirror.consolidation_state(bench.now());
        bench.advance(1);
        change(&bench);
        assert_eq!(bench.mirror.consolidation_state(bench.now()) != before, expected, "{case}");
    }
    let bench = Bench::new();
    bench.ready_node("n", "m");
    bench.claim("c", "m");
    for (has_rested, expected) in [(true, true), (true, false), (false, false)] {
        let before = bench.mirror.consolidation_state(bench.now());
        bench.advance(1);
        let status = if has_rested { "True" } else { "False" };
        let condition = json!({"type": "Consolidatable", "status": status, "reason": "",
            "message": "", "lastTransitionTime": bench.now().to_string()});
        bench.claim_with("c", "m", json!({}), json!({}), json!({"conditions": [condition]}));
        let has_changed = bench.mirror.consolidation_state(bench.now()) != before;
        assert_eq!(has_changed, expected, "consolidatable: {has_rested}");
    }
    let bench = Bench::new();
    bench.mirror.set_node_pool("pool", Some(&pool(1)));
    let before = bench.mirror.consolidation_state(bench.now());
    bench.advance(1);
    bench.mirror.set_node_pool("pool", Some(&pool(1)));
    assert_eq!(bench.mirror.consolidation_state(bench.now()), before, "40/CS-30: only its status");
    bench.mirror.set_node_pool("pool", Some(&pool(2)));
    assert_eq!(bench.mirror.consolidation_state(bench.now()), bench.now(), "40/CS-30");
}

#[test]
fn the_first_undisruptable_reason_is_reported() {
    let bench = Bench::new();
    let reason = || bench.tracked_node("m").undisruptable_reason(bench.now());
    let initialized = json!({"karpenter.sh/initialized": "true"});
    bench.node("n", initialized, json!({"providerID": "m"}), json!({}));
    assert_eq!(reason().unwrap(), "node isn't managed by karpenter");
    bench.delete_node("n");
    bench.claim("c", "m");
    assert_eq!(reason().unwrap(), "nodeclaim does not have an associated node");
    let mut labels =
        json!({"karpenter.sh/nodepool": "pool", "node.kubernetes.io/instance-type": "m"});
    bench.node("n", labels.clone(), json!({"providerID": "m"}), json!({}));
    assert_eq!(reason().unwrap(), "node isn't initialized nor registered");
    labels["karpenter.sh/registered"] = json!("true");
    bench.node("n", labels, json!({"providerID": "m"}), json!({}));
    assert_eq!(reason().unwrap(), "node isn't initialized");
    bench.ready_node("n", "m");
    assert_eq!(reason(), None);
    bench.nominate("m");
    assert_eq!(reason().unwrap(), "node is nominated for a pending pod");
    bench.mark("m", TEN_MINUTES);
    assert_eq!(reason().unwrap(), "node is deleting or marked for deletion");
}
