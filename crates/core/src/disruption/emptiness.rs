//! Nodes without pods that count (spec 30 §6.1).

use super::allowances::Allowances;
use super::candidate::best_ratio_first;
use super::consolidation::is_eligible_empty;
use super::{Board, Candidate, Class, Command, Method, Reason};
use crate::plan::Plan;

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) command: Option<Command>,
    pub(super) eligible: usize,
    /// Whether a budget held some back.
    pub(super) is_constrained: bool,
}

/// One command with all empty nodes that the budgets allow.
pub(super) fn decide(board: &Board<'_>) -> Found {
    let mut candidates = candidates(board);
    let mut found = Found { eligible: candidates.len(), ..Found::default() };
    best_ratio_first(&mut candidates);
    let mut allowances = Allowances::new(board.world, Reason::Empty);
    candidates.retain(|candidate| allowances.take(&candidate.pool));
    found.is_constrained = candidates.len() < found.eligible;
    found.command = (!candidates.is_empty()).then(|| deletion(Method::Emptiness, &candidates));
    found
}

/// The nodes that it looks at, by name.
pub(super) fn candidates<'a>(board: &'a Board<'_>) -> Vec<&'a Candidate> {
    let mut candidates = board.candidates(Class::Graceful);
    candidates.retain(|candidate| is_eligible_empty(board, candidate).is_ok());
    candidates
}

/// A command that only removes nodes.
pub(super) fn deletion(method: Method, candidates: &[&Candidate]) -> Command {
    Command {
        method,
        candidates: candidates.iter().map(|&candidate| candidate.clone()).collect(),
        replacements: Vec::new(),
        plan: Plan::default(),
        savings: candidates.iter().map(|candidate| candidate.price).sum(),
        terminate_first: None,
        is_reboot: false,
        drain_bound: None,
        repair: None,
        scores: Vec::new(),
    }
}
