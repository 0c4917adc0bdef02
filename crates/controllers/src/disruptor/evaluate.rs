//! Runs one disruption pass: collects its inputs and runs the methods on the executor.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karpenter_core::disruption::{
    Allowances, Method, PassContext, PassOutcome, Reason, RebootHistory, RepairRules, SearchFuel,
    SearchMode, Settings, consolidation_delay, run_pass,
};
use karpenter_core::lifecycle::repair::policy::Policies;
use karpenter_core::scheduling::Fuel;
use karpenter_core::static_capacity::ClaimCounts;
use karpenter_operator::compute::run;
use karpenter_operator::harness::ReconcileError;
use karpenter_operator::options::{ConsolidationSearch, Gate};

use super::observation::Observation;
use crate::Context;
use crate::plan_check::InvalidCommand;
use crate::provisioner::decision;

/// How long multi-node consolidation may search.
const MULTI_NODE_TIMEOUT: Duration = Duration::from_mins(1);
/// How long single-node consolidation may search.
const SINGLE_NODE_TIMEOUT: Duration = Duration::from_mins(3);

/// The inputs of a disruption pass besides the observation.
#[derive(Clone, Debug, Default)]
pub(super) struct PassInput {
    /// Provider ids of nodes with a started or pending command.
    pub(super) queued: BTreeSet<String>,
    /// Methods that the pass skips.
    pub(super) settled: BTreeSet<Method>,
    pub(super) unseen_pools: BTreeSet<String>,
    /// Pools whose drifted nodes have to wait.
    pub(super) backed_off: BTreeSet<String>,
    /// The validation delay of consolidation commands.
    pub(super) validation_delay: Duration,
    /// NodeClaims that consolidation launched recently, with the savings.
    pub(super) recent_launches: BTreeMap<String, f64>,
    /// The repair policies; none if repair is off.
    pub(super) repair: Option<Repair>,
}

/// The policies and the history of node repair.
#[derive(Clone, Debug)]
pub(super) struct Repair {
    pub(super) policies: Arc<Policies>,
    /// The reboots of the last day.
    pub(super) history: RebootHistory,
}

/// The result of a disruption pass.
#[derive(Debug)]
pub(super) struct PassResult {
    pub(super) pass: PassOutcome,
    /// Commands of the pass that break a rule. They are not among its commands.
    pub(super) invalid: Vec<InvalidCommand>,
    /// The allowances of the budgets, by reason.
    pub(super) allowances: Vec<(Reason, Allowances)>,
    /// Provider ids of nodes with a command when the pass started.
    pub(super) queued: BTreeSet<String>,
}

/// Runs one disruption pass with the enabled methods.
pub(super) async fn evaluate(
    context: &Context,
    observation: &Observation,
    input: PassInput,
) -> Result<PassResult, ReconcileError> {
    let (clock, check) = (context.clock.clone(), context.plan_check.clone());
    let reasons = reasons(input.repair.is_some());
    let found = with_pass_context(context, observation, input, move |world| {
        let fuel = |longest: Duration| {
            let (clock, mut began) = (clock.clone(), None);
            // The time begins when the search does.
            Fuel::limited_by(move || {
                let now = clock.now();
                let passed = now.duration_since(*began.get_or_insert(now));
                passed < SignedDuration::try_from(longest).unwrap_or(SignedDuration::MAX)
            })
        };
        let mut time =
            SearchFuel { multi: fuel(MULTI_NODE_TIMEOUT), single: fuel(SINGLE_NODE_TIMEOUT) };
        let allowances = reasons.into_iter().map(|one| (one, Allowances::new(world, one)));
        let allowances = allowances.collect();
        let queued = world.queued.clone();
        let mut pass = run_pass(world, Method::Repair, &mut time);
        let found = std::mem::take(&mut pass.commands);
        let (commands, invalid) = check.verify_commands(world, found);
        pass.commands = commands;
        PassResult { pass, invalid, allowances, queued }
    });
    found.await
}

/// Runs a decision about disruption on the executor.
pub(super) async fn with_pass_context<T: Send + 'static>(
    context: &Context,
    observation: &Observation,
    input: PassInput,
    decide: impl FnOnce(&PassContext<'_>) -> T + Send + 'static,
) -> Result<T, ReconcileError> {
    let settings = settings(context);
    let (now, mirror) = (observation.now, &context.mirror);
    let (nominated, buffered) = (mirror.nominations(now), mirror.nodes_with_buffer_pods());
    let (pool_costs, claims) =
        (pool_costs(context, observation), static_claim_counts(context, observation));
    let observation = observation.clone();
    let decided = run(context.executor.as_ref(), move || {
        let PassInput {
            queued,
            settled,
            unseen_pools,
            backed_off,
            validation_delay,
            recent_launches,
            repair,
        } = input;
        let rules = repair
            .as_ref()
            .map(|repair| RepairRules { policies: &repair.policies, history: &repair.history });
        decide(&PassContext {
            snapshot: &observation.snapshot,
            catalog: &observation.catalog,
            now,
            settings: &settings,
            queued,
            nominated,
            validation_delay: SignedDuration::try_from(validation_delay)
                .unwrap_or(SignedDuration::MAX),
            buffered,
            pool_costs,
            static_claims: claims,
            settled,
            unseen_pools,
            backed_off,
            recent_launches,
            repair: rules,
        })
    });
    decided
        .await
        .ok_or_else(|| ReconcileError::new("a decision about disruption did not come to an end"))
}

/// Returns how long consolidation still waits for nodes about to become consolidatable. It has
/// waited since `since`.
pub(super) fn consolidation_wait(
    context: &Context,
    observation: &Observation,
    since: Timestamp,
) -> Option<Duration> {
    let settings = settings(context);
    consolidation_delay(
        &PassContext::new(&observation.snapshot, &observation.catalog, &settings, observation.now),
        since,
    )
}

/// The reasons for which nodes are disrupted.
fn reasons(with_repair: bool) -> Vec<Reason> {
    let is_on = |reason: &Reason| *reason != Reason::Unhealthy || with_repair;
    Reason::ALL.into_iter().filter(is_on).collect()
}

fn settings(context: &Context) -> Settings {
    let gates = &context.options.feature_gates;
    Settings {
        scheduling: decision::options(context),
        search: match context.options.consolidation_search {
            ConsolidationSearch::Best => SearchMode::Best,
            ConsolidationSearch::Deep => SearchMode::Deep,
            ConsolidationSearch::Upstream => SearchMode::Upstream,
        },
        spot_to_spot: gates.is_enabled(Gate::SpotToSpotConsolidation),
        static_capacity: gates.is_enabled(Gate::StaticCapacity),
        terminate_first_drift: gates.is_enabled(Gate::TerminateFirstDrift),
        terminate_first_repair: gates.is_enabled(Gate::TerminateFirstRepair),
        ..Settings::default()
    }
}

fn pool_costs(context: &Context, observation: &Observation) -> BTreeMap<String, f64> {
    let costs = context.cost_tracker();
    let cost = |name: &String| Some((name.clone(), costs.pool_cost(name)?));
    observation.pools.keys().filter_map(cost).collect()
}

fn static_claim_counts(
    context: &Context,
    observation: &Observation,
) -> BTreeMap<String, ClaimCounts> {
    let is_static = |pool: &&String| observation.pools[*pool].spec.replicas.is_some();
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
    observation.pools.keys().filter(is_static).map(counts).collect()
}
