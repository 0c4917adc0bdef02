//! Tests of the costs of NodePools.

use serde_json::json;

use super::*;
use crate::testing::Bench;
use crate::testing::fixtures::{POOL, node_claim, node_pool};

const COST: &str = "karpenter_nodepools_cost_total";
const ERRORS: &str = "karpenter_nodepools_cost_tracker_errors_total";

fn claim(name: &str, instance_type: &str, capacity_type: &str) -> serde_json::Value {
    let labels = json!({
        "node.kubernetes.io/instance-type": instance_type,
        "karpenter.sh/capacity-type": capacity_type,
        "topology.kubernetes.io/zone": "test-zone-1",
    });
    node_claim(name, &json!({"metadata": {"labels": labels}}))
}

#[tokio::test(start_paused = true)]
async fn the_cost_of_a_pool_is_that_of_its_claims() {
    let bench = Bench::new().await;
    bench.create(node_pool(POOL)).await;
    let pool = bench.context.cache.node_pools.get("", POOL).unwrap();
    let types = bench.context.cloud.instance_types(&pool).await.unwrap();
    let kind = |capacity_type: &str| OfferingKey {
        zone: "test-zone-1".to_owned(),
        capacity_type: capacity_type.to_owned(),
        instance_type: types[0].name.clone(),
    };
    let spot = price(&types, &kind("spot")).expect("a price");
    let on_demand = price(&types, &kind("on-demand")).expect("a price");
    bench.run(controllers(&bench.context));
    let gauge = |name: &str| {
        let registry = bench.context.metrics.registry();
        registry.value(name, &[("nodepool", POOL)]).unwrap_or(f64::NAN)
    };
    let cost = || gauge(COST);
    let name = &types[0].name;
    bench.create(claim("a", name, "spot")).await;
    bench.create(claim("b", name, "on-demand")).await;
    bench.settle().await;
    assert!((cost() - spot - on_demand).abs() < 1e-9, "40/CS-38");
    bench.patch(claim("a", name, "spot")).await;
    assert!((cost() - spot - on_demand).abs() < 1e-9, "40/CS-38: again");
    bench.delete(claim("b", name, "on-demand")).await;
    assert!((cost() - spot).abs() < 1e-9, "40/CS-38: one deleted");
    bench.create(claim("c", "no-such-type", "spot")).await;
    assert!((cost() - spot).abs() < 1e-9, "an unknown price is 0");
    assert!((gauge(ERRORS) - 1.0).abs() < 1e-9);
    bench.delete(node_pool(POOL)).await;
    assert_eq!(bench.context.metrics.registry().series_count(COST), 0, "the pool is gone");
}
