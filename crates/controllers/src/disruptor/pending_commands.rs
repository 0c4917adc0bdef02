//! Keeps consolidation commands during their validation delay (spec 30 §8, §14.3 item 6).
//!
//! The cluster may change right after a consolidation decision. So its commands wait for a while
//! and start only if they are still valid. The disruption loop continues meanwhile.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_core::disruption::{Command, Method, Reason};

use super::observation::Observation;

/// The time between a consolidation decision and its validation.
pub(super) const VALIDATION_DELAY: Duration = Duration::from_secs(15);

/// A command in its validation delay.
#[derive(Clone, Debug)]
pub(super) struct PendingCommand {
    pub(super) command: Command,
    /// The observation that it was decided on.
    pub(super) observation: Observation,
    /// When the evaluation of its method started.
    pub(super) evaluation_started: Timestamp,
    due: Timestamp,
}

/// The pending commands, in the order of their decisions.
#[derive(Debug, Default)]
pub(super) struct PendingCommands(Vec<PendingCommand>);

impl PendingCommands {
    pub(super) fn add(
        &mut self,
        command: Command,
        observation: Observation,
        evaluation_started: Timestamp,
        now: Timestamp,
    ) {
        let due = now.saturating_add(VALIDATION_DELAY).unwrap_or(Timestamp::MAX);
        self.0.push(PendingCommand { command, observation, evaluation_started, due });
    }

    /// Removes and returns the commands whose validation delay has elapsed.
    pub(super) fn pop_due(&mut self, now: Timestamp) -> Vec<PendingCommand> {
        let (due, rest) = std::mem::take(&mut self.0).into_iter().partition(|one| one.due <= now);
        self.0 = rest;
        due
    }

    /// Returns when the next validation delay elapses.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.0.iter().map(|one| one.due).min()
    }

    /// Returns the provider ids of the nodes of all pending commands.
    pub(super) fn provider_ids(&self) -> impl Iterator<Item = &str> {
        let candidates = self.0.iter().flat_map(|one| &one.command.candidates);
        candidates.map(|candidate| candidate.provider_id.as_str())
    }

    /// Returns the provider ids of nodes pending deletion as empty. No pods should move there.
    pub(super) fn provider_ids_of_empty_nodes(&self) -> BTreeSet<String> {
        let empty = self.0.iter().filter(|one| one.command.reason() == Reason::Empty);
        let candidates = empty.flat_map(|one| &one.command.candidates);
        candidates.map(|candidate| candidate.provider_id.clone()).collect()
    }

    /// Returns the methods that must not search while a consolidation is pending. The capacity that
    /// its pods will use is not taken yet, so another command could count on it.
    pub(super) fn blocked_methods(&self) -> BTreeSet<Method> {
        let moves = |one: &PendingCommand| one.command.reason() == Reason::Underutilized;
        if self.0.iter().any(moves) {
            BTreeSet::from([Method::MultiNode, Method::SingleNode])
        } else {
            BTreeSet::new()
        }
    }
}
