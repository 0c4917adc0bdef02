//! In-flight NodeClaims in the order they are tried: fewest pods first (spec 20 §3.7).
//!
//! Upstream sorts the whole list before each pod. A stable sort moves a NodeClaim that just got a
//! pod to the front of those with as many, and a new one to the back of those with one; so buckets
//! by number of pods, filled at either end, are the sorted list at all times.
//!
//! Buckets are cut into runs, each of which knows an upper bound of the room of its members, which
//! requirement sets they have, and, for hostname constraints that found no member free, a lower
//! bound of their counts. Pods come largest first and NodeClaims only fill up, so most runs are
//! passed by with one look: 100,000 plain pods on 8-core nodes take 17,000 NodeClaims, and 4,000
//! pods that keep away from each other as many as they are. Pods that must go to one zone pass by
//! all that others left elsewhere.

use smallvec::SmallVec;
use std::collections::VecDeque;

use super::amounts::{Amounts, fits_within, widen};
use super::requirement_store::SetId;
use super::topology_groups::GroupId;

/// A run with more requirement sets does not know them: to go through them would be no shorter than
/// to go through the members.
const MOST_SETS: usize = 8;

#[derive(Clone, Debug)]
pub(super) struct ClaimOrder {
    /// The members of a run, at most.
    run: usize,
    buckets: Vec<VecDeque<ClaimRun>>,
}

/// Neighbours in the order.
#[derive(Clone, Debug)]
pub(super) struct ClaimRun {
    pub(super) claims: VecDeque<u32>,
    /// At least the room of every member.
    pub(super) remaining: Amounts,
    /// At most the count of every member, for groups that were looked into.
    pub(super) floors: SmallVec<[(GroupId, u32); 4]>,
    /// The requirement sets of all members, and maybe some that no member has any more. Empty if
    /// there are too many.
    sets: SmallVec<[SetId; MOST_SETS]>,
}

/// Where a NodeClaim stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub(super) bucket: usize,
    pub(super) run: usize,
    pub(super) member: usize,
}

/// What a run must know of a NodeClaim that joins it.
pub(super) struct JoiningClaim<'j> {
    pub(super) claim: u32,
    pub(super) set: SetId,
    pub(super) remaining: &'j Amounts,
    /// How many pods a group counts on it.
    pub(super) count: &'j dyn Fn(GroupId) -> u32,
}

impl ClaimOrder {
    pub(super) fn new(run: usize) -> Self {
        Self { run, buckets: Vec::new() }
    }

    /// A NodeClaim with its first pod.
    pub(super) fn open(&mut self, joining: &JoiningClaim<'_>) {
        let longest = self.run;
        let bucket = self.bucket(1);
        match bucket.back_mut() {
            Some(run) if run.claims.len() < longest => run.join(joining, VecDeque::push_back),
            _ => bucket.push_back(ClaimRun::new(joining)),
        }
    }

    /// A NodeClaim that has got one more pod since it stood here.
    pub(super) fn grow(&mut self, joining: &JoiningClaim<'_>, from: Position) {
        let before = self.bucket(from.bucket);
        before[from.run].claims.remove(from.member);
        if before[from.run].claims.is_empty() {
            before.remove(from.run);
        }
        let longest = self.run;
        let bucket = self.bucket(from.bucket + 1);
        match bucket.front_mut() {
            Some(run) if run.claims.len() < longest => run.join(joining, VecDeque::push_front),
            _ => bucket.push_front(ClaimRun::new(joining)),
        }
    }

    /// Forgets all NodeClaims.
    pub(super) fn clear(&mut self) {
        self.buckets.clear();
    }

    fn bucket(&mut self, pods: usize) -> &mut VecDeque<ClaimRun> {
        if self.buckets.len() <= pods {
            self.buckets.resize_with(pods + 1, VecDeque::default);
        }
        &mut self.buckets[pods]
    }

    /// All runs, in order. They are taken out while the solver works on them; see
    /// [`Self::put_back`].
    pub(super) fn take(&mut self) -> Vec<VecDeque<ClaimRun>> {
        std::mem::take(&mut self.buckets)
    }

    pub(super) fn put_back(&mut self, buckets: Vec<VecDeque<ClaimRun>>) {
        self.buckets = buckets;
    }
}

impl ClaimRun {
    fn new(joining: &JoiningClaim<'_>) -> Self {
        let claims = VecDeque::from([joining.claim]);
        let sets = SmallVec::from_slice(&[joining.set]);
        Self { claims, remaining: joining.remaining.clone(), floors: SmallVec::new(), sets }
    }

    fn join(&mut self, joining: &JoiningClaim<'_>, push: impl Fn(&mut VecDeque<u32>, u32)) {
        push(&mut self.claims, joining.claim);
        widen(&mut self.remaining, joining.remaining);
        if !self.sets.is_empty() {
            self.add_set(joining.set);
        }
        for (group, floor) in &mut self.floors {
            *floor = (joining.count)(*group).min(*floor);
        }
    }

    /// Whether some member may have room for this much.
    pub(super) fn may_fit(&self, need: &[i128]) -> bool {
        fits_within(need, &self.remaining)
    }

    /// Whether every member is known to have more than `limit` pods of a group.
    pub(super) fn exceeds(&self, group: GroupId, limit: i64) -> bool {
        self.floors.iter().any(|&(known, floor)| known == group && i64::from(floor) > limit)
    }

    /// Remembers the least count of a group among the members.
    pub(super) fn learn(&mut self, group: GroupId, least: u32) {
        match self.floors.iter_mut().find(|(known, _)| *known == group) {
            Some((_, floor)) => *floor = least,
            None => self.floors.push((group, least)),
        }
    }
    /// The requirement sets of the members, if they are known, and some more.
    pub(super) fn sets(&self) -> Option<&[SetId]> {
        (!self.sets.is_empty()).then_some(&*self.sets)
    }

    /// Remembers the requirement sets of the members.
    pub(super) fn learn_sets(&mut self, set_of: impl Fn(u32) -> SetId) {
        self.sets.clear();
        for member in 0..self.claims.len() {
            if !self.add_set(set_of(self.claims[member])) {
                return;
            }
        }
    }

    /// Returns whether there are few enough.
    fn add_set(&mut self, set: SetId) -> bool {
        if self.sets.contains(&set) {
            return true;
        }
        if self.sets.len() == MOST_SETS {
            self.sets.clear();
            return false;
        }
        self.sets.push(set);
        true
    }
}
