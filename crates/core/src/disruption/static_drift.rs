//! Drifted nodes of static NodePools (spec 30 §6.2, spec 45 §8.3).

use std::collections::{BTreeMap, BTreeSet};

use super::allowances::Allowances;
use super::emptiness::delete_command;
use super::{
    Candidate, CandidateIndex, Command, DisruptionClass, Method, Reason, Replacement,
    TerminateFirstReason,
};
use crate::catalog::RESERVED;
use crate::id::NodeId;
use crate::labels::NODE_POOL;
use crate::requirement::{Requirement, Requirements};
use crate::resources::NODES;
use crate::snapshot::ManagedPool;
use crate::static_capacity::allowed_new_nodes;

/// The text of the event if a pool may have no more nodes.
pub(super) const AT_LIMIT: &str =
    "static NodePool is at its node limit and cannot stage a replacement";
/// The text of the event if a pool can launch into full reservations only.
pub(super) const RESERVATIONS_FULL: &str =
    "static NodePool's capacity reservations are full and cannot stage a replacement";

/// The result of the static drift method.
#[derive(Debug, Default)]
pub(super) struct StaticDriftResult {
    pub(super) commands: Vec<Command>,
    pub(super) eligible: usize,
    /// Nodes that stay, and the text of the event.
    pub(super) blocked: Vec<(NodeId, String)>,
}

/// A command for each drifted node of a static pool that budgets and limits allow.
pub(super) fn decide(index: &CandidateIndex<'_>) -> StaticDriftResult {
    let mut by_pool: BTreeMap<&str, Vec<&Candidate>> = BTreeMap::new();
    let mut found = StaticDriftResult::default();
    for candidate in index.candidates(DisruptionClass::Eventual) {
        if candidate.is_static && candidate.drifted_at.is_some() {
            by_pool.entry(&candidate.pool).or_default().push(candidate);
            found.eligible += 1;
        }
    }
    let allowances = Allowances::new(index.context, Reason::Drifted);
    for (pool, candidates) in by_pool {
        let left = usize::try_from(allowances.remaining(pool)).unwrap_or(usize::MAX);
        if left > 0 && !index.context.backed_off.contains(pool) {
            replace_drifted(index, pool, &candidates, left.min(candidates.len()), &mut found);
        }
    }
    found
}

fn replace_drifted(
    index: &CandidateIndex<'_>,
    name: &str,
    candidates: &[&Candidate],
    want: usize,
    found: &mut StaticDriftResult,
) {
    let Some(pool) = index.context.snapshot.managed_pools.get(name) else { return };
    let claims = index.context.static_claims.get(name).copied().unwrap_or_default();
    let running = i64::from(claims.active) + i64::from(claims.pending_disruption);
    if running > pool.replicas.unwrap_or(0) {
        return;
    }
    let is_first = index.context.settings.terminate_first_drift;
    if is_first && let Some(offered) = full_reservations(index, pool) {
        let mut in_order = candidates.to_vec();
        in_order.sort_by_key(|candidate| !holds_reservation_slot(candidate, &offered));
        for candidate in in_order.into_iter().take(want) {
            if holds_reservation_slot(candidate, &offered) && is_refillable(pool) {
                let why = TerminateFirstReason::NoReservedCapacity;
                found.commands.push(terminate_first_command(Method::StaticDrift, candidate, why));
            } else {
                found.blocked.push((candidate.node, RESERVATIONS_FULL.to_owned()));
            }
        }
        return;
    }
    let granted =
        allowed_new_nodes(node_limit(pool), claims, i64::try_from(want).unwrap_or(i64::MAX));
    if granted == 0 {
        for candidate in candidates.iter().take(want) {
            if is_first && is_refillable(pool) {
                let why = TerminateFirstReason::StaticAtLimit;
                found.commands.push(terminate_first_command(Method::StaticDrift, candidate, why));
            } else {
                found.blocked.push((candidate.node, AT_LIMIT.to_owned()));
            }
        }
        return;
    }
    let granted = usize::try_from(granted).unwrap_or(usize::MAX);
    let replaced = candidates.iter().take(granted);
    found.commands.extend(replaced.map(|one| replace_command(Method::StaticDrift, one)));
}

/// Returns why a drifted node of a static pool cannot be replaced.
/// It is the text of the event. Budgets do not count.
pub(super) fn replacement_obstacle(
    index: &CandidateIndex<'_>,
    candidate: &Candidate,
) -> Option<&'static str> {
    let pool = index.context.snapshot.managed_pools.get(&candidate.pool)?;
    let is_first = index.context.settings.terminate_first_drift && is_refillable(pool);
    if index.context.settings.terminate_first_drift
        && let Some(offered) = full_reservations(index, pool)
    {
        return (!is_first || !holds_reservation_slot(candidate, &offered))
            .then_some(RESERVATIONS_FULL);
    }
    let claims = index.context.static_claims.get(&candidate.pool).copied().unwrap_or_default();
    (!is_first && allowed_new_nodes(node_limit(pool), claims, 1) == 0).then_some(AT_LIMIT)
}

/// `limits.nodes` of a pool.
pub(super) fn node_limit(pool: &ManagedPool) -> Option<i64> {
    let limit = pool.pool.limits.get(NODES)?;
    Some(i64::try_from(limit.units()).unwrap_or(i64::MAX))
}

/// Whether the static NodePool gets a new node when one is deleted.
pub(super) fn is_refillable(pool: &ManagedPool) -> bool {
    pool.is_ready && !pool.is_deleting
}

/// Builds the command that replaces a node of a static NodePool.
pub(super) fn replace_command(method: Method, candidate: &Candidate) -> Command {
    let pool = candidate.pool.clone();
    Command {
        replacements: vec![Replacement::Template { pool }],
        savings: candidate.price,
        ..delete_command(method, &[candidate])
    }
}

/// Builds the command that terminates a node before its replacement launches.
pub(super) fn terminate_first_command(
    method: Method,
    candidate: &Candidate,
    why: TerminateFirstReason,
) -> Command {
    Command { terminate_first: Some(why), ..delete_command(method, &[candidate]) }
}

/// The reservations of a static pool that can launch nothing since they are full, if that is all it
/// could launch into. None if anything else is offered, even if that cannot be had now.
pub(super) fn full_reservations(
    index: &CandidateIndex<'_>,
    pool: &ManagedPool,
) -> Option<BTreeSet<String>> {
    let catalog = index.context.catalog;
    let (well_known, label) = (&*catalog.well_known, catalog.reservation_id_label.as_deref());
    let template = template_requirements(pool);
    let mut offered = BTreeSet::new();
    for one in catalog.pools.get(&pool.pool.name).into_iter().flat_map(|types| types.iter()) {
        if template.compatible(&one.requirements, well_known).is_err() {
            continue;
        }
        for offering in one.offerings.iter() {
            if template.compatible(&offering.requirements, well_known).is_err() {
                continue;
            }
            if !offering.is_reserved() || offering.is_launchable() {
                return None;
            }
            if offering.available {
                offered.extend(offering.reservation_id(label).map(str::to_owned));
            }
        }
    }
    Some(offered)
}

/// Whether a candidate holds a slot of one of these reservations.
pub(super) fn holds_reservation_slot(candidate: &Candidate, offered: &BTreeSet<String>) -> bool {
    candidate.capacity_type.as_deref() == Some(RESERVED)
        && candidate.reservation_id.as_ref().is_some_and(|id| offered.contains(id))
}

/// Returns the requirements of a NodePool's template.
fn template_requirements(pool: &ManagedPool) -> Requirements {
    let mut requirements = pool.pool.requirements.clone();
    requirements.add(Requirement::in_values(NODE_POOL, [pool.pool.name.clone()]));
    for (key, value) in &pool.pool.labels {
        requirements.add(Requirement::in_values(key, [value.clone()]));
    }
    requirements
}
