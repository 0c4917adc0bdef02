//! Tests of the expiration of NodeClaims.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::testing::Bench;
use crate::testing::fixtures::{node_claim, pod};

const DISRUPTED: &str = "karpenter_nodeclaims_disrupted_total";
const PODS: &str = "karpenter_pods_disruption_initiated_total";

fn claim(expire_after: &str) -> serde_json::Value {
    let changes = json!({
        "metadata": {"finalizers": ["karpenter.sh/termination"]},
        "spec": {"expireAfter": expire_after},
        "status": {"nodeName": "n"},
    });
    node_claim("a", &changes)
}

#[tokio::test(start_paused = true)]
async fn an_expired_claim_is_deleted_and_its_pods_are_counted() {
    let bench = Bench::new().await;
    let expiration = controller(&bench.context);
    for name in ["p", "q"] {
        bench.create(pod(name, Some("n"), &json!({}))).await;
    }
    bench.create(pod("elsewhere", Some("m"), &json!({}))).await;
    let daemon = bench.daemon().await;
    bench.create(pod("daemon", Some("n"), &daemon)).await;
    bench.create(pod("over", Some("n"), &json!({"status": {"phase": "Succeeded"}}))).await;
    bench.create(claim("30s")).await;
    bench.pass(Duration::from_secs(31)).await;
    assert_eq!(bench.reconcile(&expiration, "a").await.unwrap(), Outcome::Done);
    assert!(bench.claim("a").await.metadata.deletion_timestamp.is_some(), "40/LC-42, 30/EXP-1");
    let labels = [("reason", "expired"), ("nodepool", "general"), ("termination_mode", "graceful")];
    assert_eq!(bench.metric(DISRUPTED, &labels), 1, "40/LC-42");
    assert_eq!(bench.metric(PODS, &labels), 2, "40/LC-42, 30/EXP-3");
    bench.reconcile(&expiration, "a").await.unwrap();
    assert_eq!(bench.metric(DISRUPTED, &[]), 1, "40/LC-45, 30/EXP-1");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_never_expires_stays() {
    let bench = Bench::new().await;
    let expiration = controller(&bench.context);
    bench.create(claim("Never")).await;
    bench.pass(Duration::from_hours(2)).await;
    assert_eq!(bench.reconcile(&expiration, "a").await.unwrap(), Outcome::Done, "40/LC-43");
    assert!(bench.claim("a").await.metadata.deletion_timestamp.is_none(), "40/LC-43, 30/EXP-2");
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_requeued_until_it_expires() {
    let bench = Bench::new().await;
    bench.create(claim("1h")).await;
    let expiration = controller(&bench.context);
    let wait = bench.reconcile(&expiration, "a").await.unwrap();
    assert!(
        matches!(wait, Outcome::RequeueAfter(left) if left <= Duration::from_hours(1)),
        "40/LC-44, 30/EXP-2"
    );
    bench.run([expiration]);
    bench.pass(Duration::from_mins(59)).await;
    assert!(bench.claim("a").await.metadata.deletion_timestamp.is_none());
    bench.pass(Duration::from_mins(2)).await;
    assert!(bench.claim("a").await.metadata.deletion_timestamp.is_some());
    assert_eq!(bench.metric(DISRUPTED, &[]), 1);
}
