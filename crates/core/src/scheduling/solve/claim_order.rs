//! Keeps in-flight NodeClaims in the order they are tried: fewest pods first (spec 20 §3.7).
//!
//! Upstream sorts the whole list before each pod. A stable sort moves a NodeClaim that just got a
//! pod to the front of those with as many, and a new one to the back of those with one; so buckets
//! by number of pods, filled at either end, are the sorted list at all times.
//!
//! Buckets are cut into runs. Each run has an upper bound of its members' remaining resources,
//! their requirement sets, and, for hostname constraints that rejected every member, a lower bound
//! of their counts. Pods come largest first and NodeClaims only fill up, so one check skips most
//! runs: 100,000 plain pods on 8-core nodes take 17,000 NodeClaims, and 4,000 pods with
//! anti-affinity to each other take 4,000. Pods that must go to one zone skip the NodeClaims of
//! other zones.

use smallvec::SmallVec;
use std::collections::VecDeque;

use super::amounts::{Amounts, fits_within, widen};
use super::requirement_store::SetId;
use super::topology_groups::GroupId;

/// The most requirement sets that a run keeps.
///
/// A run with more does not keep them: to check them would take as long as to check the members.
const MOST_SETS: usize = 8;

/// The in-flight NodeClaims in the order they are tried.
#[derive(Clone, Debug)]
pub(super) struct ClaimOrder {
    /// The members of a run, at most.
    run: usize,
    buckets: Vec<VecDeque<ClaimRun>>,
}

/// Neighbouring NodeClaims in the order, with common bounds.
#[derive(Clone, Debug)]
pub(super) struct ClaimRun {
    pub(super) claims: VecDeque<u32>,
    /// An upper bound of the remaining resources of every member.
    pub(super) remaining: Amounts,
    /// By group: a lower bound of the count of every member, if known.
    pub(super) floors: SmallVec<[(GroupId, u32); 4]>,
    /// The requirement sets of all members, and maybe some that no member has any more. Empty if
    /// there are more than [`MOST_SETS`].
    sets: SmallVec<[SetId; MOST_SETS]>,
}

/// The position of a NodeClaim in the order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub(super) bucket: usize,
    pub(super) run: usize,
    pub(super) member: usize,
}

/// A NodeClaim that joins a run, with the data for the bounds.
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

    /// Adds a NodeClaim with its first pod.
    pub(super) fn open(&mut self, joining: &JoiningClaim<'_>) {
        let longest = self.run;
        let bucket = self.bucket(1);
        match bucket.back_mut() {
            Some(run) if run.claims.len() < longest => run.join(joining, VecDeque::push_back),
            _ => bucket.push_back(ClaimRun::new(joining)),
        }
    }

    /// Moves a NodeClaim that has got one more pod.
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

    /// Removes all NodeClaims.
    pub(super) fn clear(&mut self) {
        self.buckets.clear();
    }

    fn bucket(&mut self, pods: usize) -> &mut VecDeque<ClaimRun> {
        if self.buckets.len() <= pods {
            self.buckets.resize_with(pods + 1, VecDeque::default);
        }
        &mut self.buckets[pods]
    }

    /// Takes out all runs, in order, while the solver works on them.
    ///
    /// See [`Self::put_back`].
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

    /// Returns whether some member may have this much left.
    pub(super) fn may_fit(&self, need: &[i128]) -> bool {
        fits_within(need, &self.remaining)
    }

    /// Returns whether every member is known to have more than `limit` pods of a group.
    pub(super) fn exceeds(&self, group: GroupId, limit: i64) -> bool {
        self.floors.iter().any(|&(known, floor)| known == group && i64::from(floor) > limit)
    }

    /// Stores the least count of a group among the members.
    pub(super) fn learn(&mut self, group: GroupId, least: u32) {
        match self.floors.iter_mut().find(|(known, _)| *known == group) {
            Some((_, floor)) => *floor = least,
            None => self.floors.push((group, least)),
        }
    }
    /// Returns the requirement sets of the members and maybe more, if they are known.
    pub(super) fn sets(&self) -> Option<&[SetId]> {
        (!self.sets.is_empty()).then_some(&*self.sets)
    }

    /// Stores the requirement sets of the members.
    pub(super) fn learn_sets(&mut self, set_of: impl Fn(u32) -> SetId) {
        self.sets.clear();
        for member in 0..self.claims.len() {
            if !self.add_set(set_of(self.claims[member])) {
                return;
            }
        }
    }

    /// Adds a requirement set. Returns whether there are few enough.
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
