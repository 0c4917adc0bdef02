//! Explains why each node that no command removes is retained.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    CandidateIndex, Consolidation, DisruptionClass, NodeId, RetainedNode, Unconsolidatable,
    check_consolidation_eligibility, check_emptiness_eligibility, drift, static_drift,
};
use crate::disruption::simulation::SimulationKind;
use crate::disruption::{Allowances, Candidate, Command, DriftStatus, Reason};

/// Returns every node that no command removes, by name.
pub(super) fn retained_nodes(
    consolidation: &mut Consolidation<'_>,
    commands: &[Command],
    reasons: &BTreeMap<NodeId, Unconsolidatable>,
) -> Vec<RetainedNode> {
    let going = || commands.iter().flat_map(|command| &command.candidates);
    let gone: BTreeSet<NodeId> = going().map(|one| one.node).collect();
    let mut by_pool: BTreeMap<&str, RemovedCounts> = BTreeMap::new();
    for command in commands {
        for candidate in &command.candidates {
            let going = by_pool.entry(candidate.pool.as_str()).or_default();
            going.total += 1;
            going.empty += u32::from(command.reason() == Reason::Empty);
        }
    }
    let index = consolidation.index;
    let mut builder = RetainedNodeBuilder {
        index,
        consolidation,
        reasons,
        removed_counts: by_pool,
        allowances: BTreeMap::new(),
        drifted: drifted_counts(index),
    };
    let staying = index.nodes().iter().filter(|node| !gone.contains(node));
    staying.map(|&node| builder.build(node)).collect()
}

struct RetainedNodeBuilder<'a, 'b> {
    index: &'b CandidateIndex<'b>,
    consolidation: &'a mut Consolidation<'b>,
    reasons: &'a BTreeMap<NodeId, Unconsolidatable>,
    /// How many nodes of each NodePool the commands remove.
    removed_counts: BTreeMap<&'a str, RemovedCounts>,
    /// Calculated on first use.
    allowances: BTreeMap<Reason, Allowances>,
    /// How many nodes of each NodePool have drifted.
    drifted: BTreeMap<&'b str, u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct RemovedCounts {
    total: u32,
    /// Those of them that are empty.
    empty: u32,
}

fn drifted_counts<'b>(index: &'b CandidateIndex<'_>) -> BTreeMap<&'b str, u32> {
    let mut by_pool: BTreeMap<&str, u32> = BTreeMap::new();
    for &node in index.nodes() {
        let node = index.context.snapshot.node(node);
        if let Some(pool) =
            node.pool.as_deref().filter(|_| node.disruption_state.drifted_at.is_some())
        {
            *by_pool.entry(pool).or_default() += 1;
        }
    }
    by_pool
}

impl RetainedNodeBuilder<'_, '_> {
    fn build(&mut self, node: NodeId) -> RetainedNode {
        let (reason, text, blocked_by) = self.explain(node);
        let name = self.index.context.snapshot.node(node).name.clone();
        RetainedNode { node: name, reason, text, blocked_by, drift: self.drift(node) }
    }

    fn explain(&mut self, node: NodeId) -> (&'static str, String, Vec<String>) {
        let index = self.index;
        let candidate = match index.candidate(node, DisruptionClass::Graceful) {
            Ok(candidate) => candidate,
            Err(why) => return ("Blocked", why.to_string(), why.blocked_by()),
        };
        let by_budget = || Unconsolidatable::Budget { pool: candidate.pool.clone() };
        let why = ineligibility(index, candidate)
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
            text.extend(self.budget_text(&candidate.pool, reason));
        }
        (why.reason(), text, why.blocked_by(index.context.snapshot))
    }

    /// Returns what drift does about the node, if it has drifted.
    fn drift(&mut self, node: NodeId) -> Option<DriftStatus> {
        let context = self.index.context;
        context.snapshot.node(node).disruption_state.drifted_at?;
        let Ok(candidate) = self.index.candidate(node, DisruptionClass::Eventual) else {
            return Some(DriftStatus::Blocked);
        };
        if candidate.is_static && !context.settings.static_capacity {
            return Some(DriftStatus::Blocked);
        }
        if context.settings.explain_drift
            && let Some(stuck) = self.replacement_obstacle(candidate)
        {
            return Some(stuck);
        }
        let mut text = "Node has drifted: drift replaces it, not consolidation".to_owned();
        let left = self.allowances(Reason::Drifted).remaining(&candidate.pool);
        let drifted = self.drifted.get(candidate.pool.as_str()).copied().unwrap_or_default();
        if left < drifted
            && let Some(limit) = self.budget_text(&candidate.pool, Reason::Drifted)
        {
            text.extend([", when its budgets allow it", &limit]);
        }
        Some(DriftStatus::Due { text })
    }

    /// Returns why drift cannot replace a node that it may disrupt.
    fn replacement_obstacle(&mut self, candidate: &Candidate) -> Option<DriftStatus> {
        let context = self.index.context;
        let allowance = self.allowances(Reason::Drifted).get(&candidate.pool);
        if allowance.is_some_and(|known| known.allowance.allowed == 0) {
            let mut text = "Node has drifted, and its budgets keep drift from it".to_owned();
            text.extend(self.budget_text(&candidate.pool, Reason::Drifted));
            return Some(DriftStatus::CannotReplace { text, blocked_by: Vec::new() });
        }
        if candidate.is_static {
            let text = static_drift::replacement_obstacle(self.index, candidate)?.to_owned();
            return Some(DriftStatus::CannotReplace { text, blocked_by: Vec::new() });
        }
        let is_first = context.settings.terminate_first_drift;
        let (simulated, _) = drift::simulate_replacement(
            self.consolidation,
            candidate,
            is_first,
            SimulationKind::Drift,
        );
        let pod = |pod| format!("Pod {}", context.snapshot.pod(pod).full_name());
        (!simulated.places_all_pods()).then(|| DriftStatus::CannotReplace {
            text: simulated.event_text(context.snapshot),
            blocked_by: simulated.unplaced_pods.iter().map(|(id, _)| pod(*id)).collect(),
        })
    }

    fn allowances(&mut self, reason: Reason) -> &Allowances {
        let context = self.index.context;
        self.allowances.entry(reason).or_insert_with(|| Allowances::new(context, reason))
    }

    /// Returns how many nodes of a NodePool earlier commands remove.
    /// Drift comes after emptiness, and before the other methods.
    fn removed_count(&self, pool: &str, reason: Reason) -> u32 {
        let going = self.removed_counts.get(pool).copied().unwrap_or_default();
        if reason == Reason::Drifted { going.empty } else { going.total }
    }

    /// Returns a text with the tightest budget of a NodePool and its usage.
    fn budget_text(&mut self, pool: &str, reason: Reason) -> Option<String> {
        let going = self.removed_count(pool, reason);
        let budgets = &self.index.context.snapshot.managed_pools.get(pool)?.budgets;
        let known = self.allowances(reason).get(pool)?;
        let (allowance, nodes) = (&known.allowance, known.node_counts);
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

/// Returns why neither emptiness nor consolidation may remove a candidate.
fn ineligibility(index: &CandidateIndex<'_>, candidate: &Candidate) -> Option<Unconsolidatable> {
    if candidate.is_empty() {
        check_emptiness_eligibility(index, candidate).err()
    } else {
        check_consolidation_eligibility(index, candidate).err()
    }
}
