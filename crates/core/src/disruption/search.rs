//! Runs one disruption pass: the methods in their order (spec 30 §2).

use std::collections::BTreeMap;
use std::iter::Peekable;

use super::allowances::Allowances;
use super::candidate::sort_by_savings_ratio;
use super::consolidation::{
    Consolidation, Unconsolidatable, check_consolidation_eligibility, check_emptiness_eligibility,
    multi, single,
};
use super::{
    Candidate, CandidateIndex, DisruptionClass, Method, NodeEvent, NodeEventKind, PassContext,
    PassOutcome, Reason, RetainedNode, SearchMode, drift, emptiness, repair, static_drift,
};
use crate::id::NodeId;
use crate::scheduling::Fuel;

mod best;
mod combination;
mod command_effects;
mod destinations;
mod large_sets;
mod lookahead;
mod retained_nodes;
mod set_growth;
mod ties;

use destinations::Destinations;

pub use command_effects::{apply_command, largest_capacity, move_to_placeholder_nodes};

/// The time that the searches may take.
#[derive(Debug)]
pub struct SearchFuel<'a> {
    /// For sets of several nodes. It also ends a simulation that runs.
    pub multi: Fuel<'a>,
    /// For the search over single nodes, which checks it before each node.
    pub single: Fuel<'a>,
}

impl SearchFuel<'_> {
    /// Returns fuel that never runs out.
    pub fn unlimited() -> Self {
        Self { multi: Fuel::unlimited(), single: Fuel::unlimited() }
    }
}

/// Runs the methods from `from` on that are not settled.
/// The upstream search ends with the first method that finds a command; the others run all methods.
pub fn run_pass(context: &PassContext<'_>, from: Method, time: &mut SearchFuel<'_>) -> PassOutcome {
    match context.settings.search {
        SearchMode::Upstream => run_upstream(context, from, time),
        SearchMode::Best | SearchMode::Deep => run_best(context, from, time),
    }
}

/// Runs the methods in order, then the rounds of consolidation.
/// Each method builds on the commands before. One candidate index serves all of them until one
/// finds a command.
fn run_best(context: &PassContext<'_>, from: Method, time: &mut SearchFuel<'_>) -> PassOutcome {
    let is_due = |method: &Method| {
        *method >= from && *method < Method::MultiNode && !context.settled.contains(method)
    };
    let mut methods = Method::ALL.into_iter().filter(is_due).peekable();
    let index = CandidateIndex::new(context);
    let mut passing = PassRun::new(&index);
    passing.run_until_found(&mut methods, time);
    if passing.result.commands.is_empty() {
        let found =
            run_consolidation_rounds(&mut passing.consolidation, &Destinations::default(), time);
        passing.record_search_result(found);
    } else {
        let result = std::mem::take(&mut passing.result);
        let (result, found) = run_remaining_methods(context, result, methods, time);
        passing.result = result;
        passing.record_search_result(found);
    }
    passing.record_consolidation_events();
    passing.finish()
}

/// Runs the remaining methods after the given commands, then the rounds.
/// Each method builds on the commands before.
fn run_remaining_methods(
    context: &PassContext<'_>,
    mut result: PassOutcome,
    mut methods: Peekable<impl Iterator<Item = Method>>,
    time: &mut SearchFuel<'_>,
) -> (PassOutcome, Option<best::SearchResult>) {
    let mut snapshot = context.snapshot.clone();
    let mut applied = 0;
    loop {
        for command in &result.commands[applied..] {
            apply_command(&mut snapshot, context.catalog, command);
        }
        applied = result.commands.len();
        let now = PassContext { snapshot: &snapshot, ..context.clone() };
        let index = CandidateIndex::new(&now);
        let mut passing = PassRun { result, ..PassRun::new(&index) };
        passing.run_until_found(&mut methods, time);
        if passing.result.commands.len() == applied {
            let taken = Destinations::of_commands(context.snapshot, &passing.result.commands);
            let found = run_consolidation_rounds(&mut passing.consolidation, &taken, time);
            return (passing.result, found);
        }
        result = passing.result;
    }
}

/// Runs the rounds of consolidation, unless it is settled.
fn run_consolidation_rounds(
    consolidation: &mut Consolidation<'_>,
    taken: &Destinations,
    time: &mut SearchFuel<'_>,
) -> Option<best::SearchResult> {
    let context = consolidation.index.context;
    if context.settled.contains(&Method::SingleNode) {
        return None;
    }
    let found = best::search(consolidation, taken, time);
    if context.settings.search != SearchMode::Deep {
        return Some(found);
    }
    consolidation.enable_deep_search();
    let deep = best::search(consolidation, taken, time);
    let has_timed_out = found.has_timed_out || deep.has_timed_out;
    let is_less = deep.savings() < found.savings();
    let found = if is_less { found } else { found.better_of(deep) };
    Some(best::SearchResult { has_timed_out, ..found })
}

/// Runs the methods until one of them finds a command.
fn run_upstream(context: &PassContext<'_>, from: Method, time: &mut SearchFuel<'_>) -> PassOutcome {
    let index = CandidateIndex::new(context);
    let mut pass = PassRun::new(&index);
    for method in Method::ALL.into_iter().filter(|&method| method >= from) {
        if !context.settled.contains(&method) {
            pass.run_method(method, time);
        }
        if !pass.result.commands.is_empty() {
            break;
        }
    }
    pass.finish()
}

/// The state of a running pass.
struct PassRun<'a> {
    index: &'a CandidateIndex<'a>,
    consolidation: Consolidation<'a>,
    result: PassOutcome,
    /// Why evaluated nodes are not consolidated.
    reasons: BTreeMap<NodeId, Unconsolidatable>,
}

impl<'a> PassRun<'a> {
    fn new(index: &'a CandidateIndex<'a>) -> Self {
        Self {
            index,
            consolidation: Consolidation::new(index),
            result: PassOutcome::default(),
            reasons: BTreeMap::new(),
        }
    }

    fn run_method(&mut self, method: Method, time: &mut SearchFuel<'_>) {
        match method {
            Method::Repair => self.repair(),
            Method::Emptiness => self.emptiness(),
            Method::StaticDrift => self.static_drift(),
            Method::Drift => self.drift(),
            Method::MultiNode => self.multi(&mut time.multi),
            Method::SingleNode => self.single(&mut time.single),
        }
    }

    /// Runs methods in order until one finds a command.
    fn run_until_found(
        &mut self,
        methods: &mut Peekable<impl Iterator<Item = Method>>,
        time: &mut SearchFuel<'_>,
    ) {
        let before = self.result.commands.len();
        while let Some(method) = methods.next_if(|_| self.result.commands.len() == before) {
            self.run_method(method, time);
        }
    }

    fn record_search_result(&mut self, found: Option<best::SearchResult>) {
        let Some(found) = found else { return };
        if found.has_timed_out {
            self.result.timed_out.push(Method::SingleNode);
        } else if found.commands.is_empty()
            && !found.is_constrained
            // No consolidatable nodes: leave the methods unsettled so that new candidates are
            // evaluated.
            && !consolidation_candidates(self.index).is_empty()
        {
            self.result.settled.extend([Method::MultiNode, Method::SingleNode]);
        }
        self.result.commands.extend(found.commands);
        self.reasons = found.reasons;
    }

    fn repair(&mut self) {
        let Some(rules) = self.index.context.repair else { return };
        let found = repair::decide(&mut self.consolidation, rules);
        self.result.eligible_counts.push((Method::Repair, found.eligible));
        for (node, kind, text) in found.node_events {
            self.record_event(node, Method::Repair, kind, text);
        }
        self.result.commands.extend(found.command);
    }

    fn emptiness(&mut self) {
        self.record_ineligible_events(Method::Emptiness, check_emptiness_eligibility);
        let found = emptiness::decide(self.index);
        self.result.eligible_counts.push((Method::Emptiness, found.eligible));
        if found.eligible > 0 && found.command.is_none() && !found.is_constrained {
            self.result.settled.push(Method::Emptiness);
        }
        self.result.commands.extend(found.command);
    }

    fn static_drift(&mut self) {
        if !self.index.context.settings.static_capacity {
            return;
        }
        let found = static_drift::decide(self.index);
        self.result.eligible_counts.push((Method::StaticDrift, found.eligible));
        self.record_blocked_events(Method::StaticDrift, found.blocked);
        self.result.commands.extend(found.commands);
    }

    fn drift(&mut self) {
        let found = drift::decide(&mut self.consolidation);
        self.result.eligible_counts.push((Method::Drift, found.eligible));
        self.record_blocked_events(Method::Drift, found.blocked);
        self.result.commands.extend(found.command);
    }

    fn multi(&mut self, fuel: &mut Fuel<'_>) {
        self.record_ineligible_events(Method::MultiNode, check_consolidation_eligibility);
        let mut candidates = consolidation_candidates(self.index);
        self.result.eligible_counts.push((Method::MultiNode, candidates.len()));
        if candidates.is_empty() {
            return;
        }
        sort_by_savings_ratio(&mut candidates);
        let count = candidates.len();
        let mut allowances = Allowances::new(self.index.context, Reason::Underutilized);
        candidates.retain(|candidate| allowances.reserve(&candidate.pool));
        let found = multi::search(&mut self.consolidation, &candidates, fuel);
        if found.has_timed_out {
            self.result.timed_out.push(Method::MultiNode);
        } else if found.command.is_none() && candidates.len() == count {
            self.result.settled.push(Method::MultiNode);
        }
        self.result.commands.extend(found.command);
    }

    fn single(&mut self, fuel: &mut Fuel<'_>) {
        self.record_ineligible_events(Method::SingleNode, check_consolidation_eligibility);
        let mut candidates = consolidation_candidates(self.index);
        self.result.eligible_counts.push((Method::SingleNode, candidates.len()));
        if candidates.is_empty() {
            return;
        }
        sort_by_savings_ratio(&mut candidates);
        let candidates = single::interleave_by_pool(&candidates, &self.index.context.unseen_pools);
        let allowances = Allowances::new(self.index.context, Reason::Underutilized);
        let found = single::search(&mut self.consolidation, &candidates, &allowances, fuel);
        self.result.unseen_pools = match (&found.unseen_pools, &found.command) {
            (Some(unseen), _) => unseen.iter().cloned().collect(),
            // A search that finds a command early did not reach the rest: keep the unseen pools.
            (None, Some(_)) => self.index.context.unseen_pools.iter().cloned().collect(),
            (None, None) => Vec::new(),
        };
        if found.unseen_pools.is_some() {
            self.result.timed_out.push(Method::SingleNode);
        } else if found.command.is_none() && !found.is_constrained {
            self.result.settled.push(Method::SingleNode);
        }
        for (&node, reason) in found.reasons.iter().filter(|(_, reason)| reason.is_published()) {
            self.record_event(
                node,
                Method::SingleNode,
                NodeEventKind::Unconsolidatable,
                reason.to_string(),
            );
        }
        self.reasons.extend(found.reasons);
        self.result.commands.extend(found.command);
    }

    /// Records events for nodes that consolidation evaluated or skipped.
    fn record_consolidation_events(&mut self) {
        let eligible = consolidation_candidates(self.index).len();
        self.result.eligible_counts.push((Method::SingleNode, eligible));
        self.record_ineligible_events(Method::SingleNode, check_consolidation_eligibility);
        let events: Vec<_> = self
            .reasons
            .iter()
            .filter(|(node, why)| why.is_published() && node.index() < self.index.nodes().len())
            .map(|(&node, why)| (node, why.to_string()))
            .collect();
        for (node, text) in events {
            self.record_event(node, Method::SingleNode, NodeEventKind::Unconsolidatable, text);
        }
    }

    /// Records events for candidates that a method does not accept.
    fn record_ineligible_events(
        &mut self,
        method: Method,
        is_eligible: fn(&CandidateIndex<'_>, &Candidate) -> Result<(), Unconsolidatable>,
    ) {
        let index = self.index;
        for candidate in index.candidates(DisruptionClass::Graceful) {
            if let Err(why) = is_eligible(index, candidate)
                && why.is_published()
            {
                let kind = NodeEventKind::Unconsolidatable;
                self.record_event(candidate.node, method, kind, why.to_string());
            }
        }
    }

    fn record_blocked_events(&mut self, method: Method, blocked: Vec<(NodeId, String)>) {
        for (node, text) in blocked {
            self.record_event(node, method, NodeEventKind::Blocked, text);
        }
    }

    fn record_event(&mut self, node: NodeId, method: Method, kind: NodeEventKind, text: String) {
        self.result.node_events.push(NodeEvent { node, method, kind, text });
    }

    /// Whether new candidates will appear without any change of the cluster.
    /// NodePools leave their backoff, and nominations of nodes expire. (Upstream finds those
    /// candidates five minutes later.)
    fn has_pending_candidates(&self) -> bool {
        let context = self.index.context;
        let is_nominated =
            context.settings.search != SearchMode::Upstream && !context.nominated.is_empty();
        is_nominated || !context.backed_off.is_empty()
    }

    fn finish(mut self) -> PassOutcome {
        if self.has_pending_candidates() {
            self.result.settled.retain(|method| *method < Method::MultiNode);
        }
        let replaced: Vec<_> = self
            .result
            .commands
            .iter()
            .filter(|command| command.method.reason() == Reason::Underutilized)
            .filter(|command| !command.replacements.is_empty())
            .flat_map(|command| {
                let text = |name: &str| {
                    let command_text = command.describe_for_node(name);
                    let savings = command.savings;
                    format!("Consolidation candidate: {command_text} (savings: ${savings:.2})")
                };
                let nodes = command.candidates.iter();
                nodes.map(move |one| (one.node, command.method, text(&one.name)))
            })
            .collect();
        for (node, method, text) in replaced {
            self.record_event(node, method, NodeEventKind::ConsolidationCandidate, text);
        }
        let scores = |why: &Unconsolidatable| match why {
            Unconsolidatable::ScoreTooLow { scores } => scores.clone(),
            _ => Vec::new(),
        };
        self.result.rejected_scores = self.reasons.values().flat_map(scores).collect();
        self.result.retained_nodes = retained_nodes::retained_nodes(
            &mut self.consolidation,
            &self.result.commands,
            &self.reasons,
        );
        self.result
    }
}

/// Returns the candidates of consolidation, by name.
fn consolidation_candidates<'a>(index: &'a CandidateIndex<'_>) -> Vec<&'a Candidate> {
    let mut candidates = index.candidates(DisruptionClass::Graceful);
    candidates.retain(|candidate| {
        check_consolidation_eligibility(index, candidate).is_ok()
            && !index.context.backed_off.contains(&candidate.pool)
    });
    candidates
}
