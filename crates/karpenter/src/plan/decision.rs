//! Ingests the objects, makes a scheduling decision and reports it.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_cluster::ingest::{self, IngestResult, constraint_limits};
use karpenter_core::catalog::Catalog;
use karpenter_core::id::{NodeId, PodId};
use karpenter_core::overlay::{self, Evaluation, OverlayStatus};
use karpenter_core::plan::{Plan, UnusablePool};
use karpenter_core::pod::PodProblem;
use karpenter_core::scheduling::demand::{Demand, demand};
use karpenter_core::scheduling::{Fuel, Options, Request, solve};
use karpenter_core::snapshot::{Pool, Snapshot};
use karpenter_core::verify::{Level, VerifiedPlan, verify_plan};
use karpenter_operator::cloud::ProviderLabels;

use super::cluster_objects::ClusterObjects;
use super::provider::ChosenProvider;
use super::rejection_text::NodePoolRejection;
use super::report::{self, IgnoredPods, Remark, Report};
use super::{devices, ingest_remark, rejection_text, unusable_pool, violations};
use crate::clock::Stopwatch;
use crate::options::{DecisionOptions, Gate};

/// How many groups of rejected pods get the whole tree of rejections.
const EXPLAINED_MAX: usize = 50;

/// The inputs of a decision: snapshot, catalog, demand and remarks.
#[derive(Debug)]
pub(crate) struct PlanInput {
    pub(super) snapshot: Snapshot,
    pub(super) catalog: Catalog,
    demand: Demand,
    pub(super) remarks: Vec<Remark>,
    /// Where NodePools were written, by name.
    pool_locations: BTreeMap<String, String>,
    pub(super) setup_seconds: f64,
}

/// Ingests the objects into the inputs of a decision.
pub(crate) fn prepare(
    gathered: ClusterObjects,
    chosen: ChosenProvider,
    options: &DecisionOptions,
) -> PlanInput {
    let stopwatch = Stopwatch::start();
    let ChosenProvider { mut settings, mut types_by_pool, labels, .. } = chosen;
    settings.gates.node_overlay = options.gates.is_enabled(Gate::NodeOverlay);
    settings.gates.capacity_buffer = options.gates.is_enabled(Gate::CapacityBuffer);
    settings.gates.pod_deletion_cost_management =
        options.gates.is_enabled(Gate::PodDeletionCostManagement);
    let IngestResult { mut snapshot, diagnostics: marked, overlays } =
        ingest::snapshot(&gathered.objects, &settings);
    let mut remarks: Vec<_> =
        marked.iter().map(|marked| ingest_remark::ingest_remark(marked, &gathered)).collect();
    let place =
        |pool: &Pool| Some((pool.name.clone(), gathered.location("NodePool", "", &pool.name)?));
    let pool_places = snapshot.pools.iter().filter_map(place).collect();
    drop(gathered);
    // Static pools launch nothing for pods, and their nodes have types, too.
    let pools = snapshot.pools.iter().map(|pool| pool.name.clone());
    let pools: BTreeSet<_> = pools.chain(snapshot.managed_pools.keys().cloned()).collect();
    types_by_pool.retain(|pool, _| pools.contains(pool));
    let ProviderLabels { well_known, reservation_id_label, aliases } = labels;
    let catalog = Catalog { pools: types_by_pool, well_known, reservation_id_label, aliases };
    let Evaluation { catalog, statuses: verdicts, .. } =
        overlay::evaluate(&snapshot.pools, &catalog, &overlays);
    if !options.ignore_dynamic_resources {
        remarks.extend(devices::evaluate_selectors(&mut snapshot.dynamic_resources, &catalog));
    }
    remarks.extend(verdicts.iter().filter_map(overlay_remark));
    let demand = demand(&snapshot);
    let setup_seconds = stopwatch.seconds();
    PlanInput { snapshot, catalog, demand, remarks, pool_locations: pool_places, setup_seconds }
}

impl PlanInput {
    /// Returns the number of pods to place.
    pub(crate) fn pod_count(&self) -> usize {
        self.demand.to_place.len()
    }

    /// Decides and returns the report, without the input reader's remarks. Those remarks explain
    /// pods that no pool is available for.
    pub(crate) fn plan_pods(&self, options: &DecisionOptions, input_remarks: &[Remark]) -> Report {
        let stopwatch = Stopwatch::start();
        let plan = self.run_solver(options, BTreeSet::new());
        let seconds = stopwatch.seconds();
        let VerifiedPlan { mut plan, violations, .. } = self.verify(options, plan);
        let explain = report::representative_pods(&self.snapshot, &plan, EXPLAINED_MAX);
        if !explain.is_empty() {
            // Decided once more with the trees kept, so that they cost nothing where all is well.
            plan.explanations = self.run_solver(options, explain).explanations;
        }
        let unusable = self.unusable_pool_remarks(&plan);
        let marked = self.remarks.iter().cloned().chain(unusable);
        let marked: Vec<_> = marked.chain(violations::remarks(&violations)).collect();
        let left_out: Vec<_> =
            input_remarks.iter().chain(&marked).filter_map(Remark::pool_rejection).collect();
        Report {
            seconds,
            setup_seconds: self.setup_seconds,
            ignored: self.ignored_pods(),
            marked,
            ..report::build_report(&self.snapshot, &self.catalog, &plan, &left_out)
        }
    }

    /// Returns why pools launch nothing; `input_remarks` as in [`Self::plan_pods`].
    pub(super) fn excluded_pools(
        &self,
        options: &DecisionOptions,
        input_remarks: &[Remark],
    ) -> Vec<NodePoolRejection> {
        let no_pods = Request {
            snapshot: &self.snapshot,
            catalog: &self.catalog,
            pods: &[],
            excluded_nodes: &BTreeSet::new(),
            options: &options.solve_options(BTreeSet::new()),
        };
        let unusable = self.unusable_pool_remarks(&solve(&no_pods, &mut Fuel::unlimited()));
        let all = input_remarks.iter().chain(&self.remarks).chain(&unusable);
        all.filter_map(Remark::pool_rejection).collect()
    }

    fn unusable_pool_remarks(&self, plan: &Plan) -> Vec<Remark> {
        plan.unusable_pools.iter().map(|unusable| self.unusable_pool_remark(unusable)).collect()
    }

    fn run_solver(&self, options: &DecisionOptions, explain: BTreeSet<PodId>) -> Plan {
        let (options, none) = (options.solve_options(explain), BTreeSet::new());
        solve(&self.request(&options, &none), &mut Fuel::unlimited())
    }

    /// Drops what breaks a rule from the plan, as the controller does.
    fn verify(&self, options: &DecisionOptions, plan: Plan) -> VerifiedPlan {
        let (options, none) = (options.solve_options(BTreeSet::new()), BTreeSet::new());
        verify_plan(&self.request(&options, &none), plan, Level::of_build())
    }

    fn request<'a>(
        &'a self,
        options: &'a Options,
        excluded_nodes: &'a BTreeSet<NodeId>,
    ) -> Request<'a> {
        Request {
            snapshot: &self.snapshot,
            catalog: &self.catalog,
            pods: &self.demand.to_place,
            excluded_nodes,
            options,
        }
    }

    fn unusable_pool_remark(&self, unusable: &UnusablePool) -> Remark {
        let pool = self.snapshot.pool(unusable.pool);
        let (problem, fix) =
            unusable_pool::explain(pool, &self.catalog, unusable.misses_min_values);
        Remark {
            object: format!("NodePool {}", pool.name),
            place: self.pool_locations.get(&pool.name).cloned(),
            field: None,
            problem,
            fix: Some(fix),
            left_out: true,
            broken: true,
        }
    }

    fn ignored_pods(&self) -> Vec<IgnoredPods> {
        let mut by_reason: BTreeMap<&str, (bool, Vec<String>)> = BTreeMap::new();
        for (pod, PodProblem { text, is_opt_out }) in &self.demand.ignored {
            let (_, pods) = by_reason.entry(text).or_insert((*is_opt_out, Vec::new()));
            pods.push(self.snapshot.pod(*pod).full_name());
        }
        let groups = by_reason.into_iter().map(|(reason, (opted_out, mut pods))| {
            pods.sort();
            let fix = rejection_text::missing_object_fix(reason)
                .map(str::to_owned)
                .or_else(|| constraint_limits::suggest_fix(reason));
            IgnoredPods { reason: reason.to_owned(), opted_out, fix, pods }
        });
        groups.collect()
    }
}

fn overlay_remark((name, verdict): &(String, OverlayStatus)) -> Option<Remark> {
    let (problem, fix) = match verdict {
        OverlayStatus::Accepted => return None,
        OverlayStatus::Invalid(why) => (why.clone(), None),
        OverlayStatus::Conflict => (
            "another NodeOverlay of its weight says something about the same types".to_owned(),
            Some("give the two different weights".to_owned()),
        ),
    };
    let object = format!("NodeOverlay {name}");
    Some(Remark { object, place: None, field: None, problem, fix, left_out: true, broken: true })
}
