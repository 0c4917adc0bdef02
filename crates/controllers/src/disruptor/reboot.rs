//! Requests a reboot on a NodeClaim (spec 45 §5.5). `nodeclaim.reboot` carries it out.

use jiff::SignedDuration;
use karpenter_api::annotations::REBOOT_TERMINATION_GRACE_PERIOD;
use karpenter_api::condition_set::{HasConditions as _, Status, is_true};
use karpenter_api::conditions::{DISRUPTION_REASON, REBOOTING};
use karpenter_api::grammar::format_duration;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::reasons::disruption::UNHEALTHY;
use karpenter_api::reasons::nodeclaim::REBOOT_REQUESTED;
use karpenter_operator::harness::ReconcileError;
use karpenter_operator::write::{Precondition, WriteOutcome, patch, patch_status};
use kube::{Api, ResourceExt as _};
use tracing::info;

use crate::Context;

/// Requests a reboot because of a condition, given as `type/reason`. `bound` limits the drain;
/// without it the claim's grace period does. Returns false if there is nothing to reboot.
pub(super) async fn request(
    context: &Context,
    claim: &str,
    bound: Option<SignedDuration>,
    because: &str,
) -> Result<bool, ReconcileError> {
    let Some(claim) = context.cache.node_claims.get("", claim) else { return Ok(false) };
    let is_rebooting = is_true(claim.conditions(), REBOOTING);
    if is_rebooting || claim.metadata.deletion_timestamp.is_some() {
        return Ok(false);
    }
    let Some(claim) = annotate_drain_bound(context, &claim, bound).await? else { return Ok(false) };
    let mut requested = claim.clone();
    let mut conditions = requested.condition_set(context.clock.now());
    conditions.set(DISRUPTION_REASON, Status::True, UNHEALTHY, UNHEALTHY);
    let message = format!("rebooting for {because}");
    conditions.set(REBOOTING, Status::True, REBOOT_REQUESTED, &message);
    let api: Api<NodeClaim> = Api::all(context.client.clone());
    let written = patch_status(&api, &claim, &requested, Precondition::ResourceVersion).await?;
    let Some(claim) = written_claim(written, claim)? else { return Ok(false) };
    info!(NodeClaim = claim.name_any(), because, "committed node reboot");
    context.cache.node_claims.apply_write_result(claim);
    Ok(true)
}

/// Annotates the claim with the bound of its drain. None if the claim was deleted.
async fn annotate_drain_bound(
    context: &Context,
    claim: &NodeClaim,
    bound: Option<SignedDuration>,
) -> Result<Option<NodeClaim>, ReconcileError> {
    let own = claim.spec.termination_grace_period.as_ref();
    let bound = bound.or_else(|| own.and_then(|own| own.value().ok()));
    let mut bounded = claim.clone();
    if let Some(bound) = bound {
        let notes = bounded.metadata.annotations.get_or_insert_default();
        notes.insert(REBOOT_TERMINATION_GRACE_PERIOD.to_owned(), format_duration(bound));
    } else if let Some(notes) = &mut bounded.metadata.annotations {
        notes.remove(REBOOT_TERMINATION_GRACE_PERIOD);
    }
    let api: Api<NodeClaim> = Api::all(context.client.clone());
    let written = patch(&api, claim, &bounded, Precondition::ResourceVersion).await?;
    written_claim(written, bounded)
}

/// Returns the claim after a write; none if it was deleted. A conflict is an error, which a later
/// pass retries.
fn written_claim(
    written: WriteOutcome<NodeClaim>,
    unchanged: NodeClaim,
) -> Result<Option<NodeClaim>, ReconcileError> {
    match written {
        WriteOutcome::Unchanged => Ok(Some(unchanged)),
        WriteOutcome::Applied(claim) => Ok(Some(*claim)),
        WriteOutcome::NotFound => Ok(None),
        WriteOutcome::Conflict => Err(ReconcileError::new("the nodeclaim has been modified")),
    }
}
