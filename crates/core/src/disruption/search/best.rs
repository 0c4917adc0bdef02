//! Several disjoint commands per pass that save the most together (spec 30 §14.4).
//!
//! ```text
//! round:   the largest set that can go for nothing       ─┐
//!          else: every node on its own, sets around them ─┼─▶ commands ─▶ cluster as if they were
//!          until nothing more can go                      │   carried out ─▶ next round
//! ```
//!
//! Never less than upstream: the rounds are also run from its choice. What counts is where it ends,
//! see [`super::ahead`].

use std::collections::{BTreeMap, BTreeSet};

use super::destinations::Destinations;
use super::growing::Growing;
use super::many::many;
use super::ties::redrawn;
use super::together::{is_exclusive, together};
use super::{Board, Candidate, NodeId, Time, Unconsolidatable, ahead, apply, consolidatable};
use crate::disruption::allowances::Allowances;
use crate::disruption::candidate::best_ratio_first;
use crate::disruption::consolidation::{Consolidation, Move, multi, single};
use crate::disruption::{Command, Method, Reason, Replacement, Search, World};
use crate::scheduling::Fuel;

/// No more rounds per pass: what is left waits for the next one.
const ROUNDS: usize = 12;
/// A search for one set ends after so many nodes in a row that do not go with it.
pub(super) const MISSES: usize = 8;
/// Sets are grown around so many nodes.
const SEEDS: usize = 4;
/// Commands for less than one of so many nodes that go are not worth another look.
const DWARFED: usize = 4;
/// At most so many nodes go for one replacement.
const SET: usize = 100;
/// So many NodePools may come first when nodes are looked at one by one.
const LEADS: usize = 3;

/// What came of the rounds.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) commands: Vec<Command>,
    /// Why nodes stay, by the last look at them.
    pub(super) reasons: BTreeMap<NodeId, Unconsolidatable>,
    pub(super) has_timed_out: bool,
    /// Whether a budget held some back.
    pub(super) is_constrained: bool,
    /// What would be saved afterwards, as far as somebody looked.
    pub(super) ahead: f64,
}

impl Found {
    pub(super) fn savings(&self) -> f64 {
        self.commands.iter().map(|command| command.savings).sum()
    }

    /// Whether commands are so small a part of what was found that it hardly matters whether they come
    /// first: with 2,000 nodes, of which 930 go, the pass took a third without.
    fn dwarfs(&self, commands: &[Command]) -> bool {
        let nodes = |commands: &[Command]| -> usize {
            commands.iter().map(|command| command.candidates.len()).sum()
        };
        let savings: f64 = commands.iter().map(|command| command.savings).sum();
        nodes(&self.commands) >= DWARFED * nodes(commands) && self.savings() >= savings
    }

    /// This, or the other if it saves more in the end, or as much and more of it now.
    pub(super) fn or(self, other: Self) -> Self {
        let end = |found: &Self| found.savings() + found.ahead;
        let is_better = is_more(end(&other), end(&self))
            || (!is_more(end(&self), end(&other)) && is_more(other.savings(), self.savings()));
        if is_better { other } else { self }
    }
}

/// Whether one saving is more than another. The sums of equal prices in another order may differ in the
/// last digits.
pub(super) fn is_more(one: f64, other: f64) -> bool {
    one * (1.0 - 1e-12) > other
}

/// How it goes on after the first commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// With what saves the most.
    Best,
    /// With upstream's next choice, and so on.
    Upstream,
    /// Not in this pass.
    Nothing,
}

/// The best commands for a world.
///
/// Nodes that pods are about to be moved to by other commands of the pass stay. Which first step
/// leaves the cheapest cluster in the end is not known before: so the rounds start from nothing, from
/// upstream's choice, and from that with more nodes if they can go with it, or with others that are as
/// good.
pub(super) fn search(
    consolidation: &mut Consolidation<'_>,
    taken: &Destinations,
    time: &mut Time<'_>,
) -> Found {
    let found = rounds(consolidation, taken, Vec::new(), Then::Best, time);
    let is_small = ahead::is_small(consolidation.board);
    let leads = leads(consolidation.board, if is_small { LEADS } else { 1 });
    let firsts = firsts(consolidation, taken, &leads, time);
    if firsts.is_empty() {
        return found;
    }
    let least = firsts.iter().map(|first| first.savings).fold(0.0, f64::max);
    let all = candidates(consolidation.board, taken);
    let mut starts = Vec::new();
    let is_dwarfed = |first: &&Command| !is_small && found.dwarfs(std::slice::from_ref(*first));
    for first in firsts.iter().filter(|first| !is_dwarfed(first)) {
        starts.push(vec![first.clone()]);
        starts.extend(grown(consolidation, taken, first, time));
        let other = redrawn(consolidation, &all, first, &mut time.multi);
        starts.extend(other.map(|other| vec![other]));
    }
    if !is_small {
        return starts.into_iter().fold(found, |found, start| {
            let is_dwarfed = found.dwarfs(&start);
            let other = || rounds(consolidation, taken, start, Then::Best, time);
            if is_dwarfed { found } else { found.or(other()) }
        });
    }
    let mut ways = vec![found];
    let mut add = |way: Found| {
        // Many ways are the same, and each takes its time to be played to its end.
        if way.savings() >= least && ways.iter().all(|known| known.commands != way.commands) {
            ways.push(way);
        }
    };
    for start in starts {
        add(rounds(consolidation, taken, start, Then::Best, time));
    }
    for (first, then) in firsts.iter().flat_map(|one| [(one, Then::Upstream), (one, Then::Nothing)])
    {
        add(rounds(consolidation, taken, vec![first.clone()], then, time));
    }
    ways.retain(|way| way.savings() >= least);
    let board = consolidation.board;
    // Whoever looks deeper compares the end with another one.
    if ways.len() == 1 && board.world.settings.search != Search::Deep {
        return ways.pop().unwrap_or_default();
    }
    let ways = ways.into_iter().map(|way| {
        let ends = leads.iter().map(|lead| ahead::savings(board, &way.commands, lead, time));
        let ahead = ends.fold(0.0, f64::max);
        Found { ahead, ..way }
    });
    ways.reduce(Found::or).unwrap_or_default()
}

/// The NodePools that single-node consolidation may begin with, each alone: upstream's order is drawn
/// by its maps, unless the last pass did not come to some.
fn leads(board: &Board<'_>, most: usize) -> Vec<BTreeSet<String>> {
    let unseen = &board.world.unseen_pools;
    let pools: BTreeSet<_> = consolidatable(board).iter().map(|one| one.pool.clone()).collect();
    if !unseen.is_empty() || pools.len() < 2 || most < 2 {
        return vec![unseen.clone()];
    }
    pools.into_iter().take(most).map(|pool| BTreeSet::from([pool])).collect()
}

/// What upstream may do first.
fn firsts(
    consolidation: &mut Consolidation<'_>,
    taken: &Destinations,
    leads: &[BTreeSet<String>],
    time: &mut Time<'_>,
) -> Vec<Command> {
    let mut firsts: Vec<Command> = Vec::new();
    for lead in leads {
        let Some(first) = upstream(consolidation, taken, lead, time) else { continue };
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

/// What upstream would do, if it begins with the nodes of these pools.
pub(super) fn upstream(
    consolidation: &mut Consolidation<'_>,
    taken: &Destinations,
    lead: &BTreeSet<String>,
    time: &mut Time<'_>,
) -> Option<Command> {
    let board = consolidation.board;
    let candidates = candidates(board, taken);
    let allowances = Allowances::new(board.world, Reason::Underutilized);
    let (mut spent, mut within) = (allowances.clone(), candidates.clone());
    within.retain(|candidate| spent.take(&candidate.pool));
    let found = multi::search(consolidation, &within, &mut time.multi).command;
    let found = found.or_else(|| {
        let order = single::interleaved(&candidates, lead);
        single::search(consolidation, &order, &allowances, &mut time.single).command
    })?;
    let set: Vec<_> = found.candidates.iter().collect();
    (!is_too_young(board.world, &set, &move_of(&found))).then_some(found)
}

/// The same with more nodes, if they can go with it.
fn grown(
    consolidation: &mut Consolidation<'_>,
    taken: &Destinations,
    found: &Command,
    time: &mut Time<'_>,
) -> Option<Vec<Command>> {
    let board = consolidation.board;
    let is_in = |one: &&Candidate| found.candidates.iter().any(|other| other.node == one.node);
    let (set, others): (Vec<_>, Vec<_>) = candidates(board, taken).into_iter().partition(is_in);
    let mut allowances = Allowances::new(board.world, Reason::Underutilized);
    for one in &set {
        allowances.take(&one.pool);
    }
    let size = set.len();
    let start = Growing { set, best: Some(move_of(found)), allowances };
    let grown = start.grow(&others, |set, best| {
        let more = consolidation.consider(set, &mut time.multi).ok();
        more.filter(|more| best.is_none_or(|best| more.savings > best.savings))
            .filter(|more| more.replacements.is_empty() || set.len() <= SET)
    });
    let is_more = grown.set.len() > size;
    is_more.then(|| grown.commands(board))
}

/// Whom consolidation looks at, the best first.
pub(super) fn candidates<'c>(board: &'c Board<'_>, taken: &Destinations) -> Vec<&'c Candidate> {
    let mut candidates = consolidatable(board);
    candidates.retain(|candidate| taken.why(candidate.node).is_none());
    best_ratio_first(&mut candidates);
    candidates
}

/// What a command does.
fn move_of(command: &Command) -> Move {
    let planned = command.replacements.iter().filter_map(Replacement::planned);
    Move {
        plan: command.plan.clone(),
        replacements: planned.cloned().collect(),
        savings: command.savings,
        scores: command.scores.clone(),
    }
}

/// Rounds until nothing more can go.
fn rounds(
    consolidation: &mut Consolidation<'_>,
    taken: &Destinations,
    first: Vec<Command>,
    then: Then,
    time: &mut Time<'_>,
) -> Found {
    let mut found = Found::default();
    let mut destinations = taken.clone();
    let mut next = first;
    if next.is_empty() {
        next = Round::new(consolidation, &destinations, &mut found).run(time);
    }
    if next.is_empty() {
        return found;
    }
    let world = consolidation.board.world;
    let mut snapshot = world.snapshot.clone();
    for _ in 0..ROUNDS {
        for command in &next {
            apply(&mut snapshot, world.catalog, command);
            destinations.add(&snapshot, command);
        }
        found.commands.append(&mut next);
        let now = World { snapshot: &snapshot, ..world.clone() };
        let board = Board::new(&now);
        let mut consolidation = consolidation.on(&board);
        let mut round = Round::new(&mut consolidation, &destinations, &mut found);
        next = match then {
            Then::Best => round.run(time),
            Then::Upstream => round.upstream(time),
            Then::Nothing => Vec::new(),
        };
        if next.is_empty() {
            if then != Then::Best {
                // What it would do is not done, but those that stay anyway have their reason.
                round.run(time);
            }
            break;
        }
    }
    found.commands.append(&mut next);
    found
}

/// One look at a cluster.
struct Round<'r, 'a> {
    consolidation: &'r mut Consolidation<'a>,
    destinations: &'r Destinations,
    found: &'r mut Found,
}

impl<'r, 'a> Round<'r, 'a> {
    fn new(
        consolidation: &'r mut Consolidation<'a>,
        destinations: &'r Destinations,
        found: &'r mut Found,
    ) -> Self {
        Self { consolidation, destinations, found }
    }

    fn run(&mut self, time: &mut Time<'_>) -> Vec<Command> {
        let board = self.consolidation.board;
        let allowances = Allowances::new(board.world, Reason::Underutilized);
        self.found.reasons.clear();
        let mut candidates = consolidatable(board);
        candidates.retain(|candidate| self.may_go(candidate, &allowances));
        best_ratio_first(&mut candidates);
        let deleted = self.deletable(&candidates, &allowances, &mut time.multi);
        if !deleted.is_empty() {
            return deleted;
        }
        let singles = self.singles(&candidates, &mut time.single);
        let sets = self.sets(&candidates, &singles, &allowances, time);
        together(board, sets, allowances, self.has_exclusive())
    }

    /// What upstream would do next, if it goes with what is to be done before.
    fn upstream(&mut self, time: &mut Time<'_>) -> Vec<Command> {
        let lead = &self.world().unseen_pools.clone();
        let next = upstream(self.consolidation, self.destinations, lead, time);
        let goes = |next: &Command| {
            let coming = next.replacements.iter().filter_map(Replacement::planned);
            !self.has_exclusive() || !is_exclusive(self.consolidation.board, coming)
        };
        next.filter(goes).into_iter().collect()
    }

    /// Whether a command before takes what only one can have.
    fn has_exclusive(&self) -> bool {
        let coming = self.found.commands.iter().flat_map(|command| &command.replacements);
        is_exclusive(self.consolidation.board, coming.filter_map(Replacement::planned))
    }

    /// Whether a node may be looked at at all.
    fn may_go(&mut self, candidate: &Candidate, allowances: &Allowances) -> bool {
        let why = if let Some(why) = self.destinations.why(candidate.node) {
            why
        } else if allowances.left(&candidate.pool) == 0 {
            self.found.is_constrained = true;
            Unconsolidatable::Budget { pool: candidate.pool.clone() }
        } else {
            return true;
        };
        self.found.reasons.insert(candidate.node, why);
        false
    }

    /// The largest set that can go for nothing.
    fn deletable(
        &mut self,
        candidates: &[&Candidate],
        allowances: &Allowances,
        fuel: &mut Fuel<'_>,
    ) -> Vec<Command> {
        let start = Growing { set: Vec::new(), best: None, allowances: allowances.clone() };
        let grown = start.grow(candidates, |set, _| self.consolidation.delete(set, fuel));
        self.found.has_timed_out |= fuel.is_dry();
        grown.commands(self.consolidation.board)
    }

    /// What each node would save on its own.
    fn singles(
        &mut self,
        candidates: &[&Candidate],
        fuel: &mut Fuel<'_>,
    ) -> BTreeMap<NodeId, Move> {
        let mut singles = BTreeMap::new();
        for candidate in candidates {
            let result = if fuel.may_go_on() {
                self.consolidation.consider(&[candidate], &mut Fuel::unlimited())
            } else {
                self.found.has_timed_out = true;
                Err(Unconsolidatable::RanDry)
            };
            match result {
                Ok(found) if is_too_young(self.world(), &[candidate], &found) => {
                    self.found.reasons.insert(candidate.node, Unconsolidatable::TooYoung);
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

    fn world(&self) -> &World<'a> {
        self.consolidation.board.world
    }

    /// Sets that save more together than their nodes do alone, and the nodes alone; the largest saving
    /// first.
    fn sets<'c>(
        &mut self,
        candidates: &[&'c Candidate],
        singles: &BTreeMap<NodeId, Move>,
        allowances: &Allowances,
        time: &mut Time<'_>,
    ) -> Vec<(Vec<&'c Candidate>, Move)> {
        let mut sets: Vec<(Vec<&Candidate>, Move)> = Vec::new();
        let of = |candidate: &&'c Candidate| {
            Some((vec![*candidate], singles.get(&candidate.node)?.clone()))
        };
        sets.extend(candidates.iter().filter_map(of));
        let mut in_sets: BTreeSet<NodeId> = BTreeSet::new();
        for seed in candidates.iter().take(SEEDS) {
            if in_sets.contains(&seed.node) {
                continue;
            }
            let grown = self.grow(seed, candidates, singles, allowances, time);
            if let Some(grown) = grown {
                in_sets.extend(grown.0.iter().map(|one| one.node));
                sets.push(grown);
            }
        }
        if self.consolidation.is_deep() {
            let alone = |one: &Candidate| singles.get(&one.node).map_or(0.0, |found| found.savings);
            let many = many(self.consolidation, candidates, allowances, &alone, &mut time.multi);
            self.found.has_timed_out |= time.multi.is_dry();
            sets.extend(many);
        }
        sets.sort_by(|a, b| {
            let names = |set: &[&Candidate]| set.first().map(|one| one.name.clone());
            b.1.savings.total_cmp(&a.1.savings).then_with(|| names(&a.0).cmp(&names(&b.0)))
        });
        sets
    }

    /// A set around a node: others are added in order as long as the set saves more with them than
    /// they do alone, and left out if not. Then those are dropped without which it saves more.
    fn grow<'c>(
        &mut self,
        seed: &'c Candidate,
        candidates: &[&'c Candidate],
        singles: &BTreeMap<NodeId, Move>,
        allowances: &Allowances,
        time: &mut Time<'_>,
    ) -> Option<(Vec<&'c Candidate>, Move)> {
        let alone = |one: &Candidate| singles.get(&one.node).map_or(0.0, |found| found.savings);
        let mut left = allowances.clone();
        left.take(&seed.pool);
        let mut set = vec![seed];
        let mut best: Option<Move> = None;
        let (mut savings, mut misses) = (alone(seed), 0);
        for candidate in candidates.iter().filter(|one| one.node != seed.node) {
            if misses >= MISSES || set.len() >= SET || time.multi.is_dry() {
                break;
            }
            if left.left(&candidate.pool) == 0 {
                continue;
            }
            set.push(candidate);
            match self.consolidation.consider(&set, &mut time.multi) {
                Ok(found)
                    if found.savings > savings + alone(candidate)
                        && !is_too_young(self.world(), &set, &found) =>
                {
                    left.take(&candidate.pool);
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
        self.found.has_timed_out |= time.multi.is_dry();
        best.map(|found| dropped(self.consolidation, set, found, &alone, &mut time.multi))
    }
}

/// Whether a node was launched a moment ago to save more than its replacement would now.
pub(super) fn is_too_young(world: &World<'_>, set: &[&Candidate], found: &Move) -> bool {
    let mut saved = set.iter().filter_map(|one| world.young.get(&one.node_claim));
    !found.replacements.is_empty() && saved.any(|&saved| found.savings < saved)
}

/// The set without those that save more alone.
pub(super) fn dropped<'c>(
    consolidation: &mut Consolidation<'_>,
    mut set: Vec<&'c Candidate>,
    mut best: Move,
    alone: &dyn Fn(&Candidate) -> f64,
    fuel: &mut Fuel<'_>,
) -> (Vec<&'c Candidate>, Move) {
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
