//! `nodeclaim.consistency`: checks that nodes have the resources that their claims promised.
//!
//! A claim counts as checked only when its node was checked; upstream spends the first check on a
//! claim without a node (spec 40 Q14).

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::conditions::{CONSISTENT_STATE_FOUND, INITIALIZED};
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::reasons::messages;
use karpenter_api::reasons::nodeclaim::CONSISTENCY_CHECK_FAILED;
use karpenter_cluster::ingest::conversion;
use karpenter_core::lifecycle::ConditionStatus;
use karpenter_core::lifecycle::consistency::{self, Shortage};
use karpenter_operator::events::definitions;
use karpenter_operator::harness::{Controller, Outcome, Reconcile, ReconcileResult};
use karpenter_operator::watch::ObjectKey;
use karpenter_operator::write::{Precondition, WriteOutcome, patch_status};
use kube::{Api, Resource as _, ResourceExt as _};
use tracing::info;

use crate::ttl_cache::TtlCache;
use crate::{Context, objects};

#[cfg(test)]
mod tests;

pub(crate) fn controller(context: &Context) -> Controller {
    let (managed, by_node) = (context.clone(), context.clone());
    let consistency = ConsistencyReconciler {
        context: context.clone(),
        scanned: TtlCache::new(consistency::CHECK_INTERVAL),
    };
    Controller::new("nodeclaim.consistency", &context.clock, consistency)
        .for_kind("karpenter.sh", "NodeClaim")
        .workers(context.workers(10, 1000))
        .watch_if(&context.cache.node_claims, move |change| {
            objects::is_managed_claim_change(&managed, change)
        })
        .watch_map(&context.cache.nodes, move |change| {
            objects::claim_keys_of_node_change(&by_node, change)
        })
}

struct ConsistencyReconciler {
    context: Context,
    /// When claims were checked, by uid.
    scanned: TtlCache<Timestamp>,
}

impl Reconcile for ConsistencyReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let context = &self.context;
        let claim = context.cache.node_claims.get("", &key.name);
        let Some(claim) = claim.filter(|claim| context.manages_claim(claim)) else {
            return Ok(Outcome::Done);
        };
        let now = context.clock.now();
        let uid = claim.uid().unwrap_or_default();
        if let Some(pause) = consistency::time_until_check(self.scanned.get(&uid, now), now) {
            return Ok(Outcome::RequeueAfter(pause));
        }
        // Without a provider id there is none.
        let Some(node) = objects::node_of(&context.cache, &claim) else {
            return Ok(Outcome::Done);
        };
        let shortages = shortages(&claim, &node);
        if let Some(end) = self.write(&claim, shortages.as_deref().unwrap_or_default()).await? {
            return Ok(end);
        }
        let Some(shortages) = shortages else {
            // The next event comes when the node is initialized, or the claim gone.
            return Ok(Outcome::Done);
        };
        for shortage in &shortages {
            let issue = shortage.to_string();
            info!(Node = objects::node_name(&claim), issue, "failed consistency check");
            context
                .events
                .publish(definitions::failed_consistency_check(claim.object_ref(&()), &issue));
        }
        self.scanned.insert(&uid, now, now);
        Ok(consistency::time_until_check(Some(now), now)
            .map_or(Outcome::Done, Outcome::RequeueAfter))
    }
}

impl ConsistencyReconciler {
    /// Writes the condition. Some if the reconcile ends with that.
    async fn write(
        &self,
        claim: &Arc<NodeClaim>,
        shortages: &[Shortage],
    ) -> Result<Option<Outcome>, karpenter_operator::harness::ReconcileError> {
        let mut after = claim.as_ref().clone();
        let mut conditions = after.condition_set(self.context.clock.now());
        let has_changed = if shortages.is_empty() {
            let is_true = conditions.is_true(CONSISTENT_STATE_FOUND);
            !is_true && conditions.set_true(CONSISTENT_STATE_FOUND)
        } else {
            let message = messages::CONSISTENCY_CHECK_FAILED;
            conditions.set_false(CONSISTENT_STATE_FOUND, CONSISTENCY_CHECK_FAILED, message)
        };
        if !has_changed {
            return Ok(None);
        }
        let api = Api::all(self.context.client.clone());
        let written =
            patch_status(&api, claim.as_ref(), &after, Precondition::ResourceVersion).await?;
        let end = written.early_outcome();
        if let WriteOutcome::Applied(claim) = written {
            self.context.cache.node_claims.apply_write_result(*claim);
        }
        Ok(end)
    }
}

/// Returns what the node lacks. None while the claim is uninitialized or being deleted.
fn shortages(claim: &NodeClaim, node: &Node) -> Option<Vec<Shortage>> {
    let is_initialized = objects::condition_status(claim, INITIALIZED) == ConditionStatus::True;
    if !is_initialized || claim.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let requests = claim.spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let promised = claim.status.as_ref().and_then(|status| status.capacity.as_ref());
    let found = node.status.as_ref().and_then(|status| status.capacity.as_ref());
    let (requests, promised) = (objects::resources(requests), objects::resources(promised));
    Some(consistency::shortages(&requests, &promised, &conversion::resources(found)))
}
