//! `karpenter plan --consolidate`: which nodes would go, what would replace them, and why the others
//! stay. Decides with the controller's own code, on one snapshot and without waiting: commands that
//! the controller would look at again after fifteen seconds are told as they are found.

mod bill;
mod pools;
mod report;
mod table;

use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_core::disruption::{self, Method, Search, Settings, Time, World};
use karpenter_core::snapshot::Snapshot;
use karpenter_core::static_capacity::ClaimCounts;
use karpenter_operator::options::ConsolidationSearch;

use super::decide::Question;
use super::report::Remark;
use crate::clock::Stopwatch;
use crate::options::{Decision, Gate};

pub(crate) use report::Consolidation;
pub(crate) use table::table;

impl Question {
    /// Decides, and says everything about it but what the reader of the objects knows.
    /// What that one has said of objects counts where nodes stay because no pool launches anything.
    pub(crate) fn consolidate(
        &self,
        options: &Decision,
        now: Timestamp,
        heard: &[Remark],
    ) -> Consolidation {
        let settings = settings(options);
        let world = self.world(&settings, now);
        let stopwatch = Stopwatch::start();
        let pass = disruption::pass(&world, Method::Emptiness, &mut Time::unlimited());
        let seconds = stopwatch.seconds();
        let mut told = report::report(&self.snapshot, &self.catalog, &pass);
        pools::say_why(&mut told.kept, || self.left_out(options, heard));
        Consolidation {
            seconds,
            setup_seconds: self.setup_seconds,
            marked: self.remarks.iter().cloned().map(|remark| self.seen(remark)).collect(),
            ..told
        }
    }

    /// A pool that is left out of launches is not left out here.
    fn seen(&self, remark: Remark) -> Remark {
        let pool = remark.object.strip_prefix("NodePool ").filter(|_| remark.left_out);
        if pool.is_none_or(|name| !self.snapshot.managed_pools.contains_key(name)) {
            return remark;
        }
        let problem =
            format!("{}; launches nothing for pods, its nodes are looked at", remark.problem);
        Remark { problem, left_out: false, ..remark }
    }

    /// How many nodes there are.
    pub(crate) fn nodes(&self) -> usize {
        self.snapshot.nodes.len()
    }

    fn world<'a>(&'a self, settings: &'a Settings, now: Timestamp) -> World<'a> {
        let mut world = World::new(&self.snapshot, &self.catalog, settings, now);
        world.pool_costs = bill::bill(&self.snapshot, &self.catalog).by_pool;
        world.claims = claims(&self.snapshot);
        // What drift would do is not asked; repair is left out by where the pass begins.
        world.settled.extend([Method::StaticDrift, Method::Drift]);
        world
    }
}

/// The NodeClaims of static NodePools.
fn claims(snapshot: &Snapshot) -> BTreeMap<String, ClaimCounts> {
    let pools = snapshot.managed_pools.iter().filter(|(_, pool)| pool.replicas.is_some());
    let mut claims: BTreeMap<String, ClaimCounts> =
        pools.map(|(name, _)| (name.clone(), ClaimCounts::default())).collect();
    for node in snapshot.nodes.iter().filter(|node| node.is_managed) {
        let Some(counts) = node.pool.as_ref().and_then(|pool| claims.get_mut(pool)) else {
            continue;
        };
        if node.is_deleting {
            counts.deleting += 1;
        } else {
            counts.active += 1;
        }
    }
    claims
}

fn settings(options: &Decision) -> Settings {
    Settings {
        scheduling: options.solve_options(std::collections::BTreeSet::new()),
        search: match options.consolidation_search {
            ConsolidationSearch::Best => Search::Best,
            ConsolidationSearch::Deep => Search::Deep,
            ConsolidationSearch::Upstream => Search::Upstream,
        },
        // Only for what is said about drifted nodes: drift itself is not asked.
        static_capacity: options.gates.is_on(Gate::StaticCapacity),
        terminate_first_drift: options.gates.is_on(Gate::TerminateFirstDrift),
        explain_drift: true,
        spot_to_spot: options.gates.is_on(Gate::SpotToSpotConsolidation),
        ..Settings::default()
    }
}
