//! Finalizes a deleted claim: deletes its nodes and terminates its instance (spec 40 §2.1).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karpenter_api::annotations::NODECLAIM_TERMINATION_TIMESTAMP;
use karpenter_api::condition_set::{HasConditions as _, find};
use karpenter_api::conditions::{INSTANCE_TERMINATING, REGISTERED};
use karpenter_api::finalizers::TERMINATION;
use karpenter_api::labels::{CAPACITY_TYPE, NODEPOOL, ZONE};
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_core::lifecycle::ConditionStatus;
use karpenter_core::lifecycle::finalization::{self, Facts, Step};
use karpenter_core::termination::deadline;
use karpenter_operator::cloud::CloudErrorClass;
use karpenter_operator::events::definitions;
use karpenter_operator::harness::{Outcome, ReconcileError, ReconcileResult};
use karpenter_operator::metrics::labels::{Pool, PoolCapacityZone};
use karpenter_operator::watch::ObjectKey;
use karpenter_operator::write::{Precondition, WriteOutcome, patch, patch_status};
use kube::{Api, Resource as _, ResourceExt as _};
use tracing::info;

use super::LifecycleReconciler;
use crate::objects;

/// The poll interval for a terminating instance.
const POLL: Duration = Duration::from_secs(5);

impl LifecycleReconciler {
    pub(super) async fn finalize(&self, claim: &NodeClaim) -> ReconcileResult {
        if !has_finalizer(claim) {
            return Ok(Outcome::Done);
        }
        let claim = match self.ensure_deadline(claim).await {
            Ok(Ok(claim)) => claim,
            Ok(Err(end)) => return Ok(end),
            Err(error) => {
                let doing = "adding nodeclaim terminationGracePeriod annotation";
                return Err(ReconcileError::with_context(doing, error));
            }
        };
        // A launch that is not on the claim yet has an instance, too.
        let known = self
            .with_provider_id(self.lifecycle_cache.with_launch(&claim, self.context.clock.now()));
        let nodes = objects::nodes_of(&self.context.cache, &known);
        let facts = Facts {
            has_finalizer: has_finalizer(&claim),
            is_registered: objects::condition_status(&claim, REGISTERED) == ConditionStatus::True,
            nodes: nodes.len(),
            has_instance: !objects::provider_id(&known).is_empty(),
        };
        match finalization::next(facts) {
            Step::Done => Ok(Outcome::Done),
            Step::DeleteNodes => {
                let api = Api::all(self.context.client.clone());
                for node in nodes.iter().filter(|n| n.metadata.deletion_timestamp.is_none()) {
                    objects::delete(&api, &self.context.cache.nodes, node.as_ref()).await?;
                }
                // The deletion of each node triggers a reconcile.
                Ok(Outcome::Done)
            }
            Step::TerminateInstance => self.terminate_instance(&claim, &known).await,
            Step::RemoveFinalizer => self.remove_finalizer(&claim, None).await,
        }
    }

    /// Returns the claim with its termination deadline, which it annotates if necessary. A claim
    /// without a grace period has none. The inner error is the outcome that ends the reconcile.
    async fn ensure_deadline(
        &self,
        claim: &NodeClaim,
    ) -> Result<Result<NodeClaim, Outcome>, ReconcileError> {
        // An annotation that is not a time does not count.
        let known = claim.annotations().get(NODECLAIM_TERMINATION_TIMESTAMP);
        let has_deadline = known.is_some_and(|text| deadline::parse(text).is_ok());
        let period = claim.spec.termination_grace_period.as_ref();
        let period = period.and_then(|period| period.value().ok());
        let deleted = claim.metadata.deletion_timestamp.as_ref().map(|time| time.0);
        let deleted = deleted.unwrap_or_else(|| self.context.clock.now());
        let mut after = claim.clone();
        let Some(deadline) = finalization::deadline(has_deadline, deleted, period) else {
            return Ok(Ok(after));
        };
        let deadline = deadline.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let annotations = after.annotations_mut();
        annotations.insert(NODECLAIM_TERMINATION_TIMESTAMP.to_owned(), deadline.clone());
        let written = patch(&self.api(), claim, &after, Precondition::ResourceVersion).await?;
        if let Some(end) = written.early_outcome() {
            return Ok(Err(end));
        }
        if let WriteOutcome::Applied(answer) = written {
            after = *answer;
            self.context.cache.node_claims.apply_write_result(after.clone());
        }
        info!({ NODECLAIM_TERMINATION_TIMESTAMP } = deadline, "annotated nodeclaim");
        let event =
            definitions::termination_grace_period_expiring(claim.object_ref(&()), &deadline);
        self.context.events.publish(event);
        Ok(Ok(after))
    }

    /// Terminates the instance, and removes the finalizer when it is gone. `known` is the claim
    /// with its provider id.
    async fn terminate_instance(&self, claim: &NodeClaim, known: &NodeClaim) -> ReconcileResult {
        let is_gone = match self.context.cloud.delete(known).await {
            Ok(()) => false,
            Err(error) if error.is(CloudErrorClass::NodeClaimNotFound) => true,
            Err(error) => return Err(error.into()),
        };
        let mut after = claim.clone();
        after.status.clone_from(&known.status);
        after.condition_set(self.context.clock.now()).set_true(INSTANCE_TERMINATING);
        let written =
            patch_status(&self.api(), claim, &after, Precondition::ResourceVersion).await?;
        if let Some(end) = written.early_outcome() {
            return Ok(end);
        }
        if let WriteOutcome::Applied(answer) = written {
            after = *answer;
            self.context.cache.node_claims.apply_write_result(after.clone());
        }
        if !is_gone {
            return Ok(Outcome::RequeueAfter(POLL));
        }
        let terminating = find(after.conditions(), INSTANCE_TERMINATING);
        let since = terminating.map(|condition| condition.last_transition_time.0);
        self.remove_finalizer(&after, since).await
    }

    /// Removes the finalizer. `ending` is when the instance began to terminate, if there was one.
    async fn remove_finalizer(
        &self,
        claim: &NodeClaim,
        ending: Option<Timestamp>,
    ) -> ReconcileResult {
        let mut after = claim.clone();
        after.finalizers_mut().retain(|finalizer| finalizer != TERMINATION);
        let written = patch(&self.api(), claim, &after, Precondition::ResourceVersion).await;
        let written = written.map_err(|error| {
            ReconcileError::with_context("removing termination finalizer", error)
        })?;
        let uid = claim.uid().unwrap_or_default();
        if let Some(end) = written.early_outcome() {
            return Ok(end);
        }
        self.lifecycle_cache.forget(&uid);
        if let WriteOutcome::Applied(answer) = written {
            if answer.finalizers().is_empty() {
                self.context.cache.node_claims.apply_deletion(&ObjectKey::of(answer.as_ref()));
            } else {
                self.context.cache.node_claims.apply_write_result(*answer);
            }
        }
        info!("provider-id" = objects::provider_id(claim), "deleted nodeclaim");
        self.count(claim, ending);
        Ok(Outcome::Done)
    }

    fn count(&self, claim: &NodeClaim, ending: Option<Timestamp>) {
        let (metrics, now) = (&self.context.metrics, self.context.clock.now());
        let seconds = |since: Timestamp| now.duration_since(since).max(SignedDuration::ZERO);
        let nodepool = objects::label(claim, NODEPOOL);
        let pool = Pool { nodepool };
        if let Some(since) = ending {
            let time = seconds(since).as_secs_f64();
            metrics.nodeclaims_instance_termination_duration.observe(&pool, time);
        }
        if let Some(deleted) = &claim.metadata.deletion_timestamp {
            let time = seconds(deleted.0).as_secs_f64();
            metrics.nodeclaims_termination_duration.observe(&pool, time);
        }
        let (capacity_type, zone) =
            (objects::label(claim, CAPACITY_TYPE), objects::label(claim, ZONE));
        metrics.nodeclaims_terminated.inc(&PoolCapacityZone { nodepool, capacity_type, zone });
    }
}

fn has_finalizer(claim: &NodeClaim) -> bool {
    claim.finalizers().iter().any(|finalizer| finalizer == TERMINATION)
}
