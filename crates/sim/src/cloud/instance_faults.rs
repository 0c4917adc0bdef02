//! Tracks faulty instances: lost after some time, or never registered as a node.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use karpenter_api::nodeclaim::NodeClaim;
use kube::ResourceExt as _;

use super::provider_id;

/// The faults of instances by provider id, until the instances are deleted.
#[derive(Debug, Default)]
pub(super) struct InstanceFaults(Mutex<BTreeMap<String, InstanceFault>>);

#[derive(Debug)]
enum InstanceFault {
    /// The instance is gone from this time on.
    Lost { at: Timestamp, is_silenced: bool },
    /// The node of the instance never appears.
    /// The provider has deleted the instance; callers see it as it was launched for as long as its
    /// NodeClaim exists.
    NeverRegisters { launched: Box<NodeClaim>, owner: Owner },
}

/// Name and uid of a NodeClaim.
pub(super) type Owner = (String, Option<String>);

/// Returns the name and uid of a claim.
pub(super) fn owner(claim: &NodeClaim) -> Owner {
    (claim.name_any(), claim.metadata.uid.clone())
}

/// An instance as the faulty cloud returns it to callers.
#[derive(Debug)]
pub(super) enum InstanceView {
    Unchanged,
    Substitute(Box<NodeClaim>),
    Deleted,
}

impl InstanceFaults {
    pub(super) fn mark_lost(&self, id: &str, at: Timestamp) {
        self.lock().insert(id.to_owned(), InstanceFault::Lost { at, is_silenced: false });
    }

    pub(super) fn mark_never_registering(&self, id: &str, launched: NodeClaim, owner: Owner) {
        let launched = Box::new(launched);
        self.lock().insert(id.to_owned(), InstanceFault::NeverRegisters { launched, owner });
    }

    /// Returns whether some instance never registers as a node.
    pub(super) fn has_never_registering(&self) -> bool {
        self.lock().values().any(|fault| matches!(fault, InstanceFault::NeverRegisters { .. }))
    }

    /// Removes never-registering instances whose NodeClaims are gone, as clouds do.
    pub(super) fn remove_never_registering_except(&self, claims: &[Owner]) {
        self.lock().retain(|_, fault| match fault {
            InstanceFault::NeverRegisters { owner, .. } => claims.contains(owner),
            InstanceFault::Lost { .. } => true,
        });
    }

    /// Returns whether the instance has an id and no fault yet.
    pub(super) fn is_new(&self, id: &str) -> bool {
        !id.is_empty() && !self.lock().contains_key(id)
    }

    pub(super) fn view(&self, id: &str, now: Timestamp) -> InstanceView {
        match self.lock().get(id) {
            Some(InstanceFault::Lost { at, .. }) if *at <= now => InstanceView::Deleted,
            Some(InstanceFault::NeverRegisters { launched, .. }) => {
                InstanceView::Substitute(launched.clone())
            }
            _ => InstanceView::Unchanged,
        }
    }

    /// Returns the provider's instances as callers see them, sorted by provider id.
    pub(super) fn visible_instances(
        &self,
        found: Vec<NodeClaim>,
        now: Timestamp,
    ) -> Vec<NodeClaim> {
        let faults = self.lock();
        let is_lost = |claim: &NodeClaim| {
            let fault = provider_id(claim).and_then(|id| faults.get(id));
            matches!(fault, Some(InstanceFault::Lost { at, .. }) if *at <= now)
        };
        let mut seen: Vec<NodeClaim> = found.into_iter().filter(|claim| !is_lost(claim)).collect();
        for (id, fault) in &*faults {
            // One whose node has come after all is seen already.
            if let InstanceFault::NeverRegisters { launched, .. } = fault
                && !seen.iter().any(|claim| provider_id(claim) == Some(id))
            {
                seen.push((**launched).clone());
            }
        }
        seen.sort_by(|a, b| provider_id(a).cmp(&provider_id(b)));
        seen
    }

    /// Removes the fault of a deleted instance; returns whether it was lost before.
    pub(super) fn forget(&self, id: &str, now: Timestamp) -> bool {
        let fault = self.lock().remove(id);
        matches!(fault, Some(InstanceFault::Lost { at, .. }) if at <= now)
    }

    /// Returns the ids of lost instances whose kubelets still report.
    pub(super) fn lost_with_speaking_kubelet(&self, now: Timestamp) -> Vec<String> {
        let faults = self.lock();
        let speaking = faults.iter().filter(
            |(_, kind)| matches!(kind, InstanceFault::Lost { at, is_silenced: false } if *at <= now),
        );
        speaking.map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn mark_kubelet_silenced(&self, id: &str) {
        if let Some(InstanceFault::Lost { is_silenced, .. }) = self.lock().get_mut(id) {
            *is_silenced = true;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, InstanceFault>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the instance under the name and uid of an unknown claim.
/// Deleting it must not touch the real claim, which some providers delete as well.
pub(super) fn with_unknown_claim(launched: &NodeClaim) -> NodeClaim {
    let mut claim = launched.clone();
    claim.metadata.name = Some(format!("nobody-{}", launched.name_any()));
    claim.metadata.uid = Some("nobody".to_owned());
    claim
}
