//! Whether the mirror is whole enough to decide on, and if not, why (spec 40 §5.3).
//!
//! Until it was whole once, every Node and NodeClaim that is listed has to be in it. From then on
//! only NodeClaims count that are not launched: what they become is not known yet.
//!
//! It never wedges. What is missing is named, since when as well; whoever feeds it is asked to do so
//! anew; and what no repair brings is given up after a while, so that one odd object does not stop
//! everything. Upstream waits for ever for a NodeClaim whose launch hangs, and after a restart for a
//! Node of a pool without provider id. NodeClaims without a pool are not waited for.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Mirror, MirrorState};

/// After how long a wait is worth a word (spec 40 §5.3), and a repair.
const OVERDUE_AFTER: SignedDuration = SignedDuration::from_secs(30);
/// After how long an object that is waited for is given up: twice the time after which a launch
/// counts as failed and its NodeClaim is deleted (spec 40 §1.5).
const GIVE_UP_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// What the feeder of the mirror has seen.
#[derive(Clone, Debug, Default)]
pub struct ListedObjects {
    /// Kinds that have not been listed yet, with the last error.
    pub unlisted_kinds: Vec<(&'static str, Option<String>)>,
    /// The names of our NodeClaims.
    pub node_claims: Vec<String>,
    /// The names of all Nodes.
    pub nodes: Vec<String>,
}

/// What is missing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SyncProblem {
    /// A kind has not been listed yet.
    NotListed {
        /// Its plural name; empty if nobody feeds the mirror at all.
        kind: &'static str,
        /// Why the last try failed.
        error: Option<String>,
    },
    /// A Node is listed, but not in the mirror.
    Node {
        /// Its name.
        name: String,
        /// Why not.
        reason: &'static str,
    },
    /// A NodeClaim is listed, but not in the mirror.
    NodeClaim {
        /// Its name.
        name: String,
    },
    /// A NodeClaim is not launched yet.
    NotLaunched {
        /// Its name.
        name: String,
    },
}

impl fmt::Display for SyncProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotListed { kind: "", .. } => f.write_str("nobody feeds the mirror"),
            Self::NotListed { kind, error: None } => write!(f, "{kind} are not listed yet"),
            Self::NotListed { kind, error: Some(error) } => write!(f, "listing {kind}: {error}"),
            Self::Node { name, reason } => write!(f, "node/{name} {reason}"),
            Self::NodeClaim { name } => write!(f, "nodeclaim/{name} has not been seen"),
            Self::NotLaunched { name } => write!(f, "nodeclaim/{name} is not launched yet"),
        }
    }
}

/// Whether the mirror is whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncState {
    /// What is missing; nothing if it is whole.
    pub problems: Vec<SyncProblem>,
    /// What is missing for so long that it is not waited for any more.
    pub timed_out: Vec<SyncProblem>,
    /// Since when it has not been whole.
    pub since: Option<Timestamp>,
    /// The time of this answer.
    pub now: Timestamp,
}

impl SyncState {
    /// Whether decisions may be made.
    pub fn is_synced(&self) -> bool {
        self.problems.is_empty()
    }

    /// For how long it has not been whole.
    pub fn unsynced_for(&self) -> SignedDuration {
        self.since.map_or(SignedDuration::ZERO, |since| self.now.duration_since(since))
    }

    /// Whether somebody should hear of it.
    pub fn is_overdue(&self) -> bool {
        self.unsynced_for() > OVERDUE_AFTER
    }
}

/// What is remembered of earlier answers.
#[derive(Default)]
pub(super) struct SyncHistory {
    has_synced: bool,
    since: Option<Timestamp>,
}

impl MirrorState {
    fn sync(&mut self, listed: Option<&ListedObjects>, now: Timestamp) -> SyncState {
        let mut state = SyncState { now, ..SyncState::default() };
        let mut note = |problem, since: Timestamp| {
            let is_given_up = now.duration_since(since) > GIVE_UP_AFTER;
            if is_given_up { &mut state.timed_out } else { &mut state.problems }.push(problem);
        };
        let waiting_since = self.sync.since.unwrap_or(now);
        if !self.sync.has_synced {
            match listed {
                None => note(SyncProblem::NotListed { kind: "", error: None }, now),
                Some(listed) => {
                    for (kind, error) in &listed.unlisted_kinds {
                        // A partial view is never good enough.
                        note(SyncProblem::NotListed { kind, error: error.clone() }, now);
                    }
                    for name in &listed.node_claims {
                        if !self.state_nodes.has_claim(name) {
                            note(SyncProblem::NodeClaim { name: name.clone() }, waiting_since);
                        }
                    }
                    for name in &listed.nodes {
                        if let Some(reason) = self.state_nodes.untracked_reason(name) {
                            note(SyncProblem::Node { name: name.clone(), reason }, waiting_since);
                        }
                    }
                }
            }
        }
        for (name, since) in self.state_nodes.unlaunched_pool_claims() {
            note(SyncProblem::NotLaunched { name: name.to_owned() }, since);
        }
        if state.is_synced() {
            self.sync = SyncHistory { has_synced: true, since: None };
        } else {
            state.since = Some(waiting_since);
            self.sync.since = state.since;
        }
        state
    }
}

impl Mirror {
    /// Sets who tells what has been listed. It is asked until the mirror was whole once, and must
    /// not wait for the mirror.
    pub fn set_list_source(&self, listed: impl Fn() -> ListedObjects + Send + Sync + 'static) {
        *self.list_source() = Some(Arc::new(listed));
    }

    /// Whether decisions may be made on the mirror, and if not, why.
    pub fn sync(&self, now: Timestamp) -> SyncState {
        let source = self.list_source().clone();
        let listed = if self.has_synced() { None } else { source.map(|source| source()) };
        self.state().sync(listed.as_ref(), now)
    }

    /// Whether decisions may be made on the mirror.
    pub fn is_synced(&self, now: Timestamp) -> bool {
        self.sync(now).is_synced()
    }

    /// Whether it was whole once.
    pub fn has_synced(&self) -> bool {
        self.state().sync.has_synced
    }

    /// The NodeClaims that are known but not in this list, and were never launched: made and
    /// deleted in one moment, they would be waited for.
    pub fn stale_node_claims(&self, node_claims: &BTreeSet<String>) -> Vec<String> {
        let state = self.state();
        let unlaunched = state.state_nodes.unlaunched();
        unlaunched.filter(|name| !node_claims.contains(*name)).map(str::to_owned).collect()
    }

    fn list_source(
        &self,
    ) -> std::sync::MutexGuard<'_, Option<Arc<dyn Fn() -> ListedObjects + Send + Sync>>> {
        self.list_source.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
