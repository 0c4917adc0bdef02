//! Tests of the mirror's sync state.

use std::collections::BTreeSet;

use super::*;

fn set_listed(bench: &Bench, claims: &[&str], nodes: &[&str]) {
    let own = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let (node_claims, nodes) = (own(claims), own(nodes));
    bench.mirror.set_list_source(move || ListedObjects {
        unlisted_kinds: Vec::new(),
        node_claims: node_claims.clone(),
        nodes: nodes.clone(),
    });
}

fn problems(bench: &Bench) -> Vec<String> {
    bench.mirror.sync(bench.now()).problems.iter().map(ToString::to_string).collect()
}

#[test]
fn a_thousand_listed_nodes_are_synced() {
    let bench = Bench::new();
    let names: Vec<_> = (0..1000).map(|number| format!("n{number}")).collect();
    for name in &names {
        bench.plain_node(name);
    }
    set_listed(&bench, &[], &names.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(bench.is_synced(), "40/CS-16");
    assert_eq!(bench.mirror.node_count(), 1000, "40/CS-16");
}

#[test]
fn nodes_without_provider_id_are_synced() {
    let bench = Bench::new();
    bench.node("n", json!({}), json!({}), json!({}));
    set_listed(&bench, &[], &["n"]);
    assert!(bench.is_synced(), "40/CS-17");
}

#[test]
fn an_unlaunched_nodeclaim_blocks_sync() {
    let bench = Bench::new();
    set_listed(&bench, &[], &[]);
    assert!(bench.is_synced());
    bench.claim("c", "");
    assert_eq!(problems(&bench), ["nodeclaim/c is not launched yet"], "40/CS-18");
    for waited in [0, 20, 31] {
        let state = bench.mirror.sync(bench.now());
        assert_eq!(state.unsynced_for(), SignedDuration::from_secs(waited), "40/CS-18");
        assert_eq!(state.is_overdue(), waited > 30, "40/CS-18");
        bench.advance(if waited == 0 { 20 } else { 11 });
    }
    assert_eq!(problems(&bench).len(), 1, "40/CS-21");
    bench.claim("c", "m");
    assert!(bench.is_synced(), "40/CS-21: launched");
    assert_eq!(bench.mirror.sync(bench.now()).unsynced_for(), SignedDuration::ZERO);
    bench.claim("d", "");
    assert!(!bench.is_synced(), "40/CS-21: added");
    bench.delete_claim("d");
    assert!(bench.is_synced(), "40/CS-21: deleted");
    bench.claim_with("by-hand", "", json!({"labels": {}}), json!({}), json!({}));
    assert!(bench.is_synced(), "nobody counts on one without a pool");
}

#[test]
fn listed_nodes_and_nodeclaims_must_be_known_for_the_first_sync() {
    let bench = Bench::new();
    assert_eq!(problems(&bench), ["nobody feeds the mirror"]);
    set_listed(&bench, &["c"], &[]);
    assert_eq!(problems(&bench), ["nodeclaim/c has not been seen"], "40/CS-19");
    bench.claim("c", "m");
    set_listed(&bench, &["c"], &["n"]);
    assert_eq!(problems(&bench), ["node/n has not been seen"], "40/CS-19");
    assert!(!bench.mirror.has_synced());
    bench.ready_node("n", "m");
    assert!(bench.is_synced());
    set_listed(&bench, &["c"], &["n", "new"]);
    assert!(bench.is_synced() && bench.mirror.has_synced(), "40/CS-20");
}

#[test]
fn unlisted_kinds_are_reported_as_sync_problems() {
    let bench = Bench::new();
    bench.mirror.set_list_source(|| ListedObjects {
        unlisted_kinds: vec![("pods", None), ("nodepools", Some("no such kind".to_owned()))],
        ..ListedObjects::default()
    });
    let expected = ["pods are not listed yet", "listing nodepools: no such kind"];
    assert_eq!(problems(&bench), expected);
    bench.advance(100_000);
    assert_eq!(problems(&bench), expected, "a partial view is never good enough");
}

#[test]
fn sync_stops_waiting_for_stuck_objects_after_ten_minutes() {
    let bench = Bench::new();
    let labels = json!({"karpenter.sh/nodepool": "pool"});
    bench.node("odd", labels, json!({}), json!({}));
    bench.claim("stuck", "");
    set_listed(&bench, &["stuck"], &["odd"]);
    let expected = [
        "node/odd belongs to a NodePool and has no providerID yet",
        "nodeclaim/stuck is not launched yet",
    ];
    assert_eq!(problems(&bench), expected);
    bench.advance(600);
    assert_eq!(problems(&bench), expected);
    bench.claim("stuck", "");
    bench.advance(1);
    let state = bench.mirror.sync(bench.now());
    assert!(state.is_synced(), "it goes on");
    let given_up: Vec<_> = state.timed_out.iter().map(ToString::to_string).collect();
    assert_eq!(given_up, expected, "and says without what");
}

#[test]
fn stale_nodeclaims_are_neither_listed_nor_launched() {
    let bench = Bench::new();
    bench.claim("ghost", "");
    bench.claim("waiting", "");
    bench.claim("launched", "m");
    let known: BTreeSet<_> = ["waiting".to_owned()].into();
    assert_eq!(bench.mirror.stale_node_claims(&known), ["ghost"], "40/CS-22, 40/CS-23");
}

/// Concurrent setters and readers end in the correct state.
#[test]
fn concurrent_updates_and_reads_keep_the_mirror_consistent() {
    let bench = Bench::new();
    set_listed(&bench, &[], &[]);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let bench = &bench;
            scope.spawn(move || {
                for round in 0..50 {
                    let name = format!("{thread}-{}", round % 5);
                    bench.plain_node(&name);
                    bench.pod_on(&name, &name, 100, "Running");
                    bench.is_synced();
                    bench.snapshot();
                    bench.mark(&format!("id/{name}"), 1);
                    if round % 3 == 0 && round < 45 {
                        bench.delete_node(&name);
                    }
                }
            });
        }
    });
    let snapshot = bench.snapshot();
    assert_eq!((snapshot.nodes.len(), snapshot.pods.len()), (20, 20), "40/CS-39");
    for pod in &snapshot.pods {
        let node = snapshot.node(pod.node.expect("is bound"));
        assert_eq!(node.name, pod.name, "40/CS-39");
    }
    assert!(!bench.mirror.is_poisoned(), "40/CS-39");
}
