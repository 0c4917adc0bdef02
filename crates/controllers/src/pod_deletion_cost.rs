//! `pod.deletioncost`, `pod.deletioncost.queue`: decide which pods ReplicaSets delete first (spec
//! 45 §10; gate PodDeletionCostManagement, alpha, off).
//!
//! ```text
//! nodes ── in the order in which they would go ──▶ wanted costs of their pods ──▶ queue ──▶ pods
//! ```

mod writes;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_cluster::wire::Pod;
use karpenter_core::disruption::pod_deletion_cost::{DesiredCost, NodeRanking};
use karpenter_core::disruption::{PassContext, Settings};
use karpenter_core::id::NodeId;
use karpenter_operator::compute::run;
use karpenter_operator::harness::{
    Controller, Outcome, Reconcile, ReconcileError, ReconcileResult,
};
use karpenter_operator::metrics::labels::Pool;
use karpenter_operator::options::Gate;
use karpenter_operator::watch::ObjectKey;
use kube::ResourceExt as _;
use tracing::debug;

use crate::Context;
use crate::disruptor::observation::Observation;
use writes::Writes;

#[cfg(test)]
mod tests;

/// The annotation by which ReplicaSets choose pods to delete: the cost of moving a pod.
pub(crate) const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

const REQUEUE_INTERVAL: Duration = Duration::from_mins(1);
/// The retry interval while the mirror is not synced.
const UNSYNCED_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Both of them, if the gate is on.
pub(crate) fn all(context: &Context) -> Vec<Controller> {
    if !context.options.feature_gates.is_enabled(Gate::PodDeletionCostManagement) {
        return Vec::new();
    }
    let writes = Writes::new(context);
    let costs = RankingReconciler {
        context: context.clone(),
        writes: writes.clone(),
        last_ranked: Mutex::default(),
    };
    let ranking = Controller::new("pod.deletioncost", &context.clock, costs).singleton();
    vec![ranking, writes::controller(context, &writes)]
}

struct RankingReconciler {
    context: Context,
    writes: Writes,
    /// The consolidation state that was ranked last.
    last_ranked: Mutex<Option<Timestamp>>,
}

impl Reconcile for RankingReconciler {
    async fn reconcile(&self, _: &ObjectKey) -> ReconcileResult {
        let (context, now) = (&self.context, self.context.clock.now());
        if !context.mirror.is_synced(now) {
            return Ok(Outcome::RequeueAfter(UNSYNCED_RETRY_INTERVAL));
        }
        let state = Some(context.mirror.consolidation_state(now));
        if *self.last_ranked.lock().unwrap_or_else(PoisonError::into_inner) == state {
            debug!("no changes detected, skipping pod deletion cost update");
            return Ok(Outcome::RequeueAfter(REQUEUE_INTERVAL));
        }
        if context.mirror.node_count() == 0 {
            return Ok(Outcome::RequeueAfter(REQUEUE_INTERVAL));
        }
        let observation = Observation::collect(context).await;
        let ranking = self.rank(&observation).await?;
        self.enqueue(&observation, &ranking);
        *self.last_ranked.lock().unwrap_or_else(PoisonError::into_inner) = state;
        Ok(Outcome::RequeueAfter(REQUEUE_INTERVAL))
    }
}

impl RankingReconciler {
    async fn rank(&self, observation: &Observation) -> Result<NodeRanking, ReconcileError> {
        let (observation, nominated) =
            (observation.clone(), self.context.mirror.nominations(observation.now));
        let ranked = run(self.context.executor.as_ref(), move || {
            let settings = Settings::default();
            let world = PassContext::new(
                &observation.snapshot,
                &observation.catalog,
                &settings,
                observation.now,
            );
            NodeRanking::new(&PassContext { nominated, ..world })
        });
        let ranking =
            ranked.await.ok_or_else(|| ReconcileError::new("ranking nodes did not end"))?;
        debug!(
            totalNodes = ranking.deleting.len() + ranking.ranked.len() + ranking.unranked.len(),
            disruptedNodes = ranking.deleting.len(),
            rankedNodes = ranking.ranked.len(),
            cleanupOnlyNodes = ranking.unranked.len(),
            "completed node ranking"
        );
        Ok(ranking)
    }

    #[expect(clippy::cast_precision_loss, reason = "a number of nodes")]
    fn enqueue(&self, observation: &Observation, ranking: &NodeRanking) {
        let mut pods: BTreeMap<NodeId, Vec<Arc<Pod>>> = BTreeMap::new();
        let writes = ranking.pending_updates(|node, wanted| {
            let of_node = self.pods(observation, node);
            let needs = of_node.iter().any(|pod| !has_cost(pod, wanted));
            if needs {
                pods.insert(node, of_node);
            }
            needs
        });
        let mut by_pool: BTreeMap<&str, usize> = BTreeMap::new();
        for (node, wanted) in &writes {
            for pod in pods.get(node).into_iter().flatten() {
                self.writes.add(pod, *wanted);
            }
            let pool = observation.snapshot.node(*node).pool.as_deref().unwrap_or_default();
            *by_pool.entry(pool).or_default() += 1;
        }
        let gauge = &self.context.metrics.pod_deletion_cost_nodes_with_pending_annotation_writes;
        gauge.clear();
        for (nodepool, count) in by_pool {
            gauge.set(&Pool { nodepool }, count as f64);
        }
        if !writes.is_empty() {
            debug!(nodeCount = writes.len(), "enqueued pod deletion cost annotation writes");
        }
    }

    /// The pods of a node that heed the annotation.
    fn pods(&self, observation: &Observation, node: NodeId) -> Vec<Arc<Pod>> {
        let name = &observation.snapshot.node(node).name;
        let mut pods = self.context.cache.pods_by_node.get(name);
        pods.retain(|pod| {
            pod.owner_references().iter().any(|owner| {
                owner.controller == Some(true)
                    && (owner.api_version.as_str(), owner.kind.as_str())
                        == ("apps/v1", "ReplicaSet")
            })
        });
        pods
    }
}

/// Returns whether the pod has the desired cost.
fn has_cost(pod: &Pod, wanted: DesiredCost) -> bool {
    let annotation = pod.annotations().get(POD_DELETION_COST);
    annotation.cloned() == wanted.map(|cost| cost.to_string())
}
