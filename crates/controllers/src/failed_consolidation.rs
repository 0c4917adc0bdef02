//! Tracks the pods that consolidation moves, to detect failed consolidations.
//!
//! While nodes are consolidated, the provisioner launches nothing for their pods. If a NodeClaim is
//! launched for the pods afterwards, it gets the annotation of a failed consolidation
//! ([`failed_consolidation`]).
//!
//! The state is in memory only: a restart within these minutes loses it, and the next failure is
//! recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use karpenter_core::disruption::failed_consolidation::{self, FailedConsolidations, Workload};
use karpenter_core::disruption::{Command, Reason};
use karpenter_core::id::PodId;
use karpenter_core::plan::PlannedNodeClaim;
use karpenter_core::snapshot::Snapshot;

#[cfg(test)]
mod tests;

/// How long after a deletion pending pods count as moved by it. While a node drains they count in
/// any case.
const FAILURE_WINDOW: SignedDuration = SignedDuration::from_mins(2);
/// The relative error that sums of prices may have.
const PRICE_TOLERANCE: f64 = 1e-9;

/// Tracks running and recent consolidations.
#[derive(Debug, Default)]
pub(crate) struct ConsolidationTracker {
    /// The NodeClaims of started consolidation commands.
    consolidating_claims: Mutex<BTreeSet<String>>,
    /// Recent consolidations, by the id of their command.
    recent_consolidations: Mutex<BTreeMap<String, RecentConsolidation>>,
}

/// A consolidation that has deleted its nodes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RecentConsolidation {
    /// When it deleted the nodes.
    deleted_at: Timestamp,
    /// The NodeClaims of the nodes.
    node_claims: Vec<String>,
    /// The savings per hour, less the price of nodes launched for its pods since.
    remaining_savings: f64,
    /// The moved workloads, by name.
    workloads: BTreeMap<String, MovedWorkload>,
}

/// The pods of one workload that a consolidation moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MovedWorkload {
    pod_count: usize,
    /// How often in a row the workload's consolidation failed before.
    previous_failures: u32,
}

/// Returns the workloads that a consolidation command moves; empty for other commands.
pub(crate) fn moved_workloads(
    snapshot: &Snapshot,
    command: &Command,
    now: Timestamp,
) -> BTreeMap<String, MovedWorkload> {
    let mut moved: BTreeMap<String, MovedWorkload> = BTreeMap::new();
    if command.reason() != Reason::Underutilized {
        return moved;
    }
    let failures = FailedConsolidations::from_snapshot(snapshot, now);
    let pods = command.candidates.iter().flat_map(|candidate| &candidate.pods);
    for workload in pods.filter_map(|&pod| Workload::of_pod(snapshot.pod(pod))) {
        let of = moved.entry(workload.to_string()).or_default();
        of.pod_count += 1;
        of.previous_failures = failures.count(workload);
    }
    moved
}

impl ConsolidationTracker {
    /// Adds the NodeClaims of a started consolidation command. Their pods have a place, by its
    /// plan.
    pub(crate) fn track_claims<'a>(&self, claims: impl IntoIterator<Item = &'a str>) {
        self.consolidating_claims().extend(claims.into_iter().map(str::to_owned));
    }

    /// Removes NodeClaims that stay.
    pub(crate) fn untrack_claims<'a>(&self, claims: impl IntoIterator<Item = &'a str>) {
        let mut going = self.consolidating_claims();
        for claim in claims {
            going.remove(claim);
        }
    }

    /// Removes the pods of nodes under consolidation from `pods`.
    ///
    /// Consolidation has found a place for all of them together. A decision made while some have
    /// moved could find too little capacity for the last one, and launch a node that is not needed.
    /// A pod that finds no place becomes pending without a node, and the provisioner places it.
    pub(crate) fn exclude_moving_pods(
        &self,
        snapshot: &Snapshot,
        pods: &mut Vec<PodId>,
        is_there: impl Fn(&str) -> bool,
    ) {
        let going = self.existing_claims(is_there);
        if going.is_empty() {
            return;
        }
        pods.retain(|&pod| {
            let node = snapshot.pod(pod).node.and_then(|node| snapshot.nodes.get(node.index()));
            !node.is_some_and(|node| going.contains(&node.disruption_state.node_claim))
        });
    }

    /// Returns whether consolidation removes several nodes now.
    pub(crate) fn is_removing_several_nodes(&self, is_there: impl Fn(&str) -> bool) -> bool {
        self.existing_claims(is_there).len() > 1
    }

    /// Records that the nodes of a command are about to be deleted.
    pub(crate) fn record_deletion(
        &self,
        id: &str,
        command: &Command,
        moved: &BTreeMap<String, MovedWorkload>,
        at: Timestamp,
    ) {
        if moved.is_empty() {
            return;
        }
        let claims = command.candidates.iter().map(|candidate| candidate.node_claim.clone());
        let displacement = RecentConsolidation {
            deleted_at: at,
            node_claims: claims.collect(),
            remaining_savings: command.savings,
            workloads: moved.clone(),
        };
        self.recent_consolidations().insert(id.to_owned(), displacement);
    }

    /// Returns the annotation of a planned NodeClaim whose pods were just consolidated. None if it
    /// costs less than their consolidation saved: that was still worth it.
    pub(crate) fn failed_consolidation_annotation(
        &self,
        snapshot: &Snapshot,
        planned: &PlannedNodeClaim,
        now: Timestamp,
        is_draining: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let mut state = self.recent_consolidations();
        state.retain(|_, one| {
            now.duration_since(one.deleted_at) < FAILURE_WINDOW
                || one.node_claims.iter().any(|name| is_draining(name))
        });
        if state.is_empty() {
            return None;
        }
        let pods = planned.pods.iter().map(|&pod| snapshot.pod(pod)).filter(|pod| !pod.is_virtual);
        let workloads: BTreeSet<_> = pods.filter_map(Workload::of_pod).collect();
        let mut back = BTreeMap::new();
        for workload in workloads {
            let name = workload.to_string();
            let moves: Vec<_> = state
                .values()
                .filter_map(|one| Some((one.deleted_at, *one.workloads.get(&name)?)))
                .collect();
            let Some(since) = moves.iter().map(|(at, _)| *at).min() else { continue };
            let moved_count: usize = moves.iter().map(|(_, moved)| moved.pod_count).sum();
            // If there are more it has grown, and would have needed the node anyway.
            if count_pods_created_since(snapshot, workload, since) <= moved_count {
                let failures = moves.iter().map(|(_, moved)| moved.previous_failures).max();
                back.insert(name, failures.unwrap_or(0).saturating_add(1));
            }
        }
        let concerned = state
            .values_mut()
            .filter(|one| one.workloads.keys().any(|workload| back.contains_key(workload)));
        let mut price = planned.lowest_price.unwrap_or(0.0) * (1.0 + PRICE_TOLERANCE);
        for one in concerned {
            let spent = price.min(one.remaining_savings);
            one.remaining_savings -= spent;
            price -= spent;
            if one.remaining_savings > 0.0 {
                return None;
            }
        }
        (!back.is_empty()).then(|| failed_consolidation::annotation_value(snapshot, back))
    }

    /// Returns the tracked NodeClaims that still exist, and drops the others.
    fn existing_claims(&self, is_there: impl Fn(&str) -> bool) -> MutexGuard<'_, BTreeSet<String>> {
        let mut going = self.consolidating_claims();
        going.retain(|claim| is_there(claim));
        going
    }

    fn consolidating_claims(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.consolidating_claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recent_consolidations(&self) -> MutexGuard<'_, BTreeMap<String, RecentConsolidation>> {
        // Nothing panics while it is held.
        self.recent_consolidations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts the pods of a workload that were created since then.
fn count_pods_created_since(
    snapshot: &Snapshot,
    workload: Workload<'_>,
    since: Timestamp,
) -> usize {
    let created = snapshot.pods.iter().filter(|pod| pod.created >= since);
    created.filter(|pod| Workload::of_pod(pod) == Some(workload)).count()
}
