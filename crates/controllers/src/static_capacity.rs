//! Static NodePools: `spec.replicas` nodes, whatever pods ask for (spec 40 §4.6, spec 30 §11; gate
//! StaticCapacity).

mod deprovisioning;
pub(crate) mod provisioning;

use karpenter_api::labels;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use karpenter_operator::harness::Controller;
use karpenter_operator::options::Gate;
use karpenter_operator::watch::{Change, ObjectKey};

use crate::{Context, objects};

const WORKERS: usize = 10;

/// Both of them, if the gate is on.
pub(crate) fn all(context: &Context) -> Vec<Controller> {
    if !context.options.feature_gates.is_enabled(Gate::StaticCapacity) {
        return Vec::new();
    }
    vec![provisioning::controller(context), deprovisioning::controller(context)]
}

/// The pool, if it is a static one of ours that stays, and its replicas.
fn static_pool(context: &Context, name: &str) -> Option<(std::sync::Arc<NodePool>, i64)> {
    let pool = context.cache.node_pools.get("", name)?;
    let replicas = pool.spec.replicas?;
    let is_deleted = pool.metadata.deletion_timestamp.is_some();
    (context.manages_pool(&pool) && !is_deleted).then_some((pool, replicas))
}

/// Whether a pool has come or its replicas have changed.
fn is_resized(change: &Change<NodePool>) -> bool {
    let replicas = |pool: &NodePool| pool.spec.replicas;
    match (&change.before, &change.after) {
        (None, Some(_)) => true,
        (Some(before), Some(after)) => replicas(before) != replicas(after),
        _ => false,
    }
}

/// The static pool of a claim.
fn pool_of(context: &Context, claim: &NodeClaim) -> Option<ObjectKey> {
    let name = objects::label(claim, labels::NODEPOOL);
    static_pool(context, name).map(|_| ObjectKey::new("", name))
}
