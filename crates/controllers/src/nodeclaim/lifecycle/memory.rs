//! What the process knows of claims that the API may not say yet.

use jiff::{SignedDuration, Timestamp};
use karpenter_api::nodeclaim::NodeClaim;

use crate::expiring::Expiring;

/// Long enough for any API server to take a write, and for a claim to time out.
const TIME: SignedDuration = SignedDuration::from_hours(1);

/// By the uid of the claim.
#[derive(Debug)]
pub(super) struct Memory {
    /// What the cloud answered to a launch, until the claim says so.
    pub(super) launches: Expiring<NodeClaim>,
    /// Claims whose registration is still to be told to their pool.
    pub(super) untold_registrations: Expiring<()>,
    /// Claims whose timeout was told to their pool.
    pub(super) told_timeouts: Expiring<()>,
}

impl Memory {
    pub(super) fn new() -> Self {
        Self {
            launches: Expiring::new(TIME),
            untold_registrations: Expiring::new(TIME),
            told_timeouts: Expiring::new(TIME),
        }
    }

    /// The claim with what its launch brought, if that is not on the claim yet.
    pub(super) fn with_launch(&self, claim: &NodeClaim, now: Timestamp) -> NodeClaim {
        let mut claim = claim.clone();
        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
        if crate::objects::provider_id(&claim).is_empty()
            && let Some(launched) = self.launches.get(uid, now)
        {
            super::launch::take_over(&mut claim, &launched);
        }
        claim
    }

    /// Forgets a claim that is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.launches.remove(uid);
        self.untold_registrations.remove(uid);
        self.told_timeouts.remove(uid);
    }
}
