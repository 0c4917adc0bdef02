//! Checks whether the mirror is synced and lists missing objects (spec 40 §5.3).
//!
//! Before the first sync, the mirror must contain every listed Node and NodeClaim. After it, only
//! unlaunched NodeClaims block: their instances are not known yet.
//!
//! Sync never blocks for ever. Missing objects are reported with the time since when; overdue kinds
//! are listed again; and after a while the mirror stops waiting for objects that no repair brings,
//! so that one odd object does not stop everything. Upstream waits for ever for a NodeClaim whose
//! launch hangs, and after a restart for a Node of a NodePool without provider id. The mirror does
//! not wait for NodeClaims without a NodePool.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Mirror, MirrorState};

/// The time after which an unsynced mirror is logged (spec 40 §5.3) and repaired.
const OVERDUE_AFTER: SignedDuration = SignedDuration::from_secs(30);
/// The time after which the mirror stops waiting for an object: twice the launch timeout, after
/// which the NodeClaim is deleted (spec 40 §1.5).
const GIVE_UP_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// The objects that the informers have listed.
#[derive(Clone, Debug, Default)]
pub struct ListedObjects {
    /// Kinds that have not been listed yet, with the last error.
    pub unlisted_kinds: Vec<(&'static str, Option<String>)>,
    /// The names of our NodeClaims.
    pub node_claims: Vec<String>,
    /// The names of all Nodes.
    pub nodes: Vec<String>,
}

/// A kind or an object that the mirror still waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SyncProblem {
    /// A kind has not been listed yet.
    NotListed {
        /// Its plural name; empty if no list source is set.
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
    /// Missing kinds and objects; empty if the mirror is synced.
    pub problems: Vec<SyncProblem>,
    /// Missing objects that the mirror has stopped waiting for.
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

    /// Whether the mirror has been unsynced for longer than 30 seconds.
    pub fn is_overdue(&self) -> bool {
        self.unsynced_for() > OVERDUE_AFTER
    }
}

/// The results of earlier sync checks.
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
    /// Sets the function that returns the listed objects. The mirror calls it until the first sync;
    /// it must not lock the mirror.
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

    /// Returns unlaunched NodeClaims of the mirror that are missing in this list. Created and
    /// deleted in one moment, they would block sync.
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
