//! Consolidation: moves the pods of nodes to other nodes, or onto one cheaper node (spec 30 §6.4).
//! Deep search also moves them onto fewer nodes that cost less together.
//!
//! [`Consolidation::consider`] evaluates a set of candidates; [`single`] and [`multi`] choose sets
//! as upstream does. Searches that choose better are in [`super::search`].

use std::collections::BTreeMap;
use std::sync::Arc;

use super::balanced::{PoolScore, PoolTotals};
use super::feasibility::Feasibility;
use super::prices::LaunchPrices;
use super::simulation::{Simulation, SimulationKind, Simulator};
use super::{Candidate, CandidateIndex, Command, Method, Replacement, SearchMode};
use crate::catalog::{CAPACITY_TYPE, ON_DEMAND, SPOT};
use crate::id::{NodeId, PodId};
use crate::plan::{Plan, PlannedNodeClaim};
use crate::requirement::{Requirement, Requirements};
use crate::scheduling::{Fuel, StopReason, min_values};

mod eligibility;
pub(super) mod multi;
mod multiple_replacements;
mod same_type;
pub(super) mod single;
mod spot_to_spot;
mod unconsolidatable;
mod zones;

pub(super) use eligibility::{check_consolidation_eligibility, check_emptiness_eligibility};
pub use unconsolidatable::Unconsolidatable;

/// The relative rounding error of sums of prices.
const PRICE_ROUNDING_SHARE: f64 = 1e-9;

/// Evaluates sets of candidates of one candidate index.
pub(super) struct Consolidation<'a> {
    pub(super) index: &'a CandidateIndex<'a>,
    pub(super) simulator: Simulator<'a>,
    pub(super) prices: LaunchPrices<'a>,
    /// Calculated on first use.
    totals: Option<PoolTotals>,
    feasibility: Option<Feasibility<'a>>,
    /// The results for single nodes, cached for several searches.
    single_node_results: BTreeMap<NodeId, Result<ConsolidationMove, Unconsolidatable>>,
    /// Whether deep search is enabled.
    is_deep: bool,
}

/// What removing a set of nodes takes and saves.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ConsolidationMove {
    pub(super) plan: Plan,
    /// In the order of the plan's claims.
    pub(super) replacements: Vec<PlannedNodeClaim>,
    /// What it saves per hour, if the cheapest option is launched.
    pub(super) savings: f64,
    pub(super) scores: Vec<PoolScore>,
}

impl<'a> Consolidation<'a> {
    pub(super) fn new(index: &'a CandidateIndex<'a>) -> Self {
        let (simulator, prices) = (Simulator::new(index), LaunchPrices::new(index.context.catalog));
        Self {
            index,
            simulator,
            prices,
            totals: None,
            feasibility: None,
            single_node_results: BTreeMap::new(),
            is_deep: false,
        }
    }

    /// Returns a consolidation for another index, with the same search mode.
    pub(super) fn for_index<'b>(&self, index: &'b CandidateIndex<'b>) -> Consolidation<'b> {
        Consolidation { is_deep: self.is_deep, ..Consolidation::new(index) }
    }

    /// Allows several replacements, and replacements in some zones only.
    pub(super) fn enable_deep_search(&mut self) {
        self.is_deep = true;
        self.single_node_results.clear();
    }

    pub(super) fn is_deep(&self) -> bool {
        self.is_deep
    }

    /// Returns how many nodes may replace the candidates.
    fn max_replacements(&self, candidates: &[&Candidate]) -> usize {
        if self.is_deep { candidates.len().saturating_sub(1).max(1) } else { 1 }
    }

    /// Returns the totals of all NodePools.
    pub(super) fn totals(&mut self) -> &PoolTotals {
        self.totals.get_or_insert_with(|| PoolTotals::new(self.index))
    }

    /// Whether the feasibility check allows a deletion without replacements.
    fn may_delete(&mut self, candidates: &[&Candidate]) -> bool {
        !self.index.context.settings.prune
            || self
                .feasibility
                .get_or_insert_with(|| Feasibility::new(self.index))
                .may_delete(candidates)
    }

    /// Rejects candidates that the feasibility check rules out.
    fn check_feasibility(&mut self, candidates: &[&Candidate]) -> Result<(), Unconsolidatable> {
        if !self.index.context.settings.prune {
            return Ok(());
        }
        let most = self.max_replacements(candidates);
        let totals = self.totals.get_or_insert_with(|| PoolTotals::new(self.index));
        let feasibility = self.feasibility.get_or_insert_with(|| Feasibility::new(self.index));
        feasibility.check(candidates, most, totals)
    }

    /// Returns the move that removes the candidates, or why there is none.
    /// Several candidates must not be replaced by one of their own instance types, and their
    /// NodePools with policy Balanced have to approve the score.
    pub(super) fn consider(
        &mut self,
        candidates: &[&Candidate],
        fuel: &mut Fuel<'_>,
    ) -> Result<ConsolidationMove, Unconsolidatable> {
        let &[candidate] = candidates else { return self.consider_uncached(candidates, fuel) };
        if let Some(known) = self.single_node_results.get(&candidate.node) {
            return known.clone();
        }
        let result = self.consider_uncached(candidates, fuel);
        if result != Err(Unconsolidatable::TimedOut) {
            self.single_node_results.insert(candidate.node, result.clone());
        }
        result
    }

    /// Returns the move if the candidates need no replacement.
    pub(super) fn consider_deletion(
        &mut self,
        candidates: &[&Candidate],
        fuel: &mut Fuel<'_>,
    ) -> Option<ConsolidationMove> {
        if !self.may_delete(candidates) {
            return None;
        }
        if candidates.len() == 1 {
            let found = self.consider(candidates, fuel).ok();
            return found.filter(|found| found.replacements.is_empty());
        }
        self.check_feasibility(candidates).ok()?;
        let simulated = self.simulator.simulate_bounded(candidates, 0, fuel).ok()?;
        let found = self.move_from_simulation(candidates, simulated).ok()?;
        self.require_approval(candidates, found).ok()
    }

    fn consider_uncached(
        &mut self,
        candidates: &[&Candidate],
        fuel: &mut Fuel<'_>,
    ) -> Result<ConsolidationMove, Unconsolidatable> {
        self.check_feasibility(candidates)?;
        let simulated = self.simulate(candidates, fuel)?;
        let found = self.move_from_simulation(candidates, simulated)?;
        self.require_approval(candidates, found)
    }

    /// Returns the move if every NodePool with policy Balanced approves its score.
    fn require_approval(
        &mut self,
        candidates: &[&Candidate],
        mut found: ConsolidationMove,
    ) -> Result<ConsolidationMove, Unconsolidatable> {
        let index = self.index;
        found.scores = self.totals().scores(index, candidates, found.savings);
        if found.scores.iter().all(PoolScore::is_approved) {
            Ok(found)
        } else {
            Err(Unconsolidatable::ScoreTooLow { scores: found.scores })
        }
    }

    /// Builds the command of a move.
    pub(super) fn command(
        method: Method,
        candidates: &[&Candidate],
        found: ConsolidationMove,
    ) -> Command {
        Command {
            repair: None,
            method,
            candidates: candidates.iter().map(|&candidate| candidate.clone()).collect(),
            replacements: found.replacements.into_iter().map(Replacement::Planned).collect(),
            plan: found.plan,
            savings: found.savings,
            terminate_first: None,
            is_reboot: false,
            drain_bound: None,
            scores: found.scores,
        }
    }

    /// Builds the move of the candidates from a simulation.
    fn move_from_simulation(
        &mut self,
        candidates: &[&Candidate],
        simulated: Simulation,
    ) -> Result<ConsolidationMove, Unconsolidatable> {
        if simulated.plan.was_cut_short {
            return Err(Unconsolidatable::TimedOut);
        }
        if !simulated.places_all_pods() {
            let snapshot = self.index.context.snapshot;
            let pods = simulated.unplaced_pods.iter().map(|(pod, _)| *pod).collect();
            return Err(Unconsolidatable::UnschedulablePods {
                text: simulated.event_text(snapshot),
                pods,
            });
        }
        let plan = simulated.plan;
        let replacements = self.replacements(&plan.claims, candidates)?;
        let savings = self.savings(candidates, &replacements);
        Ok(ConsolidationMove { plan, replacements, savings, scores: Vec::new() })
    }

    /// Restricts the NodeClaims of a plan to options cheaper than the candidates.
    fn replacements(
        &mut self,
        claims: &[PlannedNodeClaim],
        candidates: &[&Candidate],
    ) -> Result<Vec<PlannedNodeClaim>, Unconsolidatable> {
        if claims.len() > self.max_replacements(candidates) {
            let pods = claims.iter().flat_map(|claim| self.pods_of(claim)).collect();
            return Err(Unconsolidatable::TooManyReplacements { claims: claims.len(), pods });
        }
        let cheaper = claims.iter().map(|claim| {
            let claim = self.restrict_to_cheaper(claim.clone(), candidates)?;
            if candidates.len() > 1 { self.without_same_type(claim, candidates) } else { Ok(claim) }
        });
        let cheaper = cheaper.collect::<Result<Vec<_>, _>>()?;
        if cheaper.len() > 1 {
            self.restrict_to_cheaper_total(cheaper, candidates)
        } else {
            Ok(cheaper)
        }
    }

    /// Simulates the placement of the candidates' pods.
    /// For a single node the result names every unplaced pod; for several the simulation stops at
    /// the first.
    fn simulate(
        &mut self,
        candidates: &[&Candidate],
        fuel: &mut Fuel<'_>,
    ) -> Result<Simulation, Unconsolidatable> {
        if candidates.len() == 1 {
            let kind = SimulationKind::Consolidation;
            return Ok(self.simulator.simulate(candidates, kind, fuel));
        }
        let most = self.max_replacements(candidates);
        self.simulator.simulate_bounded(candidates, most, fuel).map_err(|stopped| match stopped {
            StopReason::TooManyClaims => {
                Unconsolidatable::TooManyReplacements { claims: most + 1, pods: Vec::new() }
            }
            StopReason::BoundPodRejected(pod) => {
                let name = self.index.context.snapshot.pod(pod).full_name();
                let text = format!("Not all pods would schedule, {name}");
                Unconsolidatable::UnschedulablePods { text, pods: vec![pod] }
            }
        })
    }

    /// The pods that a NodeClaim is for: those that have to leave their node, and those that wait.
    fn pods_of(&self, claim: &PlannedNodeClaim) -> impl Iterator<Item = PodId> {
        let snapshot = self.index.context.snapshot;
        claim.pods.iter().copied().filter(|&pod| !snapshot.pod(pod).is_virtual)
    }

    /// Restricts a replacement to options that cost less than the candidates.
    fn restrict_to_cheaper(
        &mut self,
        claim: PlannedNodeClaim,
        candidates: &[&Candidate],
    ) -> Result<PlannedNodeClaim, Unconsolidatable> {
        let ceiling = self.price_ceiling(candidates);
        let is_spot = |one: &&Candidate| one.capacity_type.as_deref() == Some(SPOT);
        if candidates.iter().all(is_spot) && allows_capacity_type(&claim.requirements, SPOT) {
            return self.restrict_spot_to_spot(claim, candidates.len(), ceiling);
        }
        let claim = self.retain_types_below_in_some_zone(claim, ceiling)?;
        if allows_capacity_type(&claim.requirements, SPOT)
            && allows_capacity_type(&claim.requirements, ON_DEMAND)
        {
            return self.restrict_to_spot(claim);
        }
        Ok(claim)
    }

    /// Returns the price that replacements have to stay below.
    /// Sums of prices have rounding errors in the last digits; upstream moves pods for a saving
    /// that is only such an error.
    fn price_ceiling(&self, candidates: &[&Candidate]) -> f64 {
        let sum: f64 = candidates.iter().map(|candidate| candidate.price).sum();
        match self.index.context.settings.search {
            SearchMode::Upstream => sum,
            SearchMode::Best | SearchMode::Deep => sum * (1.0 - PRICE_ROUNDING_SHARE),
        }
    }

    /// Keeps the instance types whose highest launch price is below `ceiling`.
    fn retain_types_below(
        &mut self,
        mut claim: PlannedNodeClaim,
        ceiling: f64,
    ) -> Result<PlannedNodeClaim, Unconsolidatable> {
        let prices = self.prices.launch_prices(self.pool_name(&claim), &claim.requirements);
        let is_below = |position: &&u32| prices[**position as usize].worst < ceiling;
        claim.instance_types = claim.instance_types.iter().filter(is_below).copied().collect();
        self.check_min_values(&claim)?;
        if claim.instance_types.is_empty() {
            return Err(Unconsolidatable::NoCheaperInstanceType {
                pods: self.pods_of(&claim).collect(),
            });
        }
        Ok(claim)
    }

    /// Restricts a replacement to spot, if any of its options offers spot.
    /// The prices were those of spot instances, so a launch that falls back to a more expensive
    /// on-demand instance must fail instead. That makes sense only where spot is available at all
    /// (spec 30 §13 #14).
    fn restrict_to_spot(
        &mut self,
        mut claim: PlannedNodeClaim,
    ) -> Result<PlannedNodeClaim, Unconsolidatable> {
        let prices = self.prices.launch_prices(self.pool_name(&claim), &claim.requirements);
        let has_spot = |position: &&u32| prices[**position as usize].has_spot;
        let with_spot: Arc<[u32]> = claim.instance_types.iter().filter(has_spot).copied().collect();
        if with_spot.is_empty() {
            return Ok(claim);
        }
        claim.instance_types = with_spot;
        claim.requirements = narrow_requirements(&claim.requirements, CAPACITY_TYPE, [SPOT]);
        self.check_min_values(&claim)?;
        Ok(claim)
    }

    /// Rejects a NodeClaim whose options do not satisfy minValues.
    /// minValues are strict here, whatever the policy (spec 30 §6.4). An empty list satisfies them.
    fn check_min_values(&self, claim: &PlannedNodeClaim) -> Result<(), Unconsolidatable> {
        if !claim.requirements.has_min_values() {
            return Ok(());
        }
        let types = self.prices.instance_types(self.pool_name(claim));
        let offered = claim.instance_types.iter().map(|&at| &*types[at as usize].requirements);
        match min_values::required_type_count(&claim.requirements, offered) {
            Ok(_) => Ok(()),
            Err(unmet) => Err(Unconsolidatable::MinValuesUnmet { text: unmet.to_string() }),
        }
    }

    /// What the candidates cost less the cheapest launch of the first option of each replacement.
    fn savings(&mut self, candidates: &[&Candidate], claims: &[PlannedNodeClaim]) -> f64 {
        let source: f64 = candidates.iter().map(|candidate| candidate.price).sum();
        claims.iter().fold(source, |left, claim| left - self.launch_price(claim))
    }

    /// The cheapest launch of the first option of a NodeClaim; 0 if there is none.
    pub(super) fn launch_price(&mut self, claim: &PlannedNodeClaim) -> f64 {
        let prices = self.prices.launch_prices(self.pool_name(claim), &claim.requirements);
        let first = claim.instance_types.first().map(|&at| prices[at as usize].cheapest);
        first.filter(|price| price.is_finite()).unwrap_or(0.0)
    }

    pub(super) fn pool_name(&self, claim: &PlannedNodeClaim) -> &'a str {
        &self.index.context.snapshot.pool(claim.pool).name
    }
}

/// Whether requirements allow a capacity type.
fn allows_capacity_type(requirements: &Requirements, capacity_type: &str) -> bool {
    requirements.get(CAPACITY_TYPE).is_none_or(|types| types.has(capacity_type))
}

/// Returns the requirements with `key` restricted to some values.
fn narrow_requirements<'v>(
    requirements: &Requirements,
    key: &str,
    values: impl IntoIterator<Item = &'v str>,
) -> Arc<Requirements> {
    let mut narrowed = requirements.clone();
    narrowed.add(Requirement::in_values(key, values));
    Arc::new(narrowed)
}
