//! `nodepool.validation`: validates what the schema of a NodePool cannot express (spec 40 §4.4).

use karpenter_api::nodepool::NodePool;
use karpenter_api::validation;
use karpenter_api::{conditions, reasons};
use karpenter_cluster::ingest::budgets_problem;
use karpenter_operator::events::definitions;
use karpenter_operator::harness::{Controller, Outcome, Reconcile, ReconcileResult};
use karpenter_operator::watch::ObjectKey;
use kube::Resource as _;

use crate::Context;

#[cfg(test)]
mod tests;

const WORKERS: usize = 10;

pub(super) fn controller(context: &Context) -> Controller {
    let validation = ValidationReconciler { context: context.clone() };
    Controller::new("nodepool.validation", &context.clock, validation)
        .for_kind("karpenter.sh", "NodePool")
        .workers(WORKERS)
        .watch(&context.cache.node_pools)
}

struct ValidationReconciler {
    context: Context,
}

impl Reconcile for ValidationReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let context = &self.context;
        let pool = context.cache.node_pools.get("", &key.name);
        let Some(pool) = pool.filter(|pool| context.manages_pool(pool)) else {
            return Ok(Outcome::Done);
        };
        let problem = validation::nodepool(&pool.spec, &context.provider.rules).message();
        let mut after = NodePool::clone(&pool);
        let mut set = after.condition_set(context.clock.now());
        match problem {
            None => set.set_true(conditions::VALIDATION_SUCCEEDED),
            Some(problem) => set.set_false(
                conditions::VALIDATION_SUCCEEDED,
                reasons::nodepool::NODEPOOL_VALIDATION_FAILED,
                &problem,
            ),
        };
        match budgets_problem(&pool, context.clock.now()) {
            None => {
                // It is not one that `Ready` depends on, so it can go.
                let _ = set.clear(conditions::DISRUPTION_BUDGETS_VALID);
            }
            Some(flaw) => {
                let reason = reasons::nodepool::INVALID_BUDGET;
                set.set_false(conditions::DISRUPTION_BUDGETS_VALID, reason, &flaw);
                let about = pool.object_ref(&());
                context.events.publish(definitions::nodepool_budgets_invalid(about, &flaw));
            }
        }
        super::patch_conditions(context, &pool, &after).await
    }
}
