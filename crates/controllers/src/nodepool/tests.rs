//! Tests of the controllers of NodePools together.

use std::time::Duration;

use karpenter_api::condition_set::{HasConditions as _, is_true};
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::*;
use crate::testing::Bench;
use crate::testing::fixtures::{merged, node_class, node_pool};

fn with_ready(status: &str) -> Value {
    let condition = json!({"type": "Ready", "status": status, "reason": "Why", "message": "why",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    json!({"status": {"conditions": [condition]}})
}

#[tokio::test(start_paused = true)]
async fn unmanaged_pools_are_not_touched() {
    let bench = Bench::new().await;
    let mut pool = node_pool("general");
    pool["spec"]["template"]["spec"]["nodeClassRef"]["group"] = json!("example.com");
    let before: DynamicObject = bench.create(pool).await;
    bench.run(all(&bench.context));
    bench.pass(Duration::from_secs(20)).await;
    let after: NodePool = bench.get("", "general").await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version(), "40/NP-21");
}

#[tokio::test(start_paused = true)]
async fn pool_readiness_follows_the_node_class() {
    let bench = Bench::new().await;
    bench.run(all(&bench.context));
    bench.create(node_pool("general")).await;
    let ready = async || {
        bench.settle().await;
        let pool: NodePool = bench.get("", "general").await.unwrap();
        is_true(pool.conditions(), "Ready")
    };
    assert!(!ready().await, "40/NP-09 not found");
    bench.create(merged(node_class(), &with_ready("False"))).await;
    assert!(!ready().await, "40/NP-09 false");
    bench.patch_status(merged(node_class(), &with_ready("True"))).await;
    assert!(ready().await, "40/NP-09 true");
    bench.patch_status(merged(node_class(), &with_ready("Unknown"))).await;
    assert!(!ready().await, "40/NP-09 unknown");
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_pool_is_not_written_again() {
    let bench = Bench::new().await;
    bench.create(merged(node_class(), &with_ready("True"))).await;
    bench.create(node_pool("general")).await;
    bench.run(all(&bench.context));
    bench.pass(Duration::from_secs(10)).await;
    let before: NodePool = bench.get("", "general").await.unwrap();
    bench.pass(Duration::from_mins(10)).await;
    let after: NodePool = bench.get("", "general").await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version());
}
