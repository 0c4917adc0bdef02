//! Sets of nodes that are made larger as long as that works.

use std::collections::BTreeSet;

use super::best::MISSES;
use super::{Board, Candidate, NodeId};
use crate::disruption::allowances::Allowances;
use crate::disruption::consolidation::{Consolidation, Move};
use crate::disruption::{Command, Method};
use crate::id::PodId;

/// A set is tried so often with others. What is left is found in the next round.
const TRIES: usize = 48;
/// At most so many nodes go in one command without a replacement. Validation takes or leaves a
/// command as a whole.
const DELETED: usize = 50;

/// A set that is made larger.
pub(super) struct Growing<'c> {
    pub(super) set: Vec<&'c Candidate>,
    /// What becomes of it; none while it is empty.
    pub(super) best: Option<Move>,
    /// What the budgets leave.
    pub(super) allowances: Allowances,
}

impl<'c> Growing<'c> {
    /// Adds candidates in order, more at a time while that works, and leaves out those that do not
    /// go with the others.
    pub(super) fn grow(
        mut self,
        candidates: &[&'c Candidate],
        mut consider: impl FnMut(&[&Candidate], Option<&Move>) -> Option<Move>,
    ) -> Self {
        let (mut at, mut step, mut misses) = (0, 1, 0);
        let mut attempts = 0;
        while at < candidates.len() && misses < MISSES && attempts < TRIES {
            let end = (at + step).min(candidates.len());
            let mut left = self.allowances.clone();
            let added = candidates[at..end].iter().filter(|one| left.take(&one.pool)).copied();
            let tried: Vec<_> = self.set.iter().copied().chain(added).collect();
            let is_more = tried.len() > self.set.len();
            let found = is_more.then(|| consider(&tried, self.best.as_ref())).flatten();
            attempts += usize::from(is_more);
            match found {
                Some(found) => {
                    self = Self { set: tried, best: Some(found), allowances: left };
                    (at, step, misses) = (end, step * 2, 0);
                }
                None if end - at > 1 => step = (end - at) / 2,
                None => {
                    at += 1;
                    misses += usize::from(is_more);
                }
            }
        }
        self
    }

    /// The set as commands.
    pub(super) fn commands(self, board: &Board<'_>) -> Vec<Command> {
        match self.best {
            None => Vec::new(),
            Some(found) if found.replacements.is_empty() => split(board, &self.set, &found),
            Some(found) => {
                let is_several = self.set.len() > 1;
                let method = if is_several { Method::MultiNode } else { Method::SingleNode };
                vec![Consolidation::command(method, &self.set, found)]
            }
        }
    }
}

/// A move without a replacement as commands of bearable size.
fn split(board: &Board<'_>, set: &[&Candidate], found: &Move) -> Vec<Command> {
    let parts = set.chunks(DELETED).map(|part| {
        let method = if part.len() > 1 { Method::MultiNode } else { Method::SingleNode };
        let nodes: BTreeSet<NodeId> = part.iter().map(|one| one.node).collect();
        let is_own =
            |pod: &PodId| board.world.snapshot.pod(*pod).node.is_some_and(|on| nodes.contains(&on));
        let mut plan = found.plan.clone();
        if set.len() > part.len() {
            for (_, pods) in &mut plan.existing {
                pods.retain(is_own);
            }
            plan.existing.retain(|(_, pods)| !pods.is_empty());
        }
        let savings = part.iter().map(|one| one.price).sum();
        let scores = found.scores.clone();
        let part_of = Move { plan, replacements: Vec::new(), savings, scores };
        Consolidation::command(method, part, part_of)
    });
    parts.collect()
}
