//! Tests of the provisioner as a whole: pods in, NodeClaims, events and metrics out.

use std::time::Duration;

use karpenter_api::hash::nodepool_hash;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use karpenter_operator::options::Options;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::testing::Bench;
use crate::testing::fixtures::{POOL, merged, node_claim, node_pool, pod};

mod claims;
mod devices;

/// Long enough for a batch, short enough that nothing is decided twice.
const BATCH: Duration = Duration::from_secs(3);

fn condition(type_: &str, status: &str) -> Value {
    json!({"type": type_, "status": status, "reason": type_, "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

/// A pool that is ready, with changes as a merge patch.
fn pool(name: &str, changes: &Value) -> Value {
    let ready = json!({"status": {"nodes": 0, "conditions": [condition("Ready", "True")]}});
    merged(merged(node_pool(name), &ready), changes)
}

/// A pod that waits for capacity, with changes as a merge patch.
fn pending(name: &str, changes: &Value) -> Value {
    let status = json!({"status": {"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
    ]}});
    merged(pod(name, None, &status), changes)
}

fn requesting(requests: &Value) -> Value {
    let container = json!({"name": "main", "image": "none", "resources": {"requests": requests}});
    json!({"spec": {"containers": [container]}})
}

/// A bench with the provisioner running.
async fn bench() -> Bench {
    let bench = Bench::with_options(Options::default()).await;
    bench.run(super::all(&bench.context));
    bench
}

/// The claims that were made, by name.
fn claims(bench: &Bench) -> Vec<NodeClaim> {
    let mut claims: Vec<NodeClaim> =
        bench.context.cache.node_claims.all().iter().map(|claim| claim.as_ref().clone()).collect();
    claims.sort_by_key(kube::ResourceExt::name_any);
    claims
}

fn decisions(bench: &Bench) -> usize {
    bench.metric("karpenter_pods_scheduling_decision_duration_seconds_count", &[])
}

#[tokio::test(start_paused = true)]
async fn pods_get_a_decision_but_no_claim_without_a_launchable_pool() {
    let not_ready = json!({"status": {"conditions": [condition("Ready", "False")]}});
    let deleting = json!({"metadata": {"finalizers": ["example.com/keep"]}});
    for (case, changes, delete) in
        [("20/B13 not ready", not_ready, false), ("20/B13 deleting", deleting, true)]
    {
        let bench = bench().await;
        bench.create(pool(POOL, &changes)).await;
        if delete {
            bench.delete(node_pool(POOL)).await;
        }
        bench.create(pending("web", &json!({}))).await;
        bench.pass(BATCH).await;
        assert_eq!(claims(&bench), [], "{case}");
        assert_eq!(decisions(&bench), 1, "{case}");
        let times = bench.context.mirror.pod_times("default", "web");
        assert!(times.decided_at.is_some() && times.schedulable_at.is_none(), "{case} {times:?}");
        assert_eq!(bench.events(), [], "{case}: no event names a pod");
    }
}

#[tokio::test(start_paused = true)]
async fn only_pools_with_healthy_registration_count_as_healthy() {
    for (status, is_healthy) in [("True", true), ("False", false)] {
        let bench = bench().await;
        let conditions = [condition("Ready", "True"), condition("NodeRegistrationHealthy", status)];
        bench.create(pool(POOL, &json!({"status": {"conditions": conditions}}))).await;
        bench.create(pending("web", &json!({}))).await;
        bench.pass(BATCH).await;
        let times = bench.context.mirror.pod_times("default", "web");
        assert!(times.schedulable_at.is_some(), "20/B14 {status}");
        assert_eq!(times.healthy_at.is_some(), is_healthy, "20/B14 {status}");
    }
}

#[tokio::test(start_paused = true)]
async fn unschedulable_pods_are_counted() {
    let bench = bench().await;
    bench.create(pool(POOL, &json!({}))).await;
    for n in 0..10 {
        bench.create(pending(&format!("huge-{n}"), &requesting(&json!({"cpu": "1000"})))).await;
    }
    for n in 0..5 {
        bench.create(pending(&format!("web-{n}"), &requesting(&json!({"cpu": "100m"})))).await;
    }
    bench.pass(BATCH).await;
    let of = [("controller", "provisioner")];
    assert_eq!(bench.metric("karpenter_scheduler_unschedulable_pods_count", &of), 10, "20/B15");
    let failed = bench.events().into_iter().filter(|(reason, _)| reason == "FailedScheduling");
    assert_eq!(failed.count(), 10, "20/B15");
    assert_eq!(claims(&bench).len(), 1, "20/B15");
}

#[tokio::test(start_paused = true)]
async fn the_decision_duration_is_recorded_once_per_pod() {
    let bench = bench().await;
    bench.create(pool(POOL, &json!({}))).await;
    for n in 0..3 {
        let changes = requesting(&json!({"cpu": "1000"}));
        bench.create(pending(&format!("huge-{n}"), &changes)).await;
    }
    bench.pass(BATCH).await;
    assert_eq!(decisions(&bench), 3, "20/B16");
    bench.pass(Duration::from_secs(15)).await;
    let of = [("controller", "provisioner")];
    let solves = bench.metric("karpenter_scheduler_scheduling_duration_seconds_count", &of);
    assert!(solves >= 2, "20/B16 there was another pass: {solves}");
    assert_eq!(decisions(&bench), 3, "20/B16");
}

#[tokio::test(start_paused = true)]
async fn a_claim_has_the_hash_of_the_pool_at_decision_time() {
    let bench = Bench::new().await;
    bench.create(pool(POOL, &json!({}))).await;
    bench.create(pending("web", &json!({}))).await;
    let decided = super::decision::decide(&bench.context).await.unwrap().expect("a pod waits");
    let before: NodePool = bench.get("", POOL).await.unwrap();
    let labels = json!({"metadata": {"labels": {"team": "b"}}});
    bench.patch(merged(node_pool(POOL), &json!({"spec": {"template": labels}}))).await;
    let after: NodePool = bench.get("", POOL).await.unwrap();
    assert_ne!(nodepool_hash(&before.spec), nodepool_hash(&after.spec), "the change counts");
    super::claim_creation::create_claims(&bench.context, &decided).await.unwrap();
    let claims = claims(&bench);
    let hash = claims[0].annotations().get("karpenter.sh/nodepool-hash");
    assert_eq!(hash, Some(&nodepool_hash(&before.spec)), "20/B24");
    let mapped = bench.context.mirror.pods_mapped_to(&claims[0].name_any());
    assert_eq!(mapped, [("default".to_owned(), "web".to_owned())], "20/B24");
}

#[tokio::test(start_paused = true)]
async fn the_nominated_event_of_a_pod_repeats_after_two_minutes() {
    use karpenter_operator::events::definitions::nominated;
    let bench = Bench::new().await;
    let pod = bench.create(pending("web", &json!({}))).await;
    let pod = k8s_openapi::api::core::v1::ObjectReference {
        uid: pod.uid(),
        name: Some(pod.name_any()),
        ..Default::default()
    };
    for node in ["a", "b"] {
        bench.context.events.publish(nominated(pod.clone(), None, Some(node)));
    }
    let texts: Vec<String> = bench.events().into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["Pod should schedule on: node/a"], "20/B25");
    bench.pass(Duration::from_secs(121)).await;
    bench.context.events.publish(nominated(pod, None, Some("b")));
    assert_eq!(bench.events().len(), 1, "20/B25");
}

#[tokio::test(start_paused = true)]
async fn the_provisioner_waits_for_unlaunched_claims() {
    for is_removed in [false, true] {
        let bench = bench().await;
        bench.create(pool(POOL, &json!({}))).await;
        bench.create(node_claim("slow", &json!({}))).await;
        bench.create(pending("web", &json!({}))).await;
        bench.pass(Duration::from_secs(30)).await;
        assert_eq!(claims(&bench).len(), 1, "20/B27");
        assert_eq!(decisions(&bench), 0, "20/B27");
        if is_removed {
            bench.delete(node_claim("slow", &json!({}))).await;
        } else {
            let launched = json!({"status": {"providerID": "fake:///slow"}});
            bench.patch_status(node_claim("slow", &launched)).await;
        }
        bench.pass(Duration::from_secs(15)).await;
        assert_eq!(decisions(&bench), 1, "20/B27 removed: {is_removed}");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_wait_for_a_rebooting_node() {
    #[rustfmt::skip]
    let cases = [
        // case                          rebooting  initialized  claims
        ("45/RB-20",                     "True",    "Unknown",   1),
        ("it is back, and still fenced", "False",   "True",      2),
    ];
    for (case, rebooting, initialized, expected) in cases {
        let bench = bench().await;
        bench.create(pool(POOL, &json!({}))).await;
        let capacity = json!({"cpu": "4", "memory": "8Gi", "pods": "10"});
        let conditions = [
            condition("Launched", "True"),
            condition("Registered", "True"),
            condition("Initialized", initialized),
            condition("Rebooting", rebooting),
        ];
        let status = json!({"status": {"providerID": "fake:///a", "nodeName": "n",
            "capacity": capacity, "allocatable": capacity, "conditions": conditions}});
        bench.create(node_claim("a", &status)).await;
        let mut labels = json!({
            "karpenter.sh/nodepool": POOL,
            "karpenter.sh/registered": "true",
            "node.kubernetes.io/instance-type": "default-instance-type",
        });
        if initialized == "True" {
            labels["karpenter.sh/initialized"] = json!("true");
        }
        let fence = json!([{"key": "karpenter.sh/rebooting", "effect": "NoSchedule"}]);
        let node = json!({
            "metadata": {"labels": labels},
            "spec": {"taints": fence},
            "status": {"capacity": capacity, "allocatable": capacity,
                "conditions": [{"type": "Ready", "status": "False"}]},
        });
        bench.join("n", "fake:///a", &node).await;
        for name in ["web-1", "web-2"] {
            bench.create(pending(name, &requesting(&json!({"cpu": "1"})))).await;
        }
        bench.pass(BATCH).await;
        assert_eq!(claims(&bench).len(), expected, "{case}");
        assert_eq!(decisions(&bench), 2, "{case}");
        let events =
            bench.events().into_iter().filter(|(_, text)| text.ends_with(": nodeclaim/a, node/n"));
        assert_eq!(events.count(), if expected == 1 { 2 } else { 0 }, "{case}");
    }
}
