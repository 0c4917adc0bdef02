//! Tests of the evaluation of NodeOverlays and their conditions.

use karpenter_api::condition_set::{HasConditions as _, find};
use karpenter_operator::cloud::{CloudError, CloudErrorClass};
use karpenter_operator::options::{FeatureGates, Gate, Options};
use serde_json::{Value, json};

use super::*;
use crate::testing::Bench;
use crate::testing::fixtures::node_pool;

async fn bench() -> Bench {
    let feature_gates = FeatureGates::default().with_gate(Gate::NodeOverlay, true);
    Bench::with_options(Options { feature_gates, ..Options::default() }).await
}

fn overlay(name: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    if spec["requirements"].is_null() {
        spec["requirements"] = json!([]);
    }
    json!({
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": name},
        "spec": spec,
    })
}

async fn evaluate(bench: &Bench) -> ReconcileResult {
    let controller = all(&bench.context).remove(0);
    bench.reconcile(&controller, "").await
}

/// Prices of all offerings of a pool as controllers see them, without repetition.
async fn prices(bench: &Bench, pool: &str) -> Result<Vec<f64>, CloudError> {
    let pool = bench.context.cache.node_pools.get("", pool).expect("the pool is there");
    let types = bench.context.cloud.instance_types(&pool).await?;
    let offerings = types.iter().flat_map(|kind| &*kind.offerings);
    let mut prices: Vec<_> = offerings.map(|offering| offering.price).collect();
    prices.sort_by(f64::total_cmp);
    prices.dedup();
    Ok(prices)
}

/// Status and reason of the condition, and its message.
async fn verdict(bench: &Bench, name: &str) -> (String, String) {
    let overlay: NodeOverlay = bench.get("", name).await.expect("is there");
    let found = find(overlay.conditions(), "ValidationSucceeded").expect("is evaluated").clone();
    (format!("{} {}", found.status, found.reason), found.message)
}

#[tokio::test(start_paused = true)]
async fn a_pool_waits_for_its_first_evaluation() {
    let bench = bench().await;
    bench.create(node_pool("general")).await;
    let error = prices(&bench, "general").await.expect_err("40/OV-10");
    assert!(error.is(CloudErrorClass::UnevaluatedNodePool), "40/OV-10");
    assert_eq!(evaluate(&bench).await.unwrap(), Outcome::RequeueAfter(REQUEUE_INTERVAL));
    assert!(!prices(&bench, "general").await.unwrap().is_empty(), "40/OV-10");
}

#[tokio::test(start_paused = true)]
async fn without_overlays_instance_types_are_unchanged() {
    let bench = bench().await;
    bench.create(node_pool("general")).await;
    evaluate(&bench).await.unwrap();
    let pool = bench.context.cache.node_pools.get("", "general").unwrap();
    let seen = bench.context.cloud.instance_types(&pool).await.unwrap();
    let overlays = bench.context.overlays.as_ref().unwrap();
    let own = overlays.cloud.instance_types(&pool).await.unwrap();
    assert!(seen.iter().zip(own.iter()).all(|(seen, own)| Arc::ptr_eq(seen, own)), "40/OV-01");
}

#[tokio::test(start_paused = true)]
async fn the_heavier_overlay_wins_and_equal_ones_conflict() {
    let bench = bench().await;
    bench.create(node_pool("general")).await;
    bench.create(overlay("a", &json!({"price": "7", "weight": 5}))).await;
    bench.create(overlay("b", &json!({"price": "7", "weight": 5}))).await;
    bench.create(overlay("c", &json!({"price": "8", "weight": 6}))).await;
    let before = bench.context.mirror.consolidation_state(bench.context.clock.now());
    bench.pass(Duration::from_secs(1)).await;
    evaluate(&bench).await.unwrap();
    assert_eq!(verdict(&bench, "c").await.0, "True ValidationSucceeded", "40/OV-03");
    assert_eq!(prices(&bench, "general").await.unwrap(), [8.0], "40/OV-03");
    assert_eq!(verdict(&bench, "b").await.0, "True ValidationSucceeded", "40/OV-02");
    let conflict = ("False Conflict".to_owned(), "conflict with another overlay".to_owned());
    assert_eq!(verdict(&bench, "a").await, conflict, "40/OV-02");
    let after = bench.context.mirror.consolidation_state(bench.context.clock.now());
    assert!(after > before, "consolidation looks again");
}

#[tokio::test(start_paused = true)]
async fn an_overlay_may_select_one_pool() {
    let bench = bench().await;
    bench.create(node_pool("general")).await;
    bench.create(node_pool("other")).await;
    let only = json!([{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["other"]}]);
    bench.create(overlay("a", &json!({"price": "7", "requirements": only}))).await;
    evaluate(&bench).await.unwrap();
    assert_eq!(prices(&bench, "other").await.unwrap(), [7.0], "40/OV-06");
    assert!(!prices(&bench, "general").await.unwrap().contains(&7.0), "40/OV-06");
}

#[tokio::test(start_paused = true)]
async fn an_invalid_overlay_gets_a_condition_and_is_not_applied() {
    let bench = bench().await;
    bench.create(node_pool("general")).await;
    let wrong = json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["x"]}]);
    bench.create(overlay("a", &json!({"price": "7", "requirements": wrong}))).await;
    evaluate(&bench).await.unwrap();
    assert_eq!(verdict(&bench, "a").await.0, "False RuntimeValidation", "40/OV-08");
    assert!(!prices(&bench, "general").await.unwrap().contains(&7.0), "40/OV-08");
}

#[tokio::test(start_paused = true)]
async fn a_cloud_error_for_one_pool_does_not_block_other_pools() {
    let bench = bench().await;
    bench.create(node_pool("general")).await;
    bench.create(node_pool("broken")).await;
    bench.create(overlay("a", &json!({"price": "7"}))).await;
    bench.cloud.fail_pool("broken", || CloudError::other("no answer"));
    evaluate(&bench).await.expect_err("40/OV-09");
    assert_eq!(prices(&bench, "general").await.unwrap(), [7.0], "40/OV-09");
    prices(&bench, "broken").await.expect_err("40/OV-09");
    bench.cloud.clear_pool_error("broken");
    evaluate(&bench).await.expect("40/OV-09");
    assert_eq!(prices(&bench, "broken").await.unwrap(), [7.0], "40/OV-09");
}

#[tokio::test(start_paused = true)]
async fn an_evaluation_of_stale_overlays_is_discarded() {
    let bench = bench().await;
    bench.create(node_pool("general")).await;
    bench.create(overlay("a", &json!({"price": "7"}))).await;
    let (context, faults) = bench.with_faults();
    faults.fail("PATCH", "/nodeoverlays/a/status", 409);
    let controller = all(&context).remove(0);
    let outcome = bench.reconcile(&controller, "").await.unwrap();
    assert_eq!(outcome, Outcome::Requeue);
    prices(&bench, "general").await.expect_err("nothing was published");
}

#[tokio::test(start_paused = true)]
async fn spec_changes_trigger_an_evaluation_and_status_writes_do_not() {
    let bench = bench().await;
    bench.run(all(&bench.context));
    bench.create(node_pool("general")).await;
    bench.create(overlay("a", &json!({"price": "7"}))).await;
    bench.pass(Duration::from_secs(1)).await;
    assert_eq!(prices(&bench, "general").await.unwrap(), [7.0]);
    let mut cheaper = overlay("a", &json!({"price": "6"}));
    cheaper["spec"]["requirements"] = json!([]);
    bench.patch(cheaper).await;
    bench.pass(Duration::from_secs(1)).await;
    assert_eq!(prices(&bench, "general").await.unwrap(), [6.0]);
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_there_is_no_controller() {
    let bench = Bench::new().await;
    assert!(all(&bench.context).is_empty());
    bench.create(node_pool("general")).await;
    assert!(!prices(&bench, "general").await.unwrap().is_empty());
}
