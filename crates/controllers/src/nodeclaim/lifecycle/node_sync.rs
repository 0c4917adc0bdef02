//! Syncs a claim to its node: finalizer, owner, taints, annotations and labels (spec 40 §1.3).
//!
//! These are pure functions over the objects.

use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use karpenter_api::finalizers::TERMINATION;
use karpenter_api::labels::{DO_NOT_SYNC_TAINTS, REGISTERED, TRUE};
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::taints;
use kube::{Resource as _, ResourceExt as _};

/// Returns whether the node has the unregistered taint or is registered.
pub(super) fn is_tainted_or_registered(node: &Node) -> bool {
    let taint = taints::unregistered();
    node.labels().contains_key(REGISTERED)
        || taints_of(node).iter().any(|t| is_same_taint(t, &taint))
}

/// Adds finalizer, owner, taints, annotations and labels to the node.
pub(super) fn sync_node(claim: &NodeClaim, node: &mut Node) {
    if !node.finalizers().iter().any(|finalizer| finalizer == TERMINATION) {
        node.finalizers_mut().push(TERMINATION.to_owned());
    }
    add_owner_reference(claim, node);
    if node.labels().get(DO_NOT_SYNC_TAINTS).map(String::as_str) != Some(TRUE) {
        let taints = [&claim.spec.taints, &claim.spec.startup_taints];
        for taint in taints.into_iter().flatten().flatten() {
            if !taints_of(node).iter().any(|known| is_same_taint(known, taint)) {
                let spec = node.spec.get_or_insert_default();
                spec.taints.get_or_insert_default().push(taint.clone());
            }
        }
    }
    // Empty maps stay absent, so that there is nothing to patch.
    if !claim.annotations().is_empty() {
        node.annotations_mut().extend(claim.annotations().clone());
    }
    if !claim.labels().is_empty() {
        node.labels_mut().extend(claim.labels().clone());
    }
}

/// Removes the unregistered taint and sets the registered label.
pub(super) fn mark_registered(node: &mut Node) {
    let taint = taints::unregistered();
    if let Some(taints) = node.spec.as_mut().and_then(|spec| spec.taints.as_mut()) {
        taints.retain(|known| !is_same_taint(known, &taint));
    }
    node.labels_mut().insert(REGISTERED.to_owned(), TRUE.to_owned());
}

fn add_owner_reference(claim: &NodeClaim, node: &mut Node) {
    let owner = OwnerReference {
        api_version: NodeClaim::api_version(&()).into_owned(),
        kind: NodeClaim::kind(&()).into_owned(),
        name: claim.name_any(),
        uid: claim.uid().unwrap_or_default(),
        block_owner_deletion: Some(true),
        controller: None,
    };
    let is_there = node.owner_references().iter().any(|known| {
        (&known.api_version, &known.kind, &known.uid)
            == (&owner.api_version, &owner.kind, &owner.uid)
    });
    if !is_there {
        node.owner_references_mut().push(owner);
    }
}

fn taints_of(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// Returns whether both taints have the same key and effect.
fn is_same_taint(one: &Taint, other: &Taint) -> bool {
    one.key == other.key && one.effect == other.effect
}

#[cfg(test)]
mod tests;
