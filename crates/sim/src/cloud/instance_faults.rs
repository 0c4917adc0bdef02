//! What becomes of single instances: lost at some time, or there but never heard of.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use karpenter_api::nodeclaim::NodeClaim;
use kube::ResourceExt as _;

use super::provider_id;

/// The instances that something is wrong with, by provider id, until somebody ends them.
#[derive(Debug, Default)]
pub(super) struct InstanceFaults(Mutex<BTreeMap<String, InstanceFault>>);

#[derive(Debug)]
enum InstanceFault {
    /// It is gone from this time on.
    Lost { at: Timestamp, is_silenced: bool },
    /// Its node never appears. The provider has ended it; others still see it, as it was launched,
    /// for as long as the claim is there that it was launched for.
    NeverRegisters { launched: Box<NodeClaim>, owner: Owner },
}

/// Name and uid of a NodeClaim.
pub(super) type Owner = (String, Option<String>);

/// The claim, as fates know it.
pub(super) fn owner(claim: &NodeClaim) -> Owner {
    (claim.name_any(), claim.metadata.uid.clone())
}

/// What somebody sees of an instance.
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

    /// Whether there is any whose node never appears.
    pub(super) fn has_never_registering(&self) -> bool {
        self.lock().values().any(|fate| matches!(fate, InstanceFault::NeverRegisters { .. }))
    }

    /// Forgets hidden instances of claims that are gone, as clouds clear away what nobody owns.
    pub(super) fn remove_never_registering_except(&self, claims: &[Owner]) {
        self.lock().retain(|_, fate| match fate {
            InstanceFault::NeverRegisters { owner, .. } => claims.contains(owner),
            InstanceFault::Lost { .. } => true,
        });
    }

    /// Whether nothing has been decided about it.
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

    /// The instances of the provider as others see them, by provider id.
    pub(super) fn visible_instances(
        &self,
        found: Vec<NodeClaim>,
        now: Timestamp,
    ) -> Vec<NodeClaim> {
        let fates = self.lock();
        let is_lost = |claim: &NodeClaim| {
            let fate = provider_id(claim).and_then(|id| fates.get(id));
            matches!(fate, Some(InstanceFault::Lost { at, .. }) if *at <= now)
        };
        let mut seen: Vec<NodeClaim> = found.into_iter().filter(|claim| !is_lost(claim)).collect();
        for (id, fate) in &*fates {
            // One whose node has come after all is seen already.
            if let InstanceFault::NeverRegisters { launched, .. } = fate
                && !seen.iter().any(|claim| provider_id(claim) == Some(id))
            {
                seen.push((**launched).clone());
            }
        }
        seen.sort_by(|a, b| provider_id(a).cmp(&provider_id(b)));
        seen
    }

    /// It is ended. Whether it was gone before.
    pub(super) fn forget(&self, id: &str, now: Timestamp) -> bool {
        let fate = self.lock().remove(id);
        matches!(fate, Some(InstanceFault::Lost { at, .. }) if at <= now)
    }

    /// Those that are lost, and whose kubelets still speak.
    pub(super) fn lost_with_speaking_kubelet(&self, now: Timestamp) -> Vec<String> {
        let fates = self.lock();
        let speaking = fates.iter().filter(
            |(_, fate)| matches!(fate, InstanceFault::Lost { at, is_silenced: false } if *at <= now),
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

/// The instance as that of a claim which nobody has: ending it must not touch the real claim, which
/// some providers delete as well.
pub(super) fn with_unknown_claim(launched: &NodeClaim) -> NodeClaim {
    let mut claim = launched.clone();
    claim.metadata.name = Some(format!("nobody-{}", launched.name_any()));
    claim.metadata.uid = Some("nobody".to_owned());
    claim
}
