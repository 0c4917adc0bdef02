//! One look at the cluster: the methods in their order (spec 30 §2).

use std::collections::BTreeMap;
use std::iter::Peekable;

use super::allowances::Allowances;
use super::candidate::best_ratio_first;
use super::consolidation::{
    Consolidation, Unconsolidatable, is_eligible, is_eligible_empty, multi, single,
};
use super::{
    Board, Candidate, Class, Kept, Method, Notice, NoticeKind, Pass, Reason, Search, World, drift,
    emptiness, repair, static_drift,
};
use crate::id::NodeId;
use crate::scheduling::Fuel;

mod ahead;
mod applied;
mod best;
mod destinations;
mod growing;
mod kept;
mod many;
mod ties;
mod together;

use destinations::Destinations;

pub use applied::{apply, largest, set_aside};

/// How long the searches may take.
#[derive(Debug)]
pub struct Time<'a> {
    /// For sets of several nodes. It also ends a simulation that runs.
    pub multi: Fuel<'a>,
    /// For the walk over single nodes. It is asked before each.
    pub single: Fuel<'a>,
}

impl Time<'_> {
    /// As long as they want.
    pub fn unlimited() -> Self {
        Self { multi: Fuel::unlimited(), single: Fuel::unlimited() }
    }
}

/// Looks at the cluster once, with the methods from `from` on that are not settled: until one of them
/// finds something if it searches as upstream, else with all of them.
pub fn pass(world: &World<'_>, from: Method, time: &mut Time<'_>) -> Pass {
    match world.settings.search {
        Search::Upstream => upstream(world, from, time),
        Search::Best | Search::Deep => best(world, from, time),
    }
}

/// The first methods one after the other, each on what the ones before leave, then the rounds. One
/// look at the nodes does for all of them as long as nothing is found.
fn best(world: &World<'_>, from: Method, time: &mut Time<'_>) -> Pass {
    let is_due = |method: &Method| {
        *method >= from && *method < Method::MultiNode && !world.settled.contains(method)
    };
    let mut methods = Method::ALL.into_iter().filter(is_due).peekable();
    let board = Board::new(world);
    let mut passing = Passing::new(&board);
    passing.run_until_found(&mut methods, time);
    if passing.result.commands.is_empty() {
        let found = rounds(&mut passing.consolidation, &Destinations::default(), time);
        passing.take_rounds(found);
    } else {
        let result = std::mem::take(&mut passing.result);
        let (result, found) = after(world, result, methods, time);
        passing.result = result;
        passing.take_rounds(found);
    }
    passing.tell_consolidation();
    passing.finish()
}

/// The methods that are left, each on what the commands before leave, then the rounds.
fn after(
    world: &World<'_>,
    mut result: Pass,
    mut methods: Peekable<impl Iterator<Item = Method>>,
    time: &mut Time<'_>,
) -> (Pass, Option<best::Found>) {
    let mut snapshot = world.snapshot.clone();
    let mut applied = 0;
    loop {
        for command in &result.commands[applied..] {
            apply(&mut snapshot, world.catalog, command);
        }
        applied = result.commands.len();
        let now = World { snapshot: &snapshot, ..world.clone() };
        let board = Board::new(&now);
        let mut passing = Passing { result, ..Passing::new(&board) };
        passing.run_until_found(&mut methods, time);
        if passing.result.commands.len() == applied {
            let taken = Destinations::of(world.snapshot, &passing.result.commands);
            let found = rounds(&mut passing.consolidation, &taken, time);
            return (passing.result, found);
        }
        result = passing.result;
    }
}

/// The rounds of consolidation, unless it has nothing to do.
fn rounds(
    consolidation: &mut Consolidation<'_>,
    taken: &Destinations,
    time: &mut Time<'_>,
) -> Option<best::Found> {
    let world = consolidation.board.world;
    if world.settled.contains(&Method::SingleNode) {
        return None;
    }
    let found = best::search(consolidation, taken, time);
    if world.settings.search != Search::Deep {
        return Some(found);
    }
    consolidation.deepen();
    let deep = best::search(consolidation, taken, time);
    let has_timed_out = found.has_timed_out || deep.has_timed_out;
    let is_less = deep.savings() < found.savings();
    let found = if is_less { found } else { found.or(deep) };
    Some(best::Found { has_timed_out, ..found })
}

/// The methods until one of them finds something.
fn upstream(world: &World<'_>, from: Method, time: &mut Time<'_>) -> Pass {
    let board = Board::new(world);
    let mut pass = Passing::new(&board);
    for method in Method::ALL.into_iter().filter(|&method| method >= from) {
        if !world.settled.contains(&method) {
            pass.run(method, time);
        }
        if !pass.result.commands.is_empty() {
            break;
        }
    }
    pass.finish()
}

/// A pass in progress.
struct Passing<'a> {
    board: &'a Board<'a>,
    consolidation: Consolidation<'a>,
    result: Pass,
    /// Why nodes stay that consolidation looked at.
    reasons: BTreeMap<NodeId, Unconsolidatable>,
}

impl<'a> Passing<'a> {
    fn new(board: &'a Board<'a>) -> Self {
        Self {
            board,
            consolidation: Consolidation::new(board),
            result: Pass::default(),
            reasons: BTreeMap::new(),
        }
    }

    fn run(&mut self, method: Method, time: &mut Time<'_>) {
        match method {
            Method::Repair => self.repair(),
            Method::Emptiness => self.emptiness(),
            Method::StaticDrift => self.static_drift(),
            Method::Drift => self.drift(),
            Method::MultiNode => self.multi(&mut time.multi),
            Method::SingleNode => self.single(&mut time.single),
        }
    }

    /// Methods in order, until one finds something.
    fn run_until_found(
        &mut self,
        methods: &mut Peekable<impl Iterator<Item = Method>>,
        time: &mut Time<'_>,
    ) {
        let before = self.result.commands.len();
        while let Some(method) = methods.next_if(|_| self.result.commands.len() == before) {
            self.run(method, time);
        }
    }

    fn take_rounds(&mut self, found: Option<best::Found>) {
        let Some(found) = found else { return };
        if found.has_timed_out {
            self.result.timed_out.push(Method::SingleNode);
        } else if found.commands.is_empty()
            && !found.is_constrained
            // With nobody to look at nothing was found out: who becomes consolidatable is looked at.
            && !consolidatable(self.board).is_empty()
        {
            self.result.settled.extend([Method::MultiNode, Method::SingleNode]);
        }
        self.result.commands.extend(found.commands);
        self.reasons = found.reasons;
    }

    fn repair(&mut self) {
        let Some(rules) = self.board.world.repair else { return };
        let found = repair::decide(&mut self.consolidation, rules);
        self.result.eligible.push((Method::Repair, found.eligible));
        for (node, kind, text) in found.told {
            self.tell(node, Method::Repair, kind, text);
        }
        self.result.commands.extend(found.command);
    }

    fn emptiness(&mut self) {
        self.tell_ineligible(Method::Emptiness, is_eligible_empty);
        let found = emptiness::decide(self.board);
        self.result.eligible.push((Method::Emptiness, found.eligible));
        if found.eligible > 0 && found.command.is_none() && !found.is_constrained {
            self.result.settled.push(Method::Emptiness);
        }
        self.result.commands.extend(found.command);
    }

    fn static_drift(&mut self) {
        if !self.board.world.settings.static_capacity {
            return;
        }
        let found = static_drift::decide(self.board);
        self.result.eligible.push((Method::StaticDrift, found.eligible));
        self.tell_blocked(Method::StaticDrift, found.blocked);
        self.result.commands.extend(found.commands);
    }

    fn drift(&mut self) {
        let found = drift::decide(&mut self.consolidation);
        self.result.eligible.push((Method::Drift, found.eligible));
        self.tell_blocked(Method::Drift, found.blocked);
        self.result.commands.extend(found.command);
    }

    fn multi(&mut self, fuel: &mut Fuel<'_>) {
        self.tell_ineligible(Method::MultiNode, is_eligible);
        let mut candidates = consolidatable(self.board);
        self.result.eligible.push((Method::MultiNode, candidates.len()));
        if candidates.is_empty() {
            return;
        }
        best_ratio_first(&mut candidates);
        let count = candidates.len();
        let mut allowances = Allowances::new(self.board.world, Reason::Underutilized);
        candidates.retain(|candidate| allowances.take(&candidate.pool));
        let found = multi::search(&mut self.consolidation, &candidates, fuel);
        if found.has_timed_out {
            self.result.timed_out.push(Method::MultiNode);
        } else if found.command.is_none() && candidates.len() == count {
            self.result.settled.push(Method::MultiNode);
        }
        self.result.commands.extend(found.command);
    }

    fn single(&mut self, fuel: &mut Fuel<'_>) {
        self.tell_ineligible(Method::SingleNode, is_eligible);
        let mut candidates = consolidatable(self.board);
        self.result.eligible.push((Method::SingleNode, candidates.len()));
        if candidates.is_empty() {
            return;
        }
        best_ratio_first(&mut candidates);
        let candidates = single::interleaved(&candidates, &self.board.world.unseen_pools);
        let allowances = Allowances::new(self.board.world, Reason::Underutilized);
        let found = single::search(&mut self.consolidation, &candidates, &allowances, fuel);
        self.result.unseen_pools = match (&found.unseen, &found.command) {
            (Some(unseen), _) => unseen.iter().cloned().collect(),
            // Who finds something early has not come to the end, so what was unseen still is.
            (None, Some(_)) => self.board.world.unseen_pools.iter().cloned().collect(),
            (None, None) => Vec::new(),
        };
        if found.unseen.is_some() {
            self.result.timed_out.push(Method::SingleNode);
        } else if found.command.is_none() && !found.is_constrained {
            self.result.settled.push(Method::SingleNode);
        }
        for (&node, reason) in found.reasons.iter().filter(|(_, reason)| reason.is_published()) {
            self.tell(node, Method::SingleNode, NoticeKind::Unconsolidatable, reason.to_string());
        }
        self.reasons.extend(found.reasons);
        self.result.commands.extend(found.command);
    }

    /// Tells why the nodes stay that the rounds looked at, or did not.
    fn tell_consolidation(&mut self) {
        let eligible = consolidatable(self.board).len();
        self.result.eligible.push((Method::SingleNode, eligible));
        self.tell_ineligible(Method::SingleNode, is_eligible);
        let told: Vec<_> = self
            .reasons
            .iter()
            .filter(|(node, why)| why.is_published() && node.index() < self.board.nodes().len())
            .map(|(&node, why)| (node, why.to_string()))
            .collect();
        for (node, text) in told {
            self.tell(node, Method::SingleNode, NoticeKind::Unconsolidatable, text);
        }
    }

    /// Tells why a method does not look at candidates.
    fn tell_ineligible(
        &mut self,
        method: Method,
        is_eligible: fn(&Board<'_>, &Candidate) -> Result<(), Unconsolidatable>,
    ) {
        let board = self.board;
        for candidate in board.candidates(Class::Graceful) {
            if let Err(why) = is_eligible(board, candidate)
                && why.is_published()
            {
                let kind = NoticeKind::Unconsolidatable;
                self.tell(candidate.node, method, kind, why.to_string());
            }
        }
    }

    fn tell_blocked(&mut self, method: Method, blocked: Vec<(NodeId, String)>) {
        for (node, text) in blocked {
            self.tell(node, method, NoticeKind::Blocked, text);
        }
    }

    fn tell(&mut self, node: NodeId, method: Method, kind: NoticeKind, text: String) {
        self.result.notices.push(Notice { node, method, kind, text });
    }

    /// Whether there will be more to look at without any change of the cluster: pools that wait, and
    /// nodes that pods were promised to, come back. (Upstream finds those five minutes later.)
    fn will_change(&self) -> bool {
        let world = self.board.world;
        let is_nominated = world.settings.search != Search::Upstream && !world.nominated.is_empty();
        is_nominated || !world.backed_off.is_empty()
    }

    fn finish(mut self) -> Pass {
        if self.will_change() {
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
                    let command_text = command.describe_for(name);
                    let savings = command.savings;
                    format!("Consolidation candidate: {command_text} (savings: ${savings:.2})")
                };
                let nodes = command.candidates.iter();
                nodes.map(move |one| (one.node, command.method, text(&one.name)))
            })
            .collect();
        for (node, method, text) in replaced {
            self.tell(node, method, NoticeKind::ConsolidationCandidate, text);
        }
        let scores = |why: &Unconsolidatable| match why {
            Unconsolidatable::NotWorthIt { scores } => scores.clone(),
            _ => Vec::new(),
        };
        self.result.rejected = self.reasons.values().flat_map(scores).collect();
        self.result.kept =
            kept::kept(&mut self.consolidation, &self.result.commands, &self.reasons);
        self.result
    }
}

/// The nodes that consolidation looks at, by name.
fn consolidatable<'a>(board: &'a Board<'_>) -> Vec<&'a Candidate> {
    let mut candidates = board.candidates(Class::Graceful);
    candidates.retain(|candidate| {
        is_eligible(board, candidate).is_ok() && !board.world.backed_off.contains(&candidate.pool)
    });
    candidates
}
