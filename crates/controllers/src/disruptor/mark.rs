//! Marks nodes under disruption: a taint on the Node, a condition on the NodeClaim (spec 30 §9.1).
//! Removes the marks, too.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Taint};
use karpenter_api::condition_set::{HasConditions as _, Status, find, is_true};
use karpenter_api::conditions::{DISRUPTION_REASON, REBOOTING};
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::taints;
use karpenter_core::disruption::Reason;
use karpenter_operator::harness::ReconcileError;
use kube::{Api, ResourceExt as _};

use crate::Context;
use crate::objects::{self, ObjectPart};

/// Taints the Node and sets the disruption reason on the NodeClaim. Missing objects are skipped.
pub(super) async fn mark_disrupted(
    context: &Context,
    node: &str,
    claim: &str,
    reason: Reason,
) -> Result<(), ReconcileError> {
    let taint = taints::disrupted();
    let tainted = change_taints(context, node, |taints| {
        if !taints.iter().any(is_disrupted) {
            taints.push(taint.clone());
        }
    });
    tainted.await.map_err(|error| ReconcileError::with_context("tainting nodes", error))?;
    change_claim(context, claim, |claim| {
        let name = reason.name();
        let mut conditions = claim.condition_set(context.clock.now());
        conditions.set(DISRUPTION_REASON, Status::True, name, name);
    })
    .await
}

/// Removes the taint, unless the Node is being deleted: its termination needs the taint.
pub(super) async fn untaint(context: &Context, node: &str) -> Result<(), ReconcileError> {
    let untainted = change_taints(context, node, |taints| taints.retain(|one| !is_disrupted(one)));
    untainted
        .await
        .map_err(|error| ReconcileError::with_context("removing taint from nodes", error))
}

/// Removes the condition from the NodeClaim.
pub(super) async fn clear_reason(context: &Context, claim: &str) -> Result<(), ReconcileError> {
    let cleared = change_claim(context, claim, |claim| {
        // Ready does not depend on it, so it can be.
        let _ = claim.condition_set(context.clock.now()).clear(DISRUPTION_REASON);
    });
    cleared
        .await
        .map_err(|error| ReconcileError::with_context("removing condition from nodeclaims", error))
}

/// Removes marks without a command, such as after a restart (spec 30 §2 step 4). `is_queued`
/// returns whether a command has the node with this provider id.
pub(super) async fn clear_orphaned_marks(
    context: &Context,
    is_queued: impl Fn(&str) -> bool,
) -> Result<(), ReconcileError> {
    let now = context.clock.now();
    for claim in context.cache.node_claims.all() {
        let id = objects::provider_id(&claim);
        if id.is_empty() || !context.manages_claim(&claim) {
            continue;
        }
        let has_reason = find(claim.conditions(), DISRUPTION_REASON).is_some();
        let node = objects::node_of(&context.cache, &claim).filter(has_taint);
        if (!has_reason && node.is_none()) || is_queued(id) {
            continue;
        }
        let state_node = context.mirror.tracked_node(id, now);
        let is_leaving = state_node.is_none_or(|state_node| state_node.is_marked_for_deletion());
        if is_leaving || is_true(claim.conditions(), REBOOTING) {
            continue;
        }
        if let Some(node) = node {
            untaint(context, &node.name_any()).await?;
        }
        if has_reason {
            clear_reason(context, &claim.name_any()).await?;
        }
    }
    Ok(())
}

fn has_taint(node: &Arc<Node>) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.is_some_and(|taints| taints.iter().any(is_disrupted))
}

fn is_disrupted(taint: &Taint) -> bool {
    let disrupted = taints::disrupted();
    taint.key == disrupted.key && taint.effect == disrupted.effect
}

async fn change_taints(
    context: &Context,
    node: &str,
    change: impl Fn(&mut Vec<Taint>),
) -> Result<(), ReconcileError> {
    let api: Api<Node> = Api::all(context.client.clone());
    let nodes = &context.cache.nodes;
    let changed =
        objects::patch_with_retries(&context.clock, &api, nodes, node, ObjectPart::Main, |node| {
            let spec = node.spec.get_or_insert_default();
            let mut taints = spec.taints.clone().unwrap_or_default();
            let is_left_alone =
                node.metadata.deletion_timestamp.is_some() && taints.iter().any(is_disrupted);
            if is_left_alone {
                return;
            }
            change(&mut taints);
            if !taints.is_empty() || spec.taints.is_some() {
                spec.taints = Some(taints);
            }
        });
    changed.await.map(|_| ())
}

async fn change_claim(
    context: &Context,
    claim: &str,
    change: impl Fn(&mut NodeClaim),
) -> Result<(), ReconcileError> {
    let api: Api<NodeClaim> = Api::all(context.client.clone());
    let claims = &context.cache.node_claims;
    let changed = objects::patch_with_retries(
        &context.clock,
        &api,
        claims,
        claim,
        ObjectPart::Status,
        change,
    );
    changed.await.map(|_| ())
}
