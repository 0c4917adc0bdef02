//! Makes one decision of the provisioner: mirror and catalog in, a plan out (spec 20 §2.4).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::nodepool::NodePool;
use karpenter_core::catalog::Catalog;
use karpenter_core::plan::Plan;
use karpenter_core::scheduling::demand::{Demand, demand};
use karpenter_core::scheduling::{Fuel, Options, Request, solve};
use karpenter_core::snapshot::Snapshot;
use karpenter_core::verify::{DroppedPlacement, VerifiedPlan, Violation};
use karpenter_operator::cloud::{CloudError, CloudErrorClass};
use karpenter_operator::compute::run;
use karpenter_operator::harness::ReconcileError;
use karpenter_operator::options::Gate;
use tracing::{error, info};

use super::events::PROVISIONER;
use crate::Context;
use crate::state::evaluate_device_selectors;

/// The longest that a decision takes. What it has placed by then is kept.
const DEADLINE: Duration = Duration::from_mins(1);

/// A decision with its inputs.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) catalog: Catalog,
    pub(super) demand: Demand,
    /// None if there is no pool to launch from. It has no violations.
    pub(super) plan: Option<Plan>,
    /// What verification found in the plan of the solver, and dropped.
    pub(super) violations: Vec<Violation>,
    pub(super) dropped: Vec<DroppedPlacement>,
    /// The pools as they were, by name.
    pub(super) pools: BTreeMap<String, Arc<NodePool>>,
    pub(super) took: Duration,
}

/// Makes a decision. None if no pods wait.
pub(super) async fn decide(context: &Context) -> Result<Option<Decision>, ReconcileError> {
    let started = context.clock.now();
    // Read together on the runtime that updates the mirror, so that both have the same pools.
    let mut snapshot = context.mirror.snapshot(started);
    let pool = |name: &String| Some((name.clone(), context.cache.node_pools.get("", name)?));
    let pools: BTreeMap<String, Arc<NodePool>> =
        snapshot.pools.iter().filter_map(|known| pool(&known.name)).collect();
    let (decision_context, decision_snapshot) = (context.clone(), snapshot.clone());
    let demand = ok_or_unfinished(
        run(context.executor.as_ref(), move || {
            demand_without_moving_pods(&decision_context, &decision_snapshot)
        })
        .await,
    )?;
    if demand.to_place.is_empty() && demand.ignored.is_empty() {
        return Ok(None);
    }
    let catalog = catalog(context, &pools).await?;
    evaluate_device_selectors(context, &mut snapshot, &catalog).await;
    let verified = if pools.is_empty() {
        info!("no dynamic nodepools found");
        None
    } else if demand.to_place.is_empty() {
        Some(VerifiedPlan::default())
    } else {
        let id = context.rng.fork("run").fork(&started.to_string()).uuid();
        // The solver does not report progress per pod: it takes milliseconds.
        let _solve = context.metrics.start_scheduling_run(PROVISIONER, id, demand.to_place.len());
        Some(plan(context, &snapshot, &catalog, &demand, started).await?)
    };
    let took = context.clock.now().duration_since(started).try_into().unwrap_or_default();
    let (plan, violations, dropped) = match verified {
        Some(VerifiedPlan { plan, violations, dropped }) => (Some(plan), violations, dropped),
        None => (None, Vec::new(), Vec::new()),
    };
    Ok(Some(Decision { snapshot, catalog, demand, plan, violations, dropped, pools, took }))
}

/// Returns the pods to place, without those that consolidation moves.
fn demand_without_moving_pods(context: &Context, snapshot: &Snapshot) -> Demand {
    let mut demand = demand(snapshot);
    let is_there = |claim: &str| context.cache.node_claims.get("", claim).is_some();
    context.consolidation_tracker.exclude_moving_pods(snapshot, &mut demand.to_place, is_there);
    demand
}

/// Solves, and drops what breaks a rule from the plan.
async fn plan(
    context: &Context,
    snapshot: &Arc<Snapshot>,
    catalog: &Catalog,
    demand: &Demand,
    started: Timestamp,
) -> Result<VerifiedPlan, ReconcileError> {
    let (snapshot, catalog, pods) = (snapshot.clone(), catalog.clone(), demand.to_place.clone());
    let options = options(context);
    let (clock, check) = (context.clock.clone(), context.plan_check.clone());
    let deadline = started.checked_add(DEADLINE).unwrap_or(Timestamp::MAX);
    let solved = run(context.executor.as_ref(), move || {
        let without = BTreeSet::new();
        let request = Request {
            snapshot: &snapshot,
            catalog: &catalog,
            pods: &pods,
            excluded_nodes: &without,
            options: &options,
        };
        let plan = solve(&request, &mut Fuel::limited_by(|| clock.now() < deadline));
        check.verify_plan(&request, plan)
    });
    ok_or_unfinished(solved.await)
}

/// Returns the options of the solver.
pub(crate) fn options(context: &Context) -> Options {
    let options = &context.options;
    Options {
        preferences: options.preference_policy,
        min_values: options.min_values_policy,
        reserved_capacity: options.feature_gates.is_enabled(Gate::ReservedCapacity),
        ignore_dynamic_resources: options.ignore_dra_requests,
        default_spread: options.default_spread.clone(),
        ..Options::default()
    }
}

/// Returns a catalog with the labels of the provider and without instance types.
pub(crate) fn empty_catalog(context: &Context) -> Catalog {
    let vocabulary = context.cloud.provider_labels();
    Catalog {
        pools: BTreeMap::new(),
        well_known: vocabulary.well_known,
        reservation_id_label: vocabulary.reservation_id_label,
        aliases: vocabulary.aliases,
    }
}

/// Returns the instance types that the pools can launch (spec 20 §2.5).
async fn catalog(
    context: &Context,
    pools: &BTreeMap<String, Arc<NodePool>>,
) -> Result<Catalog, ReconcileError> {
    let mut catalog = empty_catalog(context);
    for (name, pool) in pools {
        match context.cloud.instance_types(pool).await {
            Ok(types) if types.is_empty() => {
                info!(NodePool = name, "skipping, no resolved instance types found");
            }
            Ok(types) => {
                catalog.pools.insert(name.clone(), types);
            }
            Err(error) if error.is(CloudErrorClass::UnevaluatedNodePool) => {}
            Err(error) => log_unresolved(name, &error),
        }
    }
    Ok(catalog)
}

fn log_unresolved(pool: &str, error: &CloudError) {
    error!(NodePool = pool, error = %error, "skipping, unable to resolve instance types");
}

pub(super) fn ok_or_unfinished<T>(answer: Option<T>) -> Result<T, ReconcileError> {
    answer.ok_or_else(|| ReconcileError::new("a decision did not come to an end"))
}
