//! Many questions about one snapshot (spec 30 §14.3).
//!
//! [`PreparedSolver`] does once what every question needs: templates, types, classes of pods, nodes with
//! their free room, groups with the counts of all bound pods. A [`SolverSession`] answers questions one
//! after the other, each at the price of the pods that it is about; several threads have a session
//! each. An answer is that of [`solve`](super::solve) on the same request.

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

/// A snapshot that is ready for questions.
#[derive(Debug)]
pub struct PreparedSolver<'a> {
    snapshot: &'a Snapshot,
    catalog: &'a Catalog,
    options: &'a Options,
    base: Solver<'a>,
}

/// Answers questions, one after the other. No answer depends on the questions before.
#[derive(Debug)]
pub struct SolverSession<'p, 'a> {
    prepared: &'p PreparedSolver<'a>,
    solver: Solver<'a>,
}

/// A question: where do these pods go?
#[derive(Clone, Copy, Debug)]
pub struct PlacementRequest<'q> {
    /// The pods to place, see [`Request::pods`].
    pub pods: &'q [PodId],
    /// Nodes that are treated as gone, see [`Request::excluded_nodes`].
    pub excluded_nodes: &'q BTreeSet<NodeId>,
    /// Slots that are added to reservations, in place of those in the options.
    pub credits: Option<&'q BTreeMap<String, u32>>,
    /// When to give up early.
    pub stop: StopConditions,
}

impl<'q> PlacementRequest<'q> {
    /// The plain question, which is answered to the end.
    pub fn new(pods: &'q [PodId], excluded_nodes: &'q BTreeSet<NodeId>) -> Self {
        Self { pods, excluded_nodes, credits: None, stop: StopConditions::default() }
    }
}

/// What makes the rest of an answer worthless to the one who asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StopConditions {
    /// More new NodeClaims than this.
    pub max_claims: Option<usize>,
    /// That a bound pod is refused. It is only noticed early where no other pod can change that.
    pub on_bound_pod_rejection: bool,
}

/// What a question led to.
#[derive(Clone, Debug, PartialEq)]
pub enum PlacementResult {
    /// The whole plan.
    Plan(Box<Plan>),
    /// The question was given up early.
    Stopped(StopReason),
}

/// Why a question was given up early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// More NodeClaims are needed than [`StopConditions::max_claims`].
    TooManyClaims,
    /// This bound pod has no place.
    BoundPodRejected(PodId),
}

impl<'a> PreparedSolver<'a> {
    /// Gets ready for questions. `options` hold for all of them.
    pub fn new(snapshot: &'a Snapshot, catalog: &'a Catalog, options: &'a Options) -> Self {
        Self::with_sizes(snapshot, catalog, options, ListSizes::default())
    }

    /// The same with lists cut elsewhere.
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

    /// Answers a question itself, for who needs no more than one to ask.
    pub fn solve_request(
        &mut self,
        request: &PlacementRequest<'_>,
        fuel: &mut Fuel<'_>,
    ) -> PlacementResult {
        let Self { snapshot, catalog, options, base } = self;
        solve_on_prepared(base, (snapshot, catalog, options), request, fuel)
    }

    /// Somebody to ask. Costs a copy of what questions change.
    pub fn session(&self) -> SolverSession<'_, 'a> {
        SolverSession { prepared: self, solver: self.base.clone() }
    }
}

impl SolverSession<'_, '_> {
    /// Where do these pods go without these nodes? The answer of [`solve`](super::solve), except
    /// that fuel may be asked more or less often.
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

    /// Answers a question.
    pub fn solve_request(
        &mut self,
        request: &PlacementRequest<'_>,
        fuel: &mut Fuel<'_>,
    ) -> PlacementResult {
        let PreparedSolver { snapshot, catalog, options, .. } = *self.prepared;
        solve_on_prepared(&mut self.solver, (snapshot, catalog, options), request, fuel)
    }
}

/// Has one of many questions answered.
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
    let answer = match solver.run(fuel, &request.stop) {
        Some(stopped) => PlacementResult::Stopped(stopped),
        None => PlacementResult::Plan(Box::new(solver.finish(fuel))),
    };
    solver.roll_back();
    answer
}

/// Who has which device depends on all pods and nodes of the question, so nothing is prepared for
/// pods that need some.
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
    /// Makes what questions will need: classes of pods that are likely to be asked for, and their
    /// first shapes. The rest is made when it is asked for.
    fn prepare_classes(&mut self) {
        let input = self.input.clone();
        for (id, _) in input.requestable_pods().filter(|(_, pod)| may_be_requested(pod)) {
            let class = self.find_or_create_class(id) as usize;
            let chain = self.classes[class].chain;
            if self.chains.all[chain].shapes.is_empty() {
                let (chains, mut context) = self.shape_context();
                chains.shape(chain, 0, &mut context);
            }
        }
    }
}

/// Whether a pod may be asked for some day.
fn may_be_requested(pod: &Pod) -> bool {
    let is_movable = !matches!(pod.owner, OwnerKind::DaemonSet | OwnerKind::Node);
    is_movable && !pod.is_terminal() && !pod.spec.requests_dynamic_resources
}
