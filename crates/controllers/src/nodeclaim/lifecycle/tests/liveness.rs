//! Tests of launch and registration timeouts of NodeClaims.

use std::time::Duration;

use karpenter_api::nodepool::NodePool;
use karpenter_core::lifecycle::registration_health::Health;
use karpenter_operator::cloud::CloudError;
use karpenter_operator::harness::Outcome;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::*;
use crate::testing::fixtures::{has, node_claim, node_pool};

const DISRUPTED: &str = "karpenter_nodeclaims_disrupted_total";

fn owned_by(pool: &DynamicObject) -> Value {
    let owner = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "name": pool.name_any(), "uid": pool.uid()});
    json!({"metadata": {"ownerReferences": [owner]}})
}

fn is_deleting(claim: &NodeClaim) -> bool {
    claim.metadata.deletion_timestamp.is_some()
}

#[tokio::test(start_paused = true)]
async fn an_unlaunched_claim_is_deleted_after_five_minutes() {
    let (bench, lifecycle) = bench().await;
    bench.cloud.allow_creates(0);
    bench.create(node_claim("a", &json!({}))).await;
    bench.pass(Duration::from_mins(1)).await;
    assert!(bench.reconcile(&lifecycle, "a").await.is_err());
    assert!(!is_deleting(&bench.claim("a").await), "40/LC-32");
    bench.pass(Duration::from_mins(5)).await;
    let error = bench.reconcile(&lifecycle, "a").await.unwrap_err();
    assert_eq!(error.to_string(), "launching nodeclaim, no more launches are allowed", "40/LC-31");
    assert!(is_deleting(&bench.claim("a").await), "40/LC-31");
    assert_eq!(bench.metric(DISRUPTED, &[("reason", "launch_timeout")]), 1, "40/LC-31");
    bench.reconcile(&lifecycle, "a").await.unwrap();
    assert!(bench.get::<NodeClaim>("", "a").await.is_none());
    assert_eq!(bench.metric(DISRUPTED, &[]), 1, "one reason alone");
}

#[tokio::test(start_paused = true)]
async fn a_claim_past_both_timeouts_is_deleted_once() {
    let (bench, lifecycle) = bench().await;
    let pool = bench.create(node_pool("general")).await;
    bench.cloud.allow_creates(0);
    bench.create(node_claim("a", &owned_by(&pool))).await;
    bench.pass(Duration::from_mins(20)).await;
    assert!(bench.reconcile(&lifecycle, "a").await.is_err());
    assert!(is_deleting(&bench.claim("a").await), "40/Q2");
    assert_eq!(bench.metric(DISRUPTED, &[("reason", "launch_timeout")]), 1, "40/Q2");
    assert_eq!(bench.metric(DISRUPTED, &[]), 1, "40/Q2");
    // Two failures would make the pool unhealthy.
    let health = bench.context.registration_health.of(&pool.uid().unwrap());
    assert_eq!(health, Health::Healthy, "40/Q2");
}

#[tokio::test(start_paused = true)]
async fn an_unregistered_claim_is_deleted_after_fifteen_minutes() {
    let (bench, lifecycle) = bench().await;
    bench.launched(&lifecycle, node_claim("a", &json!({}))).await;
    bench.pass(Duration::from_mins(20)).await;
    bench.reconcile(&lifecycle, "a").await.unwrap();
    assert!(is_deleting(&bench.claim("a").await), "40/LC-33");
    assert_eq!(bench.metric(DISRUPTED, &[("reason", "registration_timeout")]), 1, "40/LC-33");
}

#[tokio::test(start_paused = true)]
async fn a_registered_claim_does_not_time_out() {
    let (bench, lifecycle) = bench().await;
    let claim = bench.launched(&lifecycle, node_claim("a", &json!({}))).await;
    bench.join("n", objects::provider_id(&claim), &json!({})).await;
    bench.reconcile(&lifecycle, "a").await.unwrap();
    bench.pass(Duration::from_mins(20)).await;
    assert_eq!(bench.reconcile(&lifecycle, "a").await.unwrap(), Outcome::Done, "40/LC-35");
    assert!(!is_deleting(&bench.claim("a").await), "40/LC-35");
}

#[tokio::test(start_paused = true)]
async fn timeouts_count_from_the_last_transition_time() {
    let (bench, lifecycle) = bench().await;
    let later = |type_: &str, status: &str| {
        json!({"type": type_, "status": status, "reason": "R", "message": "",
            "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:10:00Z"})
    };
    let changes = json!({
        "metadata": {"finalizers": [TERMINATION]},
        "status": {"conditions": [later("Launched", "True"), later("Registered", "Unknown")]},
    });
    bench.create(node_claim("a", &changes)).await;
    bench.pass(Duration::from_mins(16)).await;
    let left = bench.reconcile(&lifecycle, "a").await.unwrap();
    assert!(
        matches!(left, Outcome::RequeueAfter(left) if left < Duration::from_mins(9)),
        "{left:?}"
    );
    assert!(!is_deleting(&bench.claim("a").await), "40/LC-34");
}

#[tokio::test(start_paused = true)]
async fn timeouts_and_registrations_update_the_registration_health() {
    let (bench, lifecycle) = bench().await;
    let pool = bench.create(node_pool("general")).await;
    let uid = pool.uid().unwrap();
    let health = &bench.context.registration_health;
    for name in ["a", "b"] {
        bench.cloud.fail_next_create(CloudError::Create {
            reason: "NoRole".to_owned(),
            message: "the role is gone".to_owned(),
            source: "x".into(),
        });
        bench.create(node_claim(name, &owned_by(&pool))).await;
        bench.pass(Duration::from_mins(6)).await;
        assert!(bench.reconcile(&lifecycle, name).await.is_err());
    }
    assert_eq!(health.of(&uid), Health::Unhealthy, "40/NP-12");
    let condition = |pool: &NodePool| {
        let condition = find(pool.conditions(), "NodeRegistrationHealthy").expect("is there");
        [condition.status.clone(), condition.reason.clone(), condition.message.clone()]
    };
    let unhealthy: NodePool = bench.get("", "general").await.unwrap();
    assert_eq!(condition(&unhealthy), ["False", "NoRole", "the role is gone"], "40/NP-12");
    // Two of four are half, whatever comes next.
    let claim = bench.launched(&lifecycle, node_claim("c", &owned_by(&pool))).await;
    bench.join("n", objects::provider_id(&claim), &json!({})).await;
    bench.reconcile(&lifecycle, "c").await.unwrap();
    assert!(has(&bench.claim("c").await, "Registered", "True"));
    let unhealthy: NodePool = bench.get("", "general").await.unwrap();
    assert_eq!(condition(&unhealthy)[0], "False", "40/NP-13");
    assert_eq!(health.of(&uid), Health::Unhealthy, "40/NP-13");
}

#[tokio::test(start_paused = true)]
async fn a_recreated_pool_ignores_timeouts_of_old_claims() {
    let (bench, lifecycle) = bench().await;
    let uid = bench.create(node_pool("general")).await.uid().unwrap();
    let other = bench.create(node_pool("other")).await;
    bench.launched(&lifecycle, node_claim("a", &owned_by(&other))).await;
    bench.pass(Duration::from_mins(20)).await;
    bench.reconcile(&lifecycle, "a").await.unwrap();
    assert!(is_deleting(&bench.claim("a").await), "40/LC-36");
    assert_eq!(bench.context.registration_health.of(&uid), Health::Unknown, "40/LC-36");
    let pool: NodePool = bench.get("", "general").await.unwrap();
    assert!(find(pool.conditions(), "NodeRegistrationHealthy").is_none(), "40/LC-36");
}

#[tokio::test(start_paused = true)]
async fn a_registration_is_reported_to_the_pool_despite_a_conflict() {
    let bench = Bench::new().await;
    let (context, faults) = bench.with_faults();
    let lifecycle = controller(&context);
    let pool = bench.create(node_pool("general")).await;
    let uid = pool.uid().unwrap();
    let claim = bench.launched(&lifecycle, node_claim("a", &owned_by(&pool))).await;
    bench.join("n", objects::provider_id(&claim), &json!({})).await;
    faults.fail("PATCH", "/nodepools/general/status", 409);
    assert_eq!(bench.reconcile(&lifecycle, "a").await.unwrap(), Outcome::Requeue);
    assert!(has(&bench.claim("a").await, "Registered", "True"), "that does not wait");
    assert_eq!(bench.context.registration_health.of(&uid), Health::Unknown);
    assert_eq!(bench.reconcile(&lifecycle, "a").await.unwrap(), Outcome::Done);
    assert_eq!(bench.context.registration_health.of(&uid), Health::Healthy);
    let pool: NodePool = bench.get("", "general").await.unwrap();
    assert!(karpenter_api::condition_set::is_true(pool.conditions(), "NodeRegistrationHealthy"));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_is_reported_once_when_the_deletion_fails() {
    let bench = Bench::new().await;
    let (context, faults) = bench.with_faults();
    let lifecycle = controller(&context);
    let pool = bench.create(node_pool("general")).await;
    let uid = pool.uid().unwrap();
    bench.launched(&lifecycle, node_claim("a", &owned_by(&pool))).await;
    bench.pass(Duration::from_mins(20)).await;
    faults.fail("DELETE", "/nodeclaims/a", 500);
    let error = bench.reconcile(&lifecycle, "a").await.unwrap_err();
    let text = "deleting nodeclaim for timeout, made to fail with 500 (NodeClaim=a)";
    assert_eq!(error.to_string(), text, "45 §12.5");
    bench.reconcile(&lifecycle, "a").await.unwrap();
    assert!(is_deleting(&bench.claim("a").await));
    // Two would make the pool unhealthy.
    assert_eq!(bench.context.registration_health.of(&uid), Health::Healthy, "40/NP-11");
    assert_eq!(bench.metric(DISRUPTED, &[]), 1);
}
