//! Repair as a method: what to do about nodes that are broken (spec 45 §5).
//!
//! Which conditions are bad, and since when something is due, is in [`crate::lifecycle::repair`].

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::allowances::Allowances;
use super::consolidation::Consolidation;
use super::emptiness::delete_command;
use super::simulation::SimulationKind;
use super::{
    Candidate, CandidateIndex, Command, DisruptionClass, Method, NodeEventKind, Reason,
    TerminateFirstReason, drift, static_drift,
};
use crate::id::NodeId;
use crate::lifecycle::repair::matching::{Repair, resolve};
use crate::lifecycle::repair::policy::{Policies, RepairAction};
use crate::lifecycle::repair::{NodeCondition, is_tolerable};
use crate::snapshot::{NodeDisruptionState, StateNode};
use crate::static_capacity::allowed_new_nodes;

/// The most reboots of a NodeClaim in a day; then it is replaced.
const REBOOTS_PER_DAY_MAX: usize = 2;
const DAY: SignedDuration = SignedDuration::from_hours(24);

const MISSING_GRACE_PERIOD_TEXT: &str =
    "repair requires a termination grace period to bypass blocking pods";
const DO_NOT_REPAIR_TEXT: &str =
    "repair is blocked through the \"karpenter.sh/do-not-repair\" annotation";

/// Restarts that were decided, by uid of the NodeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RebootHistory(BTreeMap<String, Vec<Timestamp>>);

impl RebootHistory {
    /// Remembers a restart.
    pub fn record(&mut self, uid: &str, now: Timestamp) {
        self.0.retain(|_, times| times.iter().any(|&time| now.duration_since(time) < DAY));
        let times = self.0.entry(uid.to_owned()).or_default();
        times.push(now);
        let old = times.len().saturating_sub(REBOOTS_PER_DAY_MAX);
        times.drain(..old);
    }

    /// Whether another restart within a day would be one too many.
    pub fn is_exhausted(&self, uid: &str, now: Timestamp) -> bool {
        let times = self.0.get(uid).into_iter().flatten();
        times.filter(|&&time| now.duration_since(time) < DAY).count() >= REBOOTS_PER_DAY_MAX
    }
}

/// The policies of the provider and the reboots of the last day.
#[derive(Clone, Copy, Debug)]
pub struct RepairRules<'a> {
    /// The repair policies of the provider.
    pub policies: &'a Policies,
    /// Restarts of the last day.
    pub history: &'a RebootHistory,
}

/// Why a command repairs a node.
#[derive(Clone, Debug, PartialEq)]
pub struct RepairDecision {
    /// The repair that the policies require.
    pub repair: Repair,
    /// Whether restarts did not help, so that the node is replaced instead.
    pub is_escalated: bool,
}

/// The result of the repair method.
#[derive(Debug, Default)]
pub(super) struct RepairResult {
    pub(super) command: Option<Command>,
    pub(super) eligible: usize,
    pub(super) node_events: Vec<(NodeId, NodeEventKind, String)>,
}

/// The most urgent node that can be repaired.
pub(super) fn decide(
    consolidation: &mut Consolidation<'_>,
    rules: RepairRules<'_>,
) -> RepairResult {
    let index = consolidation.index;
    let mut found = RepairResult::default();
    let candidates = candidates(index, rules, &mut found);
    found.eligible = candidates.len();
    let tripped = pools_over_unhealthy_limit(index, rules.policies);
    let allowances = Allowances::new(index.context, Reason::Unhealthy);
    for (candidate, chosen) in candidates {
        if tripped.contains(candidate.pool.as_str()) {
            let pool = &candidate.pool;
            let text = format!("more than 20% of nodes in nodepool {pool:?} are unhealthy");
            found.node_events.push((candidate.node, NodeEventKind::RepairBlocked, text));
            continue;
        }
        if candidate.is_initialized && allowances.remaining(&candidate.pool) == 0 {
            continue;
        }
        match command(consolidation, candidate, &chosen) {
            Ok(Some(command)) => {
                let drain_bound = drain_bound(candidate, &chosen.repair);
                found.command = Some(Command { drain_bound, repair: Some(chosen), ..command });
                return found;
            }
            Ok(None) => {}
            Err(text) => found.node_events.push((candidate.node, NodeEventKind::Blocked, text)),
        }
    }
    found
}

/// Returns the nodes with a due repair, the most urgent first.
fn candidates<'b>(
    index: &'b CandidateIndex<'_>,
    rules: RepairRules<'_>,
    found: &mut RepairResult,
) -> Vec<(&'b Candidate, RepairDecision)> {
    let now = index.context.now;
    let mut due = Vec::new();
    for candidate in index.candidates(DisruptionClass::Repair) {
        let standing = &index.context.snapshot.node(candidate.node).disruption_state;
        let matches = rules.policies.matches(&node_conditions(standing), node_created(standing));
        let Some(mut repair) = resolve(&matches, now, standing.rebooted_at) else { continue };
        let is_escalated = repair.action == RepairAction::RebootNode
            && rules.history.is_exhausted(&standing.node_claim_uid, now);
        if is_escalated {
            repair.action = RepairAction::ReplaceNode;
        }
        let is_bounded =
            repair.grace_period.is_some() || candidate.termination_grace_period.is_some();
        if standing.do_not_repair {
            found.node_events.push((
                candidate.node,
                NodeEventKind::Blocked,
                DO_NOT_REPAIR_TEXT.to_owned(),
            ));
        } else if candidate.blocker.is_some() && !is_bounded {
            found.node_events.push((
                candidate.node,
                NodeEventKind::Blocked,
                MISSING_GRACE_PERIOD_TEXT.to_owned(),
            ));
        } else {
            due.push((candidate, RepairDecision { repair, is_escalated }));
        }
    }
    due.sort_by(|(a, first), (b, second)| {
        let order = second.repair.score.total_cmp(&first.repair.score);
        let order = order.then(a.disruption_cost.total_cmp(&b.disruption_cost));
        order.then_with(|| a.name.cmp(&b.name))
    });
    due
}

/// Returns the NodePools with too many unhealthy nodes to repair any.
fn pools_over_unhealthy_limit<'b>(
    index: &'b CandidateIndex<'_>,
    policies: &Policies,
) -> BTreeSet<&'b str> {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let pool = |node: &'b StateNode| {
        let labels = &node.object.as_ref()?.labels;
        labels.get(crate::labels::NODE_POOL).filter(|pool| !pool.is_empty())
    };
    for node in &index.context.snapshot.nodes {
        let Some(pool) = pool(node) else { continue };
        let count = counts.entry(pool).or_default();
        count.0 += usize::from(policies.is_unhealthy(&node_conditions(&node.disruption_state)));
        count.1 += 1;
    }
    let is_tripped = |count: &(usize, usize)| !is_tolerable(count.0, count.1);
    counts.iter().filter(|(_, count)| is_tripped(count)).map(|(&pool, _)| pool).collect()
}

/// Returns the command that repairs a node, none for now, or the obstacle.
fn command(
    consolidation: &mut Consolidation<'_>,
    candidate: &Candidate,
    chosen: &RepairDecision,
) -> Result<Option<Command>, String> {
    if chosen.repair.action == RepairAction::RebootNode {
        let reboot = delete_command(Method::Repair, &[candidate]);
        return Ok(Some(Command { is_reboot: true, savings: 0.0, ..reboot }));
    }
    if candidate.is_static {
        return static_pool_command(consolidation.index, candidate);
    }
    let may_be_first = consolidation.index.context.settings.terminate_first_repair;
    let (simulated, first) =
        drift::simulate_replacement(consolidation, candidate, may_be_first, SimulationKind::Repair);
    if !simulated.places_all_pods() {
        return Err(simulated.event_text(consolidation.index.context.snapshot));
    }
    Ok(Some(drift::replace_command(consolidation, Method::Repair, candidate, simulated, first)))
}

/// Returns the command that repairs a node of a static pool (spec 45 §8.3).
fn static_pool_command(
    index: &CandidateIndex<'_>,
    candidate: &Candidate,
) -> Result<Option<Command>, String> {
    let Some(pool) = index.context.snapshot.managed_pools.get(&candidate.pool) else {
        return Ok(None);
    };
    let claims = index.context.static_claims.get(&candidate.pool).copied().unwrap_or_default();
    let running = i64::from(claims.active) + i64::from(claims.pending_disruption);
    if running > pool.replicas.unwrap_or(0) {
        return Ok(None);
    }
    let may_be_first = index.context.settings.terminate_first_repair;
    let full = may_be_first.then(|| static_drift::full_reservations(index, pool)).flatten();
    if let Some(offered) = &full
        && !static_drift::holds_reservation_slot(candidate, offered)
    {
        return Err(static_drift::RESERVATIONS_FULL.to_owned());
    }
    if full.is_none() && allowed_new_nodes(static_drift::node_limit(pool), claims, 1) > 0 {
        return Ok(Some(static_drift::replace_command(Method::Repair, candidate)));
    }
    let (why, text) = match full {
        Some(_) => (TerminateFirstReason::NoReservedCapacity, static_drift::RESERVATIONS_FULL),
        None => (TerminateFirstReason::StaticAtLimit, static_drift::AT_LIMIT),
    };
    if may_be_first && static_drift::is_refillable(pool) {
        Ok(Some(static_drift::terminate_first_command(Method::Repair, candidate, why)))
    } else {
        Err(text.to_owned())
    }
}

/// Returns the drain bound of the policies, at most that of the NodeClaim.
/// None inherits the bound of the NodeClaim.
fn drain_bound(candidate: &Candidate, repair: &Repair) -> Option<SignedDuration> {
    let (period, _) = repair.grace_period.as_ref()?;
    let period = SignedDuration::try_from(*period).unwrap_or(SignedDuration::MAX);
    Some(candidate.termination_grace_period.map_or(period, |own| own.min(period)))
}

fn node_created(standing: &NodeDisruptionState) -> Timestamp {
    standing.node_created_at.unwrap_or(Timestamp::UNIX_EPOCH)
}

fn node_conditions(standing: &NodeDisruptionState) -> Vec<NodeCondition<'_>> {
    standing.conditions.iter().map(NodeCondition::from).collect()
}
