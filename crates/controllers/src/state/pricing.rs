//! `state.nodeclaim`, `state.nodepool`, `state.pricing`: what the nodes of NodePools cost (spec 40
//! §5.7).

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use karpenter_api::labels;
use karpenter_api::nodepool::NodePool;
use karpenter_cluster::cost::{CostTracker, NodeKind};
use karpenter_core::catalog::InstanceTypes;
use karpenter_operator::harness::{Controller, Outcome, Reconcile, Reconciled, Trouble};
use karpenter_operator::metrics::labels::Pool;
use karpenter_operator::watch::ObjectKey;
use tracing::error;

use crate::Context;

#[cfg(test)]
mod tests;

/// How often prices are asked for anew.
const EVERY: Duration = Duration::from_hours(1);
/// Waiting for prices is all that these workers do.
const WORKERS: usize = 10;

pub(super) fn controllers(context: &Context) -> Vec<Controller> {
    let costs = Arc::new(Costs { context: context.clone() });
    let (clock, cache) = (&context.clock, &context.cache);
    vec![
        Controller::new("state.nodeclaim", clock, OfClaims(costs.clone()))
            .of("karpenter.sh", "NodeClaim")
            .workers(WORKERS)
            .watch(&cache.node_claims),
        Controller::new("state.nodepool", clock, OfPools(costs.clone()))
            .of("karpenter.sh", "NodePool")
            .watch_if(&cache.node_pools, |change| {
                change.before.is_none() || change.after.is_none()
            }),
        Controller::new("state.pricing", clock, Pricing(costs)).singleton(),
    ]
}

struct Costs {
    context: Context,
}

impl Costs {
    fn tracker(&self) -> MutexGuard<'_, CostTracker> {
        self.context.costs()
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
            gauge.set(&labels, self.tracker().of_pool(pool).unwrap_or_default());
        } else {
            gauge.remove(&labels);
        }
    }

    fn count_error(&self, pool: &str) {
        self.context.metrics.nodepools_cost_tracker_errors.inc(&Pool { nodepool: pool });
    }

    async fn types(&self, pool: &NodePool) -> Result<InstanceTypes, Trouble> {
        let types = self.context.cloud.instance_types(pool).await;
        types.map_err(|error| Trouble::while_("getting instance types for prices", error))
    }

    async fn claim(&self, name: &str) -> Reconciled {
        let claim = self.context.cache.node_claims.get("", name);
        let claim = claim.filter(|claim| self.context.manages_claim(claim));
        let Some(claim) = claim else {
            let pool = self.tracker().remove(name);
            if let Some(pool) = pool {
                self.publish(&pool);
            }
            return Ok(Outcome::Done);
        };
        let Some((pool, kind)) = NodeKind::of(&claim) else { return Ok(Outcome::Done) };
        if self.tracker().counts(name, &pool, &kind) {
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

    async fn reprice(&self) -> Reconciled {
        let pools: Vec<_> = self.tracker().pools().map(str::to_owned).collect();
        let mut troubles = Vec::new();
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
                Err(trouble) => {
                    self.count_error(&pool);
                    troubles.push(trouble.with("NodePool", pool));
                }
            }
        }
        match Trouble::join(troubles) {
            Some(trouble) => Err(trouble),
            None => Ok(Outcome::After(EVERY)),
        }
    }
}

/// What a node of this kind costs in an hour.
fn price(types: &InstanceTypes, kind: &NodeKind) -> Option<f64> {
    let of_type = types.iter().find(|candidate| candidate.name == kind.instance_type)?;
    let is_meant = |offering: &&karpenter_core::catalog::Offering| {
        let has = |key: &str, value: &str| {
            offering.requirements.get(key).is_some_and(|requirement| requirement.has(value))
        };
        has(labels::ZONE, &kind.zone) && has(labels::CAPACITY_TYPE, &kind.capacity_type)
    };
    of_type.offerings.iter().find(is_meant).map(|offering| offering.price)
}

struct OfClaims(Arc<Costs>);

impl Reconcile for OfClaims {
    async fn reconcile(&self, key: &ObjectKey) -> Reconciled {
        self.0.claim(&key.name).await
    }
}

struct OfPools(Arc<Costs>);

impl Reconcile for OfPools {
    async fn reconcile(&self, key: &ObjectKey) -> Reconciled {
        if self.0.context.cache.node_pools.get("", &key.name).is_none() {
            self.0.tracker().remove_pool(&key.name);
        }
        self.0.publish(&key.name);
        Ok(Outcome::Done)
    }
}

struct Pricing(Arc<Costs>);

impl Reconcile for Pricing {
    async fn reconcile(&self, _: &ObjectKey) -> Reconciled {
        self.0.reprice().await
    }
}
