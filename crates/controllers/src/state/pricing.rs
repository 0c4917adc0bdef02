//! `state.nodeclaim`, `state.nodepool`, `state.pricing`: track the costs of NodePools' nodes (spec
//! 40 §5.7).

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use karpenter_api::labels;
use karpenter_api::nodepool::NodePool;
use karpenter_cluster::cost::{CostTracker, OfferingKey};
use karpenter_core::catalog::InstanceTypes;
use karpenter_operator::harness::{
    Controller, Outcome, Reconcile, ReconcileError, ReconcileResult,
};
use karpenter_operator::metrics::labels::Pool;
use karpenter_operator::watch::ObjectKey;
use tracing::error;

use crate::Context;

#[cfg(test)]
mod tests;

/// How often prices are refreshed.
const REQUEUE_INTERVAL: Duration = Duration::from_hours(1);
/// Waiting for prices is all that these workers do.
const WORKERS: usize = 10;

pub(super) fn controllers(context: &Context) -> Vec<Controller> {
    let costs = Arc::new(CostUpdater { context: context.clone() });
    let (clock, cache) = (&context.clock, &context.cache);
    vec![
        Controller::new("state.nodeclaim", clock, ClaimCostReconciler(costs.clone()))
            .for_kind("karpenter.sh", "NodeClaim")
            .workers(WORKERS)
            .watch(&cache.node_claims),
        Controller::new("state.nodepool", clock, PoolCostReconciler(costs.clone()))
            .for_kind("karpenter.sh", "NodePool")
            .watch_if(&cache.node_pools, |change| {
                change.before.is_none() || change.after.is_none()
            }),
        Controller::new("state.pricing", clock, PricingReconciler(costs)).singleton(),
    ]
}

struct CostUpdater {
    context: Context,
}

impl CostUpdater {
    fn tracker(&self) -> MutexGuard<'_, CostTracker> {
        self.context.cost_tracker()
    }

    fn publish(&self, pool: &str) {
        let context = &self.context;
        if context.options.disable_cluster_state_observability {
            return;
        }
        let gauge = &context.metrics.nodepools_cost;
        let labels = Pool { nodepool: pool };
        let wire = context.cache.node_pools.get("", pool);
        if wire.is_some_and(|wire| context.manages_pool(&wire)) {
            gauge.set(&labels, self.tracker().pool_cost(pool).unwrap_or_default());
        } else {
            gauge.remove(&labels);
        }
    }

    fn count_error(&self, pool: &str) {
        self.context.metrics.nodepools_cost_tracker_errors.inc(&Pool { nodepool: pool });
    }

    async fn types(&self, pool: &NodePool) -> Result<InstanceTypes, ReconcileError> {
        let types = self.context.cloud.instance_types(pool).await;
        types.map_err(|error| {
            ReconcileError::with_context("getting instance types for prices", error)
        })
    }

    async fn update_claim(&self, name: &str) -> ReconcileResult {
        let claim = self.context.cache.node_claims.get("", name);
        let claim = claim.filter(|claim| self.context.manages_claim(claim));
        let Some(claim) = claim else {
            let pool = self.tracker().remove(name);
            if let Some(pool) = pool {
                self.publish(&pool);
            }
            return Ok(Outcome::Done);
        };
        let Some((pool, kind)) = OfferingKey::from_node_claim(&claim) else {
            return Ok(Outcome::Done);
        };
        if self.tracker().is_counted(name, &pool, &kind) {
            return Ok(Outcome::Done);
        }
        let Some(wire) = self.context.cache.node_pools.get("", &pool) else {
            return Ok(Outcome::Done);
        };
        let types = self.types(&wire).await.inspect_err(|_| self.count_error(&pool))?;
        let is_found = self.tracker().add(name, &pool, kind, |kind| price(&types, kind));
        if !is_found {
            self.count_error(&pool);
            error!(NodeClaim = name, NodePool = pool, "no price is known for a nodeclaim");
        }
        self.publish(&pool);
        Ok(Outcome::Done)
    }

    async fn reprice(&self) -> ReconcileResult {
        let pools: Vec<_> = self.tracker().pools().map(str::to_owned).collect();
        let mut errors = Vec::new();
        for pool in pools {
            let Some(wire) = self.context.cache.node_pools.get("", &pool) else { continue };
            match self.types(&wire).await {
                Ok(types) => {
                    let unknown = self.tracker().reprice(&pool, |kind| price(&types, kind));
                    for _ in &unknown {
                        self.count_error(&pool);
                    }
                    self.publish(&pool);
                }
                Err(error) => {
                    self.count_error(&pool);
                    errors.push(error.with_field("NodePool", pool));
                }
            }
        }
        match ReconcileError::join(errors) {
            Some(error) => Err(error),
            None => Ok(Outcome::RequeueAfter(REQUEUE_INTERVAL)),
        }
    }
}

/// Returns the price per hour of a node of this kind.
fn price(types: &InstanceTypes, kind: &OfferingKey) -> Option<f64> {
    let of_type = types.iter().find(|candidate| candidate.name == kind.instance_type)?;
    let is_meant = |offering: &&karpenter_core::catalog::Offering| {
        let has = |key: &str, value: &str| {
            offering.requirements.get(key).is_some_and(|requirement| requirement.has(value))
        };
        has(labels::ZONE, &kind.zone) && has(labels::CAPACITY_TYPE, &kind.capacity_type)
    };
    of_type.offerings.iter().find(is_meant).map(|offering| offering.price)
}

struct ClaimCostReconciler(Arc<CostUpdater>);

impl Reconcile for ClaimCostReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        self.0.update_claim(&key.name).await
    }
}

struct PoolCostReconciler(Arc<CostUpdater>);

impl Reconcile for PoolCostReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        if self.0.context.cache.node_pools.get("", &key.name).is_none() {
            self.0.tracker().remove_pool(&key.name);
        }
        self.0.publish(&key.name);
        Ok(Outcome::Done)
    }
}

struct PricingReconciler(Arc<CostUpdater>);

impl Reconcile for PricingReconciler {
    async fn reconcile(&self, _: &ObjectKey) -> ReconcileResult {
        self.0.reprice().await
    }
}
