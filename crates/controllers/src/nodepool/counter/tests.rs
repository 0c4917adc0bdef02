//! Tests of the resources and the number of nodes in a NodePool's status.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::testing::Bench;
use crate::testing::fixtures::{merged, node_claim, node_pool};

/// The amounts in the status of a pool, and its number of nodes.
async fn counted(bench: &Bench, pool: &str) -> (BTreeMap<String, String>, i64) {
    let pool: NodePool = bench.get("", pool).await.expect("the pool is there");
    let status = pool.status.expect("it was counted");
    let resources = status.resources.unwrap_or_default().into_iter();
    (resources.map(|(name, amount)| (name, amount.as_str().to_owned())).collect(), status.nodes)
}

fn amounts(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    let zeros = SHOWN.map(|name| (name, "0"));
    let all = zeros.iter().chain(list);
    all.map(|(name, amount)| ((*name).to_owned(), (*amount).to_owned())).collect()
}

async fn count(bench: &Bench, pool: &str) -> Outcome {
    bench.reconcile(&controller(&bench.context), pool).await.unwrap()
}

/// A launched claim of a pool.
fn launched(name: &str, pool: &str) -> Value {
    let changes = json!({
        "metadata": {"labels": {"karpenter.sh/nodepool": pool}},
        "status": {"providerID": format!("fake:///{name}"), "capacity": {"cpu": "3", "pods": "9"}},
    });
    node_claim(name, &changes)
}

#[tokio::test(start_paused = true)]
async fn a_pool_without_nodes_reports_zero_resources() {
    let bench = Bench::new().await;
    bench.create(node_pool("general")).await;
    assert_eq!(count(&bench, "general").await, Outcome::RequeueAfter(REQUEUE_INTERVAL), "40/NP-01");
    assert_eq!(counted(&bench, "general").await, (amounts(&[]), 0), "40/NP-01");
}

#[tokio::test(start_paused = true)]
async fn an_initialized_node_counts_with_its_actual_capacity() {
    let bench = Bench::new().await;
    bench.create(node_pool("general")).await;
    bench.create(launched("a", "general")).await;
    count(&bench, "general").await;
    let promised = amounts(&[("cpu", "3"), ("pods", "9"), ("nodes", "1")]);
    assert_eq!(counted(&bench, "general").await, (promised.clone(), 1), "40/NP-02");
    let labels = json!({
        "karpenter.sh/nodepool": "general",
        "karpenter.sh/registered": "true",
        "node.kubernetes.io/instance-type": "some",
    });
    bench.join("a", "fake:///a", &json!({"metadata": {"labels": labels}})).await;
    count(&bench, "general").await;
    let (found, nodes) = counted(&bench, "general").await;
    assert_eq!((&found["pods"], nodes), (&promised["pods"], 1), "40/NP-02 not initialized");
    let initialized = json!({"karpenter.sh/initialized": "true"});
    let node = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "a", "labels": initialized}});
    bench.patch(node).await;
    count(&bench, "general").await;
    let has = amounts(&[("cpu", "4"), ("memory", "8Gi"), ("nodes", "1")]);
    assert_eq!(counted(&bench, "general").await.0, has, "40/NP-02 initialized");
}

#[tokio::test(start_paused = true)]
async fn deleted_claims_are_not_counted() {
    let bench = Bench::new().await;
    bench.create(node_pool("general")).await;
    bench.create(launched("a", "general")).await;
    bench.create(launched("b", "general")).await;
    count(&bench, "general").await;
    assert_eq!(counted(&bench, "general").await.0["cpu"], "6", "40/NP-03");
    for (gone, cpu) in [("a", "3"), ("b", "0")] {
        bench.context.cache.node_claims.apply_deletion(&ObjectKey::new("", gone));
        count(&bench, "general").await;
        assert_eq!(counted(&bench, "general").await.0["cpu"], cpu, "40/NP-03");
    }
}

#[tokio::test(start_paused = true)]
async fn no_pool_is_counted_while_the_mirror_is_unsynced() {
    let bench = Bench::new().await;
    bench.create(node_pool("general")).await;
    bench.create(node_claim("a", &json!({}))).await;
    assert_eq!(
        count(&bench, "general").await,
        Outcome::RequeueAfter(UNSYNCED_RETRY_INTERVAL),
        "40/NP-04"
    );
    let pool: NodePool = bench.get("", "general").await.unwrap();
    assert_eq!(pool.status.and_then(|status| status.resources), None, "40/NP-04");
}

#[tokio::test(start_paused = true)]
async fn pools_are_counted_separately() {
    let bench = Bench::new().await;
    bench.create(node_pool("general")).await;
    bench.create(merged(node_pool("fixed"), &json!({"spec": {"replicas": 1}}))).await;
    bench.create(launched("a", "general")).await;
    bench.create(launched("b", "fixed")).await;
    bench.create(launched("c", "fixed")).await;
    for (pool, nodes) in [("general", 1), ("fixed", 2)] {
        count(&bench, pool).await;
        assert_eq!(counted(&bench, pool).await.1, nodes, "40/NP-05 {pool}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_pool_is_counted_periodically() {
    let bench = Bench::new().await;
    bench.run([controller(&bench.context)]);
    bench.create(node_pool("general")).await;
    bench.create(launched("a", "general")).await;
    bench.pass(REQUEUE_INTERVAL).await;
    assert_eq!(counted(&bench, "general").await.1, 1);
}
