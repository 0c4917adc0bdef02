//! Tests of the lifecycle controller that runs in the background, as in the process.

use std::time::Duration;

use kube::api::DeleteParams;
use serde_json::json;

use super::*;
use crate::testing::fixtures::{has, node_claim};

#[tokio::test(start_paused = true)]
async fn a_ready_claim_is_not_written_again() {
    let bench = Bench::new().await;
    bench.run([controller(&bench.context)]);
    bench.create(node_claim("a", &json!({}))).await;
    bench.pass(Duration::from_secs(2)).await;
    let id = objects::provider_id(&bench.claim("a").await).to_owned();
    bench.join("n", &id, &json!({})).await;
    bench.pass(Duration::from_secs(5)).await;
    let ready = bench.claim("a").await;
    assert!(has(&ready, "Ready", "True"), "{:?}", ready.conditions());
    let node = bench.node("n").await;
    bench.pass(Duration::from_hours(1)).await;
    assert_eq!(bench.claim("a").await.resource_version(), ready.resource_version());
    assert_eq!(bench.node("n").await.resource_version(), node.resource_version());
    assert_eq!(bench.cloud.calls().create.len(), 1);
    assert_eq!(bench.metric("karpenter_nodes_created_total", &[]), 1);
}

#[tokio::test(start_paused = true)]
async fn many_claims_are_launched_once_each() {
    let bench = Bench::new().await;
    bench.run([controller(&bench.context)]);
    for n in 0..50 {
        bench.create(node_claim(&format!("c{n}"), &json!({}))).await;
    }
    bench.pass(Duration::from_mins(1)).await;
    let mut names: Vec<_> =
        bench.cloud.calls().create.iter().map(kube::ResourceExt::name_any).collect();
    assert_eq!(names.len(), 50);
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 50);
}

#[tokio::test(start_paused = true)]
async fn a_failing_launch_backs_off_until_the_launch_timeout() {
    let bench = Bench::new().await;
    bench.cloud.allow_creates(0);
    bench.run([controller(&bench.context)]);
    bench.create(node_claim("a", &json!({}))).await;
    bench.pass(Duration::from_secs(100)).await;
    // After 0, 1, 3, 7, 15, 31 and 63 seconds; events of its own writes bring some more.
    let calls = bench.cloud.calls().create.len();
    assert!((7..=12).contains(&calls), "{calls} calls");
    bench.pass(Duration::from_mins(6)).await;
    assert!(bench.get::<NodeClaim>("", "a").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_claim_is_removed_after_its_node_and_instance() {
    let bench = Bench::new().await;
    bench.run([controller(&bench.context)]);
    bench.create(node_claim("a", &json!({}))).await;
    bench.pass(Duration::from_secs(2)).await;
    let id = objects::provider_id(&bench.claim("a").await).to_owned();
    bench.join("n", &id, &json!({})).await;
    bench.pass(Duration::from_secs(5)).await;
    let api: Api<NodeClaim> = Api::all(bench.context.client.clone());
    api.delete("a", &DeleteParams::default()).await.unwrap();
    bench.pass(Duration::from_mins(1)).await;
    assert!(bench.cloud.calls().delete.is_empty(), "the drain goes on");
    bench
        .patch(json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n", "finalizers": null}}))
        .await;
    bench.pass(Duration::from_secs(10)).await;
    assert!(bench.get::<NodeClaim>("", "a").await.is_none());
    assert_eq!(bench.cloud.calls().delete.len(), 2, "once to end it, once to see that it is gone");
}
