//! A command that is being carried out (spec 30 §9, spec 45 §5.6).
//!
//! ```text
//! begin ── sources marked ── replacements created ──▶ Running ── all ready ──▶ Terminate ──▶ done
//!   │                                                   │                          │
//!   └── nothing happens                                 └── Fail ──▶ rolled back ◀─┘ too late
//! ```
//!
//! A replacement that was ready once counts as ready. A failed command takes back what it did to
//! its sources; replacements that exist stay, as capacity like any other.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

#[cfg(test)]
mod tests;

/// How often the queue checks a command.
pub const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The longest timeout of a command.
pub const TIMEOUT_MAX: SignedDuration = SignedDuration::from_hours(1);

/// The shortest timeout of a command.
const TIMEOUT_MIN: SignedDuration = SignedDuration::from_mins(10);

/// The timeout for each node in the queue; more nodes make the cloud slower.
const TIMEOUT_PER_NODE: SignedDuration = SignedDuration::from_millis(80);

/// Returns the timeout of a command while the queue removes so many nodes.
pub fn timeout(nodes_in_queue: usize) -> SignedDuration {
    let nodes = i32::try_from(nodes_in_queue).unwrap_or(i32::MAX);
    TIMEOUT_PER_NODE.saturating_mul(nodes).clamp(TIMEOUT_MIN, TIMEOUT_MAX)
}

/// Whether a command starts after marking its nodes, which may fail for some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartDecision {
    /// Start with the nodes that are marked.
    Proceed,
    /// Remove the marks.
    Abort,
}

/// Returns whether a command starts with `marked` of its `sources`.
/// With replacements it needs all of them: the replacements were chosen for all of the sources.
pub fn start_decision(sources: usize, marked: usize, has_replacements: bool) -> StartDecision {
    if marked == 0 || (has_replacements && marked < sources) {
        StartDecision::Abort
    } else {
        StartDecision::Proceed
    }
}

/// The observed state of a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplacementState {
    /// It was deleted: after a failed launch, or by another client.
    Deleted,
    /// The mirror knows it, but the informer cache does not show it.
    NotInCache,
    /// It is there, and not ready.
    Starting,
    /// It is ready for pods.
    Initialized,
}

/// A command whose nodes are marked and whose replacements are created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningCommand {
    /// When it was decided.
    pub started: Timestamp,
    /// Its replacements, in the order of the command.
    pub replacements: Vec<PendingReplacement>,
}

/// A replacement of a running command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingReplacement {
    /// The name of the NodeClaim.
    pub name: String,
    /// Whether it has ever been initialized.
    pub is_initialized: bool,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Check again after [`POLL_INTERVAL`].
    Wait,
    /// Delete the sources.
    Terminate,
    /// No source is left to delete.
    Finish,
    /// Remove the marks from the sources.
    Fail(Failure),
}

/// Why a command failed. The text is that of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A replacement is gone.
    ReplacementDeleted {
        /// Its name.
        name: String,
    },
    /// It has taken too long.
    Timeout {
        /// How long.
        age: SignedDuration,
        /// What it still waits for.
        waiting: String,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReplacementDeleted { name } => {
                write!(f, "replacement was deleted, nodeclaim {name} not found")
            }
            Self::Timeout { age, waiting } => {
                write!(f, "command reached timeout, {waiting} (duration={}s)", age.as_secs())
            }
        }
    }
}

impl RunningCommand {
    /// A command with these replacements.
    pub fn new(started: Timestamp, replacements: impl IntoIterator<Item = String>) -> Self {
        let awaited = |name| PendingReplacement { name, is_initialized: false };
        Self { started, replacements: replacements.into_iter().map(awaited).collect() }
    }

    /// Updates the replacements and returns the next step.
    /// `observe` is called for each replacement that was never initialized. `sources` is how many
    /// nodes are still to be deleted.
    pub fn next_step(
        &mut self,
        mut observe: impl FnMut(&str) -> ReplacementState,
        sources: usize,
        nodes_in_queue: usize,
        now: Timestamp,
    ) -> Step {
        let mut gone = None;
        for awaited in self.replacements.iter_mut().filter(|awaited| !awaited.is_initialized) {
            match observe(&awaited.name) {
                ReplacementState::Deleted => gone = gone.or_else(|| Some(awaited.name.clone())),
                ReplacementState::NotInCache | ReplacementState::Starting => {}
                ReplacementState::Initialized => awaited.is_initialized = true,
            }
        }
        if sources == 0 {
            return Step::Finish;
        }
        if let Some(name) = gone {
            return Step::Fail(Failure::ReplacementDeleted { name });
        }
        if self.uninitialized_count() == 0 {
            return Step::Terminate;
        }
        self.wait_or_time_out(nodes_in_queue, now, || {
            let names: Vec<_> = self.uninitialized_names().collect();
            format!("waiting for replacement initialization, {}", names.join(", "))
        })
    }

    /// What to do when a source could not be deleted.
    pub fn after_failed_delete(&self, error: &str, nodes_in_queue: usize, now: Timestamp) -> Step {
        self.wait_or_time_out(nodes_in_queue, now, || error.to_owned())
    }

    /// Returns how many replacements have never been initialized.
    pub fn uninitialized_count(&self) -> usize {
        self.uninitialized_names().count()
    }

    fn uninitialized_names(&self) -> impl Iterator<Item = &str> {
        let waiting = self.replacements.iter().filter(|awaited| !awaited.is_initialized);
        waiting.map(|awaited| awaited.name.as_str())
    }

    fn wait_or_time_out(
        &self,
        nodes_in_queue: usize,
        now: Timestamp,
        waiting: impl FnOnce() -> String,
    ) -> Step {
        let age = now.duration_since(self.started);
        if age > timeout(nodes_in_queue) {
            Step::Fail(Failure::Timeout { age, waiting: waiting() })
        } else {
            Step::Wait
        }
    }
}
