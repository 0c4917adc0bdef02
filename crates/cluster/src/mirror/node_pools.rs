//! Counts the NodeClaims of each NodePool by state (spec 40 §5.5).
//!
//! Static capacity uses these counts: it reserves NodeClaims before it creates them, so that two
//! callers that read the same counts do not both use the last place under a limit.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use karpenter_api::labels;

use super::{Mirror, MirrorState};

/// The claims of a pool by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// NodeClaims in neither of the other states.
    pub active: usize,
    /// NodeClaims that are deleting or marked for deletion.
    pub deleting: usize,
    /// NodeClaims that a command is about to replace.
    pub pending_disruption: usize,
}

impl NodeCounts {
    fn total(self) -> i64 {
        let total = self.active + self.deleting + self.pending_disruption;
        i64::try_from(total).unwrap_or(i64::MAX)
    }
}

/// The NodeClaims of all NodePools, by state.
#[derive(Default)]
pub(super) struct NodePoolStates {
    pools: BTreeMap<String, PoolClaims>,
    pool_of: BTreeMap<String, String>,
    pending_disruption: BTreeSet<String>,
}

#[derive(Default)]
struct PoolClaims {
    active: BTreeSet<String>,
    deleting: BTreeSet<String>,
    pending_disruption: BTreeSet<String>,
    reserved: i64,
}

impl PoolClaims {
    fn counts(&self) -> NodeCounts {
        NodeCounts {
            active: self.active.len(),
            deleting: self.deleting.len(),
            pending_disruption: self.pending_disruption.len(),
        }
    }

    fn remove(&mut self, claim: &str) {
        self.active.remove(claim);
        self.deleting.remove(claim);
        self.pending_disruption.remove(claim);
    }
}

impl NodePoolStates {
    /// Sets or removes the pending disruption of a NodeClaim.
    pub(super) fn set_pending_disruption(&mut self, claim: &str, is_pending: bool) {
        if is_pending {
            self.pending_disruption.insert(claim.to_owned());
        } else {
            self.pending_disruption.remove(claim);
        }
    }

    /// Counts a NodeClaim of a NodePool in exactly one state.
    fn set_claim_state(&mut self, claim: &str, pool: &str, is_deleted: bool, is_marked: bool) {
        if self.pool_of.get(claim).is_some_and(|known| known != pool) {
            self.remove_claim(claim);
        }
        self.pool_of.insert(claim.to_owned(), pool.to_owned());
        let claims = self.pools.entry(pool.to_owned()).or_default();
        claims.remove(claim);
        let state = if is_deleted {
            self.pending_disruption.remove(claim);
            &mut claims.deleting
        } else if self.pending_disruption.contains(claim) {
            &mut claims.pending_disruption
        } else if is_marked {
            &mut claims.deleting
        } else {
            &mut claims.active
        };
        state.insert(claim.to_owned());
    }

    /// Removes a NodeClaim. A NodePool without NodeClaims is removed with its reservations; one
    /// whose NodeClaims are pending disruption stays (spec 40 Q12).
    fn remove_claim(&mut self, claim: &str) {
        self.pending_disruption.remove(claim);
        let Some(pool) = self.pool_of.remove(claim) else { return };
        if let Some(claims) = self.pools.get_mut(&pool) {
            claims.remove(claim);
            if claims.counts() == NodeCounts::default() {
                self.pools.remove(&pool);
            }
        }
    }

    pub(super) fn counts(&self, pool: &str) -> NodeCounts {
        self.pools.get(pool).map(PoolClaims::counts).unwrap_or_default()
    }

    fn reserve(&mut self, pool: &str, limit: i64, want: i64) -> i64 {
        let claims = self.pools.entry(pool.to_owned()).or_default();
        let used = claims.counts().total().saturating_add(claims.reserved);
        let granted = want.min(limit.saturating_sub(used)).max(0);
        claims.reserved = claims.reserved.saturating_add(granted);
        granted
    }

    fn release(&mut self, pool: &str, count: i64) {
        if let Some(claims) = self.pools.get_mut(pool) {
            claims.reserved = claims.reserved.saturating_sub(count.max(0)).max(0);
            if claims.reserved == 0 && claims.counts() == NodeCounts::default() {
                self.pools.remove(pool);
            }
        }
    }
}

impl MirrorState {
    /// Counts a claim as it is now.
    pub(super) fn count_claim(&mut self, name: &str, now: Timestamp) {
        let Some(claim) = self.state_nodes.claim(name) else {
            return self.node_pools.remove_claim(name);
        };
        let labels = claim.metadata.labels.as_ref();
        let pool = labels.and_then(|labels| labels.get(labels::NODEPOOL));
        let Some(pool) = pool.filter(|pool| !pool.is_empty()) else {
            return self.node_pools.remove_claim(name);
        };
        let state_node = self.state_nodes.id_of_claim(name).and_then(|id| self.state_nodes.get(id));
        let is_deleted = state_node.is_some_and(|state_node| state_node.is_deleted);
        let is_marked =
            state_node.is_some_and(|state_node| state_node.assumptions.is_marked_for_deletion(now));
        self.node_pools.set_claim_state(name, pool, is_deleted, is_marked);
    }
}

impl Mirror {
    /// The claims of a pool.
    pub fn node_counts(&self, pool: &str) -> NodeCounts {
        self.state().node_pools.counts(pool)
    }

    /// Reserves up to `want` claims of a pool under a limit on their number. Returns how many; the
    /// caller [releases](Self::release_nodes) them when they are created, or not created.
    pub fn reserve_nodes(&self, pool: &str, limit: i64, want: i64) -> i64 {
        self.state().node_pools.reserve(pool, limit, want)
    }

    /// Gives back what was reserved. A pool that is not known has nothing to give back.
    pub fn release_nodes(&self, pool: &str, count: i64) {
        self.state().node_pools.release(pool, count);
    }

    /// Marks a NodeClaim of a static NodePool as about to be replaced. The mark ends with
    /// [`Self::unmark_for_deletion`], or when the NodeClaim is deleted.
    pub fn mark_pending_disruption(&self, claim: &str) {
        self.update(|state, reader| {
            if state.state_nodes.has_claim(claim) {
                state.node_pools.set_pending_disruption(claim, true);
                state.count_claim(claim, reader.now());
            }
        });
    }
}
