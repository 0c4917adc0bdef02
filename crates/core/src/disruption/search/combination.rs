//! Selects the moves of one round that can be carried out together.

use std::collections::BTreeSet;

use super::{Candidate, CandidateIndex, NodeId};
use crate::disruption::allowances::Allowances;
use crate::disruption::consolidation::{Consolidation, ConsolidationMove};
use crate::disruption::{Command, Method};
use crate::id::PodId;
use crate::plan::PlannedNodeClaim;
use crate::snapshot::Snapshot;

/// Returns commands for the sets that can be carried out together.
/// No node is in two of them, no removed node takes pods of another, and no free capacity is used
/// twice.
pub(super) fn combine_moves(
    index: &CandidateIndex<'_>,
    sets: Vec<(Vec<&Candidate>, ConsolidationMove)>,
    mut allowances: Allowances,
    mut has_exclusive: bool,
) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    let (mut gone, mut used) = (BTreeSet::new(), BTreeSet::new());
    let is_one_by_one =
        has_topology_constraints(index.context.snapshot) || has_limits(index.context.snapshot);
    for (set, found) in sets {
        let nodes: BTreeSet<NodeId> = set.iter().map(|one| one.node).collect();
        let targets: BTreeSet<NodeId> = found.plan.existing_nodes.iter().map(|one| one.0).collect();
        let is_apart = nodes.is_disjoint(&gone)
            && nodes.is_disjoint(&used)
            && targets.is_disjoint(&gone)
            && targets.is_disjoint(&used);
        // Topology constraints and limits may not allow both moves together.
        if !is_apart || (is_one_by_one && !commands.is_empty()) {
            continue;
        }
        let is_exclusive = is_exclusive(index, &found.replacements);
        if is_exclusive && has_exclusive {
            continue;
        }
        let mut left = allowances.clone();
        if !set.iter().all(|one| left.reserve(&one.pool)) {
            continue;
        }
        allowances = left;
        has_exclusive |= is_exclusive;
        gone.extend(nodes);
        used.extend(targets);
        let method = if set.len() > 1 { Method::MultiNode } else { Method::SingleNode };
        commands.push(Consolidation::command(method, &set, found));
    }
    commands
}

/// Whether a replacement uses something that only one command of a pass can use.
/// That is a slot of a reservation, or a pod that is pending anyway.
pub(super) fn is_exclusive<'c>(
    index: &CandidateIndex<'_>,
    claims: impl IntoIterator<Item = &'c PlannedNodeClaim>,
) -> bool {
    let is_waiting = |pod: &PodId| index.context.snapshot.pod(*pod).node.is_none();
    claims
        .into_iter()
        .any(|claim| !claim.reservations.is_empty() || claim.pods.iter().any(is_waiting))
}

/// Whether some NodePool has limits.
fn has_limits(snapshot: &Snapshot) -> bool {
    snapshot.pools.iter().any(|pool| !pool.limits.is_empty())
}

/// Whether some pod has topology spread or pod affinity.
fn has_topology_constraints(snapshot: &Snapshot) -> bool {
    snapshot.pods.iter().any(|pod| {
        let spec = &pod.spec;
        !spec.topology_spread.is_empty()
            || !spec.pod_affinity.is_empty()
            || !spec.pod_anti_affinity.is_empty()
            || !spec.preferred_pod_affinity.is_empty()
            || !spec.preferred_pod_anti_affinity.is_empty()
    })
}
