//! Tests of the pod gauges: startup, binding and pending times.

use serde_json::{Value, json};

use super::*;
use crate::testing::Bench;
use crate::testing::fixtures::{merged, pod};

const GAUGES: [&str; 5] = [
    "karpenter_pods_unstarted_time_seconds",
    "karpenter_pods_unbound_time_seconds",
    "karpenter_pods_provisioning_unstarted_time_seconds",
    "karpenter_pods_provisioning_unbound_time_seconds",
    "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
];

fn series(bench: &Bench) -> [usize; 5] {
    GAUGES.map(|name| bench.context.metrics.registry().series_count(name))
}

fn status(phase: &str, conditions: &[&str]) -> Value {
    let condition = |type_: &&str| {
        let since = "2100-01-01T00:00:00Z";
        json!({"type": type_, "status": "True", "lastTransitionTime": since})
    };
    let conditions: Vec<_> = conditions.iter().map(condition).collect();
    json!({"status": {"phase": phase, "conditions": conditions}})
}

async fn reconcile(bench: &Bench, controller: &Controller) -> Outcome {
    let outcome = controller.reconcile(&ObjectKey::new("default", "a")).await.unwrap();
    bench.settle().await;
    outcome
}

/// Records in the mirror that the provisioner placed the pod.
fn place_pod(bench: &Bench) {
    let now = bench.context.clock.now();
    bench.context.mirror.acknowledge_pod("default", "a", now);
    bench.context.mirror.record_placement("default", "a", "general", now);
}

fn observed_counts(bench: &Bench) -> [String; 4] {
    let registry = bench.context.metrics.registry();
    let value = |name: &str, labels: &[(&str, &str)]| {
        format!("{}", registry.value(name, labels).unwrap_or(0.0))
    };
    let dynamic = [("dynamic_resources", "true")];
    [
        value("karpenter_pods_startup_duration_seconds", &[]),
        value("karpenter_pods_provisioning_startup_duration_seconds", &[]),
        value("karpenter_pods_bound_duration_seconds", &dynamic),
        value("karpenter_pods_provisioning_bound_duration_seconds", &dynamic),
    ]
}

/// A pod with a device.
fn with_device() -> Value {
    json!({"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}})
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_starts_is_measured_once() {
    let bench = Bench::new().await;
    let controller = controller(&bench.context);
    bench.create(pod("a", None, &merged(with_device(), &status("Pending", &[])))).await;
    assert_eq!(reconcile(&bench, &controller).await, Outcome::RequeueAfter(REQUEUE_INTERVAL));
    assert_eq!(series(&bench), [1, 1, 0, 0, 0]);
    bench.context.mirror.acknowledge_pod("default", "a", bench.context.clock.now());
    reconcile(&bench, &controller).await;
    assert_eq!(series(&bench), [1, 1, 0, 0, 1]);
    place_pod(&bench);
    reconcile(&bench, &controller).await;
    assert_eq!(series(&bench), [1, 1, 1, 1, 0]);
    let dynamic = [("dynamic_resources", "true"), ("name", "a"), ("namespace", "default")];
    let registry = bench.context.metrics.registry();
    for gauge in [GAUGES[1], GAUGES[3]] {
        assert!(registry.value(gauge, &dynamic).is_some(), "45/OB-3: {gauge}");
    }
    let running = status("Running", &["PodScheduled", "Ready"]);
    bench.patch_status(pod("a", None, &running)).await;
    assert_eq!(reconcile(&bench, &controller).await, Outcome::Done);
    assert_eq!(series(&bench), [0; 5], "40/OB-10, 45/OB-3");
    assert_eq!(observed_counts(&bench), ["1"; 4], "40/OB-10, 45/OB-3");
    assert_eq!(bench.context.mirror.pod_times("default", "a").schedulable_at, None, "40/OB-10");
    reconcile(&bench, &controller).await;
    assert_eq!(observed_counts(&bench), ["1"; 4], "40/OB-10");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ends_without_a_start_is_not_measured() {
    for phase in ["Failed", "Succeeded"] {
        let bench = Bench::new().await;
        let controller = controller(&bench.context);
        bench.create(pod("a", None, &status("Pending", &[]))).await;
        place_pod(&bench);
        reconcile(&bench, &controller).await;
        bench.patch_status(pod("a", None, &status(phase, &[]))).await;
        reconcile(&bench, &controller).await;
        assert_eq!(
            (series(&bench), observed_counts(&bench)),
            ([0; 5], ["0"; 4].map(str::to_owned)),
            "40/OB-11 {phase}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_unschedulable_pod_loses_its_provisioning_gauges() {
    let bench = Bench::new().await;
    let controller = controller(&bench.context);
    bench.create(pod("a", None, &status("Pending", &[]))).await;
    place_pod(&bench);
    reconcile(&bench, &controller).await;
    assert_eq!(series(&bench), [1, 1, 1, 1, 0]);
    bench.context.mirror.record_unschedulable("default", "a", bench.context.clock.now());
    reconcile(&bench, &controller).await;
    assert_eq!(series(&bench), [1, 1, 0, 0, 0], "40/OB-13");
}

#[tokio::test(start_paused = true)]
async fn the_state_of_a_pod_follows_its_node() {
    let bench = Bench::new().await;
    bench.join("n", "fake:///n", &json!({})).await;
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r"});
    let changes = merged(
        json!({"metadata": {"ownerReferences": [owner]}}),
        &status("Running", &["PodScheduled", "Ready"]),
    );
    bench.create(pod("a", Some("n"), &changes)).await;
    bench.run([controller(&bench.context)]);
    bench.settle().await;
    let found = |labels: &[(&str, &str)]| bench.number("karpenter_pods_state", labels) > 0.0;
    let owner = "/apis/apps/v1/namespaces/default/replicasets/r";
    let both = [("owner", owner), ("node", "n"), ("scheduled", "true"), ("ready", "true")];
    assert!(found(&both));
    assert!(found(&[("managed", "false"), ("nodepool", "")]), "40/OB-09");
    let labels = json!({"karpenter.sh/nodepool": "general", "topology.kubernetes.io/zone": "z"});
    let node =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}});
    bench.patch(node).await;
    assert!(found(&[("managed", "true"), ("nodepool", "general"), ("zone", "z")]), "40/OB-09");
    assert_eq!(
        bench.context.metrics.registry().series_count("karpenter_pods_state"),
        1,
        "40/OB-06"
    );
    bench.context.cache.pods.apply_deletion(&ObjectKey::new("default", "a"));
    bench.settle().await;
    assert_eq!(bench.context.metrics.registry().series_count("karpenter_pods_state"), 0);
}

#[tokio::test(start_paused = true)]
async fn the_age_of_a_pending_pod_grows_without_events() {
    let bench = Bench::new().await;
    bench.create(pod("a", None, &status("Pending", &[]))).await;
    bench.run([controller(&bench.context)]);
    bench.pass(Duration::from_secs(61)).await;
    let age = bench.number(GAUGES[0], &[("name", "a")]);
    assert!((55.0..62.0).contains(&age), "{age}");
}
