//! `nodepool.counter`: writes the total resources of a pool's nodes to its status (spec 40 §4.1).

use std::time::Duration;

use karpenter_api::nodepool::NodePool;
use karpenter_core::resources::{Quantity, Resources};
use karpenter_operator::cloud::nodeclaim::quantities;
use karpenter_operator::harness::{Controller, Outcome, Reconcile, ReconcileResult};
use karpenter_operator::watch::ObjectKey;
use karpenter_operator::write::{Precondition, WriteOutcome, patch_status};
use kube::Api;

use crate::Context;

#[cfg(test)]
mod tests;

/// How often the nodes of a pool are counted.
const REQUEUE_INTERVAL: Duration = Duration::from_secs(5);
/// The retry interval while the mirror is not synced.
const UNSYNCED_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The resources that every pool reports.
const SHOWN: [&str; 5] = ["cpu", "memory", "pods", "ephemeral-storage", "nodes"];

pub(super) fn controller(context: &Context) -> Controller {
    let counter = CounterReconciler { context: context.clone() };
    Controller::new("nodepool.counter", &context.clock, counter)
        .for_kind("karpenter.sh", "NodePool")
        .workers(context.workers(10, 1000))
        .watch_if(&context.cache.node_pools, |change| change.before.is_none())
}

struct CounterReconciler {
    context: Context,
}

impl Reconcile for CounterReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let context = &self.context;
        let pool = context.cache.node_pools.get("", &key.name);
        let Some(pool) = pool.filter(|pool| context.manages_pool(pool)) else {
            return Ok(Outcome::Done);
        };
        if !context.mirror.is_synced(context.clock.now()) {
            return Ok(Outcome::RequeueAfter(UNSYNCED_RETRY_INTERVAL));
        }
        let total = context.mirror.pool_usage(&key.name);
        let shown = shown(&total);
        let mut after = NodePool::clone(&pool);
        let status = after.status.get_or_insert_default();
        status.nodes = i64::try_from(shown.amount("nodes").units()).unwrap_or(i64::MAX);
        status.resources = Some(quantities(&shown));
        let api: Api<NodePool> = Api::all(context.client.clone());
        if let WriteOutcome::Applied(pool) =
            patch_status(&api, &pool, &after, Precondition::None).await?
        {
            context.cache.node_pools.apply_write_result(*pool);
        }
        Ok(Outcome::RequeueAfter(REQUEUE_INTERVAL))
    }
}

/// Returns the total, with zeros for the resources that every pool reports.
fn shown(total: &Resources) -> Resources {
    let zeros: Resources =
        SHOWN.map(|name| (name.to_owned(), Quantity::ZERO)).into_iter().collect();
    zeros.overlaid_by(total)
}
