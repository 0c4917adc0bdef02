//! Several disjoint commands per pass that save the most together (spec 30 §14.4).
//!
//! ```text
//! round:   the largest set that can go for nothing       ─┐
//!          else: every node on its own, sets around them ─┼─▶ commands ─▶ cluster as if they were
//!          until nothing more can go                      │   carried out ─▶ next round
//! ```
//!
//! Never less than upstream: the rounds are also run from its choice. What counts is where it ends,
//! see [`super::lookahead`].

use std::collections::{BTreeMap, BTreeSet};

use super::combination::{combine_moves, is_exclusive};
use super::destinations::Destinations;
use super::large_sets::large_sets;
use super::set_growth::GrowingSet;
use super::ties::choose_among_ties;
use super::{
    Candidate, CandidateIndex, NodeId, SearchFuel, Unconsolidatable, apply_command,
    consolidation_candidates, lookahead,
};
use crate::disruption::allowances::Allowances;
use crate::disruption::candidate::sort_by_savings_ratio;
use crate::disruption::consolidation::{Consolidation, ConsolidationMove, multi, single};
use crate::disruption::{Command, Method, PassContext, Reason, Replacement, SearchMode};
use crate::scheduling::Fuel;

/// The most rounds per pass; the next pass continues.
const ROUNDS_MAX: usize = 12;
/// The growth of a set ends after so many unsuitable nodes in a row.
pub(super) const MISSES_MAX: usize = 8;
/// The number of nodes around which sets are grown.
const SEED_NODES_MAX: usize = 4;
/// Commands with less than one in so many removed nodes are not explored.
const NEGLIGIBLE_DIVISOR: usize = 4;
/// The most nodes that are replaced together.
const SET_SIZE_MAX: usize = 100;
/// The most NodePools that are tried as the first in single-node search.
const LEADING_POOLS_MAX: usize = 3;

/// The result of the consolidation rounds.
#[derive(Debug, Default)]
pub(super) struct SearchResult {
    pub(super) commands: Vec<Command>,
    /// Why nodes are not consolidated, by their last evaluation.
    pub(super) reasons: BTreeMap<NodeId, Unconsolidatable>,
    pub(super) has_timed_out: bool,
    /// Whether a budget held back a candidate.
    pub(super) is_constrained: bool,
    /// What later commands would save, as far as the lookahead found.
    pub(super) later_savings: f64,
}

impl SearchResult {
    pub(super) fn savings(&self) -> f64 {
        self.commands.iter().map(|command| command.savings).sum()
    }

    /// Whether commands are too small a part of this result to explore them first.
    /// With 2,000 nodes, of which 930 are removed, the pass took a third of the time without them.
    fn makes_negligible(&self, commands: &[Command]) -> bool {
        let nodes = |commands: &[Command]| -> usize {
            commands.iter().map(|command| command.candidates.len()).sum()
        };
        let savings: f64 = commands.iter().map(|command| command.savings).sum();
        nodes(&self.commands) >= NEGLIGIBLE_DIVISOR * nodes(commands) && self.savings() >= savings
    }

    /// Returns the result that saves more in the end.
    /// If both save as much, it is the one that saves more now.
    pub(super) fn better_of(self, other: Self) -> Self {
        let end = |found: &Self| found.savings() + found.later_savings;
        let is_better = exceeds(end(&other), end(&self))
            || (!exceeds(end(&self), end(&other)) && exceeds(other.savings(), self.savings()));
        if is_better { other } else { self }
    }
}

/// Whether one saving is larger than another, beyond rounding errors.
/// The sums of equal prices in another order may differ in the last digits.
pub(super) fn exceeds(one: f64, other: f64) -> bool {
    one * (1.0 - 1e-12) > other
}

/// How the rounds continue after the first commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Continuation {
    /// With the commands that save the most.
    Best,
    /// With upstream's next choice, and so on.
    Upstream,
    /// The rounds end.
    Stop,
}

/// Returns the best commands for a candidate index.
/// Nodes to which other commands of the pass move pods are retained. It is not known beforehand
/// which first step leaves the cheapest cluster: so the rounds start from nothing, from upstream's
/// choice, from that with more nodes if they can be removed with it, and from that with other nodes
/// of equal value.
pub(super) fn search(
    consolidation: &mut Consolidation<'_>,
    taken: &Destinations,
    time: &mut SearchFuel<'_>,
) -> SearchResult {
    let found = run_rounds(consolidation, taken, Vec::new(), Continuation::Best, time);
    let is_small = lookahead::is_affordable(consolidation.index);
    let leads = leading_pools(consolidation.index, if is_small { LEADING_POOLS_MAX } else { 1 });
    let firsts = first_commands(consolidation, taken, &leads, time);
    if firsts.is_empty() {
        return found;
    }
    let least = firsts.iter().map(|first| first.savings).fold(0.0, f64::max);
    let all = candidates(consolidation.index, taken);
    let mut starts = Vec::new();
    let is_dwarfed =
        |first: &&Command| !is_small && found.makes_negligible(std::slice::from_ref(*first));
    for first in firsts.iter().filter(|first| !is_dwarfed(first)) {
        starts.push(vec![first.clone()]);
        starts.extend(grow_command(consolidation, taken, first, time));
        let other = choose_among_ties(consolidation, &all, first, &mut time.multi);
        starts.extend(other.map(|other| vec![other]));
    }
    if !is_small {
        return starts.into_iter().fold(found, |found, start| {
            let is_dwarfed = found.makes_negligible(&start);
            let other = || run_rounds(consolidation, taken, start, Continuation::Best, time);
            if is_dwarfed { found } else { found.better_of(other()) }
        });
    }
    let mut ways = vec![found];
    let mut add = |way: SearchResult| {
        // Many ways are the same, and each takes its time to be played to its end.
        if way.savings() >= least && ways.iter().all(|known| known.commands != way.commands) {
            ways.push(way);
        }
    };
    for start in starts {
        add(run_rounds(consolidation, taken, start, Continuation::Best, time));
    }
    for (first, then) in
        firsts.iter().flat_map(|one| [(one, Continuation::Upstream), (one, Continuation::Stop)])
    {
        add(run_rounds(consolidation, taken, vec![first.clone()], then, time));
    }
    ways.retain(|way| way.savings() >= least);
    let index = consolidation.index;
    // Deep search compares the later savings with those of another search.
    if ways.len() == 1 && index.context.settings.search != SearchMode::Deep {
        return ways.pop().unwrap_or_default();
    }
    let ways = ways.into_iter().map(|way| {
        let ends =
            leads.iter().map(|lead| lookahead::savings_after(index, &way.commands, lead, time));
        let ahead = ends.fold(0.0, f64::max);
        SearchResult { later_savings: ahead, ..way }
    });
    ways.reduce(SearchResult::better_of).unwrap_or_default()
}

/// Returns the NodePools to try first in single-node search, each alone.
/// The order of upstream depends on its maps, unless the last pass did not reach some pools.
fn leading_pools(index: &CandidateIndex<'_>, most: usize) -> Vec<BTreeSet<String>> {
    let unseen = &index.context.unseen_pools;
    let pools: BTreeSet<_> =
        consolidation_candidates(index).iter().map(|one| one.pool.clone()).collect();
    if !unseen.is_empty() || pools.len() < 2 || most < 2 {
        return vec![unseen.clone()];
    }
    pools.into_iter().take(most).map(|pool| BTreeSet::from([pool])).collect()
}

/// Returns the commands that upstream may choose first.
fn first_commands(
    consolidation: &mut Consolidation<'_>,
    taken: &Destinations,
    leads: &[BTreeSet<String>],
    time: &mut SearchFuel<'_>,
) -> Vec<Command> {
    let mut firsts: Vec<Command> = Vec::new();
    for lead in leads {
        let Some(first) = upstream_command(consolidation, taken, lead, time) else { continue };
        // Sets of several nodes know no order of pools.
        let is_drawn = first.method == Method::SingleNode;
        if !firsts.contains(&first) {
            firsts.push(first);
        }
        if !is_drawn {
            break;
        }
    }
    firsts
}

/// Returns the command of upstream's search that starts with these NodePools.
pub(super) fn upstream_command(
    consolidation: &mut Consolidation<'_>,
    taken: &Destinations,
    lead: &BTreeSet<String>,
    time: &mut SearchFuel<'_>,
) -> Option<Command> {
    let index = consolidation.index;
    let candidates = candidates(index, taken);
    let allowances = Allowances::new(index.context, Reason::Underutilized);
    let (mut spent, mut within) = (allowances.clone(), candidates.clone());
    within.retain(|candidate| spent.reserve(&candidate.pool));
    let found = multi::search(consolidation, &within, &mut time.multi).command;
    let found = found.or_else(|| {
        let order = single::interleave_by_pool(&candidates, lead);
        single::search(consolidation, &order, &allowances, &mut time.single).command
    })?;
    let set: Vec<_> = found.candidates.iter().collect();
    (!was_launched_recently(index.context, &set, &command_to_move(&found))).then_some(found)
}

/// Adds nodes to a command as long as they can be removed with it.
fn grow_command(
    consolidation: &mut Consolidation<'_>,
    taken: &Destinations,
    found: &Command,
    time: &mut SearchFuel<'_>,
) -> Option<Vec<Command>> {
    let index = consolidation.index;
    let is_in = |one: &&Candidate| found.candidates.iter().any(|other| other.node == one.node);
    let (set, others): (Vec<_>, Vec<_>) = candidates(index, taken).into_iter().partition(is_in);
    let mut allowances = Allowances::new(index.context, Reason::Underutilized);
    for one in &set {
        allowances.reserve(&one.pool);
    }
    let size = set.len();
    let start = GrowingSet { candidates: set, best: Some(command_to_move(found)), allowances };
    let grown = start.grow(&others, |set, best| {
        let more = consolidation.consider(set, &mut time.multi).ok();
        more.filter(|more| best.is_none_or(|best| more.savings > best.savings))
            .filter(|more| more.replacements.is_empty() || set.len() <= SET_SIZE_MAX)
    });
    let is_more = grown.candidates.len() > size;
    is_more.then(|| grown.commands(index))
}

/// Returns the candidates of consolidation, the best first.
pub(super) fn candidates<'c>(
    index: &'c CandidateIndex<'_>,
    taken: &Destinations,
) -> Vec<&'c Candidate> {
    let mut candidates = consolidation_candidates(index);
    candidates.retain(|candidate| taken.rejection(candidate.node).is_none());
    sort_by_savings_ratio(&mut candidates);
    candidates
}

/// Converts a command into a move.
fn command_to_move(command: &Command) -> ConsolidationMove {
    let planned = command.replacements.iter().filter_map(Replacement::planned);
    ConsolidationMove {
        plan: command.plan.clone(),
        replacements: planned.cloned().collect(),
        savings: command.savings,
        scores: command.scores.clone(),
    }
}

/// Runs rounds until no more nodes can be removed.
fn run_rounds(
    consolidation: &mut Consolidation<'_>,
    taken: &Destinations,
    first: Vec<Command>,
    then: Continuation,
    time: &mut SearchFuel<'_>,
) -> SearchResult {
    let mut found = SearchResult::default();
    let mut destinations = taken.clone();
    let mut next = first;
    if next.is_empty() {
        next = Round::new(consolidation, &destinations, &mut found).run(time);
    }
    if next.is_empty() {
        return found;
    }
    let context = consolidation.index.context;
    let mut snapshot = context.snapshot.clone();
    for _ in 0..ROUNDS_MAX {
        for command in &next {
            apply_command(&mut snapshot, context.catalog, command);
            destinations.add(&snapshot, command);
        }
        found.commands.append(&mut next);
        let now = PassContext { snapshot: &snapshot, ..context.clone() };
        let index = CandidateIndex::new(&now);
        let mut consolidation = consolidation.for_index(&index);
        let mut round = Round::new(&mut consolidation, &destinations, &mut found);
        next = match then {
            Continuation::Best => round.run(time),
            Continuation::Upstream => round.next_upstream_command(time),
            Continuation::Stop => Vec::new(),
        };
        if next.is_empty() {
            if then != Continuation::Best {
                // Only for the reasons of the nodes that stay; its commands are dropped.
                round.run(time);
            }
            break;
        }
    }
    found.commands.append(&mut next);
    found
}

/// One round of consolidation.
struct Round<'r, 'a> {
    consolidation: &'r mut Consolidation<'a>,
    destinations: &'r Destinations,
    found: &'r mut SearchResult,
}

impl<'r, 'a> Round<'r, 'a> {
    fn new(
        consolidation: &'r mut Consolidation<'a>,
        destinations: &'r Destinations,
        found: &'r mut SearchResult,
    ) -> Self {
        Self { consolidation, destinations, found }
    }

    fn run(&mut self, time: &mut SearchFuel<'_>) -> Vec<Command> {
        let index = self.consolidation.index;
        let allowances = Allowances::new(index.context, Reason::Underutilized);
        self.found.reasons.clear();
        let mut candidates = consolidation_candidates(index);
        candidates.retain(|candidate| self.may_disrupt(candidate, &allowances));
        sort_by_savings_ratio(&mut candidates);
        let deleted = self.largest_deletion(&candidates, &allowances, &mut time.multi);
        if !deleted.is_empty() {
            return deleted;
        }
        let singles = self.single_node_moves(&candidates, &mut time.single);
        let sets = self.candidate_sets(&candidates, &singles, &allowances, time);
        combine_moves(index, sets, allowances, self.has_exclusive_command())
    }

    /// Returns the next command of upstream, if it fits the earlier commands.
    fn next_upstream_command(&mut self, time: &mut SearchFuel<'_>) -> Vec<Command> {
        let lead = &self.context().unseen_pools.clone();
        let next = upstream_command(self.consolidation, self.destinations, lead, time);
        let goes = |next: &Command| {
            let coming = next.replacements.iter().filter_map(Replacement::planned);
            !self.has_exclusive_command() || !is_exclusive(self.consolidation.index, coming)
        };
        next.filter(goes).into_iter().collect()
    }

    /// Whether an earlier command is exclusive, see [`is_exclusive`].
    fn has_exclusive_command(&self) -> bool {
        let coming = self.found.commands.iter().flat_map(|command| &command.replacements);
        is_exclusive(self.consolidation.index, coming.filter_map(Replacement::planned))
    }

    /// Whether a node may be evaluated; records the reason if not.
    fn may_disrupt(&mut self, candidate: &Candidate, allowances: &Allowances) -> bool {
        let why = if let Some(why) = self.destinations.rejection(candidate.node) {
            why
        } else if allowances.remaining(&candidate.pool) == 0 {
            self.found.is_constrained = true;
            Unconsolidatable::Budget { pool: candidate.pool.clone() }
        } else {
            return true;
        };
        self.found.reasons.insert(candidate.node, why);
        false
    }

    /// Returns commands for the largest set that needs no replacement.
    fn largest_deletion(
        &mut self,
        candidates: &[&Candidate],
        allowances: &Allowances,
        fuel: &mut Fuel<'_>,
    ) -> Vec<Command> {
        let start =
            GrowingSet { candidates: Vec::new(), best: None, allowances: allowances.clone() };
        let grown =
            start.grow(candidates, |set, _| self.consolidation.consider_deletion(set, fuel));
        self.found.has_timed_out |= fuel.is_used_up();
        grown.commands(self.consolidation.index)
    }

    /// Returns the move of each node on its own.
    fn single_node_moves(
        &mut self,
        candidates: &[&Candidate],
        fuel: &mut Fuel<'_>,
    ) -> BTreeMap<NodeId, ConsolidationMove> {
        let mut singles = BTreeMap::new();
        for candidate in candidates {
            let result = if fuel.may_continue() {
                self.consolidation.consider(&[candidate], &mut Fuel::unlimited())
            } else {
                self.found.has_timed_out = true;
                Err(Unconsolidatable::TimedOut)
            };
            match result {
                Ok(found) if was_launched_recently(self.context(), &[candidate], &found) => {
                    self.found.reasons.insert(candidate.node, Unconsolidatable::LaunchedRecently);
                }
                Ok(found) => {
                    singles.insert(candidate.node, found);
                }
                Err(why) => {
                    self.found.reasons.insert(candidate.node, why);
                }
            }
        }
        singles
    }

    fn context(&self) -> &PassContext<'a> {
        self.consolidation.index.context
    }

    /// Returns the sets of nodes to combine, the largest saving first.
    /// These are the single nodes, and sets that save more together than their nodes do alone.
    fn candidate_sets<'c>(
        &mut self,
        candidates: &[&'c Candidate],
        singles: &BTreeMap<NodeId, ConsolidationMove>,
        allowances: &Allowances,
        time: &mut SearchFuel<'_>,
    ) -> Vec<(Vec<&'c Candidate>, ConsolidationMove)> {
        let mut sets: Vec<(Vec<&Candidate>, ConsolidationMove)> = Vec::new();
        let of = |candidate: &&'c Candidate| {
            Some((vec![*candidate], singles.get(&candidate.node)?.clone()))
        };
        sets.extend(candidates.iter().filter_map(of));
        let mut in_sets: BTreeSet<NodeId> = BTreeSet::new();
        for seed in candidates.iter().take(SEED_NODES_MAX) {
            if in_sets.contains(&seed.node) {
                continue;
            }
            let grown = self.grow_set(seed, candidates, singles, allowances, time);
            if let Some(grown) = grown {
                in_sets.extend(grown.0.iter().map(|one| one.node));
                sets.push(grown);
            }
        }
        if self.consolidation.is_deep() {
            let alone = |one: &Candidate| singles.get(&one.node).map_or(0.0, |found| found.savings);
            let many =
                large_sets(self.consolidation, candidates, allowances, &alone, &mut time.multi);
            self.found.has_timed_out |= time.multi.is_used_up();
            sets.extend(many);
        }
        sets.sort_by(|a, b| {
            let names = |set: &[&Candidate]| set.first().map(|one| one.name.clone());
            b.1.savings.total_cmp(&a.1.savings).then_with(|| names(&a.0).cmp(&names(&b.0)))
        });
        sets
    }

    /// Grows a set around a node as long as that saves more.
    /// Other nodes are added in order if the set saves more with them than they do alone. Then
    /// nodes without which it saves more are dropped.
    fn grow_set<'c>(
        &mut self,
        seed: &'c Candidate,
        candidates: &[&'c Candidate],
        singles: &BTreeMap<NodeId, ConsolidationMove>,
        allowances: &Allowances,
        time: &mut SearchFuel<'_>,
    ) -> Option<(Vec<&'c Candidate>, ConsolidationMove)> {
        let alone = |one: &Candidate| singles.get(&one.node).map_or(0.0, |found| found.savings);
        let mut left = allowances.clone();
        left.reserve(&seed.pool);
        let mut set = vec![seed];
        let mut best: Option<ConsolidationMove> = None;
        let (mut savings, mut misses) = (alone(seed), 0);
        for candidate in candidates.iter().filter(|one| one.node != seed.node) {
            if misses >= MISSES_MAX || set.len() >= SET_SIZE_MAX || time.multi.is_used_up() {
                break;
            }
            if left.remaining(&candidate.pool) == 0 {
                continue;
            }
            set.push(candidate);
            match self.consolidation.consider(&set, &mut time.multi) {
                Ok(found)
                    if found.savings > savings + alone(candidate)
                        && !was_launched_recently(self.context(), &set, &found) =>
                {
                    left.reserve(&candidate.pool);
                    savings = found.savings;
                    best = Some(found);
                    misses = 0;
                }
                _ => {
                    set.pop();
                    misses += 1;
                }
            }
        }
        self.found.has_timed_out |= time.multi.is_used_up();
        best.map(|found| prune_set(self.consolidation, set, found, &alone, &mut time.multi))
    }
}

/// Whether a node was launched recently for more savings than the move has.
pub(super) fn was_launched_recently(
    context: &PassContext<'_>,
    set: &[&Candidate],
    found: &ConsolidationMove,
) -> bool {
    let mut saved = set.iter().filter_map(|one| context.recent_launches.get(&one.node_claim));
    !found.replacements.is_empty() && saved.any(|&saved| found.savings < saved)
}

/// Drops nodes that save more alone from a set.
pub(super) fn prune_set<'c>(
    consolidation: &mut Consolidation<'_>,
    mut set: Vec<&'c Candidate>,
    mut best: ConsolidationMove,
    alone: &dyn Fn(&Candidate) -> f64,
    fuel: &mut Fuel<'_>,
) -> (Vec<&'c Candidate>, ConsolidationMove) {
    let mut at = 0;
    while at < set.len() && set.len() > 2 && set.len() <= 8 {
        let candidate = set.remove(at);
        match consolidation.consider(&set, fuel) {
            Ok(found) if found.savings + alone(candidate) > best.savings => best = found,
            _ => {
                set.insert(at, candidate);
                at += 1;
            }
        }
    }
    (set, best)
}
