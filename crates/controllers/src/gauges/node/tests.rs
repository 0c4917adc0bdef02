//! Tests of the Node gauges: resources, pod requests and age.

use serde_json::json;

use super::*;
use crate::testing::Bench;
use crate::testing::fixtures::{daemon, merged, node_claim, pod};

/// The value of a gauge of a node, whatever its other labels are.
fn value(bench: &Bench, metric: &str, labels: &[(&str, &str)]) -> f64 {
    bench.number(&format!("karpenter_nodes_{metric}"), labels)
}

fn requesting(cpu: &str, limit: &str) -> serde_json::Value {
    let resources = json!({"requests": {"cpu": cpu}, "limits": {"cpu": limit}});
    json!({"spec": {"containers": [{"name": "main", "image": "none", "resources": resources}]}})
}

async fn node(bench: &Bench, name: &str) {
    let status = json!({
        "capacity": {"cpu": "5", "memory": "9Gi"},
        "allocatable": {"cpu": "4", "memory": "8Gi"},
    });
    let changes = json!({
        "metadata": {"labels": {
            "topology.kubernetes.io/zone": "zone-a",
            "karpenter.sh/nodepool": "general",
            "karpenter.sh/registered": "true",
            "karpenter.sh/initialized": "true",
        }},
        "status": status,
    });
    bench.join(name, &format!("fake:///{name}"), &changes).await;
}

#[tokio::test(start_paused = true)]
async fn gauges_show_node_resources_and_pod_requests() {
    let bench = Bench::new().await;
    node(&bench, "a").await;
    bench.create(pod("app", Some("a"), &requesting("1", "2"))).await;
    bench.create(pod("agent", Some("a"), &merged(daemon(), &requesting("500m", "1")))).await;
    let controller = controller(&bench.context);
    assert_eq!(
        bench.reconcile(&controller, "").await.unwrap(),
        Outcome::RequeueAfter(REQUEUE_INTERVAL)
    );
    let cpu = [("node_name", "a"), ("resource_type", "cpu"), ("zone", "zone-a")];
    for (metric, expected) in [
        ("allocatable", 4.0),
        ("system_overhead", 1.0),
        ("total_pod_requests", 1.5),
        ("total_pod_limits", 3.0),
        ("total_daemon_requests", 0.5),
        ("total_daemon_limits", 1.0),
    ] {
        let found = value(&bench, metric, &cpu);
        assert!((found - expected).abs() < 1e-9, "{metric}: {found}");
    }
    let utilization = bench.number("karpenter_cluster_utilization_percent", &cpu[1..2]);
    assert!((utilization - 37.5).abs() < 1e-9, "{utilization}");
}

#[tokio::test(start_paused = true)]
async fn a_node_is_managed_once_it_has_a_claim() {
    let bench = Bench::new().await;
    node(&bench, "a").await;
    let controller = controller(&bench.context);
    bench.reconcile(&controller, "").await.unwrap();
    let count = |managed: &str| {
        let series = bench.context.metrics.registry().text();
        let is_of = |line: &&str| {
            line.starts_with("karpenter_nodes_allocatable{")
                && line.contains(&format!("managed=\"{managed}\""))
        };
        series.lines().filter(is_of).count()
    };
    assert_eq!((count("false"), count("true")), (2, 0), "40/OB-09");
    let status = json!({"status": {"providerID": "fake:///a", "nodeName": "a"}});
    bench.create(node_claim("a", &status)).await;
    bench.reconcile(&controller, "").await.unwrap();
    assert_eq!((count("false"), count("true")), (0, 2), "40/OB-09");
}

#[tokio::test(start_paused = true)]
async fn age_series_grow_and_are_removed_with_the_node() {
    let bench = Bench::new().await;
    node(&bench, "a").await;
    bench.run([controller(&bench.context)]);
    bench.pass(Duration::from_secs(61)).await;
    let lifetime = value(&bench, "current_lifetime_seconds", &[("node_name", "a")]);
    assert!((55.0..62.0).contains(&lifetime), "{lifetime}");
    bench.context.cache.nodes.apply_deletion(&ObjectKey::new("", "a"));
    bench.pass(Duration::from_secs(5)).await;
    let registry = bench.context.metrics.registry();
    assert_eq!(registry.series_count("karpenter_nodes_allocatable"), 0, "40/OB-08");
    assert_eq!(registry.series_count("karpenter_nodes_current_lifetime_seconds"), 0, "40/OB-08");
    assert_eq!(registry.series_count("karpenter_cluster_utilization_percent"), 0, "40/OB-07");
}
