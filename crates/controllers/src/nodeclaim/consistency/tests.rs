//! Tests of the consistency check of nodes.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::testing::Bench;
use crate::testing::fixtures::{condition, has, merged, node_claim};

const TEXT: &str = "expected 128Gi of resource memory, but found 64Gi (50.0% of expected)";

/// A claim that was promised 128Gi, in which conditions hold.
fn claim(conditions: &[&str]) -> Value {
    let condition = |type_: &&str| {
        json!({"type": type_, "status": "True", "reason": type_, "message": "",
            "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let conditions: Vec<_> = conditions.iter().map(condition).collect();
    let changes = json!({
        "spec": {"resources": {"requests": {"memory": "1Gi"}}},
        "status": {
            "providerID": "i",
            "nodeName": "n",
            "capacity": {"memory": "128Gi"},
            "conditions": conditions,
        },
    });
    node_claim("a", &changes)
}

async fn resize(bench: &Bench, memory: &str) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    let status = json!({"status": {"capacity": {"memory": memory}}});
    bench.patch_status(merged(node, &status)).await;
}

const PERIOD: Outcome = Outcome::RequeueAfter(Duration::from_mins(10));

#[tokio::test(start_paused = true)]
async fn a_node_smaller_than_promised_fails_the_consistency_check() {
    let bench = Bench::new().await;
    let consistency = controller(&bench.context);
    bench.create(claim(&["Launched", "Registered", "Initialized"])).await;
    bench.join("n", "i", &json!({"status": {"capacity": {"memory": "64Gi"}}})).await;
    assert_eq!(bench.reconcile(&consistency, "a").await.unwrap(), PERIOD);
    let expected = [("FailedConsistencyCheck".to_owned(), TEXT.to_owned())];
    assert_eq!(bench.events(), expected, "40/LC-49, 30/CS-1");
    let failed = ["False", "ConsistencyCheckFailed", "Consistency Check Failed"];
    let found = condition(&bench.claim("a").await, "ConsistentStateFound");
    assert_eq!(found, failed.map(str::to_owned).into(), "40/LC-49, 30/CS-1");
    assert!(has(&bench.claim("a").await, "Ready", "True"), "Ready does not depend on it");
    resize(&bench, "128Gi").await;
    bench.pass(Duration::from_mins(3)).await;
    let left = bench.reconcile(&consistency, "a").await.unwrap();
    assert!(
        matches!(left, Outcome::RequeueAfter(left) if left <= Duration::from_mins(7)),
        "40/LC-51"
    );
    assert!(has(&bench.claim("a").await, "ConsistentStateFound", "False"), "40/LC-51");
    bench.pass(Duration::from_mins(7)).await;
    assert_eq!(bench.reconcile(&consistency, "a").await.unwrap(), PERIOD);
    assert!(has(&bench.claim("a").await, "ConsistentStateFound", "True"), "40/LC-50");
    assert_eq!(bench.events(), [], "40/LC-50");
}

#[tokio::test(start_paused = true)]
async fn the_first_check_waits_for_the_initialized_node() {
    let bench = Bench::new().await;
    let consistency = controller(&bench.context);
    bench.create(claim(&["Launched"])).await;
    assert_eq!(bench.reconcile(&consistency, "a").await.unwrap(), Outcome::Done, "no node");
    bench.join("n", "i", &json!({"status": {"capacity": {"memory": "64Gi"}}})).await;
    assert_eq!(bench.reconcile(&consistency, "a").await.unwrap(), Outcome::Done, "starts");
    assert_eq!(bench.events(), []);
    bench.patch_status(claim(&["Launched", "Registered", "Initialized"])).await;
    assert_eq!(bench.reconcile(&consistency, "a").await.unwrap(), PERIOD, "40/Q14");
    assert_eq!(bench.events().len(), 1, "40/Q14");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_does_not_postpone_the_next_check() {
    let bench = Bench::new().await;
    let (context, faults) = bench.with_faults();
    let consistency = controller(&context);
    bench.create(claim(&["Launched", "Registered", "Initialized"])).await;
    bench.join("n", "i", &json!({"status": {"capacity": {"memory": "64Gi"}}})).await;
    faults.fail("PATCH", "/nodeclaims/a/status", 409);
    assert_eq!(bench.reconcile(&consistency, "a").await.unwrap(), Outcome::Requeue);
    assert_eq!(bench.events(), []);
    assert_eq!(bench.reconcile(&consistency, "a").await.unwrap(), PERIOD);
    assert!(has(&bench.claim("a").await, "ConsistentStateFound", "False"));
}
