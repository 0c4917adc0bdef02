//! Tests of the initialization of NodeClaims.

use karpenter_operator::options::Options;
use serde_json::{Value, json};

use super::*;
use crate::testing::fixtures::{condition, has, merged, node_claim};

/// A claim whose node has registered; the claim has a startup taint and asks for a GPU.
async fn registered(bench: &Bench, lifecycle: &Controller, node: &Value) {
    let changes = json!({
        "metadata": {"annotations": {"karpenter.sh/requested-dra-drivers": "gpu.example.com, b"}},
        "spec": {"startupTaints": [{"key": "s/t", "effect": "NoSchedule"}]},
    });
    let claim = bench.launched(lifecycle, node_claim("a", &changes)).await;
    bench.join("n", objects::provider_id(&claim), node).await;
    bench.reconcile(lifecycle, "a").await.expect("registers");
    assert!(has(&bench.claim("a").await, "Registered", "True"));
}

fn node(changes: &Value) -> Value {
    merged(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}), changes)
}

#[tokio::test(start_paused = true)]
async fn a_node_initializes_when_taints_and_resources_are_ready() {
    let (bench, lifecycle) = bench().await;
    let starting = json!({"status": {
        "conditions": [{"type": "Ready", "status": "False"}],
        "capacity": {"cpu": "4"},
        "allocatable": {"cpu": "0"},
    }});
    registered(&bench, &lifecycle, &starting).await;
    let taint = |key: &str| json!([{"key": key, "effect": "NoSchedule"}]);
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    #[rustfmt::skip]
    let cases = [
        // The change before, of metadata and spec or of status; then what the node still lacks.
        (None, None, "NodeNotReady", "Node status is NotReady"),
        (None, Some(ready), "StartupTaintsExist", "StartupTaint \"s/t:NoSchedule\" still exists"),
        (Some(taint("node.kubernetes.io/not-ready")), None, "KnownEphemeralTaintsExist",
            "KnownEphemeralTaint \"node.kubernetes.io/not-ready:NoSchedule\" still exists"),
        (Some(taint("readiness.k8s.io/x")), None, "KnownEphemeralTaintsExist",
            "KnownEphemeralTaint \"readiness.k8s.io/x:NoSchedule\" still exists"),
        (Some(json!([])), None, "ResourceNotRegistered",
            "Resource \"cpu\" was requested but not registered"),
    ];
    for (taints, status, reason, message) in cases {
        if let Some(taints) = taints {
            bench.patch(node(&json!({"spec": {"taints": taints}}))).await;
        }
        if let Some(status) = status {
            bench.patch_status(node(&status)).await;
        }
        bench.reconcile(&lifecycle, "a").await.unwrap();
        let expected = ["Unknown", reason, message].map(str::to_owned);
        assert_eq!(condition(&bench.claim("a").await, "Initialized"), expected.into(), "40/LC-24");
    }
    let waits = bench.node("n").await;
    assert_eq!(waits.status.as_ref().unwrap().capacity.as_ref().unwrap()["cpu"].0, "4");
    assert_eq!(objects::label(&waits, "karpenter.sh/initialized"), "", "40/LC-26");
    bench.patch_status(node(&json!({"status": {"allocatable": {"cpu": "4"}}}))).await;
    bench.reconcile(&lifecycle, "a").await.unwrap();
    let claim = bench.claim("a").await;
    assert!(has(&claim, "Initialized", "True"), "40/LC-25, LC-29: drivers do not count");
    assert!(has(&claim, "Ready", "True"), "40/LC-25");
    let label = "karpenter.sh/initialized";
    assert_eq!(objects::label(&bench.node("n").await, label), "true", "40/LC-25");
}

#[tokio::test(start_paused = true)]
async fn a_rebooting_node_is_not_initialized() {
    let (bench, lifecycle) = bench().await;
    registered(&bench, &lifecycle, &json!({})).await;
    let time = "2026-01-01T00:00:00Z";
    let rebooting = json!({"type": "Rebooting", "status": "True", "reason": "RebootIssued",
        "message": "", "lastTransitionTime": time});
    let mut claim = bench.claim("a").await;
    let mut conditions = serde_json::to_value(claim.status.take().unwrap().conditions).unwrap();
    conditions.as_array_mut().unwrap().push(rebooting);
    let status = json!({"status": {"conditions": conditions}});
    bench
        .patch_status(merged(
            json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "a"}}),
            &status,
        ))
        .await;
    bench.patch(node(&json!({"spec": {"taints": []}}))).await;
    bench.reconcile(&lifecycle, "a").await.unwrap();
    let label = "karpenter.sh/initialized";
    assert_eq!(objects::label(&bench.node("n").await, label), "", "45/LC-3, 45/RB-19");
    assert!(has(&bench.claim("a").await, "Rebooting", "True"));
}

#[tokio::test(start_paused = true)]
async fn dra_drivers_block_initialization_unless_ignored() {
    let options = Options { ignore_dra_requests: false, ..Options::default() };
    let bench = Bench::with_options(options).await;
    let lifecycle = controller(&bench.context);
    registered(&bench, &lifecycle, &json!({})).await;
    bench.patch(node(&json!({"spec": {"taints": []}}))).await;
    let slice = |name: &str, driver: &str, on: Value| {
        let base = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": name},
            "spec": {
                "driver": driver,
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                "devices": [],
            },
        });
        merged(base, &on)
    };
    let missing = |driver: &str| {
        let text = format!("DRA driver \"{driver}\" has not published a complete resource pool");
        ("Unknown".to_owned(), "DRADriverPoolsNotPublished".to_owned(), text)
    };
    bench.create(slice("all", "gpu.example.com", json!({"spec": {"allNodes": true}}))).await;
    bench.reconcile(&lifecycle, "a").await.unwrap();
    let claim = bench.claim("a").await;
    assert_eq!(condition(&claim, "Initialized"), missing("gpu.example.com"), "of no node");
    bench.create(slice("one", "gpu.example.com", json!({"spec": {"nodeName": "n"}}))).await;
    bench.reconcile(&lifecycle, "a").await.unwrap();
    assert_eq!(condition(&bench.claim("a").await, "Initialized"), missing("b"), "40/LC-27");
    bench.create(slice("two", "b", json!({"spec": {"nodeName": "n"}}))).await;
    bench.reconcile(&lifecycle, "a").await.unwrap();
    assert!(has(&bench.claim("a").await, "Initialized", "True"), "40/LC-27");
}

#[test]
fn conditions_observe_a_new_generation() {
    let condition = |type_: &str| {
        json!({"type": type_, "status": "True", "reason": type_, "message": "",
            "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let types = ["Launched", "Registered", "Initialized", "Ready"];
    let changes = json!({
        "metadata": {"generation": 2},
        "status": {"conditions": types.map(condition)},
    });
    let mut claim: NodeClaim = serde_json::from_value(node_claim("a", &changes)).unwrap();
    for type_ in &types[..3] {
        refresh(&mut claim, type_, jiff::Timestamp::UNIX_EPOCH);
    }
    let seen = claim.conditions().iter().map(|c| (c.status.as_str(), c.observed_generation));
    assert_eq!(seen.collect::<Vec<_>>(), [("True", Some(2)); 4], "40/LC-30");
}
