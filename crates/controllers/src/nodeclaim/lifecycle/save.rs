//! Writes the changes that the steps of a pass made to a claim.
//!
//! Other controllers write to claims, too: their conditions, the time of the last pod event. A
//! patch replaces the whole list of conditions, so ours are merged into the current list, and the
//! API server rejects the patch if the claim has changed since. Upstream patches unconditionally,
//! and may lose a condition of another controller. The result of a launch is in memory until it is
//! written.

use karpenter_api::condition_set::{HasConditions as _, Status, find};
use karpenter_api::conditions::{INITIALIZED, LAUNCHED, REGISTERED};
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_operator::harness::ReconcileError;
use karpenter_operator::write::{Precondition, WriteOutcome, patch, patch_status};
use kube::ResourceExt as _;

use super::LifecycleReconciler;

/// The result of saving a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SaveResult {
    /// It is written, or there was nothing to write.
    Done,
    /// The claim has changed meanwhile.
    Conflict,
    /// The claim is gone.
    Gone,
}

impl LifecycleReconciler {
    /// Writes labels and annotations, and then the status.
    pub(super) async fn save(
        &self,
        before: &NodeClaim,
        after: &NodeClaim,
    ) -> Result<SaveResult, ReconcileError> {
        let (api, claims) = (self.api(), &self.context.cache.node_claims);
        let current = match patch(&api, before, after, Precondition::None).await? {
            WriteOutcome::Applied(answer) => {
                claims.apply_write_result(answer.as_ref().clone());
                *answer
            }
            WriteOutcome::Unchanged => {
                let known = claims.get("", &before.name_any());
                let known = known.filter(|known| known.uid() == before.uid());
                known.map_or_else(|| before.clone(), |known| known.as_ref().clone())
            }
            WriteOutcome::Conflict => return Ok(SaveResult::Conflict),
            WriteOutcome::NotFound => return Ok(SaveResult::Gone),
        };
        let mut wanted = current.clone();
        merge_changes(before, after, &mut wanted, self.context.clock.now());
        match patch_status(&api, &current, &wanted, Precondition::ResourceVersion).await? {
            WriteOutcome::Applied(answer) => {
                claims.apply_write_result(*answer);
                Ok(SaveResult::Done)
            }
            WriteOutcome::Unchanged => Ok(SaveResult::Done),
            WriteOutcome::Conflict => Ok(SaveResult::Conflict),
            WriteOutcome::NotFound => Ok(SaveResult::Gone),
        }
    }
}

/// Copies this controller's changes from `before` to `after` into `wanted`.
fn merge_changes(
    before: &NodeClaim,
    after: &NodeClaim,
    wanted: &mut NodeClaim,
    now: jiff::Timestamp,
) {
    let old = before.status.clone().unwrap_or_default();
    let new = after.status.clone().unwrap_or_default();
    let status = wanted.status.get_or_insert_default();
    macro_rules! take {
        ($($field:ident)+) => {$(
            if new.$field != old.$field {
                status.$field = new.$field;
            }
        )+};
    }
    take!(node_name provider_id image_id capacity allocatable);
    for condition in [LAUNCHED, REGISTERED, INITIALIZED] {
        let set = find(after.conditions(), condition);
        let Some(set) = set.filter(|set| find(before.conditions(), condition) != Some(*set)) else {
            continue;
        };
        let status = match set.status.as_str() {
            "True" => Status::True,
            "False" => Status::False,
            _ => Status::Unknown,
        };
        wanted.condition_set(now).set(condition, status, &set.reason, &set.message);
    }
}

#[cfg(test)]
mod tests;
