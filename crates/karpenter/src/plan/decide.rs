//! From objects to a plan.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_cluster::ingest::{self, Ingested};
use karpenter_core::catalog::Catalog;
use karpenter_core::id::PodId;
use karpenter_core::overlay::{self, Evaluation, Verdict};
use karpenter_core::plan::{Plan, UnusablePool};
use karpenter_core::pod::Problem;
use karpenter_core::scheduling::demand::{Demand, demand};
use karpenter_core::scheduling::{Fuel, Request, solve};
use karpenter_core::snapshot::{Pool, Snapshot};
use karpenter_operator::kwok::catalog;

use super::gather::Gathered;
use super::provider::Chosen;
use super::report::{self, Ignored, Remark, Report};
use super::words::PoolVerdict;
use super::{devices, marked, unusable, words};
use crate::clock::Stopwatch;
use crate::options::{Decision, Gate};

/// Groups of refused pods whose whole tree of refusals is looked at. Nobody reads more.
const EXPLAINED_MAX: usize = 50;

/// What the objects are to a decision.
#[derive(Debug)]
pub(crate) struct Question {
    pub(super) snapshot: Snapshot,
    pub(super) catalog: Catalog,
    demand: Demand,
    pub(super) remarks: Vec<Remark>,
    /// Where NodePools were written, by name.
    pool_places: BTreeMap<String, String>,
    pub(super) setup_seconds: f64,
}

/// Reads the objects into what decisions work on.
pub(crate) fn question(gathered: Gathered, chosen: Chosen, options: &Decision) -> Question {
    let stopwatch = Stopwatch::start();
    let Chosen { mut settings, types, .. } = chosen;
    settings.gates.node_overlay = options.gates.is_on(Gate::NodeOverlay);
    settings.gates.capacity_buffer = options.gates.is_on(Gate::CapacityBuffer);
    settings.gates.pod_deletion_cost_management =
        options.gates.is_on(Gate::PodDeletionCostManagement);
    let Ingested { mut snapshot, marked, overlays } =
        ingest::snapshot(&gathered.objects, &settings);
    let mut remarks: Vec<_> =
        marked.iter().map(|marked| marked::remark(marked, &gathered)).collect();
    let place =
        |pool: &Pool| Some((pool.name.clone(), gathered.place("NodePool", "", &pool.name)?));
    let pool_places = snapshot.pools.iter().filter_map(place).collect();
    drop(gathered);
    // Static pools launch nothing for pods, and their nodes have types, too.
    let pools = snapshot.pools.iter().map(|pool| pool.name.clone());
    let pools: BTreeSet<_> = pools.chain(snapshot.managed_pools.keys().cloned()).collect();
    let catalog = catalog::catalog(types, pools);
    let Evaluation { catalog, verdicts, .. } =
        overlay::evaluate(&snapshot.pools, &catalog, &overlays);
    if !options.ignore_dynamic_resources {
        remarks.extend(devices::evaluate_selectors(&mut snapshot.dynamic, &catalog));
    }
    remarks.extend(verdicts.iter().filter_map(overlay_remark));
    let demand = demand(&snapshot);
    let setup_seconds = stopwatch.seconds();
    Question { snapshot, catalog, demand, remarks, pool_places, setup_seconds }
}

impl Question {
    /// How many pods want a place.
    pub(crate) fn pods(&self) -> usize {
        self.demand.place.len()
    }

    /// Decides, and says everything about it but what the reader of the objects knows. What that
    /// one has said of objects counts where pods ask why there is no pool.
    pub(crate) fn answer(&self, options: &Decision, heard: &[Remark]) -> Report {
        let stopwatch = Stopwatch::start();
        let mut plan = self.plan(options, BTreeSet::new());
        let seconds = stopwatch.seconds();
        let explain = report::representatives(&self.snapshot, &plan, EXPLAINED_MAX);
        if !explain.is_empty() {
            // Decided once more with the trees kept, so that they cost nothing where all is well.
            plan.explanations = self.plan(options, explain).explanations;
        }
        let unusable = self.unusable_pools(&plan);
        let marked: Vec<_> = self.remarks.iter().cloned().chain(unusable).collect();
        let left_out: Vec<_> = heard.iter().chain(&marked).filter_map(Remark::verdict).collect();
        Report {
            seconds,
            setup_seconds: self.setup_seconds,
            ignored: self.ignored(),
            marked,
            ..report::report(&self.snapshot, &self.catalog, &plan, &left_out)
        }
    }

    /// Why each pool that launches nothing does so; the rest as in [`Self::answer`].
    pub(super) fn left_out(&self, options: &Decision, heard: &[Remark]) -> Vec<PoolVerdict> {
        let nobody = Request {
            snapshot: &self.snapshot,
            catalog: &self.catalog,
            pods: &[],
            without: &BTreeSet::new(),
            options: &options.solve_options(BTreeSet::new()),
        };
        let unusable = self.unusable_pools(&solve(&nobody, &mut Fuel::unlimited()));
        let all = heard.iter().chain(&self.remarks).chain(&unusable);
        all.filter_map(Remark::verdict).collect()
    }

    fn unusable_pools(&self, plan: &Plan) -> Vec<Remark> {
        plan.unusable_pools.iter().map(|unusable| self.unusable(unusable)).collect()
    }

    fn plan(&self, options: &Decision, explain: BTreeSet<PodId>) -> Plan {
        let request = Request {
            snapshot: &self.snapshot,
            catalog: &self.catalog,
            pods: &self.demand.place,
            without: &BTreeSet::new(),
            options: &options.solve_options(explain),
        };
        solve(&request, &mut Fuel::unlimited())
    }

    fn unusable(&self, unusable: &UnusablePool) -> Remark {
        let pool = self.snapshot.pool(unusable.pool);
        let (problem, fix) = unusable::why(pool, &self.catalog, unusable.min_values);
        Remark {
            object: format!("NodePool {}", pool.name),
            place: self.pool_places.get(&pool.name).cloned(),
            field: None,
            problem,
            fix: Some(fix),
            left_out: true,
            broken: true,
        }
    }

    fn ignored(&self) -> Vec<Ignored> {
        let mut by_reason: BTreeMap<&str, (bool, Vec<String>)> = BTreeMap::new();
        for (pod, Problem { text, is_opt_out }) in &self.demand.ignored {
            let (_, pods) = by_reason.entry(text).or_insert((*is_opt_out, Vec::new()));
            pods.push(self.snapshot.pod(*pod).full_name());
        }
        let told = by_reason.into_iter().map(|(reason, (opted_out, mut pods))| {
            pods.sort();
            let fix = words::missing_object(reason).map(str::to_owned);
            Ignored { reason: reason.to_owned(), opted_out, fix, pods }
        });
        told.collect()
    }
}

fn overlay_remark((name, verdict): &(String, Verdict)) -> Option<Remark> {
    let (problem, fix) = match verdict {
        Verdict::Accepted => return None,
        Verdict::Invalid(why) => (why.clone(), None),
        Verdict::Conflict => (
            "another NodeOverlay of its weight says something about the same types".to_owned(),
            Some("give the two different weights".to_owned()),
        ),
    };
    let object = format!("NodeOverlay {name}");
    Some(Remark { object, place: None, field: None, problem, fix, left_out: true, broken: true })
}
