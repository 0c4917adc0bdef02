//! Tests of the registration health of NodePools.

use std::time::Duration;

use karpenter_api::condition_set::is_true;
use serde_json::{Value, json};

use super::*;
use crate::testing::Bench;
use crate::testing::fixtures::{merged, node_class, node_pool};

/// A pool whose condition is so, for these generations of the pool and of its class.
fn pool(status: &str, generation: i64, class_generation: i64) -> Value {
    let condition = json!({"type": NODE_REGISTRATION_HEALTHY, "status": status, "reason": "R",
        "message": "", "observedGeneration": generation,
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({
        "nodes": 0,
        "nodeClassObservedGeneration": class_generation,
        "conditions": [condition],
    });
    merged(node_pool("general"), &json!({"status": status}))
}

async fn stored(bench: &Bench) -> (NodePool, Option<String>) {
    let pool: NodePool = bench.get("", "general").await.expect("is there");
    let condition = find(pool.conditions(), NODE_REGISTRATION_HEALTHY);
    let status = condition.map(|condition| condition.status.clone());
    (pool, status)
}

#[tokio::test(start_paused = true)]
async fn a_restart_restores_the_health_from_the_condition() {
    for (status, health) in
        [("True", Health::Healthy), ("False", Health::Unhealthy), ("Unknown", Health::Unknown)]
    {
        let bench = Bench::new().await;
        bench.create(node_class()).await;
        let uid = bench.create(pool(status, 1, 1)).await.uid().unwrap();
        bench.reconcile(&controller(&bench.context), "general").await.unwrap();
        assert_eq!(bench.context.registration_health.of(&uid), health, "40/NP-17, NP-14");
        assert_eq!(stored(&bench).await.1.as_deref(), Some(status), "40/NP-17");
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_pool_or_node_class_resets_the_health() {
    for (case, generation, class_generation) in [("40/NP-15", 1, 7), ("40/NP-16", 7, 1)] {
        let bench = Bench::new().await;
        bench.create(node_class()).await;
        let uid = bench.create(pool("False", generation, class_generation)).await.uid().unwrap();
        bench.context.registration_health.set(&uid, Health::Unhealthy);
        bench.reconcile(&controller(&bench.context), "general").await.unwrap();
        let (pool, status) = stored(&bench).await;
        assert_eq!(status.as_deref(), Some("Unknown"), "{case}");
        assert_eq!(bench.context.registration_health.of(&uid), Health::Unknown, "{case}");
        assert_eq!(pool.status.unwrap().node_class_observed_generation, Some(1), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_pool_gets_the_condition_when_its_class_is_there() {
    let bench = Bench::new().await;
    bench.run([controller(&bench.context)]);
    bench.create(node_pool("general")).await;
    bench.pass(Duration::from_secs(1)).await;
    assert_eq!(stored(&bench).await.1, None, "40/NP-18");
    bench.create(node_class()).await;
    bench.pass(Duration::from_secs(1)).await;
    let (pool, status) = stored(&bench).await;
    assert_eq!(status.as_deref(), Some("Unknown"));
    assert!(!is_true(pool.conditions(), "Ready"));
    bench.pass(Duration::from_mins(10)).await;
    assert_eq!(stored(&bench).await.0.metadata.resource_version, pool.metadata.resource_version);
}

#[tokio::test(start_paused = true)]
async fn unmanaged_pools_are_ignored_and_deleted_pools_forgotten() {
    let bench = Bench::new().await;
    let controller = controller(&bench.context);
    let foreign = json!({"spec": {"template": {"spec": {"nodeClassRef": {"kind": "Other"}}}}});
    bench.create(merged(node_pool("general"), &foreign)).await;
    bench.reconcile(&controller, "general").await.unwrap();
    assert_eq!(stored(&bench).await.1, None, "40/NP-21");
    bench.context.registration_health.set("gone", Health::Healthy);
    bench.reconcile(&controller, "gone").await.unwrap();
    assert_eq!(bench.context.registration_health.of("gone"), Health::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_does_not_reset_the_health() {
    let bench = Bench::new().await;
    let (context, faults) = bench.with_faults();
    bench.create(node_class()).await;
    let uid = bench.create(pool("False", 7, 1)).await.uid().unwrap();
    faults.fail("PATCH", "/nodepools/general/status", 409);
    let outcome = bench.reconcile(&controller(&context), "general").await.unwrap();
    assert_eq!(outcome, Outcome::Requeue);
    assert_eq!(bench.context.registration_health.of(&uid), Health::Unhealthy);
}
