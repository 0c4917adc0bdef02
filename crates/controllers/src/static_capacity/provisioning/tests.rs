//! Tests of the provisioning of static NodePools.

use karpenter_operator::options::{FeatureGates, Gate, Options};
use serde_json::{Value, json};

use super::*;
use crate::testing::Bench;
use crate::testing::fixtures::{merged, node_claim, node_pool};

async fn bench() -> Bench {
    let feature_gates = FeatureGates::default().with_gate(Gate::StaticCapacity, true);
    Bench::with_options(Options { feature_gates, ..Options::default() }).await
}

fn pool(replicas: i64, limit: Option<i64>, ready: &str) -> Value {
    let condition = json!({"type": "Ready", "status": ready, "reason": "R", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let limits = limit.map(|limit| json!({"nodes": limit.to_string()}));
    let changes = json!({
        "spec": {"replicas": replicas, "limits": limits},
        "status": {"nodes": 0, "conditions": [condition]},
    });
    merged(node_pool("general"), &changes)
}

fn running(name: &str) -> Value {
    node_claim(name, &json!({"status": {"providerID": format!("fake:///{name}")}}))
}

const MINUTE: Outcome = Outcome::RequeueAfter(Duration::from_mins(1));

async fn reconcile(bench: &Bench) -> Outcome {
    bench.reconcile(&controller(&bench.context), "general").await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn missing_replicas_are_created() {
    let bench = bench().await;
    bench.create(pool(3, None, "True")).await;
    bench.create(running("a")).await;
    bench.create(running("b")).await;
    assert_eq!(reconcile(&bench).await, MINUTE, "30/ST-2");
    let claims = bench.context.cache.node_claims.all();
    assert_eq!(claims.len(), 3, "30/ST-2");
    let made = claims.iter().find(|claim| claim.name_any().starts_with("general-")).unwrap();
    assert_eq!(made.labels().get("karpenter.sh/nodepool").map(String::as_str), Some("general"));
    assert_eq!(made.spec.resources, None, "the template and nothing else");
    let labels = [("reason", "provisioned"), ("nodepool", "general")];
    let counted = bench.number("karpenter_nodeclaims_created_total", &labels);
    assert!((counted - 1.0).abs() < f64::EPSILON);
    assert_eq!(reconcile(&bench).await, MINUTE, "30/ST-2");
    assert_eq!(bench.context.cache.node_claims.len(), 3, "30/ST-2 nothing is made twice");
}

#[tokio::test(start_paused = true)]
async fn claims_pending_disruption_count_as_existing() {
    for (case, replicas, limit, made) in
        [("30/ST-12", 2, None, 0), ("40/NP-19", 3, None, 2), ("40/NP-19 limit", 3, Some(3), 1)]
    {
        let bench = bench().await;
        bench.create(pool(replicas, limit, "True")).await;
        bench.create(running("a")).await;
        bench.create(running("b")).await;
        bench.context.mirror.mark_pending_disruption("b");
        assert_eq!(reconcile(&bench).await, MINUTE, "{case}");
        assert_eq!(bench.context.cache.node_claims.len(), 2 + made, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_reconciles_stay_within_the_node_limit() {
    let bench = bench().await;
    bench.create(pool(9, Some(4), "True")).await;
    bench.create(running("a")).await;
    let controller = controller(&bench.context);
    let key = ObjectKey::new("", "general");
    let reconciles = [(); 3].map(|()| controller.reconcile(&key));
    for outcome in futures_util::future::join_all(reconciles).await {
        outcome.expect("no error");
    }
    assert_eq!(bench.context.cache.node_claims.len(), 4, "30/ST-10");
    assert_eq!(reconcile(&bench).await, Outcome::RequeueAfter(Duration::from_secs(30)), "30/ST-9");
    assert_eq!(bench.context.mirror.reserve_nodes("general", 5, 9), 1, "30/ST-10 all given back");
}

#[tokio::test(start_paused = true)]
async fn a_failed_creation_releases_its_reservation() {
    let bench = bench().await;
    bench.create(pool(2, Some(2), "True")).await;
    let (context, faults) = bench.with_faults();
    faults.fail("POST", "/nodeclaims", 500);
    let failing = controller(&context);
    let key = ObjectKey::new("", "general");
    failing.reconcile(&key).await.expect_err("one of them fails");
    failing.reconcile(&key).await.expect("none fails");
    assert_eq!(bench.context.cache.node_claims.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn unmanaged_dynamic_and_unready_pools_get_no_claims() {
    let mut other = pool(2, None, "True");
    other["spec"]["template"]["spec"]["nodeClassRef"]["group"] = json!("example.com");
    let mut dynamic = pool(2, None, "True");
    dynamic["spec"]["replicas"] = Value::Null;
    for (case, pool) in [
        ("30/ST-1 unmanaged, 40/NP-21", other),
        ("30/ST-1 dynamic", dynamic),
        ("30/ST-13 not ready", pool(2, None, "False")),
    ] {
        let bench = bench().await;
        bench.create(pool).await;
        assert_eq!(reconcile(&bench).await, Outcome::Done, "{case}");
        assert!(bench.context.cache.node_claims.is_empty(), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_claim_is_replaced_at_once() {
    let bench = bench().await;
    bench.create(pool(1, None, "True")).await;
    bench.create(running("a")).await;
    bench.run([controller(&bench.context)]);
    bench.pass(Duration::from_secs(1)).await;
    assert_eq!(bench.context.cache.node_claims.len(), 1);
    bench.context.cache.node_claims.apply_deletion(&ObjectKey::new("", "a"));
    bench.pass(Duration::from_secs(1)).await;
    let claims = bench.context.cache.node_claims.all();
    assert!(claims.iter().any(|claim| claim.name_any().starts_with("general-")), "{claims:?}");
}

#[tokio::test(start_paused = true)]
async fn no_claim_is_created_before_the_mirror_has_synced_once() {
    let bench = bench().await;
    bench.create(node_claim("unlaunched", &json!({}))).await;
    bench.create(pool(3, None, "True")).await;
    assert_eq!(reconcile(&bench).await, Outcome::RequeueAfter(UNSYNCED_RETRY_INTERVAL), "30/ST-11");
    assert_eq!(bench.context.cache.node_claims.len(), 1, "30/ST-11");
    bench.create(running("a")).await;
    let launched = json!({"status": {"providerID": "fake:///unlaunched"}});
    bench.patch_status(node_claim("unlaunched", &launched)).await;
    assert_eq!(reconcile(&bench).await, MINUTE, "30/ST-11");
    assert_eq!(bench.context.cache.node_claims.len(), 3, "30/ST-11");
}
