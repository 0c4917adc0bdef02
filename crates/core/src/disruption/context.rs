//! The facts and settings that one disruption pass reads.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::Method;
use super::repair::RepairRules;
use crate::catalog::Catalog;
use crate::scheduling::Options;
use crate::snapshot::Snapshot;
use crate::static_capacity::ClaimCounts;

/// The facts and settings that one disruption pass reads.
/// Facts that are not in objects of the cluster (running commands, nominations, counts of the
/// mirror) are fields beside the snapshot.
#[derive(Clone, Debug)]
pub struct PassContext<'a> {
    /// The cluster.
    pub snapshot: &'a Snapshot,
    /// What can be launched, by NodePool, also of static ones. A pool whose instance types are not
    /// known is absent.
    pub catalog: &'a Catalog,
    /// The time.
    pub now: Timestamp,
    /// Switches.
    pub settings: &'a Settings,
    /// Provider ids of nodes that a running or pending command removes.
    pub queued: BTreeSet<String>,
    /// Provider ids of nodes that are nominated for pods, and until when.
    pub nominated: BTreeMap<String, Timestamp>,
    /// The delay before commands of emptiness and consolidation are validated.
    /// What ends within it does not block these methods.
    pub validation_delay: SignedDuration,
    /// Provider ids of nodes that hold virtual pods of CapacityBuffers.
    pub buffered: BTreeSet<String>,
    /// What the nodes of each NodePool cost per hour, where that is tracked.
    pub pool_costs: BTreeMap<String, f64>,
    /// The counts of NodeClaims of each static NodePool.
    pub static_claims: BTreeMap<String, ClaimCounts>,
    /// The policies and history of repair; none while it is disabled.
    pub repair: Option<RepairRules<'a>>,
    /// Methods that found nothing last time, since when nothing has changed for them.
    pub settled: BTreeSet<Method>,
    /// What recent launches of consolidation saved per hour, by NodeClaim name.
    /// Such a node is replaced again only for a larger saving.
    pub recent_launches: BTreeMap<String, f64>,
    /// NodePools that single-node consolidation did not reach last time.
    pub unseen_pools: BTreeSet<String>,
    /// NodePools whose drifted and underutilized nodes have to wait, as their commands have failed
    /// (spec 30 §13 #15).
    pub backed_off: BTreeSet<String>,
}

impl<'a> PassContext<'a> {
    /// Returns a context without facts beside the snapshot.
    pub fn new(
        snapshot: &'a Snapshot,
        catalog: &'a Catalog,
        settings: &'a Settings,
        now: Timestamp,
    ) -> Self {
        Self {
            snapshot,
            catalog,
            now,
            settings,
            queued: BTreeSet::new(),
            nominated: BTreeMap::new(),
            validation_delay: SignedDuration::ZERO,
            buffered: BTreeSet::new(),
            pool_costs: BTreeMap::new(),
            static_claims: BTreeMap::new(),
            repair: None,
            settled: BTreeSet::new(),
            recent_launches: BTreeMap::new(),
            unseen_pools: BTreeSet::new(),
            backed_off: BTreeSet::new(),
        }
    }
}

/// Switches of disruption.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "switches, each on its own")]
pub struct Settings {
    /// Switches of the scheduler. Disruption itself sets what happens with reserved offerings and
    /// with nodes whose consolidateAfter has not passed.
    pub scheduling: Options,
    /// `--consolidation-search`.
    pub search: SearchMode,
    /// Gate `SpotToSpotConsolidation`.
    pub spot_to_spot: bool,
    /// Gate `StaticCapacity`: whether drifted nodes of static NodePools are replaced.
    pub static_capacity: bool,
    /// Gate `TerminateFirstDrift`.
    pub terminate_first_drift: bool,
    /// Gate `TerminateFirstRepair`.
    pub terminate_first_repair: bool,
    /// Whether a pass explains why drift cannot replace drifted nodes.
    /// That takes a simulation for each of them.
    pub explain_drift: bool,
    /// Whether candidates that cannot succeed are left out before their pods are placed. Only tests
    /// turn it off: the decisions are the same.
    pub prune: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            scheduling: Options::default(),
            search: SearchMode::Best,
            spot_to_spot: false,
            static_capacity: false,
            terminate_first_drift: false,
            terminate_first_repair: false,
            explain_drift: false,
            prune: true,
        }
    }
}

/// How consolidation searches for nodes to remove.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchMode {
    /// As upstream: the first method and the first set that saves something.
    Upstream,
    /// Several disjoint sets per pass that save the most together, never less than upstream's.
    #[default]
    Best,
    /// The same, and also several nodes for fewer, and replacements in the cheap zones only; never
    /// less than the best without that.
    Deep,
}
