//! Tests of the sync gauges and the resync of the mirror.

use std::sync::Arc;

use karpenter_api::nodeclaim::NodeClaim;
use serde_json::json;

use super::*;
use crate::state::nodeclaim_gc;
use crate::testing::Bench;
use crate::testing::fixtures::node_claim;

const SYNCED: &str = "karpenter_cluster_state_synced";
const WAITING: &str = "karpenter_cluster_state_unsynced_time_seconds";
const NODES: &str = "karpenter_cluster_state_node_count";

fn gauge(bench: &Bench, name: &str) -> f64 {
    bench.context.metrics.registry().value(name, &[]).unwrap_or(f64::NAN)
}

fn add_deleted_claim(bench: &Bench) {
    let claim: NodeClaim = serde_json::from_value(node_claim("ghost", &json!({}))).unwrap();
    bench.context.mirror.set_node_claim("ghost", Some(Arc::new(claim)));
}

#[tokio::test(start_paused = true)]
async fn gauges_show_how_long_the_mirror_is_unsynced() {
    let bench = Bench::new().await;
    bench.run([controller(&bench.context)]);
    bench.settle().await;
    assert!(gauge(&bench, SYNCED) > 0.5 && gauge(&bench, WAITING) < 0.1);
    bench.create(node_claim("c", &json!({}))).await;
    bench.pass(Duration::from_secs(10)).await;
    assert!(gauge(&bench, SYNCED) < 0.5, "40/CS-18");
    assert!((8.0..=10.0).contains(&gauge(&bench, WAITING)), "40/CS-18");
    bench.pass(Duration::from_secs(25)).await;
    assert!(ready(&bench.context).is_ok(), "a launch that fails is no fault of this process");
    bench.patch_status(node_claim("c", &json!({"status": {"providerID": "m"}}))).await;
    bench.pass(Duration::from_secs(2)).await;
    assert!(gauge(&bench, SYNCED) > 0.5 && gauge(&bench, WAITING) < 0.1);
    assert!((gauge(&bench, NODES) - 1.0).abs() < 0.1, "40/CS-16");
    assert!(ready(&bench.context).is_ok());
}

/// What should not be possible is repaired when it has lasted a while.
#[tokio::test(start_paused = true)]
async fn an_inconsistent_mirror_is_resynced() {
    let bench = Bench::new().await;
    bench.run([controller(&bench.context)]);
    add_deleted_claim(&bench);
    bench.pass(Duration::from_secs(20)).await;
    assert!(!bench.context.mirror.is_synced(bench.context.clock.now()));
    bench.pass(Duration::from_secs(15)).await;
    assert!(bench.context.mirror.is_synced(bench.context.clock.now()));
}

#[tokio::test(start_paused = true)]
async fn only_deleted_unlaunched_claims_are_removed_from_the_mirror() {
    let bench = Bench::new().await;
    bench.create(node_claim("waiting", &json!({}))).await;
    let launched = json!({"status": {"providerID": "m"}});
    let launched: NodeClaim = serde_json::from_value(node_claim("launched", &launched)).unwrap();
    bench.context.mirror.set_node_claim("launched", Some(Arc::new(launched)));
    add_deleted_claim(&bench);
    bench.run([nodeclaim_gc::controller(&bench.context)]);
    bench.pass(Duration::from_secs(16)).await;
    let knows = |name| bench.context.mirror.has_node_claim(name);
    assert!(!knows("ghost"), "40/CS-22");
    assert!(knows("waiting") && knows("launched"), "40/CS-23");
}
