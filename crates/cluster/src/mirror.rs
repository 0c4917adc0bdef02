//! The state of the cluster in memory: fed object by object, read as snapshots.
//!
//! ```text
//! informers ──set_*(object as it is now)──▶ Mirror ──snapshot()──▶ Arc<core::Snapshot>
//!                                             │
//!                 nominations, marks ◀────────┴──▶ machines, pool totals, times of pods
//! ```
//!
//! Feeding is level-based: `set_*` takes what an object is now, none if it is gone, and the order
//! in which kinds and objects come does not matter. Whoever feeds it reads an object and hands it
//! over under one lock, so that an older object never follows a newer one.
//!
//! Invariant: after any events the snapshot equals [`snapshot`](crate::ingest::snapshot) of the objects that exist,
//! but for the order of lists, and for nodes that are marked. A property test compares.
//!
//! Upstream writes a NodeClaim into its state right after creating it. Here the creator teaches the
//! informer what the API answered, and the informer feeds the mirror before it returns: the same,
//! with one way in.
//!
//! Start with [`Mirror::snapshot`] and [`Mirror::is_synced`]. `state_nodes` joins Nodes and NodeClaims,
//! `pods` binds pods to them, `sync` knows what is missing.

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

/// How long the consolidation state holds without a change (spec 40 §5.4).
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
    /// When something changed that could make consolidation possible.
    unconsolidated_at: Timestamp,
}

impl Mirror {
    /// A mirror that knows nothing. Changes are stamped with the clock; the time of the settings
    /// does not matter. Who decides brings the time of the decision.
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

    /// When something last changed that could make consolidation possible. After five minutes
    /// without a change it is now, so that its readers look again now and then.
    pub fn consolidation_state(&self, now: Timestamp) -> Timestamp {
        let mut state = self.state();
        if now.duration_since(state.unconsolidated_at) >= MAX_CONSOLIDATION_STATE_AGE {
            state.unconsolidated_at = now;
        }
        state.unconsolidated_at
    }

    /// Says that consolidation may be possible for a reason that no object shows.
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

    /// Replaces the number of virtual pods on each machine, by provider id.
    pub fn set_buffer_pods(&self, counts: BTreeMap<String, u32>) {
        self.state().buffer_pods = counts;
    }

    /// How many virtual pods the last plan put on a machine.
    pub fn buffer_pods(&self, provider_id: &str) -> u32 {
        self.state().buffer_pods.get(provider_id).copied().unwrap_or_default()
    }

    /// The machines that hold virtual pods, by provider id.
    pub fn nodes_with_buffer_pods(&self) -> BTreeSet<String> {
        let state = self.state();
        let held = state.buffer_pods.iter().filter(|(_, count)| **count > 0);
        held.map(|(id, _)| id.clone()).collect()
    }

    /// Whether a writer panicked. What is here may be half a change then, and every further use
    /// panics: the process has to end.
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
