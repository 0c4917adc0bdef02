//! `pod.deletioncost`, `pod.deletioncost.queue`: which pods ReplicaSets should give up first
//! (spec 45 §10; gate PodDeletionCostManagement, alpha, off).
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
use karpenter_core::disruption::deletion_cost::{Ranking, Wanted};
use karpenter_core::disruption::{Settings, World};
use karpenter_core::id::NodeId;
use karpenter_operator::harness::{Controller, Outcome, Reconcile, Reconciled, Trouble};
use karpenter_operator::metrics::labels::Pool;
use karpenter_operator::options::Gate;
use karpenter_operator::think::think;
use karpenter_operator::watch::ObjectKey;
use kube::ResourceExt as _;
use tracing::debug;

use crate::Context;
use crate::disruptor::sight::Sight;
use writes::Writes;

#[cfg(test)]
mod tests;

/// What ReplicaSets read to choose pods; it stands for the cost of moving them.
pub(crate) const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

const EVERY: Duration = Duration::from_mins(1);
/// When to look again while the mirror is not complete.
const NOT_YET: Duration = Duration::from_secs(1);

/// Both of them, if the gate is on.
pub(crate) fn all(context: &Context) -> Vec<Controller> {
    if !context.options.feature_gates.is_on(Gate::PodDeletionCostManagement) {
        return Vec::new();
    }
    let writes = Writes::new(context);
    let costs = Costs { context: context.clone(), writes: writes.clone(), seen: Mutex::default() };
    let ranking = Controller::new("pod.deletioncost", &context.clock, costs).singleton();
    vec![ranking, writes::controller(context, &writes)]
}

struct Costs {
    context: Context,
    writes: Writes,
    /// The state of the cluster that was ranked last.
    seen: Mutex<Option<Timestamp>>,
}

impl Reconcile for Costs {
    async fn reconcile(&self, _: &ObjectKey) -> Reconciled {
        let (context, now) = (&self.context, self.context.clock.now());
        if !context.mirror.is_synced(now) {
            return Ok(Outcome::After(NOT_YET));
        }
        let state = Some(context.mirror.consolidation_state(now));
        if *self.seen.lock().unwrap_or_else(PoisonError::into_inner) == state {
            debug!("no changes detected, skipping pod deletion cost update");
            return Ok(Outcome::After(EVERY));
        }
        if context.mirror.node_count() == 0 {
            return Ok(Outcome::After(EVERY));
        }
        let sight = Sight::take(context).await;
        let ranking = self.rank(&sight).await?;
        self.enqueue(&sight, &ranking);
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = state;
        Ok(Outcome::After(EVERY))
    }
}

impl Costs {
    async fn rank(&self, sight: &Sight) -> Result<Ranking, Trouble> {
        let (sight, nominated) = (sight.clone(), self.context.mirror.nominated(sight.now));
        let ranked = think(self.context.thinker.as_ref(), move || {
            let settings = Settings::default();
            let world = World::new(&sight.snapshot, &sight.catalog, &settings, sight.now);
            Ranking::new(&World { nominated, ..world })
        });
        let ranking = ranked.await.ok_or_else(|| Trouble::new("ranking nodes did not end"))?;
        debug!(
            totalNodes = ranking.leaving.len() + ranking.ranked.len() + ranking.rest.len(),
            disruptedNodes = ranking.leaving.len(),
            rankedNodes = ranking.ranked.len(),
            cleanupOnlyNodes = ranking.rest.len(),
            "completed node ranking"
        );
        Ok(ranking)
    }

    #[expect(clippy::cast_precision_loss, reason = "a number of nodes")]
    fn enqueue(&self, sight: &Sight, ranking: &Ranking) {
        let mut pods: BTreeMap<NodeId, Vec<Arc<Pod>>> = BTreeMap::new();
        let writes = ranking.writes(|node, wanted| {
            let of_node = self.pods(sight, node);
            let needs = of_node.iter().any(|pod| !has(pod, wanted));
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
            let pool = sight.snapshot.node(*node).pool.as_deref().unwrap_or_default();
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
    fn pods(&self, sight: &Sight, node: NodeId) -> Vec<Arc<Pod>> {
        let name = &sight.snapshot.node(node).name;
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

/// Whether the pod has the cost that it should have.
fn has(pod: &Pod, wanted: Wanted) -> bool {
    let annotation = pod.annotations().get(POD_DELETION_COST);
    annotation.cloned() == wanted.map(|cost| cost.to_string())
}
