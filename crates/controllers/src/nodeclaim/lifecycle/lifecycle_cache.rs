//! Keeps the facts about claims that the API may not show yet.

use jiff::{SignedDuration, Timestamp};
use karpenter_api::nodeclaim::NodeClaim;

use crate::ttl_cache::TtlCache;

/// How long a fact is kept: longer than any delayed write or claim timeout.
const TTL: SignedDuration = SignedDuration::from_hours(1);

/// The facts about claims that the API may not show yet, by uid.
#[derive(Debug)]
pub(super) struct LifecycleCache {
    /// The cloud's answer to a launch, until the claim has it.
    pub(super) launches: TtlCache<NodeClaim>,
    /// Claims whose registration is still to be reported to their pool.
    pub(super) unreported_registrations: TtlCache<()>,
    /// Claims whose timeout was reported to their pool.
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

    /// Returns the claim with the result of its launch, if the claim lacks it.
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

    /// Removes the facts about a deleted claim.
    pub(super) fn forget(&self, uid: &str) {
        self.launches.remove(uid);
        self.unreported_registrations.remove(uid);
        self.reported_timeouts.remove(uid);
    }
}
