//! `nodepool.counter`: what the nodes of a pool have together (spec 40 §4.1).

use std::time::Duration;

use karpenter_api::nodepool::NodePool;
use karpenter_core::resources::{Quantity, Resources};
use karpenter_operator::cloud::claim::quantities;
use karpenter_operator::harness::{Controller, Outcome, Reconcile, Reconciled};
use karpenter_operator::watch::ObjectKey;
use karpenter_operator::write::{Check, Written, patch_status};
use kube::Api;

use crate::Context;

#[cfg(test)]
mod tests;

/// How often it is counted.
const EVERY: Duration = Duration::from_secs(5);
/// When to look again while the mirror is not complete.
const NOT_YET: Duration = Duration::from_secs(1);
/// What is always shown.
const SHOWN: [&str; 5] = ["cpu", "memory", "pods", "ephemeral-storage", "nodes"];

pub(super) fn controller(context: &Context) -> Controller {
    let counter = Counter { context: context.clone() };
    Controller::new("nodepool.counter", &context.clock, counter)
        .of("karpenter.sh", "NodePool")
        .workers(context.workers(10, 1000))
        .watch_if(&context.cache.node_pools, |change| change.before.is_none())
}

struct Counter {
    context: Context,
}

impl Reconcile for Counter {
    async fn reconcile(&self, key: &ObjectKey) -> Reconciled {
        let context = &self.context;
        let pool = context.cache.node_pools.get("", &key.name);
        let Some(pool) = pool.filter(|pool| context.manages_pool(pool)) else {
            return Ok(Outcome::Done);
        };
        if !context.mirror.is_synced(context.clock.now()) {
            return Ok(Outcome::After(NOT_YET));
        }
        let total = context.mirror.pool_usage(&key.name);
        let shown = shown(&total);
        let mut after = NodePool::clone(&pool);
        let status = after.status.get_or_insert_default();
        status.nodes = i64::try_from(shown.amount("nodes").units()).unwrap_or(i64::MAX);
        status.resources = Some(quantities(&shown));
        let api: Api<NodePool> = Api::all(context.client.clone());
        if let Written::Done(pool) = patch_status(&api, &pool, &after, Check::Nothing).await? {
            context.cache.node_pools.learn(*pool);
        }
        Ok(Outcome::After(EVERY))
    }
}

/// The total, with zeros for what every pool shows.
fn shown(total: &Resources) -> Resources {
    let zeros: Resources =
        SHOWN.map(|name| (name.to_owned(), Quantity::ZERO)).into_iter().collect();
    zeros.overlaid_by(total)
}
