//! Nodes that no longer are what their NodePool asks for (spec 30 §6.3, spec 45 §8.2).

use super::allowances::Allowances;
use super::consolidation::Consolidation;
use super::simulation::{Simulation, SimulationKind};
use super::{
    Candidate, CandidateIndex, Command, DisruptionClass, Method, Reason, Replacement, SearchMode,
    TerminateFirstReason,
};
use crate::id::NodeId;
use crate::plan::PlannedNodeClaim;
use crate::scheduling::Fuel;

/// The result of the drift method.
#[derive(Debug, Default)]
pub(super) struct DriftResult {
    pub(super) command: Option<Command>,
    pub(super) eligible: usize,
    /// Nodes that stay since their pods would lose their place, and the text of the event.
    pub(super) blocked: Vec<(NodeId, String)>,
}

/// The drifted nodes of pools that are not static, in the order in which they are tried: the oldest
/// first, but those without pods before all others.
pub(super) fn candidates<'a>(index: &'a CandidateIndex<'_>) -> Vec<&'a Candidate> {
    let mut candidates = index.candidates(DisruptionClass::Eventual);
    candidates.retain(|one| !one.is_static && one.drifted_at.is_some());
    candidates.sort_by(|a, b| {
        let order = (!a.pods.is_empty()).cmp(&!b.pods.is_empty());
        order.then(a.drifted_at.cmp(&b.drifted_at)).then_with(|| a.name.cmp(&b.name))
    });
    candidates
}

/// The first drifted node that can go.
pub(super) fn decide(consolidation: &mut Consolidation<'_>) -> DriftResult {
    let index = consolidation.index;
    let candidates = candidates(index);
    let mut found = DriftResult { eligible: candidates.len(), ..DriftResult::default() };
    let allowances = Allowances::new(index.context, Reason::Drifted);
    for candidate in candidates {
        let is_backed_off = index.context.backed_off.contains(&candidate.pool);
        if is_backed_off || allowances.remaining(&candidate.pool) == 0 {
            continue;
        }
        let is_first = index.context.settings.terminate_first_drift;
        let (simulated, first) =
            simulate_replacement(consolidation, candidate, is_first, SimulationKind::Drift);
        if !simulated.places_all_pods() {
            let text = simulated.event_text(index.context.snapshot);
            found.blocked.push((candidate.node, text));
            continue;
        }
        found.command =
            Some(replace_command(consolidation, Method::Drift, candidate, simulated, first));
        return found;
    }
    found
}

/// Simulates the placement of a node's pods without the node.
/// If some have no place and the node holds a slot of a reservation, simulates again with that
/// slot: the node has to be terminated first then (spec 45 §8.1).
pub(super) fn simulate_replacement(
    consolidation: &mut Consolidation<'_>,
    candidate: &Candidate,
    may_terminate_first: bool,
    kind: SimulationKind<'_>,
) -> (Simulation, Option<TerminateFirstReason>) {
    let simulator = &mut consolidation.simulator;
    let simulated = simulator.simulate(&[candidate], kind, &mut Fuel::unlimited());
    let is_reserved = candidate.capacity_type.as_deref() == Some(crate::catalog::RESERVED);
    let reservation = candidate.reservation_id.as_deref().filter(|id| !id.is_empty());
    let (true, true, Some(reservation)) = (may_terminate_first, is_reserved, reservation) else {
        return (simulated, None);
    };
    if simulated.places_all_pods() {
        return (simulated, None);
    }
    let with_slot =
        SimulationKind::FreedSlot { reservation, is_repair: kind == SimulationKind::Repair };
    let second = simulator.simulate(&[candidate], with_slot, &mut Fuel::unlimited());
    if second.places_all_pods() {
        (second, Some(TerminateFirstReason::NoReservedCapacity))
    } else {
        (simulated, None)
    }
}

/// Builds the command that replaces one node as simulated.
pub(super) fn replace_command(
    consolidation: &mut Consolidation<'_>,
    method: Method,
    candidate: &Candidate,
    mut simulated: Simulation,
    terminate_first: Option<TerminateFirstReason>,
) -> Command {
    if consolidation.index.context.settings.search != SearchMode::Upstream {
        // The provisioner launches nodes for pods that are pending; upstream launches twice.
        let is_own =
            |claim: &PlannedNodeClaim| claim.pods.iter().any(|pod| candidate.pods.contains(pod));
        simulated.plan.claims.retain(is_own);
    }
    let claims = match terminate_first {
        Some(_) => Vec::new(),
        None => simulated.plan.claims.clone(),
    };
    let price: f64 = claims.iter().map(|claim| consolidation.launch_price(claim)).sum();
    Command {
        method,
        candidates: vec![candidate.clone()],
        replacements: claims.into_iter().map(Replacement::Planned).collect(),
        plan: simulated.plan,
        savings: candidate.price - price,
        terminate_first,
        is_reboot: false,
        drain_bound: None,
        repair: None,
        scores: Vec::new(),
    }
}
