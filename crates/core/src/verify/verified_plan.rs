//! Drops the placements of a plan that break a rule.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::affected::PlacementIndex;
use super::violation::Violation;
use super::{Level, PlanFacts, check_plan_with};
use crate::id::PodId;
use crate::plan::Plan;
use crate::rejection::PodRejection;
use crate::scheduling::Request;

#[cfg(test)]
mod tests;

/// How often the remaining plan is checked before all of it is dropped.
const ROUNDS_MAX: usize = 4;

/// A plan without violations, and what was dropped for that.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VerifiedPlan {
    /// The plan. The pods of dropped placements are rejected with
    /// [`PodRejection::PlanViolation`].
    pub plan: Plan,
    /// What was found; empty if the plan is as the solver returned it.
    pub violations: Vec<Violation>,
    /// The dropped nodes and NodeClaims of the plan.
    pub dropped: Vec<DroppedPlacement>,
}

/// A node or NodeClaim of a plan that was dropped with its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedPlacement {
    /// The name of the node; none for a NodeClaim, and for a node that does not exist.
    pub node: Option<String>,
    /// The name of the NodePool, where it is known.
    pub node_pool: Option<String>,
    /// Its pods, without those that the snapshot does not have.
    pub pods: Vec<PodId>,
}

/// Returns the plan without the nodes and NodeClaims that violations affect.
pub fn verify_plan(request: &Request<'_>, mut plan: Plan, level: Level) -> VerifiedPlan {
    let mut violations: Vec<Violation> = Vec::new();
    let mut dropped = Vec::new();
    for round in 0..=ROUNDS_MAX {
        // The dropped pods were counted when the others were placed.
        let facts = PlanFacts { has_dropped_claims: round > 0, ..PlanFacts::default() };
        let found = check_plan_with(request, &plan, level, facts);
        if found.is_empty() {
            break;
        }
        let mut reasons = BTreeMap::new();
        drop_affected(
            request,
            &mut plan,
            &found,
            round == ROUNDS_MAX,
            (&mut reasons, &mut dropped),
        );
        reject_pods(request, &mut plan, &found, reasons);
        violations.extend(found);
    }
    VerifiedPlan { plan, violations, dropped }
}

/// The violation that a pod is rejected for, by pod.
type Reasons = BTreeMap<PodId, String>;

/// Removes the affected nodes and NodeClaims, or all, from the plan.
fn drop_affected(
    request: &Request<'_>,
    plan: &mut Plan,
    violations: &[Violation],
    is_all: bool,
    (reasons, dropped): (&mut Reasons, &mut Vec<DroppedPlacement>),
) {
    let snapshot = request.snapshot;
    let (mut nodes, mut claims) = (BTreeMap::new(), BTreeMap::new());
    let index = PlacementIndex::new(request, plan);
    for violation in violations {
        let affected = index.affected(violation);
        let text = violation.to_string();
        for node in affected.nodes {
            nodes.entry(node).or_insert_with(|| text.clone());
        }
        for claim in affected.claims {
            claims.entry(claim).or_insert_with(|| text.clone());
        }
    }
    if is_all {
        let text = violations.first().map(ToString::to_string).unwrap_or_default();
        nodes = (0..plan.existing_nodes.len()).map(|at| (at, text.clone())).collect();
        claims = (0..plan.claims.len()).map(|at| (at, text.clone())).collect();
    }
    let mut record = |pods: &[PodId], text: &str, node: Option<String>, pool: Option<String>| {
        let pods = pods.iter().copied().filter(|pod| pod.index() < snapshot.pods.len());
        let pods: Vec<PodId> = pods.collect();
        reasons.extend(pods.iter().map(|&pod| (pod, text.to_owned())));
        dropped.push(DroppedPlacement { node, node_pool: pool, pods });
    };
    let mut position = 0;
    plan.existing_nodes.retain(|(node, pods)| {
        let text = nodes.get(&position);
        position += 1;
        if let Some(text) = text {
            let node = snapshot.nodes.get(node.index());
            let (name, pool) =
                (node.map(|node| node.name.clone()), node.and_then(|node| node.pool.clone()));
            record(pods, text, name, pool);
        }
        text.is_none()
    });
    position = 0;
    plan.claims.retain(|claim| {
        let text = claims.get(&position);
        position += 1;
        if let Some(text) = text {
            let pool = snapshot.pools.get(claim.pool.index()).map(|pool| pool.name.clone());
            record(&claim.pods, text, None, pool);
        }
        text.is_none()
    });
}

/// Rejects the pods whose placement was dropped, and those without an answer.
fn reject_pods(
    request: &Request<'_>,
    plan: &mut Plan,
    violations: &[Violation],
    mut reasons: Reasons,
) {
    let requested: BTreeSet<PodId> = request.pods.iter().copied().collect();
    let is_known =
        |pod: &PodId| requested.contains(pod) && pod.index() < request.snapshot.pods.len();
    let forgotten: BTreeMap<&str, String> = violations
        .iter()
        .filter_map(|violation| match violation {
            Violation::Forgotten { pod } => Some((pod.as_str(), violation.to_string())),
            _ => None,
        })
        .collect();
    if !forgotten.is_empty() {
        for &pod in requested.iter().filter(|pod| is_known(pod)) {
            if let Some(text) = forgotten.get(request.snapshot.pod(pod).full_name().as_str()) {
                reasons.insert(pod, text.clone());
            }
        }
    }
    plan.rejected.retain(|pod, _| is_known(pod));
    let still_placed: BTreeSet<PodId> = plan.placed_pods().collect();
    for (pod, text) in reasons {
        if is_known(&pod) && !still_placed.contains(&pod) {
            plan.rejected.insert(pod, Arc::new(PodRejection::PlanViolation(text)));
        }
    }
}
