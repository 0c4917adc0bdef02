//! Commands that wait to be looked at again (spec 30 §8, §14.3 item 6).
//!
//! Consolidation is decided on what may change at any moment, so its commands rest for a while and
//! are begun only if they still hold. The loop goes on meanwhile.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_core::disruption::{Command, Method, Reason};

use super::observation::Observation;

/// How long a command rests.
pub(super) const VALIDATION_DELAY: Duration = Duration::from_secs(15);

/// A command that rests.
#[derive(Clone, Debug)]
pub(super) struct PendingCommand {
    pub(super) command: Command,
    /// What it was decided on.
    pub(super) observation: Observation,
    /// When the method began to look.
    pub(super) evaluation_started: Timestamp,
    due: Timestamp,
}

/// All that rest, in the order in which they were decided.
#[derive(Debug, Default)]
pub(super) struct PendingCommands(Vec<PendingCommand>);

impl PendingCommands {
    pub(super) fn add(
        &mut self,
        command: Command,
        observation: Observation,
        began: Timestamp,
        now: Timestamp,
    ) {
        let due = now.saturating_add(VALIDATION_DELAY).unwrap_or(Timestamp::MAX);
        self.0.push(PendingCommand { command, observation, evaluation_started: began, due });
    }

    /// Takes out what has rested.
    pub(super) fn pop_due(&mut self, now: Timestamp) -> Vec<PendingCommand> {
        let (due, rest) = std::mem::take(&mut self.0).into_iter().partition(|one| one.due <= now);
        self.0 = rest;
        due
    }

    /// When the next one has.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.0.iter().map(|one| one.due).min()
    }

    /// The machines of all of them, by provider id.
    pub(super) fn provider_ids(&self) -> impl Iterator<Item = &str> {
        let candidates = self.0.iter().flat_map(|one| &one.command.candidates);
        candidates.map(|candidate| candidate.provider_id.as_str())
    }

    /// The machines that go for nothing, by provider id: nobody should move pods there.
    pub(super) fn provider_ids_of_empty_nodes(&self) -> BTreeSet<String> {
        let empty = self.0.iter().filter(|one| one.command.reason() == Reason::Empty);
        let candidates = empty.flat_map(|one| &one.command.candidates);
        candidates.map(|candidate| candidate.provider_id.clone()).collect()
    }

    /// Methods that should not look for more: where pods go that a resting command moves is not
    /// taken yet, and another one could count on the same room.
    pub(super) fn blocked_methods(&self) -> BTreeSet<Method> {
        let moves = |one: &PendingCommand| one.command.reason() == Reason::Underutilized;
        if self.0.iter().any(moves) {
            BTreeSet::from([Method::MultiNode, Method::SingleNode])
        } else {
            BTreeSet::new()
        }
    }
}
