//! Tests of the template hash of NodePools and its copies on claims.

use serde_json::{Value, json};

use super::*;
use crate::testing::Bench;
use crate::testing::fixtures::{merged, node_claim, node_pool};

async fn reconcile(bench: &Bench) {
    bench.reconcile(&controller(&bench.context), "general").await.unwrap();
}

/// Hash and version.
fn notes(object: &impl ResourceExt) -> (Option<&str>, Option<&str>) {
    (object.annotations().get(NODEPOOL_HASH).map(String::as_str), version(object))
}

async fn pool(bench: &Bench) -> NodePool {
    bench.get("", "general").await.expect("the pool is there")
}

fn hashed(version: &str) -> Value {
    let notes = json!({NODEPOOL_HASH: "old", NODEPOOL_HASH_VERSION: version});
    json!({"metadata": {"annotations": notes}})
}

#[tokio::test(start_paused = true)]
async fn the_hash_covers_only_the_template() {
    let bench = Bench::new().await;
    bench.create(node_pool("general")).await;
    reconcile(&bench).await;
    let first = pool(&bench).await;
    let (hash, version) = notes(&first);
    assert_eq!(hash, Some(nodepool_hash(&first.spec).as_str()), "40/NP-06");
    assert_eq!(version, Some("v3"), "40/NP-06");
    let mut limited = node_pool("general");
    limited["spec"]["limits"] = json!({"cpu": "1"});
    limited["spec"]["disruption"] = json!({"consolidateAfter": "1h"});
    bench.patch(limited).await;
    reconcile(&bench).await;
    assert_eq!(notes(&pool(&bench).await), (hash, version), "40/NP-06 limits, disruption");
    let mut changed = node_pool("general");
    changed["spec"]["template"]["metadata"] = json!({"labels": {"team": "a"}});
    bench.patch(changed).await;
    reconcile(&bench).await;
    assert_ne!(notes(&pool(&bench).await).0, hash, "40/NP-06 template");
}

#[tokio::test(start_paused = true)]
async fn unmanaged_pools_are_not_hashed() {
    let bench = Bench::new().await;
    let mut other = node_pool("general");
    other["spec"]["template"]["spec"]["nodeClassRef"]["group"] = json!("example.com");
    bench.create(other).await;
    reconcile(&bench).await;
    assert_eq!(notes(&pool(&bench).await), (None, None), "10/HS-3");
}

#[tokio::test(start_paused = true)]
async fn claims_of_an_older_hash_version_are_rehashed_unless_drifted() {
    let bench = Bench::new().await;
    bench.create(merged(node_pool("general"), &hashed("v2"))).await;
    let drifted = json!({"type": "Drifted", "status": "True", "reason": "NodePoolDrifted",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    bench.create(node_claim("plain", &hashed("v2"))).await;
    let status = json!({"status": {"conditions": [drifted]}});
    bench.create(node_claim("drifted", &merged(hashed("v2"), &status))).await;
    let other = json!({"metadata": {"labels": {"karpenter.sh/nodepool": "other"}}});
    bench.create(node_claim("other", &merged(hashed("v2"), &other))).await;
    reconcile(&bench).await;
    let pool = pool(&bench).await;
    let now = notes(&pool);
    assert_eq!(now, (Some(nodepool_hash(&pool.spec).as_str()), Some("v3")), "40/NP-07");
    assert_eq!(notes(&bench.claim("plain").await), now, "40/NP-07");
    assert_eq!(notes(&bench.claim("drifted").await), (Some("old"), Some("v3")), "40/NP-07");
    assert_eq!(notes(&bench.claim("other").await), (Some("old"), Some("v2")), "of another pool");
}

#[tokio::test(start_paused = true)]
async fn claims_are_not_rehashed_while_the_version_is_unchanged() {
    let bench = Bench::new().await;
    bench.create(merged(node_pool("general"), &hashed("v3"))).await;
    bench.create(node_claim("a", &hashed("v3"))).await;
    bench.create(node_claim("b", &hashed("v2"))).await;
    reconcile(&bench).await;
    assert_ne!(notes(&pool(&bench).await).0, Some("old"), "40/NP-08");
    assert_eq!(notes(&bench.claim("a").await), (Some("old"), Some("v3")), "40/NP-08");
    assert_eq!(notes(&bench.claim("b").await), (Some("old"), Some("v2")), "40/NP-08");
}
