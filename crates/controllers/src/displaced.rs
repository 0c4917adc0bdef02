//! The pods that consolidation displaces, for which nothing is launched before they find no place, and
//! has just displaced, so that a NodeClaim which is launched for them can say that they came back
//! ([`relapse`]).
//!
//! In memory alone: a restart within these minutes forgets it, and the next time tells.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use karpenter_core::disruption::relapse::{self, Relapses, Workload};
use karpenter_core::disruption::{Command, Reason};
use karpenter_core::id::PodId;
use karpenter_core::plan::PlannedClaim;
use karpenter_core::snapshot::Snapshot;

#[cfg(test)]
mod tests;

/// How long after a deletion pods that look for a place are those that it displaced. While a node
/// drains they are in any case.
const RECENT: SignedDuration = SignedDuration::from_mins(2);
/// What sums of prices may be off by, as a share.
const ROUNDING: f64 = 1e-9;

/// What commands displace, and have just displaced.
#[derive(Debug, Default)]
pub(crate) struct Displaced {
    /// The NodeClaims of commands of consolidation that have begun.
    going: Mutex<BTreeSet<String>>,
    /// What was displaced, by the id of the command.
    moved: Mutex<BTreeMap<String, Displacement>>,
}

/// What one command displaced.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Displacement {
    /// When the nodes were deleted.
    at: Timestamp,
    /// Their NodeClaims.
    claims: Vec<String>,
    /// What the command saves per hour, less what was launched for its pods since.
    saved: f64,
    /// Whose pods, by the text of the workload.
    workloads: BTreeMap<String, Moved>,
}

/// What a command displaced of one workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    pods: usize,
    /// How often in a row it came back before.
    relapses: u32,
}

/// What a command of consolidation displaces, by workload; nothing if it is no consolidation.
pub(crate) fn moved(
    snapshot: &Snapshot,
    command: &Command,
    now: Timestamp,
) -> BTreeMap<String, Moved> {
    let mut moved: BTreeMap<String, Moved> = BTreeMap::new();
    if command.reason() != Reason::Underutilized {
        return moved;
    }
    let relapses = Relapses::of(snapshot, now);
    let pods = command.candidates.iter().flat_map(|candidate| &candidate.pods);
    for workload in pods.filter_map(|&pod| Workload::of(snapshot.pod(pod))) {
        let of = moved.entry(workload.to_string()).or_default();
        of.pods += 1;
        of.relapses = relapses.count(workload);
    }
    moved
}

impl Displaced {
    /// A command of consolidation that removes these NodeClaims has begun. Their pods have a place,
    /// by its plan.
    pub(crate) fn begin<'a>(&self, claims: impl IntoIterator<Item = &'a str>) {
        self.going().extend(claims.into_iter().map(str::to_owned));
    }

    /// These NodeClaims stay.
    pub(crate) fn end<'a>(&self, claims: impl IntoIterator<Item = &'a str>) {
        let mut going = self.going();
        for claim in claims {
            going.remove(claim);
        }
    }

    /// Leaves out the pods of nodes that consolidation removes. It has looked for places for all of
    /// them together; who looks again while some have moved may find too little room for the last
    /// one, and launch a node for it that nobody needs. Who finds none in fact waits, and is seen to.
    pub(crate) fn leave_out(
        &self,
        snapshot: &Snapshot,
        pods: &mut Vec<PodId>,
        is_there: impl Fn(&str) -> bool,
    ) {
        let going = self.still_going(is_there);
        if going.is_empty() {
            return;
        }
        pods.retain(|&pod| {
            let node = snapshot.pod(pod).node.and_then(|node| snapshot.nodes.get(node.index()));
            !node.is_some_and(|node| going.contains(&node.standing.node_claim))
        });
    }

    /// Whether several nodes are removed by consolidation now.
    pub(crate) fn is_many(&self, is_there: impl Fn(&str) -> bool) -> bool {
        self.still_going(is_there).len() > 1
    }

    /// The nodes of a command are about to be deleted.
    pub(crate) fn note(
        &self,
        id: &str,
        command: &Command,
        moved: &BTreeMap<String, Moved>,
        at: Timestamp,
    ) {
        if moved.is_empty() {
            return;
        }
        let claims = command.candidates.iter().map(|candidate| candidate.node_claim.clone());
        let displacement = Displacement {
            at,
            claims: claims.collect(),
            saved: command.savings,
            workloads: moved.clone(),
        };
        self.moved().insert(id.to_owned(), displacement);
    }

    /// The annotation of a planned NodeClaim whose pods were just displaced and came back. If it
    /// costs less than their displacement saved, that was still worth it, and there is none.
    pub(crate) fn returned(
        &self,
        snapshot: &Snapshot,
        planned: &PlannedClaim,
        now: Timestamp,
        is_draining: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let mut state = self.moved();
        state.retain(|_, one| {
            now.duration_since(one.at) < RECENT || one.claims.iter().any(|name| is_draining(name))
        });
        if state.is_empty() {
            return None;
        }
        let pods = planned.pods.iter().map(|&pod| snapshot.pod(pod)).filter(|pod| !pod.is_virtual);
        let workloads: BTreeSet<_> = pods.filter_map(Workload::of).collect();
        let mut back = BTreeMap::new();
        for workload in workloads {
            let name = workload.to_string();
            let moves: Vec<_> = state
                .values()
                .filter_map(|one| Some((one.at, *one.workloads.get(&name)?)))
                .collect();
            let Some(since) = moves.iter().map(|(at, _)| *at).min() else { continue };
            let displaced: usize = moves.iter().map(|(_, moved)| moved.pods).sum();
            // If there are more it has grown, and would have needed the node anyway.
            if made_since(snapshot, workload, since) <= displaced {
                let relapses = moves.iter().map(|(_, moved)| moved.relapses).max();
                back.insert(name, relapses.unwrap_or(0).saturating_add(1));
            }
        }
        let concerned = state
            .values_mut()
            .filter(|one| one.workloads.keys().any(|workload| back.contains_key(workload)));
        let mut price = planned.cheapest.unwrap_or(0.0) * (1.0 + ROUNDING);
        for one in concerned {
            let spent = price.min(one.saved);
            one.saved -= spent;
            price -= spent;
            if one.saved > 0.0 {
                return None;
            }
        }
        (!back.is_empty()).then(|| relapse::annotation(snapshot, back))
    }

    /// Those whose NodeClaim is there.
    fn still_going(&self, is_there: impl Fn(&str) -> bool) -> MutexGuard<'_, BTreeSet<String>> {
        let mut going = self.going();
        going.retain(|claim| is_there(claim));
        going
    }

    fn going(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.going.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn moved(&self) -> MutexGuard<'_, BTreeMap<String, Displacement>> {
        // Nothing panics while it is held.
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many pods of a workload were made since then.
fn made_since(snapshot: &Snapshot, workload: Workload<'_>, since: Timestamp) -> usize {
    let young = snapshot.pods.iter().filter(|pod| pod.created >= since);
    young.filter(|pod| Workload::of(pod) == Some(workload)).count()
}
