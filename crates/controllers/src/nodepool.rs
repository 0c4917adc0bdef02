//! Controllers of NodePools.

mod counter;
mod hash;
mod readiness;
#[cfg(test)]
mod tests;
mod validation;

use karpenter_api::nodepool::NodePool;
use karpenter_operator::harness::{Controller, Outcome, ReconcileResult};
use karpenter_operator::watch::ObjectKey;
use karpenter_operator::write::{Precondition, WriteOutcome, patch_status};
use kube::{Api, ResourceExt};

use crate::Context;

pub mod registration_health;

/// All of them.
pub(crate) fn all(context: &Context) -> Vec<Controller> {
    vec![
        hash::controller(context),
        readiness::controller(context),
        validation::controller(context),
        counter::controller(context),
        registration_health::controller(context),
    ]
}

/// Makes a controller reconcile pools also when their node class changes.
pub(crate) fn watch_node_classes(mut controller: Controller, context: &Context) -> Controller {
    for classes in &context.cache.node_classes {
        let kind = classes.kind().clone();
        let pools = context.cache.node_pools.clone();
        controller = classes.watch_map(controller, move |change| {
            let of_class = |pool: &NodePool| {
                let class = &pool.spec.template.spec.node_class_ref;
                kind.is_kind_of(class) && class.name == change.key.name
            };
            let pools = pools.all().into_iter().filter(|pool| of_class(pool));
            pools.map(|pool| ObjectKey::new("", &pool.name_any())).collect::<Vec<_>>()
        });
    }
    controller
}

/// Writes the conditions of a pool, if they have changed.
async fn patch_conditions(
    context: &Context,
    before: &NodePool,
    after: &NodePool,
) -> ReconcileResult {
    let api: Api<NodePool> = Api::all(context.client.clone());
    let written = patch_status(&api, before, after, Precondition::ResourceVersion).await?;
    let end = written.early_outcome().unwrap_or(Outcome::Done);
    if let WriteOutcome::Applied(pool) = written {
        context.cache.node_pools.apply_write_result(*pool);
    }
    Ok(end)
}
