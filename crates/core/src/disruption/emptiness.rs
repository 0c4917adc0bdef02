//! Nodes without pods that count (spec 30 §6.1).

use super::allowances::Allowances;
use super::candidate::sort_by_savings_ratio;
use super::consolidation::check_emptiness_eligibility;
use super::{Candidate, CandidateIndex, Command, DisruptionClass, Method, Reason};
use crate::plan::Plan;

/// The result of the emptiness method.
#[derive(Debug, Default)]
pub(super) struct EmptinessResult {
    pub(super) command: Option<Command>,
    pub(super) eligible: usize,
    /// Whether a budget held back a candidate.
    pub(super) is_constrained: bool,
}

/// One command with all empty nodes that the budgets allow.
pub(super) fn decide(index: &CandidateIndex<'_>) -> EmptinessResult {
    let mut candidates = candidates(index);
    let mut found = EmptinessResult { eligible: candidates.len(), ..EmptinessResult::default() };
    sort_by_savings_ratio(&mut candidates);
    let mut allowances = Allowances::new(index.context, Reason::Empty);
    candidates.retain(|candidate| allowances.reserve(&candidate.pool));
    found.is_constrained = candidates.len() < found.eligible;
    found.command =
        (!candidates.is_empty()).then(|| delete_command(Method::Emptiness, &candidates));
    found
}

/// Returns the nodes that emptiness may remove, by name.
pub(super) fn candidates<'a>(index: &'a CandidateIndex<'_>) -> Vec<&'a Candidate> {
    let mut candidates = index.candidates(DisruptionClass::Graceful);
    candidates.retain(|candidate| check_emptiness_eligibility(index, candidate).is_ok());
    candidates
}

/// Builds a command that removes nodes without replacements.
pub(super) fn delete_command(method: Method, candidates: &[&Candidate]) -> Command {
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
