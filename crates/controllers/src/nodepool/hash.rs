//! `nodepool.hash`: writes the hash of a pool's template, to detect drift (spec 40 §4.2).

use std::sync::Arc;

use karpenter_api::annotations::{NODEPOOL_HASH, NODEPOOL_HASH_VERSION};
use karpenter_api::hash::{self, nodepool_hash};
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use karpenter_api::{condition_set, conditions, labels};
use karpenter_operator::harness::{
    Controller, Outcome, Reconcile, ReconcileError, ReconcileResult,
};
use karpenter_operator::watch::ObjectKey;
use karpenter_operator::write::{Precondition, WriteOutcome, patch};
use kube::{Api, ResourceExt};

use crate::Context;

#[cfg(test)]
mod tests;

pub(super) fn controller(context: &Context) -> Controller {
    let hash = HashReconciler { context: context.clone() };
    Controller::new("nodepool.hash", &context.clock, hash)
        .for_kind("karpenter.sh", "NodePool")
        .workers(context.workers(10, 1000))
        .watch(&context.cache.node_pools)
}

struct HashReconciler {
    context: Context,
}

impl Reconcile for HashReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let context = &self.context;
        let pool = context.cache.node_pools.get("", &key.name);
        let Some(pool) = pool.filter(|pool| context.manages_pool(pool)) else {
            return Ok(Outcome::Done);
        };
        let now = nodepool_hash(&pool.spec);
        // Claims first: a pool of the new version implies that its claims have it, too.
        if version(&*pool) != Some(hash::NODEPOOL_HASH_VERSION) {
            self.rehash_claims(&pool, &now).await?;
        }
        let mut after = NodePool::clone(&pool);
        let notes = after.annotations_mut();
        notes.insert(NODEPOOL_HASH.to_owned(), now);
        notes.insert(NODEPOOL_HASH_VERSION.to_owned(), hash::NODEPOOL_HASH_VERSION.to_owned());
        let api: Api<NodePool> = Api::all(context.client.clone());
        if let WriteOutcome::Applied(pool) = patch(&api, &pool, &after, Precondition::None).await? {
            context.cache.node_pools.apply_write_result(*pool);
        }
        Ok(Outcome::Done)
    }
}

impl HashReconciler {
    /// Claims whose hash another version made get the pool's own, so that none drifts because of a
    /// new version. One that has drifted stays so.
    async fn rehash_claims(&self, pool: &NodePool, now: &str) -> Result<(), ReconcileError> {
        let context = &self.context;
        let api: Api<NodeClaim> = Api::all(context.client.clone());
        let name = pool.name_any();
        let of_pool = |claim: &Arc<NodeClaim>| {
            claim.labels().get(labels::NODEPOOL) == Some(&name)
                && context.manages_claim(claim)
                && version(&**claim) != Some(hash::NODEPOOL_HASH_VERSION)
        };
        for claim in context.cache.node_claims.all().into_iter().filter(of_pool) {
            let mut after = NodeClaim::clone(&claim);
            let status = claim.status.as_ref();
            let all = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
            let notes = after.annotations_mut();
            let version = hash::NODEPOOL_HASH_VERSION.to_owned();
            notes.insert(NODEPOOL_HASH_VERSION.to_owned(), version);
            if condition_set::find(all, conditions::DRIFTED).is_none() {
                notes.insert(NODEPOOL_HASH.to_owned(), now.to_owned());
            }
            if let WriteOutcome::Applied(claim) =
                patch(&api, &claim, &after, Precondition::None).await?
            {
                context.cache.node_claims.apply_write_result(*claim);
            }
        }
        Ok(())
    }
}

fn version(object: &impl ResourceExt) -> Option<&str> {
    object.annotations().get(NODEPOOL_HASH_VERSION).map(String::as_str)
}
