//! Repair as a method: what to do about nodes that are broken (spec 45 §5).
//!
//! Which conditions are bad, and since when something is due, is in [`crate::lifecycle::repair`].

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::allowances::Allowances;
use super::consolidation::Consolidation;
use super::emptiness::deletion;
use super::simulate::Question;
use super::{
    Board, Candidate, Class, Command, Method, NoticeKind, Reason, TerminateFirst, drift,
    static_drift,
};
use crate::id::NodeId;
use crate::lifecycle::repair::matching::{Repair, resolve};
use crate::lifecycle::repair::policy::{Policies, RepairAction};
use crate::lifecycle::repair::{NodeCondition, is_tolerable};
use crate::snapshot::{Node, NodeStanding};
use crate::static_capacity::grant;

/// A NodeClaim is restarted so often within a day; then it is replaced.
const REBOOTS: usize = 2;
const DAY: SignedDuration = SignedDuration::from_hours(24);

const NO_BOUND: &str = "repair requires a termination grace period to bypass blocking pods";
const VETO: &str = "repair is blocked through the \"karpenter.sh/do-not-repair\" annotation";

/// Restarts that were decided, by uid of the NodeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RebootHistory(BTreeMap<String, Vec<Timestamp>>);

impl RebootHistory {
    /// Remembers a restart.
    pub fn record(&mut self, uid: &str, now: Timestamp) {
        self.0.retain(|_, times| times.iter().any(|&time| now.duration_since(time) < DAY));
        let times = self.0.entry(uid.to_owned()).or_default();
        times.push(now);
        let old = times.len().saturating_sub(REBOOTS);
        times.drain(..old);
    }

    /// Whether another restart within a day would be one too many.
    pub fn is_exhausted(&self, uid: &str, now: Timestamp) -> bool {
        let times = self.0.get(uid).into_iter().flatten();
        times.filter(|&&time| now.duration_since(time) < DAY).count() >= REBOOTS
    }
}

/// What repair knows beside the cluster.
#[derive(Clone, Copy, Debug)]
pub struct RepairRules<'a> {
    /// What the provider says about conditions.
    pub policies: &'a Policies,
    /// Restarts of the last day.
    pub history: &'a RebootHistory,
}

/// Why a command repairs.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// What the policies come to.
    pub repair: Repair,
    /// Whether restarts did not help, so that the node is replaced instead.
    pub is_escalated: bool,
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) command: Option<Command>,
    pub(super) eligible: usize,
    pub(super) told: Vec<(NodeId, NoticeKind, String)>,
}

/// The most urgent node that can be repaired.
pub(super) fn decide(consolidation: &mut Consolidation<'_>, rules: RepairRules<'_>) -> Found {
    let board = consolidation.board;
    let mut found = Found::default();
    let candidates = candidates(board, rules, &mut found);
    found.eligible = candidates.len();
    let tripped = tripped(board, rules.policies);
    let allowances = Allowances::new(board.world, Reason::Unhealthy);
    for (candidate, chosen) in candidates {
        if tripped.contains(candidate.pool.as_str()) {
            let pool = &candidate.pool;
            let text = format!("more than 20% of nodes in nodepool {pool:?} are unhealthy");
            found.told.push((candidate.node, NoticeKind::RepairBlocked, text));
            continue;
        }
        if candidate.is_initialized && allowances.left(&candidate.pool) == 0 {
            continue;
        }
        match command(consolidation, candidate, &chosen) {
            Ok(Some(command)) => {
                let drain_bound = bound(candidate, &chosen.repair);
                found.command = Some(Command { drain_bound, repair: Some(chosen), ..command });
                return found;
            }
            Ok(None) => {}
            Err(text) => found.told.push((candidate.node, NoticeKind::Blocked, text)),
        }
    }
    found
}

/// The nodes that something is due for, the most urgent first.
fn candidates<'b>(
    board: &'b Board<'_>,
    rules: RepairRules<'_>,
    found: &mut Found,
) -> Vec<(&'b Candidate, Chosen)> {
    let now = board.world.now;
    let mut due = Vec::new();
    for candidate in board.candidates(Class::Repair) {
        let standing = &board.world.snapshot.node(candidate.node).standing;
        let matches = rules.policies.matches(&conditions(standing), created(standing));
        let Some(mut repair) = resolve(&matches, now, standing.rebooted) else { continue };
        let is_escalated = repair.action == RepairAction::RebootNode
            && rules.history.is_exhausted(&standing.node_claim_uid, now);
        if is_escalated {
            repair.action = RepairAction::ReplaceNode;
        }
        let is_bounded =
            repair.grace_period.is_some() || candidate.termination_grace_period.is_some();
        if standing.do_not_repair {
            found.told.push((candidate.node, NoticeKind::Blocked, VETO.to_owned()));
        } else if candidate.blocker.is_some() && !is_bounded {
            found.told.push((candidate.node, NoticeKind::Blocked, NO_BOUND.to_owned()));
        } else {
            due.push((candidate, Chosen { repair, is_escalated }));
        }
    }
    due.sort_by(|(a, first), (b, second)| {
        let order = second.repair.score.total_cmp(&first.repair.score);
        let order = order.then(a.disruption_cost.total_cmp(&b.disruption_cost));
        order.then_with(|| a.name.cmp(&b.name))
    });
    due
}

/// The NodePools with so many unhealthy nodes that the cause is not the nodes.
fn tripped<'b>(board: &'b Board<'_>, policies: &Policies) -> BTreeSet<&'b str> {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let pool = |node: &'b Node| {
        let labels = &node.object.as_ref()?.labels;
        labels.get(crate::labels::NODE_POOL).filter(|pool| !pool.is_empty())
    };
    for node in &board.world.snapshot.nodes {
        let Some(pool) = pool(node) else { continue };
        let count = counts.entry(pool).or_default();
        count.0 += usize::from(policies.is_unhealthy(&conditions(&node.standing)));
        count.1 += 1;
    }
    let is_tripped = |count: &(usize, usize)| !is_tolerable(count.0, count.1);
    counts.iter().filter(|(_, count)| is_tripped(count)).map(|(&pool, _)| pool).collect()
}

/// What is done about one node; nothing for now, or why nothing can be done.
fn command(
    consolidation: &mut Consolidation<'_>,
    candidate: &Candidate,
    chosen: &Chosen,
) -> Result<Option<Command>, String> {
    if chosen.repair.action == RepairAction::RebootNode {
        let reboot = deletion(Method::Repair, &[candidate]);
        return Ok(Some(Command { is_reboot: true, savings: 0.0, ..reboot }));
    }
    if candidate.is_static {
        return of_static(consolidation.board, candidate);
    }
    let may_be_first = consolidation.board.world.settings.terminate_first_repair;
    let (simulated, first) =
        drift::simulate(consolidation, candidate, may_be_first, Question::Repair);
    if !simulated.places_all() {
        return Err(simulated.text(consolidation.board.world.snapshot));
    }
    Ok(Some(drift::command(consolidation, Method::Repair, candidate, simulated, first)))
}

/// The same for a node of a static NodePool (spec 45 §8.3).
fn of_static(board: &Board<'_>, candidate: &Candidate) -> Result<Option<Command>, String> {
    let Some(pool) = board.world.snapshot.managed_pools.get(&candidate.pool) else {
        return Ok(None);
    };
    let claims = board.world.claims.get(&candidate.pool).copied().unwrap_or_default();
    let running = i64::from(claims.active) + i64::from(claims.pending_disruption);
    if running > pool.replicas.unwrap_or(0) {
        return Ok(None);
    }
    let may_be_first = board.world.settings.terminate_first_repair;
    let full = may_be_first.then(|| static_drift::full_reservations(board, pool)).flatten();
    if let Some(offered) = &full
        && !static_drift::holds_slot(candidate, offered)
    {
        return Err(static_drift::RESERVATIONS_FULL.to_owned());
    }
    if full.is_none() && grant(static_drift::node_limit(pool), claims, 1) > 0 {
        return Ok(Some(static_drift::replacement(Method::Repair, candidate)));
    }
    let (why, text) = match full {
        Some(_) => (TerminateFirst::NoReservedCapacity, static_drift::RESERVATIONS_FULL),
        None => (TerminateFirst::StaticAtLimit, static_drift::AT_LIMIT),
    };
    if may_be_first && static_drift::is_refillable(pool) {
        Ok(Some(static_drift::goes_first(Method::Repair, candidate, why)))
    } else {
        Err(text.to_owned())
    }
}

/// How long the drain may take: what the policies say, but no longer than the NodeClaim allows.
/// None inherits the NodeClaim's.
fn bound(candidate: &Candidate, repair: &Repair) -> Option<SignedDuration> {
    let (period, _) = repair.grace_period.as_ref()?;
    let period = SignedDuration::try_from(*period).unwrap_or(SignedDuration::MAX);
    Some(candidate.termination_grace_period.map_or(period, |own| own.min(period)))
}

fn created(standing: &NodeStanding) -> Timestamp {
    standing.node_created.unwrap_or(Timestamp::UNIX_EPOCH)
}

fn conditions(standing: &NodeStanding) -> Vec<NodeCondition<'_>> {
    standing.conditions.iter().map(NodeCondition::from).collect()
}
