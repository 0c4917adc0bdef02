//! Logs unparsable pod annotations about the cost of an eviction (spec 45 §9.4).
//!
//! Upstream logs them whenever it evaluates the pod, which is every few seconds. The disruption
//! controller logs each pod and value once.

use std::collections::BTreeMap;

use karpenter_cluster::ingest::{CostAnnotationError, Gates, cost_annotation_error};
use karpenter_cluster::wire::Pod;
use karpenter_operator::options::Gate;
use kube::ResourceExt as _;
use tracing::error;

use crate::{Context, objects};

/// How many pods are logged at most. More are mostly replicas with the same mistake.
const MAX_LOGGED_PODS: usize = 100;

/// A pod and the annotation.
type Key = (&'static str, String, String);

/// The logged annotation values, as long as pods have them.
#[derive(Debug, Default)]
pub(super) struct CostAnnotationErrors {
    logged: BTreeMap<Key, String>,
}

impl CostAnnotationErrors {
    /// Logs new unparsable cost annotations. Returns the number of pods.
    pub(super) fn log_new(&mut self, context: &Context) -> usize {
        let is_managed = context.options.feature_gates.is_enabled(Gate::PodDeletionCostManagement);
        let gates = Gates { pod_deletion_cost_management: is_managed, ..Gates::default() };
        let pods = context.cache.pods.all();
        let mut unread: BTreeMap<Key, CostAnnotationError<'_>> = BTreeMap::new();
        for pod in &pods {
            if let Some(cost) =
                cost_annotation_error(pod, gates).filter(|_| is_on_our_node(context, pod))
            {
                let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
                unread.insert((cost.annotation(), namespace, name), cost);
            }
        }
        let is_known = |key: &Key, logged_value: &str| {
            unread.get(key).is_some_and(|c| c.value() == logged_value)
        };
        self.logged.retain(|key, logged_value| is_known(key, logged_value));
        unread.retain(|key, _| !self.logged.contains_key(key));
        let remaining = MAX_LOGGED_PODS.saturating_sub(self.logged.len());
        let new_count = unread.len().min(remaining);
        for (key, cost) in unread.into_iter().take(remaining) {
            log_error(cost, &key.1, &key.2);
            self.logged.insert(key, cost.value().to_owned());
        }
        new_count
    }
}

/// Whether the pod runs on the node of a NodeClaim. Disruption evaluates only those.
fn is_on_our_node(context: &Context, pod: &Pod) -> bool {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    let node = node.and_then(|node| context.cache.nodes.get("", node));
    node.is_some_and(|node| objects::claim_of(&context.cache, &node).is_some())
}

fn log_error(unread: CostAnnotationError<'_>, namespace: &str, name: &str) {
    let (annotation, value) = (unread.annotation(), unread.value());
    let pod = format!("{namespace}/{name}");
    match unread {
        CostAnnotationError::Disruption(_) => {
            error!(annotation, value, Pod = pod, "failed parsing disruption cost");
        }
        CostAnnotationError::Deletion(_) => {
            error!(annotation, value, Pod = pod, "failed parsing pod deletion cost");
        }
    }
}

#[cfg(test)]
mod tests {
    use karpenter_operator::options::Options;
    use serde_json::{Value, json};

    use super::*;
    use crate::disruptor::testing::{cluster, node, running_with_cpu};
    use crate::testing::Bench;
    use crate::testing::fixtures::{merged, pod};

    /// The other annotation is checked by the API server.
    const COST: &str = "karpenter.sh/disruption-cost";

    fn annotated(name: &str, annotations: &Value) -> Value {
        let changes = json!({"metadata": {"annotations": annotations}});
        pod(name, Some("a"), &merged(running_with_cpu("1"), &changes))
    }

    /// A cluster with these pods on its node.
    async fn with_pods(pods: &[(&str, Value)]) -> Bench {
        let bench = Box::pin(cluster(Options::default(), &json!({}))).await;
        node(&bench, "a", "large", &json!({})).await;
        for (name, annotations) in pods {
            bench.create(annotated(name, annotations)).await;
        }
        bench.settle().await;
        bench
    }

    #[tokio::test(start_paused = true)]
    async fn an_unparsable_cost_is_logged_once_per_pod_and_value() {
        let pods = [
            ("bad", json!({COST: "much"})),
            ("broken", json!({COST: "1.5", "controller.kubernetes.io/pod-deletion-cost": "5"})),
            ("good", json!({COST: "5"})),
            ("silent", json!({})),
        ];
        let bench = with_pods(&pods).await;
        let mut costs = CostAnnotationErrors::default();
        assert_eq!(costs.log_new(&bench.context), 2, "45 §9.4");
        assert_eq!(costs.log_new(&bench.context), 0, "said already");
        let changed = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "bad", "namespace": "default", "annotations": {COST: "more"}},
        });
        bench.patch(changed).await;
        bench.settle().await;
        assert_eq!(costs.log_new(&bench.context), 1, "it says something else now");
    }

    #[tokio::test(start_paused = true)]
    async fn unparsable_costs_of_many_replicas_do_not_flood_the_log() {
        let names: Vec<_> = (0..=MAX_LOGGED_PODS).map(|number| format!("web-{number}")).collect();
        let pods: Vec<_> = names.iter().map(|name| (name.as_str(), json!({COST: "x"}))).collect();
        let bench = with_pods(&pods).await;
        let mut costs = CostAnnotationErrors::default();
        assert_eq!(
            (costs.log_new(&bench.context), costs.log_new(&bench.context)),
            (MAX_LOGGED_PODS, 0)
        );
    }
}
