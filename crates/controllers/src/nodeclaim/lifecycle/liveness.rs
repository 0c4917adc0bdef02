//! Deletes a claim that does not become a node in time (spec 40 §1.5).

use karpenter_api::condition_set::{HasConditions as _, find};
use karpenter_api::conditions::{LAUNCHED, REGISTERED};
use karpenter_api::grammar::format_duration;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_core::lifecycle::liveness::{self, ConditionTransition, Step, Timeout};
use karpenter_operator::harness::{Outcome, ReconcileError, ReconcileResult};
use kube::ResourceExt as _;
use tracing::debug;

use super::LifecycleReconciler;
use crate::nodepool::registration_health::{ReportResult, report};
use crate::objects::{self, DeleteResult};

impl LifecycleReconciler {
    pub(super) async fn check_liveness(&self, claim: &NodeClaim) -> ReconcileResult {
        let since = |condition| {
            let time = find(claim.conditions(), condition)?.last_transition_time.0;
            Some(ConditionTransition { status: objects::condition_status(claim, condition), time })
        };
        // The steps before have filled them in.
        let (Some(launched), Some(registered)) = (since(LAUNCHED), since(REGISTERED)) else {
            return Ok(Outcome::Requeue);
        };
        match liveness::next(launched, registered, self.context.clock.now()) {
            Step::Alive => Ok(Outcome::Done),
            Step::Wait(time) => Ok(Outcome::RequeueAfter(time)),
            Step::Delete(timeout) => self.delete_timed_out(claim, timeout).await,
        }
    }

    async fn delete_timed_out(&self, claim: &NodeClaim, timeout: Timeout) -> ReconcileResult {
        let uid = claim.uid().unwrap_or_default();
        let now = self.context.clock.now();
        // The timeout is reported to the pool once, also if the claim cannot be deleted at first.
        if self.lifecycle_cache.reported_timeouts.get(&uid, now).is_none() {
            if report(&self.context, claim, false).await? == ReportResult::Conflict {
                return Ok(Outcome::Requeue);
            }
            self.lifecycle_cache.reported_timeouts.insert(&uid, (), now);
        }
        let deleted = objects::delete(&self.api(), &self.context.cache.node_claims, claim).await;
        let deleted = deleted.map_err(|error| {
            let doing = "deleting nodeclaim for timeout";
            ReconcileError::with_context(doing, error).with_field("NodeClaim", claim.name_any())
        })?;
        if deleted == DeleteResult::Done {
            let (length, reason) = (format_duration(timeout.duration()), timeout.reason());
            debug!(timeout = length, reason, "terminating due to timeout");
            objects::count_disrupted(&self.context, claim, reason, None);
        }
        Ok(Outcome::Done)
    }
}
