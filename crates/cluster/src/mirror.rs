//! The in-memory state of the cluster: written object by object, read as snapshots.
//!
//! ```text
//! informers ──set_*(object as it is now)──▶ Mirror ──snapshot()──▶ Arc<core::Snapshot>
//!                                             │
//!         nominations, deletion marks ◀───────┴──▶ StateNodes, pool totals, times of pods
//! ```
//!
//! The setters are level-based: `set_*` takes the current object, none if it is deleted, and the
//! order in which kinds and objects arrive does not matter. The caller reads an object and passes
//! it on under one lock, so that an older object never follows a newer one.
//!
//! Invariant: after any events the snapshot equals [`snapshot`](crate::ingest::snapshot) of the
//! objects that exist, except for the order of lists and for nodes that are marked for deletion. A
//! property test compares.
//!
//! Upstream writes a NodeClaim into its state right after creating it. Here the creator applies the
//! API server's answer to the informer, and the informer updates the mirror before it returns: the
//! effect is the same, and there is one way in.
//!
//! Start with [`Mirror::snapshot`] and [`Mirror::is_synced`]. `state_nodes` joins Nodes and
//! NodeClaims, `pods` binds pods to them, `sync` lists missing objects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use jiff::{SignedDuration, Timestamp};
use karpenter_core::requirement::Aliases;
use karpenter_core::resources::Resources;
use karpenter_core::scheduling::dra::SelectorMatches;
use karpenter_core::snapshot::Snapshot;

use crate::ingest::{Reader, Settings};
use crate::snapshot_view::SnapshotView;

mod daemons;
mod node_pools;
mod pod_times;
mod pods;
mod setters;
mod state_nodes;
mod sync;
#[cfg(test)]
mod tests;
mod tracked_node;
mod usage;
mod workloads;

pub use node_pools::NodeCounts;
pub use pod_times::PodTimes;
pub use sync::{ListedObjects, SyncProblem, SyncState};
pub use tracked_node::TrackedNode;
pub use usage::Usage;

/// The longest time for which the consolidation state holds without a change (spec 40 §5.4).
const MAX_CONSOLIDATION_STATE_AGE: SignedDuration = SignedDuration::from_mins(5);

/// The mirror. One for the process, behind an `Arc`.
pub struct Mirror {
    settings: Settings,
    aliases: Aliases,
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    state: Mutex<MirrorState>,
    list_source: Mutex<Option<Arc<dyn Fn() -> ListedObjects + Send + Sync>>>,
}

/// Everything that the lock guards.
#[derive(Default)]
struct MirrorState {
    view: SnapshotView,
    pods: pods::Pods,
    state_nodes: state_nodes::StateNodes,
    daemons: daemons::Daemons,
    workloads: workloads::Workloads,
    node_pools: node_pools::NodePoolStates,
    times: pod_times::PodTimesIndex,
    sync: sync::SyncHistory,
    buffer_pods: BTreeMap<String, u32>,
    /// The time of the last change that could make consolidation possible.
    unconsolidated_at: Timestamp,
}

impl Mirror {
    /// Creates an empty mirror. The clock stamps changes; the time of the settings does not matter.
    /// Decisions pass their own time.
    pub fn new(settings: Settings, now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let aliases = settings.aliases();
        Self {
            settings,
            aliases,
            now: Arc::new(now),
            state: Mutex::default(),
            list_source: Mutex::default(),
        }
    }

    /// The cluster now. It costs next to nothing while little changes.
    pub fn snapshot(&self, now: Timestamp) -> Arc<Snapshot> {
        self.update_at(now, |state, reader| {
            state.expire(now);
            state.publish_buffers(reader);
            state.view.snapshot()
        })
    }

    /// Counts the changes of the snapshot: while it stays, so does the cluster.
    pub fn generation(&self) -> u64 {
        self.state().view.generation()
    }

    /// Returns when a change last could have made consolidation possible. After five minutes
    /// without a change it returns `now`, so that consolidation evaluates the cluster again now and
    /// then.
    pub fn consolidation_state(&self, now: Timestamp) -> Timestamp {
        let mut state = self.state();
        if now.duration_since(state.unconsolidated_at) >= MAX_CONSOLIDATION_STATE_AGE {
            state.unconsolidated_at = now;
        }
        state.unconsolidated_at
    }

    /// Notes that consolidation may be possible for a reason that no object shows.
    pub fn mark_unconsolidated(&self, now: Timestamp) {
        self.state().unconsolidated_at = now;
    }

    /// What the nodes of a pool have together, `nodes` included, without those that go away.
    pub fn pool_usage(&self, pool: &str) -> Resources {
        self.state().state_nodes.totals.get(pool).cloned().unwrap_or_default()
    }

    /// The pools that have nodes that stay, with what they have.
    pub fn pool_usages(&self) -> BTreeMap<String, Resources> {
        self.state().state_nodes.totals.clone()
    }

    /// Sets which devices the selectors of claims and classes match. Decisions work it out with
    /// what can be launched, and leave it here for the next one.
    pub fn set_device_matches(&self, matches: Arc<SelectorMatches>) {
        let mut state = self.state();
        if state.view.snapshot().dynamic_resources.matches != matches {
            state.view.snapshot_mut().dynamic_resources.matches = matches;
        }
    }

    /// Replaces the number of virtual pods on each node, by provider id.
    pub fn set_buffer_pods(&self, counts: BTreeMap<String, u32>) {
        self.state().buffer_pods = counts;
    }

    /// Returns how many virtual pods the last plan placed on a node.
    pub fn buffer_pods(&self, provider_id: &str) -> u32 {
        self.state().buffer_pods.get(provider_id).copied().unwrap_or_default()
    }

    /// Returns the provider ids of nodes that hold virtual pods.
    pub fn nodes_with_buffer_pods(&self) -> BTreeSet<String> {
        let state = self.state();
        let held = state.buffer_pods.iter().filter(|(_, count)| **count > 0);
        held.map(|(id, _)| id.clone()).collect()
    }

    /// Whether a writer panicked. The state may hold half a change, and every further use panics:
    /// the process has to end.
    pub fn is_poisoned(&self) -> bool {
        self.state.is_poisoned()
    }

    fn state(&self) -> MutexGuard<'_, MirrorState> {
        self.state.lock().expect("the mirror is whole; a restart is safer than a wrong view")
    }

    fn update<T>(&self, change: impl FnOnce(&mut MirrorState, &mut Reader<'_>) -> T) -> T {
        self.update_at((self.now)(), change)
    }

    fn update_at<T>(
        &self,
        now: Timestamp,
        change: impl FnOnce(&mut MirrorState, &mut Reader<'_>) -> T,
    ) -> T {
        let mut reader = Reader::new(&self.settings, &self.aliases, now);
        change(&mut self.state(), &mut reader)
    }
}

impl fmt::Debug for Mirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mirror").finish_non_exhaustive()
    }
}
