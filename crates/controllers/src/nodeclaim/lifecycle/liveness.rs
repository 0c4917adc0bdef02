//! Liveness: a claim that does not become a node in time goes (spec 40 §1.5).

use karpenter_api::condition_set::{HasConditions as _, find};
use karpenter_api::conditions::{LAUNCHED, REGISTERED};
use karpenter_api::grammar::format_duration;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_core::lifecycle::liveness::{self, Since, Step, Timeout};
use karpenter_operator::harness::{Outcome, Reconciled, Trouble};
use kube::ResourceExt as _;
use tracing::debug;

use super::Lifecycle;
use crate::nodepool::registration_health::{Reported, report};
use crate::objects::{self, Deleted};

impl Lifecycle {
    pub(super) async fn check_liveness(&self, claim: &NodeClaim) -> Reconciled {
        let since = |condition| {
            let time = find(claim.conditions(), condition)?.last_transition_time.0;
            Some(Since { status: objects::status_of(claim, condition), time })
        };
        // The steps before have filled them in.
        let (Some(launched), Some(registered)) = (since(LAUNCHED), since(REGISTERED)) else {
            return Ok(Outcome::Again);
        };
        match liveness::next(launched, registered, self.context.clock.now()) {
            Step::Alive => Ok(Outcome::Done),
            Step::Wait(time) => Ok(Outcome::After(time)),
            Step::Delete(timeout) => self.time_out(claim, timeout).await,
        }
    }

    async fn time_out(&self, claim: &NodeClaim, timeout: Timeout) -> Reconciled {
        let uid = claim.uid().unwrap_or_default();
        let now = self.context.clock.now();
        // The pool hears of it once, also if the claim cannot be deleted at first.
        if self.memory.told_timeouts.get(&uid, now).is_none() {
            if report(&self.context, claim, false).await? == Reported::Conflict {
                return Ok(Outcome::Again);
            }
            self.memory.told_timeouts.insert(&uid, (), now);
        }
        let deleted = objects::delete(&self.api(), &self.context.cache.node_claims, claim).await;
        let deleted = deleted.map_err(|error| {
            let doing = "deleting nodeclaim for timeout";
            Trouble::while_(doing, error).with("NodeClaim", claim.name_any())
        })?;
        if deleted == Deleted::Done {
            let (length, reason) = (format_duration(timeout.length()), timeout.reason());
            debug!(timeout = length, reason, "terminating due to timeout");
            objects::count_disrupted(&self.context, claim, reason, None);
        }
        Ok(Outcome::Done)
    }
}
