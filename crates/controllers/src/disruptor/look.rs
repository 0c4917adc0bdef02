//! One look at the cluster: what goes into a decision, and the decision itself, elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karpenter_core::disruption::{
    Allowances, Method, Pass, Reason, RebootHistory, RepairRules, Search, Settings, Time, World,
    pass, patience,
};
use karpenter_core::lifecycle::repair::policy::Policies;
use karpenter_core::scheduling::Fuel;
use karpenter_core::static_capacity::ClaimCounts;
use karpenter_operator::harness::Trouble;
use karpenter_operator::options::{ConsolidationSearch, Gate};
use karpenter_operator::think::think;

use super::sight::Sight;
use crate::Context;
use crate::provisioner::decide;

/// How long the search for several nodes may take.
const MULTI: Duration = Duration::from_mins(1);
/// How long the walk over single nodes may take.
const SINGLE: Duration = Duration::from_mins(3);

/// What a decision looks at beside the cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Beside {
    /// Machines that commands are at work on, or rest for.
    pub(super) queued: BTreeSet<String>,
    /// Methods that need not look.
    pub(super) settled: BTreeSet<Method>,
    pub(super) unseen_pools: BTreeSet<String>,
    /// Pools whose drifted nodes have to wait.
    pub(super) backed_off: BTreeSet<String>,
    /// How long what is found rests before it begins.
    pub(super) rest: Duration,
    /// Claims that consolidation launched a moment ago, and what that saved.
    pub(super) young: BTreeMap<String, f64>,
    /// What repair goes by; none if it is off.
    pub(super) repair: Option<Repair>,
}

/// What repair goes by.
#[derive(Clone, Debug)]
pub(super) struct Repair {
    pub(super) policies: Arc<Policies>,
    /// The reboots of the last day.
    pub(super) history: RebootHistory,
}

/// What a look found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) pass: Pass,
    /// What the budgets said, by reason.
    pub(super) allowances: Vec<(Reason, Allowances)>,
    /// Machines that commands were at work on, or rest for.
    pub(super) queued: BTreeSet<String>,
}

/// Looks, with the methods that are on.
pub(super) async fn look(
    context: &Context,
    sight: &Sight,
    beside: Beside,
) -> Result<Found, Trouble> {
    let clock = context.clock.clone();
    let reasons = reasons(beside.repair.is_some());
    let found = on_world(context, sight, beside, move |world| {
        let fuel = |longest: Duration| {
            let (clock, mut began) = (clock.clone(), None);
            // The time begins when the search does.
            Fuel::asking(move || {
                let now = clock.now();
                let passed = now.duration_since(*began.get_or_insert(now));
                passed < SignedDuration::try_from(longest).unwrap_or(SignedDuration::MAX)
            })
        };
        let mut time = Time { multi: fuel(MULTI), single: fuel(SINGLE) };
        let allowances = reasons.into_iter().map(|one| (one, Allowances::new(world, one)));
        let allowances = allowances.collect();
        let queued = world.queued.clone();
        Found { pass: pass(world, Method::Repair, &mut time), allowances, queued }
    });
    found.await
}

/// Has something decided about the cluster, where decisions are made.
pub(super) async fn on_world<T: Send + 'static>(
    context: &Context,
    sight: &Sight,
    beside: Beside,
    decide: impl FnOnce(&World<'_>) -> T + Send + 'static,
) -> Result<T, Trouble> {
    let settings = settings(context);
    let (now, mirror) = (sight.now, &context.mirror);
    let (nominated, buffered) = (mirror.nominated(now), mirror.buffered());
    let (pool_costs, claims) = (pool_costs(context, sight), claims(context, sight));
    let sight = sight.clone();
    let decided = think(context.thinker.as_ref(), move || {
        let Beside { queued, settled, unseen_pools, backed_off, rest, young, repair } = beside;
        let rules = repair
            .as_ref()
            .map(|repair| RepairRules { policies: &repair.policies, history: &repair.history });
        decide(&World {
            snapshot: &sight.snapshot,
            catalog: &sight.catalog,
            now,
            settings: &settings,
            queued,
            nominated,
            rest: SignedDuration::try_from(rest).unwrap_or(SignedDuration::MAX),
            buffered,
            pool_costs,
            claims,
            settled,
            unseen_pools,
            backed_off,
            young,
            repair: rules,
        })
    });
    decided.await.ok_or_else(|| Trouble::new("a decision about disruption did not come to an end"))
}

/// How long consolidation should wait for nodes, which waits since then.
pub(super) fn wait(context: &Context, sight: &Sight, since: Timestamp) -> Option<Duration> {
    let settings = settings(context);
    patience(&World::new(&sight.snapshot, &sight.catalog, &settings, sight.now), since)
}

/// The reasons for which nodes are disrupted.
fn reasons(with_repair: bool) -> Vec<Reason> {
    let is_on = |reason: &Reason| *reason != Reason::Unhealthy || with_repair;
    Reason::ALL.into_iter().filter(is_on).collect()
}

fn settings(context: &Context) -> Settings {
    let gates = &context.options.feature_gates;
    Settings {
        scheduling: decide::options(context),
        search: match context.options.consolidation_search {
            ConsolidationSearch::Best => Search::Best,
            ConsolidationSearch::Deep => Search::Deep,
            ConsolidationSearch::Upstream => Search::Upstream,
        },
        spot_to_spot: gates.is_on(Gate::SpotToSpotConsolidation),
        static_capacity: gates.is_on(Gate::StaticCapacity),
        terminate_first_drift: gates.is_on(Gate::TerminateFirstDrift),
        terminate_first_repair: gates.is_on(Gate::TerminateFirstRepair),
        ..Settings::default()
    }
}

fn pool_costs(context: &Context, sight: &Sight) -> BTreeMap<String, f64> {
    let costs = context.costs();
    let cost = |name: &String| Some((name.clone(), costs.of_pool(name)?));
    sight.pools.keys().filter_map(cost).collect()
}

fn claims(context: &Context, sight: &Sight) -> BTreeMap<String, ClaimCounts> {
    let is_static = |pool: &&String| sight.pools[*pool].spec.replicas.is_some();
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let counts = |name: &String| {
        let counts = context.mirror.node_counts(name);
        let counts = ClaimCounts {
            active: count(counts.active),
            deleting: count(counts.deleting),
            pending_disruption: count(counts.pending_disruption),
            ..ClaimCounts::default()
        };
        (name.clone(), counts)
    };
    sight.pools.keys().filter(is_static).map(counts).collect()
}
