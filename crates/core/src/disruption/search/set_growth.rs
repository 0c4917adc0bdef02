//! Grows sets of nodes as long as they can be removed together.

use std::collections::BTreeSet;

use super::best::MISSES_MAX;
use super::{Candidate, CandidateIndex, NodeId};
use crate::disruption::allowances::Allowances;
use crate::disruption::consolidation::{Consolidation, ConsolidationMove};
use crate::disruption::{Command, Method};
use crate::id::PodId;

/// The most attempts to grow one set; the next round continues.
const ATTEMPTS_MAX: usize = 48;
/// The most nodes of one command without replacements.
/// Validation accepts or rejects a command as a whole.
const DELETED_NODES_MAX: usize = 50;

/// A set of candidates that grows.
pub(super) struct GrowingSet<'c> {
    pub(super) candidates: Vec<&'c Candidate>,
    /// Its move; none while it is empty.
    pub(super) best: Option<ConsolidationMove>,
    /// What the budgets still allow.
    pub(super) allowances: Allowances,
}

impl<'c> GrowingSet<'c> {
    /// Adds candidates in order, more at a time while that works, and leaves out those that do not
    /// go with the others.
    pub(super) fn grow(
        mut self,
        candidates: &[&'c Candidate],
        mut consider: impl FnMut(&[&Candidate], Option<&ConsolidationMove>) -> Option<ConsolidationMove>,
    ) -> Self {
        let (mut at, mut step, mut misses) = (0, 1, 0);
        let mut attempts = 0;
        while at < candidates.len() && misses < MISSES_MAX && attempts < ATTEMPTS_MAX {
            let end = (at + step).min(candidates.len());
            let mut left = self.allowances.clone();
            let added = candidates[at..end].iter().filter(|one| left.reserve(&one.pool)).copied();
            let tried: Vec<_> = self.candidates.iter().copied().chain(added).collect();
            let is_more = tried.len() > self.candidates.len();
            let found = is_more.then(|| consider(&tried, self.best.as_ref())).flatten();
            attempts += usize::from(is_more);
            match found {
                Some(found) => {
                    self = Self { candidates: tried, best: Some(found), allowances: left };
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
    pub(super) fn commands(self, index: &CandidateIndex<'_>) -> Vec<Command> {
        match self.best {
            None => Vec::new(),
            Some(found) if found.replacements.is_empty() => {
                split_into_commands(index, &self.candidates, &found)
            }
            Some(found) => {
                let is_several = self.candidates.len() > 1;
                let method = if is_several { Method::MultiNode } else { Method::SingleNode };
                vec![Consolidation::command(method, &self.candidates, found)]
            }
        }
    }
}

/// Splits a move without replacements into commands of limited size.
fn split_into_commands(
    index: &CandidateIndex<'_>,
    set: &[&Candidate],
    found: &ConsolidationMove,
) -> Vec<Command> {
    let parts = set.chunks(DELETED_NODES_MAX).map(|part| {
        let method = if part.len() > 1 { Method::MultiNode } else { Method::SingleNode };
        let nodes: BTreeSet<NodeId> = part.iter().map(|one| one.node).collect();
        let is_own = |pod: &PodId| {
            index.context.snapshot.pod(*pod).node.is_some_and(|on| nodes.contains(&on))
        };
        let mut plan = found.plan.clone();
        if set.len() > part.len() {
            for (_, pods) in &mut plan.existing_nodes {
                pods.retain(is_own);
            }
            plan.existing_nodes.retain(|(_, pods)| !pods.is_empty());
        }
        let savings = part.iter().map(|one| one.price).sum();
        let scores = found.scores.clone();
        let part_of = ConsolidationMove { plan, replacements: Vec::new(), savings, scores };
        Consolidation::command(method, part, part_of)
    });
    parts.collect()
}
