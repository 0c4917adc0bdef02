//! Solves many requests about one snapshot (spec 30 §14.3).
//!
//! [`PreparedSolver`] prepares once the data that every request needs: templates, types, classes of
//! pods, nodes with their remaining resources, groups with the counts of all bound pods. A
//! [`SolverSession`] solves requests one after the other, each at the cost of its own pods; several
//! threads have a session each. A plan equals that of [`solve`](super::solve) on the same request.

use std::collections::{BTreeMap, BTreeSet};

use super::Solver;
use super::input::SolveMode;
use crate::catalog::Catalog;
use crate::id::{NodeId, PodId};
use crate::plan::Plan;
use crate::pod::{OwnerKind, Pod};
use crate::scheduling::list_sizes::ListSizes;
use crate::scheduling::{Fuel, Options, Request};
use crate::snapshot::Snapshot;

/// A solver that is prepared for requests about one snapshot.
#[derive(Debug)]
pub struct PreparedSolver<'a> {
    snapshot: &'a Snapshot,
    catalog: &'a Catalog,
    options: &'a Options,
    base: Solver<'a>,
}

/// Solves requests, one after the other. No result depends on earlier requests.
#[derive(Debug)]
pub struct SolverSession<'p, 'a> {
    prepared: &'p PreparedSolver<'a>,
    solver: Solver<'a>,
}

/// The pods to place without some nodes.
#[derive(Clone, Copy, Debug)]
pub struct PlacementRequest<'q> {
    /// The pods to place, see [`Request::pods`].
    pub pods: &'q [PodId],
    /// Nodes that the solver treats as removed, see [`Request::excluded_nodes`].
    pub excluded_nodes: &'q BTreeSet<NodeId>,
    /// Slots that are added to reservations, instead of those in the options.
    pub credits: Option<&'q BTreeMap<String, u32>>,
    /// When to stop before the plan is complete.
    pub stop: StopConditions,
}

impl<'q> PlacementRequest<'q> {
    /// Returns a request for a complete plan, with the credits of the options.
    pub fn new(pods: &'q [PodId], excluded_nodes: &'q BTreeSet<NodeId>) -> Self {
        Self { pods, excluded_nodes, credits: None, stop: StopConditions::default() }
    }
}

/// When to stop a request early, because its plan would be of no use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StopConditions {
    /// Stop if more new NodeClaims than this are needed.
    pub max_claims: Option<usize>,
    /// Stop if a bound pod is rejected. Only a rejection that no other pod can change stops early.
    pub on_bound_pod_rejection: bool,
}

/// The result of a placement request.
#[derive(Clone, Debug, PartialEq)]
pub enum PlacementResult {
    /// The complete plan.
    Plan(Box<Plan>),
    /// The solver stopped before the plan was complete.
    Stopped(StopReason),
}

/// Why the solver stopped before the plan was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// More NodeClaims are needed than [`StopConditions::max_claims`].
    TooManyClaims,
    /// This bound pod is rejected.
    BoundPodRejected(PodId),
}

impl<'a> PreparedSolver<'a> {
    /// Prepares a solver. `options` hold for all requests.
    pub fn new(snapshot: &'a Snapshot, catalog: &'a Catalog, options: &'a Options) -> Self {
        Self::with_sizes(snapshot, catalog, options, ListSizes::default())
    }

    /// Prepares a solver with other list sizes, for tests.
    pub fn with_sizes(
        snapshot: &'a Snapshot,
        catalog: &'a Catalog,
        options: &'a Options,
        sizes: ListSizes,
    ) -> Self {
        let mut base = Solver::new((snapshot, catalog), options, SolveMode::ManyRequests, sizes);
        base.prepare_classes();
        Self { snapshot, catalog, options, base }
    }

    /// Solves a request without a session, for callers that need only one.
    pub fn solve_request(
        &mut self,
        request: &PlacementRequest<'_>,
        fuel: &mut Fuel<'_>,
    ) -> PlacementResult {
        let Self { snapshot, catalog, options, base } = self;
        solve_on_prepared(base, (snapshot, catalog, options), request, fuel)
    }

    /// Returns a new session. Costs a copy of the state that requests change.
    pub fn session(&self) -> SolverSession<'_, 'a> {
        SolverSession { prepared: self, solver: self.base.clone() }
    }
}

impl SolverSession<'_, '_> {
    /// Places pods without some nodes and returns the plan.
    ///
    /// The plan equals that of [`solve`](super::solve), but fuel may be checked more or less often.
    pub fn solve(
        &mut self,
        pods: &[PodId],
        excluded_nodes: &BTreeSet<NodeId>,
        fuel: &mut Fuel<'_>,
    ) -> Plan {
        match self.solve_request(&PlacementRequest::new(pods, excluded_nodes), fuel) {
            PlacementResult::Plan(plan) => *plan,
            PlacementResult::Stopped(_) => Plan::default(),
        }
    }

    /// Solves a request.
    pub fn solve_request(
        &mut self,
        request: &PlacementRequest<'_>,
        fuel: &mut Fuel<'_>,
    ) -> PlacementResult {
        let PreparedSolver { snapshot, catalog, options, .. } = *self.prepared;
        solve_on_prepared(&mut self.solver, (snapshot, catalog, options), request, fuel)
    }
}

/// Solves one of many requests, and rolls it back.
fn solve_on_prepared<'a>(
    solver: &mut Solver<'a>,
    (snapshot, catalog, options): (&'a Snapshot, &'a Catalog, &'a Options),
    request: &PlacementRequest<'_>,
    fuel: &mut Fuel<'_>,
) -> PlacementResult {
    if needs_devices(snapshot, options, request.pods) {
        let sizes = solver.sizes;
        return solve_from_scratch((snapshot, catalog, options), request, sizes, fuel);
    }
    let credits = request.credits.unwrap_or(&options.reservation_credits);
    solver.begin_request(request.pods, request.excluded_nodes, credits);
    let result = match solver.run(fuel, &request.stop) {
        Some(stopped) => PlacementResult::Stopped(stopped),
        None => PlacementResult::Plan(Box::new(solver.finish(fuel))),
    };
    solver.roll_back();
    result
}

/// Returns whether pods of a request need devices.
///
/// The devices of a pod depend on all pods and nodes of the request, so nothing is prepared for
/// them.
fn needs_devices(snapshot: &Snapshot, options: &Options, pods: &[PodId]) -> bool {
    let pods = pods.iter().filter_map(|pod| snapshot.pods.get(pod.index()));
    !options.ignore_dynamic_resources
        && pods.into_iter().any(|pod| pod.spec.requests_dynamic_resources)
}

fn solve_from_scratch(
    (snapshot, catalog, options): (&Snapshot, &Catalog, &Options),
    request: &PlacementRequest<'_>,
    sizes: ListSizes,
    fuel: &mut Fuel<'_>,
) -> PlacementResult {
    let mut options = Options::clone(options);
    if let Some(credits) = request.credits {
        options.reservation_credits.clone_from(credits);
    }
    let PlacementRequest { pods, excluded_nodes, .. } = *request;
    let request = Request { snapshot, catalog, pods, excluded_nodes, options: &options };
    PlacementResult::Plan(Box::new(super::solve_with_sizes(&request, fuel, sizes)))
}

impl Solver<'_> {
    /// Prepares the classes and first shapes of pods that requests are likely to contain.
    ///
    /// Other classes and shapes are made on demand.
    fn prepare_classes(&mut self) {
        let input = self.input.clone();
        for (id, _) in input.requestable_pods().filter(|(_, pod)| may_be_requested(pod)) {
            let class = self.find_or_create_class(id) as usize;
            let chain = self.classes[class].chain;
            if !self.chains.has_shapes(chain) {
                let (chains, mut context) = self.shape_context();
                chains.shape(chain, 0, &mut context);
            }
        }
    }
}

/// Returns whether requests are likely to contain a pod.
fn may_be_requested(pod: &Pod) -> bool {
    let is_movable = !matches!(pod.owner, OwnerKind::DaemonSet | OwnerKind::Node);
    is_movable && !pod.is_terminal() && !pod.spec.requests_dynamic_resources
}
