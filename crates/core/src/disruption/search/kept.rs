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
    let mut by_pool: BTreeMap<&str, Going> = BTreeMap::new();
    for command in commands {
        for candidate in &command.candidates {
            let going = by_pool.entry(candidate.pool.as_str()).or_default();
            going.all += 1;
            going.empty += u32::from(command.reason() == Reason::Empty);
        }
    }
    let board = consolidation.board;
    let mut telling = Telling {
        board,
        consolidation,
        reasons,
        going: by_pool,
        allowances: BTreeMap::new(),
        drifted: drifted(board),
    };
    let staying = board.nodes().iter().filter(|node| !gone.contains(node));
    staying.map(|&node| telling.node(node)).collect()
}

struct Telling<'a, 'b> {
    board: &'b Board<'b>,
    consolidation: &'a mut Consolidation<'b>,
    reasons: &'a BTreeMap<NodeId, Unconsolidatable>,
    /// How many nodes of each NodePool the commands remove.
    going: BTreeMap<&'a str, Going>,
    /// Counted when somebody asks.
    allowances: BTreeMap<Reason, Allowances>,
    /// How many nodes of each NodePool have drifted.
    drifted: BTreeMap<&'b str, u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Going {
    all: u32,
    /// Those of them that are empty.
    empty: u32,
}

fn drifted<'b>(board: &'b Board<'_>) -> BTreeMap<&'b str, u32> {
    let mut by_pool: BTreeMap<&str, u32> = BTreeMap::new();
    for &node in board.nodes() {
        let node = board.world.snapshot.node(node);
        if let Some(pool) = node.pool.as_deref().filter(|_| node.standing.drifted_at.is_some()) {
            *by_pool.entry(pool).or_default() += 1;
        }
    }
    by_pool
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
            let text =
                "Other commands come first, the node is looked at again after them".to_owned();
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
        let left = self.allowances(Reason::Drifted).left(&candidate.pool);
        let drifted = self.drifted.get(candidate.pool.as_str()).copied().unwrap_or_default();
        if left < drifted
            && let Some(limit) = self.budget(&candidate.pool, Reason::Drifted)
        {
            text.extend([", when its budgets allow it", &limit]);
        }
        Some(Drift::Due { text })
    }

    /// What keeps drift from replacing a node that it may replace.
    fn stuck(&mut self, candidate: &Candidate) -> Option<Drift> {
        let world = self.board.world;
        let allowance = self.allowances(Reason::Drifted).get(&candidate.pool);
        if allowance.is_some_and(|known| known.allowance.allowed == 0) {
            let mut text = "Node has drifted, and its budgets keep drift from it".to_owned();
            text.extend(self.budget(&candidate.pool, Reason::Drifted));
            return Some(Drift::Stuck { text, blocked_by: Vec::new() });
        }
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

    /// How many nodes of a NodePool commands remove that come first. Drift comes after emptiness, and
    /// before the rest.
    fn going(&self, pool: &str, reason: Reason) -> u32 {
        let going = self.going.get(pool).copied().unwrap_or_default();
        if reason == Reason::Drifted { going.empty } else { going.all }
    }

    /// What the budgets of a NodePool allow, by which of them, and what has spent it.
    fn budget(&mut self, pool: &str, reason: Reason) -> Option<String> {
        let going = self.going(pool, reason);
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
            1 => ", 1 goes first".to_owned(),
            going => format!(", {going} go first"),
        };
        Some(format!(
            ": {{{budget}}} allows {allowed} of {total} nodes at a time, {spent} {} disrupted or not \
             ready already{going}",
            if spent == 1 { "is" } else { "are" },
        ))
    }
}

/// Why neither emptiness nor consolidation looks at it.
fn ineligible(board: &Board<'_>, candidate: &Candidate) -> Option<Unconsolidatable> {
    if candidate.is_empty() {
        is_eligible_empty(board, candidate).err()
    } else {
        is_eligible(board, candidate).err()
    }
}
