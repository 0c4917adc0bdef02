//! Simulates where pods go if the nodes of candidates are removed (spec 30 §5).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::{Candidate, CandidateIndex, PassContext};
use crate::id::{NodeId, PodId};
use crate::plan::Plan;
use crate::rejection::PodRejection;
use crate::scheduling::demand::{demand, is_provisionable};
use crate::scheduling::{
    Fuel, Options, PlacementRequest, PlacementResult, PreparedSolver, ReservedMode, StopConditions,
    StopReason,
};
use crate::snapshot::Snapshot;

/// The most unplaced pods that a message names.
const NAMED_PODS_MAX: usize = 5;

/// Runs the scheduler without the nodes of candidates.
/// It prepares one solver for each kind of simulation, on first use.
pub(super) struct Simulator<'a> {
    index: &'a CandidateIndex<'a>,
    /// Pending pods, and pods of nodes that are deleting already.
    pods_to_place: Option<Vec<PodId>>,
    consolidation: Option<PreparedSolver<'a>>,
    drift_or_repair: Option<PreparedSolver<'a>>,
    freed_slot: Option<PreparedSolver<'a>>,
}

/// The scheduler options for each kind of simulation.
#[derive(Debug)]
pub(super) struct SimulationOptions {
    consolidation: Options,
    drift_or_repair: Options,
    freed_slot: Options,
}

impl SimulationOptions {
    pub(super) fn new(context: &PassContext<'_>) -> Self {
        let of =
            |reserved| Options { reserved_mode: reserved, ..context.settings.scheduling.clone() };
        let now = Some(context.now);
        Self {
            consolidation: Options { enforce_consolidate_after: now, ..of(ReservedMode::Fallback) },
            drift_or_repair: of(ReservedMode::Fallback),
            freed_slot: of(ReservedMode::Strict),
        }
    }
}

/// The purpose of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SimulationKind<'a> {
    /// For consolidation: nodes whose consolidateAfter has not passed take no pods.
    Consolidation,
    /// For drift.
    Drift,
    /// For repair: also pods that must not be moved take part.
    Repair,
    /// With the reservation slot that the candidate frees, without any fallback.
    FreedSlot {
        /// The reservation.
        reservation: &'a str,
        /// Whether pods that must not be moved take part.
        is_repair: bool,
    },
}

/// The result of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Simulation {
    pub(super) plan: Plan,
    /// Bound pods without a usable place, by namespace and name.
    pub(super) unplaced_pods: Vec<(PodId, UnplacedReason)>,
}

/// Why a pod has no usable place.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum UnplacedReason {
    Unschedulable(Arc<PodRejection>),
    /// Its place is a node that is not initialized and may never be.
    UninitializedNode {
        node_claim: String,
        node: String,
    },
}

impl<'a> Simulator<'a> {
    pub(super) fn new(index: &'a CandidateIndex<'a>) -> Self {
        Self {
            index,
            pods_to_place: None,
            consolidation: None,
            drift_or_repair: None,
            freed_slot: None,
        }
    }

    /// Simulates the placement of all pods without these nodes.
    pub(super) fn simulate(
        &mut self,
        candidates: &[&Candidate],
        kind: SimulationKind<'_>,
        fuel: &mut Fuel<'_>,
    ) -> Simulation {
        match self.run_scheduler(candidates, kind, StopConditions::default(), fuel) {
            Ok(simulated) => simulated,
            // Without stop conditions the solver never stops.
            Err(_) => Simulation { plan: Plan::default(), unplaced_pods: Vec::new() },
        }
    }

    /// Simulates for consolidation and stops as soon as it cannot succeed.
    /// That is when a bound pod has no place, or when `claims` new nodes are not enough.
    pub(super) fn simulate_bounded(
        &mut self,
        candidates: &[&Candidate],
        claims: usize,
        fuel: &mut Fuel<'_>,
    ) -> Result<Simulation, StopReason> {
        let stop = StopConditions { max_claims: Some(claims), on_bound_pod_rejection: true };
        self.run_scheduler(candidates, SimulationKind::Consolidation, stop, fuel)
    }

    /// Runs the scheduler without the nodes of the candidates.
    fn run_scheduler(
        &mut self,
        candidates: &[&Candidate],
        kind: SimulationKind<'_>,
        stop: StopConditions,
        fuel: &mut Fuel<'_>,
    ) -> Result<Simulation, StopReason> {
        let demanded = || demand(self.index.context.snapshot).to_place;
        let mut pods = self.pods_to_place.get_or_insert_with(demanded).clone();
        for candidate in candidates {
            pods.extend(if kind.moves_all_pods() { &candidate.pods } else { &candidate.movable });
        }
        let without: BTreeSet<NodeId> = candidates.iter().map(|one| one.node).collect();
        let index = self.index;
        let (prepared, options, credits) = match kind {
            SimulationKind::Consolidation => {
                (&mut self.consolidation, &index.simulation_options.consolidation, None)
            }
            SimulationKind::Drift | SimulationKind::Repair => {
                (&mut self.drift_or_repair, &index.simulation_options.drift_or_repair, None)
            }
            SimulationKind::FreedSlot { reservation, .. } => {
                let credits = BTreeMap::from([(reservation.to_owned(), 1)]);
                (&mut self.freed_slot, &index.simulation_options.freed_slot, Some(credits))
            }
        };
        let (snapshot, catalog) = (index.context.snapshot, index.context.catalog);
        let prepared =
            prepared.get_or_insert_with(|| PreparedSolver::new(snapshot, catalog, options));
        let request = PlacementRequest {
            credits: credits.as_ref(),
            stop,
            ..PlacementRequest::new(&pods, &without)
        };
        match prepared.solve_request(&request, fuel) {
            PlacementResult::Plan(plan) => {
                let unplaced_pods = self.find_unplaced_pods(&plan);
                Ok(Simulation { plan: *plan, unplaced_pods })
            }
            PlacementResult::Stopped(stopped) => Err(stopped),
        }
    }

    fn find_unplaced_pods(&self, plan: &Plan) -> Vec<(PodId, UnplacedReason)> {
        let snapshot = self.index.context.snapshot;
        let refused = plan
            .rejected
            .iter()
            .map(|(&pod, why)| (pod, UnplacedReason::Unschedulable(why.clone())));
        let refused = refused.filter(|(pod, _)| !is_pending(snapshot, *pod));
        let mut unplaced: Vec<_> = refused.collect();
        for (node, pods) in &plan.existing_nodes {
            let node = snapshot.node(*node);
            if node.is_initialized {
                continue;
            }
            // The provisioner handles pods of nodes that are deleting already.
            let counts = |pod: &&PodId| {
                let on = snapshot.pod(**pod).node;
                !on.is_some_and(|on| snapshot.node(on).is_deleting)
            };
            let counted = pods.iter().filter(counts).filter(|pod| !is_pending(snapshot, **pod));
            unplaced.extend(counted.map(|&pod| {
                let node_claim = node.disruption_state.node_claim.clone();
                let name = if node.object.is_some() { node.name.clone() } else { String::new() };
                (pod, UnplacedReason::UninitializedNode { node_claim, node: name })
            }));
        }
        let name = |pod: PodId| {
            let pod = snapshot.pod(pod);
            (&pod.namespace, &pod.name)
        };
        unplaced.sort_by(|a, b| name(a.0).cmp(&name(b.0)));
        unplaced
    }
}

impl SimulationKind<'_> {
    fn moves_all_pods(self) -> bool {
        matches!(self, Self::Repair | Self::FreedSlot { is_repair: true, .. })
    }
}

impl Simulation {
    /// Whether every bound pod has a usable place.
    pub(super) fn places_all_pods(&self) -> bool {
        self.unplaced_pods.is_empty()
    }

    /// Returns the event message with the unplaced pods.
    pub(super) fn event_text(&self, snapshot: &Snapshot) -> String {
        let mut text = "Not all pods would schedule, ".to_owned();
        for (pod, why) in self.unplaced_pods.iter().take(NAMED_PODS_MAX) {
            let pod = snapshot.pod(*pod).full_name();
            text.extend([&pod, " => ", &why.to_string(), " "]);
        }
        if let Some(others) = self.unplaced_pods.len().checked_sub(NAMED_PODS_MAX) {
            text.extend([" and ", &others.to_string(), " other(s)"]);
        }
        text
    }
}

/// Whether the pod is pending or virtual, so that it has no node to lose.
pub(super) fn is_pending(snapshot: &Snapshot, pod: PodId) -> bool {
    let pod = snapshot.pod(pod);
    is_provisionable(pod) || pod.is_virtual
}

impl fmt::Display for UnplacedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unschedulable(why) => write!(f, "{why}"),
            Self::UninitializedNode { node_claim, node } => {
                f.write_str("would schedule against uninitialized ")?;
                let parts = [("nodeclaim", node_claim), ("node", node)];
                let parts = parts.iter().filter(|(_, name)| !name.is_empty());
                let parts: Vec<_> = parts.map(|(kind, name)| format!("{kind}/{name}")).collect();
                f.write_str(&parts.join(", "))
            }
        }
    }
}
