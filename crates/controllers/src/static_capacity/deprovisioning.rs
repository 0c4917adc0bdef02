//! `static.deprovisioning`: deletes the NodeClaims that a static pool has too many.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use jiff::Timestamp;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::{annotations, labels};
use karpenter_cluster::wire::Pod;
use karpenter_core::disruption::do_not_disrupt::PodProtection;
use karpenter_core::disruption::eviction_cost;
use karpenter_core::static_capacity::{ClaimUsage, claims_to_delete, excess, lifetime_remaining};
use karpenter_operator::harness::{
    Controller, Outcome, Reconcile, ReconcileError, ReconcileResult,
};
use karpenter_operator::options::Gate;
use karpenter_operator::watch::ObjectKey;
use kube::{Api, ResourceExt as _};
use tracing::{debug, info};

use super::{WORKERS, is_resized, pool_of, static_pool};
use crate::pod_deletion_cost::POD_DELETION_COST;
use crate::{Context, objects};

#[cfg(test)]
mod tests;

const REQUEUE_INTERVAL: Duration = Duration::from_mins(1);

pub(super) fn controller(context: &Context) -> Controller {
    let deprovisioning = DeprovisioningReconciler { context: context.clone() };
    let of_claims = context.clone();
    Controller::new("static.deprovisioning", &context.clock, deprovisioning)
        .for_kind("karpenter.sh", "NodePool")
        .workers(WORKERS)
        .watch_if(&context.cache.node_pools, is_resized)
        .watch_map(&context.cache.node_claims, move |change| {
            let claim = change.after.as_ref().filter(|_| change.before.is_none());
            claim.and_then(|claim| pool_of(&of_claims, claim))
        })
}

struct DeprovisioningReconciler {
    context: Context,
}

impl Reconcile for DeprovisioningReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let context = &self.context;
        let Some((_, desired)) = static_pool(context, &key.name) else {
            return Ok(Outcome::Done);
        };
        let current = context.mirror.node_counts(&key.name).active;
        let excess = excess(desired, u32::try_from(current).unwrap_or(u32::MAX));
        if excess == 0 {
            return Ok(Outcome::RequeueAfter(REQUEUE_INTERVAL));
        }
        info!(
            NodePool = key.name,
            current,
            desired,
            "deprovision-count" = excess,
            "deprovisioning nodeclaims to satisfy replica count"
        );
        let claims = claims_to_delete(excess, self.candidates(&key.name));
        let deletions = join_all(claims.iter().map(|claim| self.delete(claim))).await;
        match ReconcileError::join(deletions.into_iter().filter_map(Result::err)) {
            None => Ok(Outcome::RequeueAfter(REQUEUE_INTERVAL)),
            Some(error) => {
                Err(ReconcileError::with_context("failed to deprovision nodeclaims", error))
            }
        }
    }
}

impl DeprovisioningReconciler {
    /// Returns the claims of the pool that could be deleted, with their usage.
    fn candidates(&self, pool: &str) -> Vec<(Arc<NodeClaim>, ClaimUsage)> {
        let context = &self.context;
        let is_meant = |claim: &Arc<NodeClaim>| {
            objects::label(claim.as_ref(), labels::NODEPOOL) == pool
                && context.manages_claim(claim)
                && claim.metadata.deletion_timestamp.is_none()
        };
        let claims = context.cache.node_claims.all().into_iter().filter(is_meant);
        claims.filter_map(|claim| Some((Arc::clone(&claim), self.standing(&claim)?))).collect()
    }

    /// Returns the usage of a claim. None if it is being deleted already.
    fn standing(&self, claim: &NodeClaim) -> Option<ClaimUsage> {
        let (context, now) = (&self.context, self.context.clock.now());
        let id = objects::provider_id(claim);
        if id.is_empty() {
            return Some(ClaimUsage::Unlaunched);
        }
        let state_node = context.mirror.tracked_node(id, now)?;
        if state_node.is_marked_for_deletion() {
            return None;
        }
        let node = state_node.node.as_ref().map(|node| node.name_any()).unwrap_or_default();
        let pods = context.cache.pods_by_node.get(&node);
        let is_protected = pods.iter().any(|pod| is_protected(pod, now));
        if pods.iter().all(|pod| objects::is_daemon(pod)) && !is_protected {
            return Some(ClaimUsage::Empty);
        }
        let costs: f64 = pods.iter().map(|pod| self.cost_of(pod)).sum();
        let expire_after = claim.spec.expire_after.as_ref();
        let expire_after = expire_after.and_then(|after| after.value().ok().flatten());
        let created = claim.metadata.creation_timestamp.as_ref();
        let age = created.map(|created| now.duration_since(created.0)).unwrap_or_default();
        let cost = costs * lifetime_remaining(age, expire_after);
        Some(ClaimUsage::Occupied { is_protected, cost })
    }

    fn cost_of(&self, pod: &Pod) -> f64 {
        let is_managed =
            self.context.options.feature_gates.is_enabled(Gate::PodDeletionCostManagement);
        let note = |key: &str| pod.annotations().get(key).map(String::as_str);
        let deletion_cost = note(POD_DELETION_COST).filter(|_| !is_managed);
        let priority = pod.spec.as_ref().and_then(|spec| spec.priority);
        eviction_cost(note(annotations::DISRUPTION_COST), deletion_cost, priority)
    }

    /// Deletes the claim, with a few retries. The cache gets the API server's response, so the
    /// claim counts as deleting from then on.
    async fn delete(&self, claim: &NodeClaim) -> Result<(), ReconcileError> {
        let context = &self.context;
        let api: Api<NodeClaim> = Api::all(context.client.clone());
        let deleted =
            objects::delete_with_retries(&context.clock, &api, &context.cache.node_claims, claim)
                .await;
        deleted.map_err(|error| error.with_field("NodeClaim", claim.name_any()))?;
        debug!(NodeClaim = claim.name_any(), "deleting nodeclaim");
        Ok(())
    }
}

fn is_protected(pod: &Pod, now: Timestamp) -> bool {
    let note = pod.annotations().get(annotations::DO_NOT_DISRUPT).map(String::as_str);
    let started = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    PodProtection::from_annotation(note, started.map(|time| time.0), now).is_active()
}
