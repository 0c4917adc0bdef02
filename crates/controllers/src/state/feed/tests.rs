//! Tests of the path from informers to the mirror.

use karpenter_api::nodeclaim::NodeClaim;
use serde_json::json;

use super::*;
use crate::testing::Bench;
use crate::testing::fixtures::{node_claim, pod};

fn node(name: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "spec": {"providerID": format!("id/{name}")}})
}

#[tokio::test(start_paused = true)]
async fn objects_in_the_cluster_reach_the_mirror() {
    let bench = Bench::new().await;
    assert!(
        bench.context.mirror.is_synced(bench.context.clock.now()),
        "an empty cluster is in step"
    );
    bench.create(pod("p", Some("n"), &json!({}))).await;
    bench.create(node("n")).await;
    let snapshot = bench.context.mirror.snapshot(bench.context.clock.now());
    assert_eq!((snapshot.pods.len(), snapshot.nodes.len()), (1, 1), "40/CS-05");
    assert!(snapshot.namespaces.contains_key("kube-system"));
}

/// An object written to the cache is in the mirror at once, as with upstream's direct write.
#[tokio::test(start_paused = true)]
async fn a_claim_written_to_the_cache_reaches_the_mirror_at_once() {
    let bench = Bench::new().await;
    let mut claim: NodeClaim = serde_json::from_value(node_claim("c", &json!({}))).unwrap();
    claim.metadata.resource_version = Some("999999".to_owned());
    bench.context.cache.node_claims.apply_write_result(claim);
    assert!(bench.context.mirror.has_node_claim("c"), "40/CS-21");
    assert!(!bench.context.mirror.is_synced(bench.context.clock.now()), "40/CS-21");
    bench.context.cache.node_claims.apply_deletion(&ObjectKey::new("", "c"));
    assert!(bench.context.mirror.is_synced(bench.context.clock.now()), "40/CS-21");
}
