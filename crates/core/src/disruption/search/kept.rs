//! Every node that stays, and why.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Board, Class, Consolidation, Kept, NodeId, Unconsolidatable, drift, is_eligible,
    is_eligible_empty, static_drift,
};
use crate::disruption::simulate::Question;
use crate::disruption::{Allowances, Candidate, Command, Drift, Reason};

/// Every node that no command removes, by name.
pub(super) fn kept(
    consolidation: &mut Consolidation<'_>,
    commands: &[Command],
    reasons: &BTreeMap<NodeId, Unconsolidatable>,
) -> Vec<Kept> {
    let going = || commands.iter().flat_map(|command| &command.candidates);
    let gone: BTreeSet<NodeId> = going().map(|one| one.node).collect();
    let mut by_pool = BTreeMap::new();
    for candidate in going() {
        *by_pool.entry(candidate.pool.as_str()).or_default() += 1;
    }
    let board = consolidation.board;
    let allowances = BTreeMap::new();
    let mut telling = Telling { board, consolidation, reasons, going: by_pool, allowances };
    let staying = board.nodes().iter().filter(|node| !gone.contains(node));
    staying.map(|&node| telling.node(node)).collect()
}

struct Telling<'a, 'b> {
    board: &'b Board<'b>,
    consolidation: &'a mut Consolidation<'b>,
    reasons: &'a BTreeMap<NodeId, Unconsolidatable>,
    /// How many nodes of each NodePool the commands remove.
    going: BTreeMap<&'a str, u32>,
    /// Counted when somebody asks.
    allowances: BTreeMap<Reason, Allowances>,
}

impl Telling<'_, '_> {
    fn node(&mut self, node: NodeId) -> Kept {
        let (reason, text, blocked_by) = self.because(node);
        let name = self.board.world.snapshot.node(node).name.clone();
        Kept { node: name, reason, text, blocked_by, drift: self.drift(node) }
    }

    fn because(&mut self, node: NodeId) -> (&'static str, String, Vec<String>) {
        let board = self.board;
        let candidate = match board.candidate(node, Class::Graceful) {
            Ok(candidate) => candidate,
            Err(why) => return ("Blocked", why.to_string(), why.blocked_by()),
        };
        let by_budget = || Unconsolidatable::Budget { pool: candidate.pool.clone() };
        let why = ineligible(board, candidate)
            .or_else(|| self.reasons.get(&node).cloned())
            .or_else(|| candidate.is_empty().then(by_budget));
        let Some(why) = why else {
            let text = "Another command comes first, the node was not looked at".to_owned();
            return ("NotEvaluated", text, Vec::new());
        };
        let mut text = why.to_string();
        if matches!(why, Unconsolidatable::Budget { .. }) {
            let is_empty = candidate.is_empty();
            let reason = if is_empty { Reason::Empty } else { Reason::Underutilized };
            text.extend(self.budget(&candidate.pool, reason));
        }
        (why.reason(), text, why.blocked_by(board.world.snapshot))
    }

    /// What drift does about the node, if it has drifted.
    fn drift(&mut self, node: NodeId) -> Option<Drift> {
        let world = self.board.world;
        world.snapshot.node(node).standing.drifted_at?;
        let Ok(candidate) = self.board.candidate(node, Class::Eventual) else {
            return Some(Drift::Blocked);
        };
        if candidate.is_static && !world.settings.static_capacity {
            return Some(Drift::Blocked);
        }
        if world.settings.explain_drift
            && let Some(stuck) = self.stuck(candidate)
        {
            return Some(stuck);
        }
        let mut text = "Node has drifted: drift replaces it, not consolidation".to_owned();
        let is_spent = self.allowances(Reason::Drifted).left(&candidate.pool) == 0;
        if is_spent && let Some(limit) = self.budget(&candidate.pool, Reason::Drifted) {
            text.extend([", when its budgets allow it", &limit]);
        }
        Some(Drift::Due { text })
    }

    /// What keeps drift from replacing a node that it may replace.
    fn stuck(&mut self, candidate: &Candidate) -> Option<Drift> {
        let world = self.board.world;
        if candidate.is_static {
            let text = static_drift::obstacle(self.board, candidate)?.to_owned();
            return Some(Drift::Stuck { text, blocked_by: Vec::new() });
        }
        let is_first = world.settings.terminate_first_drift;
        let (simulated, _) =
            drift::simulate(self.consolidation, candidate, is_first, Question::Drift);
        let pod = |pod| format!("Pod {}", world.snapshot.pod(pod).full_name());
        (!simulated.places_all()).then(|| Drift::Stuck {
            text: simulated.text(world.snapshot),
            blocked_by: simulated.misplaced.iter().map(|(id, _)| pod(*id)).collect(),
        })
    }

    fn allowances(&mut self, reason: Reason) -> &Allowances {
        let world = self.board.world;
        self.allowances.entry(reason).or_insert_with(|| Allowances::new(world, reason))
    }

    /// What the budgets of a NodePool allow, by which of them, and what has spent it.
    fn budget(&mut self, pool: &str, reason: Reason) -> Option<String> {
        let going = self.going.get(pool).copied().unwrap_or_default();
        let budgets = &self.board.world.snapshot.managed_pools.get(pool)?.budgets;
        let known = self.allowances(reason).get(pool)?;
        let (allowance, nodes) = (&known.allowance, known.nodes);
        if let Some(problem) = allowance.problems.first() {
            return Some(format!(": one of them cannot be read ({problem}), which allows nothing"));
        }
        let budget = budgets.get(allowance.tightest?)?;
        let (allowed, total, spent) = (allowance.allowed, nodes.total, nodes.disrupting);
        let going = match going {
            0 => String::new(),
            going => format!(", {going} {} first", verb(going, "goes", "go")),
        };
        Some(format!(
            ": {{{budget}}} allows {allowed} of {total} nodes at a time, {spent} {} disrupted or not \
             ready already{going}",
            verb(spent, "is", "are"),
        ))
    }
}

fn verb(count: u32, one: &'static str, several: &'static str) -> &'static str {
    if count == 1 { one } else { several }
}

/// Why neither emptiness nor consolidation looks at it.
fn ineligible(board: &Board<'_>, candidate: &Candidate) -> Option<Unconsolidatable> {
    if candidate.is_empty() {
        is_eligible_empty(board, candidate).err()
    } else {
        is_eligible(board, candidate).err()
    }
}
