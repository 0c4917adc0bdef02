//! Everything that a pass looks at.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::Method;
use super::repair::RepairRules;
use crate::catalog::Catalog;
use crate::scheduling::Options;
use crate::snapshot::Snapshot;
use crate::static_capacity::ClaimCounts;

/// Everything that a pass looks at. What is not in objects of the cluster (commands that run,
/// nominations, counts of the mirror) comes beside the snapshot.
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
    /// Machines (provider ids) that a running command, or one that waits for its validation, is
    /// about to remove.
    pub queued: BTreeSet<String>,
    /// Machines that pods were promised to, and until when.
    pub nominated: BTreeMap<String, Timestamp>,
    /// How long what emptiness and consolidation find rests before it begins: what ends by itself
    /// until then is not in their way.
    pub validation_delay: SignedDuration,
    /// Machines that hold spare capacity of CapacityBuffers.
    pub buffered: BTreeSet<String>,
    /// What the nodes of each NodePool cost per hour, where that is tracked.
    pub pool_costs: BTreeMap<String, f64>,
    /// The NodeClaims of static NodePools.
    pub static_claims: BTreeMap<String, ClaimCounts>,
    /// What repair knows; none while it is switched off.
    pub repair: Option<RepairRules<'a>>,
    /// Methods that found nothing last time, since when nothing has changed for them.
    pub settled: BTreeSet<Method>,
    /// NodeClaims (by name) that consolidation launched a moment ago, and what that saved per hour:
    /// they are replaced again only for a larger saving.
    pub recent_launches: BTreeMap<String, f64>,
    /// NodePools that single-node consolidation did not come to last time.
    pub unseen_pools: BTreeSet<String>,
    /// NodePools whose drifted and underutilized nodes have to wait, as their commands have failed
    /// (spec 30 §13 #15).
    pub backed_off: BTreeSet<String>,
}

impl<'a> PassContext<'a> {
    /// A cluster about which nothing else is known.
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
    /// Whether it is looked at what drift can do about drifted nodes that stay. That takes a
    /// simulation for each of them.
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

/// How consolidation looks for what to remove.
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
