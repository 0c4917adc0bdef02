//! `metrics.nodepool`: publishes limits and usage of NodePools (spec 40 §8.1). `state.pricing`
//! publishes their costs.

use karpenter_api::nodepool::NodePool;
use karpenter_operator::harness::{Controller, Outcome, Reconcile, ReconcileResult};
use karpenter_operator::metrics::labels::PoolResource;
use karpenter_operator::metrics::{Sample, Store, resource_type};
use karpenter_operator::watch::ObjectKey;
use kube::ResourceExt as _;

use super::gauge_value;
use crate::{Context, objects};

pub(super) fn controller(context: &Context) -> Controller {
    let gauges = PoolGauges { context: context.clone(), store: Store::new() };
    // All that it shows is in the object, so nothing changes between events.
    Controller::new("metrics.nodepool", &context.clock, gauges)
        .for_kind("karpenter.sh", "NodePool")
        .watch(&context.cache.node_pools)
}

struct PoolGauges {
    context: Context,
    store: Store<String>,
}

impl Reconcile for PoolGauges {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let pool = self.context.cache.node_pools.get("", &key.name);
        match pool.filter(|pool| self.context.manages_pool(pool)) {
            Some(pool) => self.store.update(&key.name, self.samples(&pool)),
            None => self.store.delete(&key.name),
        }
        Ok(Outcome::Done)
    }
}

impl PoolGauges {
    fn samples(&self, pool: &NodePool) -> Vec<Sample> {
        let (metrics, name) = (&self.context.metrics, pool.name_any());
        let usage = pool.status.as_ref().and_then(|status| status.resources.as_ref());
        let lists = [
            (&metrics.nodepools_usage, objects::resources(usage)),
            (&metrics.nodepools_limit, objects::resources(pool.spec.limits.as_ref())),
        ];
        let mut samples = Vec::new();
        for (gauge, list) in &lists {
            for (resource, amount) in list.iter() {
                let resource_type = resource_type(resource);
                let labels = PoolResource { resource_type: &resource_type, nodepool: &name };
                samples.push(gauge.sample(&labels, gauge_value(resource, amount)));
            }
        }
        samples
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::Bench;
    use crate::testing::fixtures::{merged, node_pool};

    fn value(bench: &Bench, metric: &str, resource: &str) -> Option<f64> {
        let labels = [("resource_type", resource), ("nodepool", "general")];
        bench.context.metrics.registry().value(metric, &labels)
    }

    #[tokio::test(start_paused = true)]
    async fn limits_and_usage_follow_the_pool() {
        let bench = Bench::new().await;
        let changes = json!({
            "spec": {"limits": {"cpu": "1500m", "example.com/big-gpu": "4"}},
            "status": {"nodes": 1, "resources": {"memory": "1Ki", "ephemeral-storage": "5"}},
        });
        bench.create(merged(node_pool("general"), &changes)).await;
        let controller = controller(&bench.context);
        bench.reconcile(&controller, "general").await.unwrap();
        let found = [
            ("karpenter_nodepools_limit", "cpu", Some(1.5)),
            ("karpenter_nodepools_limit", "example.com/big_gpu", Some(4.0)),
            ("karpenter_nodepools_usage", "memory", Some(1024.0)),
            ("karpenter_nodepools_usage", "ephemeral_storage", Some(5.0)),
        ];
        for (metric, resource, expected) in found {
            assert_eq!(value(&bench, metric, resource), expected, "{metric} {resource}");
        }
        bench.patch(merged(node_pool("general"), &json!({"spec": {"limits": null}}))).await;
        let mut gone = node_pool("general");
        gone["spec"]["limits"] = json!(null);
        bench.patch(gone).await;
        bench.reconcile(&controller, "general").await.unwrap();
        assert_eq!(value(&bench, "karpenter_nodepools_limit", "cpu"), None, "40/OB-06");
        bench.context.cache.node_pools.apply_deletion(&ObjectKey::new("", "general"));
        bench.reconcile(&controller, "general").await.unwrap();
        assert_eq!(bench.context.metrics.registry().series_count("karpenter_nodepools_usage"), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn unmanaged_pools_have_no_series() {
        let bench = Bench::new().await;
        let class = json!({"group": "example.com", "kind": "Other", "name": "default"});
        let mut pool = node_pool("general");
        pool["spec"]["template"]["spec"]["nodeClassRef"] = class;
        pool["spec"]["limits"] = json!({"cpu": "1"});
        bench.create(pool).await;
        bench.reconcile(&controller(&bench.context), "general").await.unwrap();
        assert_eq!(value(&bench, "karpenter_nodepools_limit", "cpu"), None, "40/OB-14");
    }
}
