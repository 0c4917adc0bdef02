//! What the process knows of claims that the API may not say yet.

use jiff::{SignedDuration, Timestamp};
use karpenter_api::nodeclaim::NodeClaim;

use crate::ttl_cache::TtlCache;

/// Long enough for any API server to take a write, and for a claim to time out.
const TTL: SignedDuration = SignedDuration::from_hours(1);

/// By the uid of the claim.
#[derive(Debug)]
pub(super) struct LifecycleCache {
    /// What the cloud answered to a launch, until the claim says so.
    pub(super) launches: TtlCache<NodeClaim>,
    /// Claims whose registration is still to be told to their pool.
    pub(super) unreported_registrations: TtlCache<()>,
    /// Claims whose timeout was told to their pool.
    pub(super) reported_timeouts: TtlCache<()>,
}

impl LifecycleCache {
    pub(super) fn new() -> Self {
        Self {
            launches: TtlCache::new(TTL),
            unreported_registrations: TtlCache::new(TTL),
            reported_timeouts: TtlCache::new(TTL),
        }
    }

    /// The claim with what its launch brought, if that is not on the claim yet.
    pub(super) fn with_launch(&self, claim: &NodeClaim, now: Timestamp) -> NodeClaim {
        let mut claim = claim.clone();
        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
        if crate::objects::provider_id(&claim).is_empty()
            && let Some(launched) = self.launches.get(uid, now)
        {
            super::launch::adopt_launch(&mut claim, &launched);
        }
        claim
    }

    /// Forgets a claim that is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.launches.remove(uid);
        self.unreported_registrations.remove(uid);
        self.reported_timeouts.remove(uid);
    }
}
