//! Tests of the `lastPodEventTime` of NodeClaims.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karpenter_operator::harness::Controller;
use serde_json::json;

use super::*;
use crate::testing::Bench;
use crate::testing::fixtures::{node_claim, pod};

/// A claim `a` and its node `n`.
async fn bench() -> Bench {
    let bench = Bench::new().await;
    bench.create(node_claim("a", &json!({"status": {"providerID": "i"}}))).await;
    bench.join("n", "i", &json!({})).await;
    bench
}

async fn last_pod_event(bench: &Bench) -> Option<Timestamp> {
    let status = bench.claim("a").await.status;
    status.and_then(|status| status.last_pod_event_time).map(|Time(time)| time)
}

async fn reconcile(bench: &Bench, events: &Controller, pod: &str) {
    let outcome = events.reconcile(&ObjectKey::new("default", pod)).await;
    assert_eq!(outcome.unwrap(), Outcome::Done);
    bench.settle().await;
}

#[tokio::test(start_paused = true)]
async fn pod_events_are_recorded_at_most_every_ten_seconds() {
    let bench = Box::pin(bench()).await;
    let events = controller(&bench.context);
    bench.create(pod("p", Some("n"), &json!({}))).await;
    let first = whole_second(bench.context.clock.now());
    reconcile(&bench, &events, "p").await;
    assert_eq!(last_pod_event(&bench).await, Some(first), "40/LC-46, 30/PE-1");
    bench.pass(Duration::from_secs(5)).await;
    reconcile(&bench, &events, "p").await;
    assert_eq!(last_pod_event(&bench).await, Some(first), "40/LC-47");
    bench.pass(Duration::from_secs(6)).await;
    let second = whole_second(bench.context.clock.now());
    reconcile(&bench, &events, "p").await;
    assert_eq!(last_pod_event(&bench).await, Some(second), "40/LC-47, 30/PE-1");
}

#[tokio::test(start_paused = true)]
async fn daemon_and_unbound_pods_are_not_recorded() {
    let bench = Box::pin(bench()).await;
    let events = controller(&bench.context);
    bench.join("stranger", "other", &json!({})).await;
    let daemon = bench.daemon().await;
    bench.create(pod("daemon", Some("n"), &daemon)).await;
    bench.create(pod("unbound", None, &json!({}))).await;
    bench.create(pod("lost", Some("nowhere"), &json!({}))).await;
    bench.create(pod("foreign", Some("stranger"), &json!({}))).await;
    for name in ["daemon", "unbound", "lost", "foreign", "gone"] {
        reconcile(&bench, &events, name).await;
    }
    assert_eq!(last_pod_event(&bench).await, None, "40/LC-48, 30/PE-2");
}

#[tokio::test(start_paused = true)]
async fn a_restart_records_only_new_pod_events() {
    let bench = Box::pin(bench()).await;
    bench.create(pod("old", Some("n"), &json!({}))).await;
    bench.pass(Duration::from_mins(1)).await;
    bench.run([controller(&bench.context)]);
    bench.pass(Duration::from_mins(1)).await;
    assert_eq!(last_pod_event(&bench).await, None, "40/Q4");
    bench.create(pod("new", Some("n"), &json!({}))).await;
    bench.pass(Duration::from_secs(1)).await;
    let first = last_pod_event(&bench).await;
    assert!(first.is_some());
    bench.pass(Duration::from_mins(1)).await;
    let ended = pod("old", Some("n"), &json!({"status": {"phase": "Succeeded"}}));
    bench.patch_status(ended).await;
    bench.pass(Duration::from_secs(1)).await;
    assert!(last_pod_event(&bench).await > first, "an old pod that ends is news");
}
