//! Tests of the consolidation tracker: failed consolidations and excluded pods.

use karpenter_core::id::{PodId, PoolId};
use karpenter_core::testing::{PodBuilder, World, node, pod};

use super::*;

const WEB: &str = "default/ReplicaSet/web";

fn minute(minutes: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
}

fn web(name: &str, created: Timestamp) -> Vec<karpenter_core::pod::Pod> {
    let mut pods = pod(name).controller("apps", "ReplicaSet", "web").build();
    pods[0].created = created;
    pods
}

fn snapshot(pods: impl IntoIterator<Item = Vec<karpenter_core::pod::Pod>>) -> Snapshot {
    let pods = pods.into_iter().flatten().map(Into::into).collect();
    Snapshot { pods, ..World::empty().snapshot }
}

/// A NodeClaim for the first pod.
fn claim(price: f64) -> PlannedNodeClaim {
    PlannedNodeClaim {
        pool: PoolId::new(0),
        pods: vec![PodId::new(0)],
        instance_types: [].into(),
        requirements: std::sync::Arc::default(),
        requests: karpenter_core::resources::Resources::default(),
        reservations: Vec::new(),
        min_values_relaxed: false,
        lowest_price: Some(price),
        dynamic_drivers: Vec::new(),
    }
}

/// Returns a tracker of one command per savings, each at minute 10 with one `web` pod.
fn tracker(saved: &[f64]) -> ConsolidationTracker {
    let of = |saved: f64| RecentConsolidation {
        deleted_at: minute(10),
        node_claims: vec!["source".to_owned()],
        remaining_savings: saved,
        workloads: [(WEB.to_owned(), MovedWorkload { pod_count: 1, previous_failures: 4 })].into(),
    };
    let all = saved.iter().enumerate().map(|(id, saved)| (id.to_string(), of(*saved)));
    ConsolidationTracker {
        recent_consolidations: Mutex::new(all.collect()),
        ..ConsolidationTracker::default()
    }
}

fn failure_count(text: Option<String>) -> Option<String> {
    let text = text?;
    let (count, _) = text.strip_prefix(WEB)?.strip_prefix('=')?.split_once(",pods=")?;
    Some(count.to_owned())
}

#[test]
fn new_claims_name_the_workloads_of_failed_consolidations() {
    let back = || snapshot([web("web", minute(11))]);
    let old = || snapshot([web("web", minute(0)), web("other", minute(0))]);
    let grown = || snapshot([web("web", minute(11)), web("new", minute(11))]);
    let stranger = |pod: PodBuilder| snapshot([pod.build()]);
    let other = pod("web").controller("apps", "ReplicaSet", "other");
    #[rustfmt::skip]
    let cases = [
        ("came back",              back(),              11, false, true),
        ("is evicted later",       old(),               11, false, true),
        ("too late",               back(),              12, false, false),
        ("still drains",           back(),              60, true,  true),
        ("has grown",              grown(),             11, false, false),
        ("other workload",         stranger(other),     11, false, false),
        ("nobody's",               stranger(pod("p")),  11, false, false),
    ];
    for (case, snapshot, now, is_draining, expected) in cases {
        let tracker = tracker(&[1.0]);
        let text =
            tracker.failed_consolidation_annotation(&snapshot, &claim(1.0), minute(now), |_| {
                is_draining
            });
        assert_eq!(failure_count(text).as_deref(), expected.then_some("5"), "{case}");
        let is_kept = now < 12 || is_draining;
        assert_eq!(tracker.recent_consolidations().is_empty(), !is_kept, "{case}");
    }
}

#[test]
fn a_claim_cheaper_than_the_savings_is_no_failed_consolidation() {
    #[rustfmt::skip]
    let cases: [(&str, &[f64], &[f64], bool); 6] = [
        ("as much",           &[0.3],      &[0.1 + 0.2],   true),
        ("less",              &[0.3],      &[0.2],         false),
        ("together as much",  &[0.3],      &[0.2, 0.1],    true),
        ("of two commands",   &[0.3, 0.3], &[0.4],         false),
        ("of both",           &[0.3, 0.3], &[0.4, 0.2],    true),
        ("no price is known", &[0.0],      &[0.0],         true),
    ];
    for (case, saved, prices, expected) in cases {
        let (tracker, snapshot) = (tracker(saved), snapshot([web("web", minute(11))]));
        let annotations = prices.iter().map(|&price| {
            tracker.failed_consolidation_annotation(&snapshot, &claim(price), minute(11), |_| false)
        });
        let annotations: Vec<_> = annotations.map(|text| text.is_some()).collect();
        assert_eq!(annotations.last(), Some(&expected), "{case}: {annotations:?}");
        assert!(!annotations[..annotations.len() - 1].contains(&true), "{case}: {annotations:?}");
    }
}

#[test]
fn pods_of_nodes_under_consolidation_are_not_provisioned_for() {
    let world = World::empty().node(node("a")).node(node("b"));
    let world = world.pod(pod("of-a").on_node("a")).pod(pod("of-b").on_node("b")).pod(pod("waits"));
    let (tracker, snapshot) = (ConsolidationTracker::default(), &world.snapshot);
    let left = |is_there: bool| {
        let mut pods: Vec<_> = (0..snapshot.pods.len()).map(PodId::new).collect();
        tracker.exclude_moving_pods(snapshot, &mut pods, |_| is_there);
        pods.into_iter().map(|pod| snapshot.pod(pod).name.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(left(true), "of-a of-b waits");
    tracker.track_claims(["claim-a", "claim-b"]);
    assert_eq!(left(true), "waits");
    assert!(tracker.is_removing_several_nodes(|_| true));
    tracker.untrack_claims(["claim-a"]);
    assert!(!tracker.is_removing_several_nodes(|_| true));
    assert_eq!(left(true), "of-a waits", "the node stays");
    assert_eq!(left(false), "of-a of-b waits", "the NodeClaim is gone");
    assert_eq!(left(true), "of-a of-b waits", "nothing is left behind");
}
