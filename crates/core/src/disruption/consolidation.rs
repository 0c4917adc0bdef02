//! Consolidation: can the pods of some nodes go elsewhere, or onto one cheaper node? (spec 30 §6.4)
//! If it is to look deeper, also onto fewer nodes that cost less together.
//!
//! [`Consolidation::consider`] answers for a set of candidates; [`single`] and [`multi`] choose sets
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

/// What sums of prices may be off by, as a share.
const PRICE_ROUNDING_SHARE: f64 = 1e-9;

/// Considers sets of candidates of one world.
pub(super) struct Consolidation<'a> {
    pub(super) index: &'a CandidateIndex<'a>,
    pub(super) simulator: Simulator<'a>,
    pub(super) prices: LaunchPrices<'a>,
    /// Made when they are first asked for.
    totals: Option<PoolTotals>,
    feasibility: Option<Feasibility<'a>>,
    /// What was said about nodes on their own: several searches ask.
    single_node_results: BTreeMap<NodeId, Result<ConsolidationMove, Unconsolidatable>>,
    /// Whether several nodes may come, and zones may be left out.
    is_deep: bool,
}

/// A set of nodes that can go, and what for.
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
        let alone = BTreeMap::new();
        Self {
            index,
            simulator,
            prices,
            totals: None,
            feasibility: None,
            single_node_results: alone,
            is_deep: false,
        }
    }

    /// The same for another look at the cluster.
    pub(super) fn for_index<'b>(&self, index: &'b CandidateIndex<'b>) -> Consolidation<'b> {
        Consolidation { is_deep: self.is_deep, ..Consolidation::new(index) }
    }

    /// From now on several nodes may be replaced by fewer, and zones may be left out.
    pub(super) fn enable_deep_search(&mut self) {
        self.is_deep = true;
        self.single_node_results.clear();
    }

    pub(super) fn is_deep(&self) -> bool {
        self.is_deep
    }

    /// So many nodes may come for the candidates.
    fn max_replacements(&self, candidates: &[&Candidate]) -> usize {
        if self.is_deep { candidates.len().saturating_sub(1).max(1) } else { 1 }
    }

    /// What the NodePools have in all.
    pub(super) fn totals(&mut self) -> &PoolTotals {
        self.totals.get_or_insert_with(|| PoolTotals::new(self.index))
    }

    /// Whether the candidates may go without a replacement, as far as that is told easily.
    fn may_delete(&mut self, candidates: &[&Candidate]) -> bool {
        !self.index.context.settings.prune
            || self
                .feasibility
                .get_or_insert_with(|| Feasibility::new(self.index))
                .may_delete(candidates)
    }

    /// Why the candidates cannot go, as far as that is told easily.
    fn check_feasibility(&mut self, candidates: &[&Candidate]) -> Result<(), Unconsolidatable> {
        if !self.index.context.settings.prune {
            return Ok(());
        }
        let most = self.max_replacements(candidates);
        let totals = self.totals.get_or_insert_with(|| PoolTotals::new(self.index));
        let bounds = self.feasibility.get_or_insert_with(|| Feasibility::new(self.index));
        bounds.check(candidates, most, totals)
    }

    /// Whether the candidates can go, and what for. A set of several must not be replaced by one of
    /// their own, and has to be worth it where the policy is Balanced.
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

    /// The move if the candidates can go without a replacement.
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

    /// The move, if all pools agree that it is worth it.
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

    /// The command that a move is.
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

    /// What a simulation means for the candidates.
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

    /// What is left of the NodeClaims of a plan if they have to cost less than the candidates.
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

    /// Where their pods would go. Of a single node it is told in full why it cannot go; of several
    /// the first thing that is wrong will do.
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

    /// What is left of a replacement if it has to cost less than the candidates.
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

    /// What replacements have to cost less than. Sums of prices are off in the last digits; upstream
    /// moves pods for a saving that is nothing but that.
    fn price_ceiling(&self, candidates: &[&Candidate]) -> f64 {
        let sum: f64 = candidates.iter().map(|candidate| candidate.price).sum();
        match self.index.context.settings.search {
            SearchMode::Upstream => sum,
            SearchMode::Best | SearchMode::Deep => sum * (1.0 - PRICE_ROUNDING_SHARE),
        }
    }

    /// The instance types whose launch costs less in any case.
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

    /// The prices were those of spot instances, so a launch that falls back to a dearer on-demand one
    /// must fail instead. That makes sense only where spot can be had at all (spec 30 §13 14).
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

    /// minValues hold strictly here, whatever the policy (spec 30 §6.4). An empty list misses none.
    fn check_min_values(&self, claim: &PlannedNodeClaim) -> Result<(), Unconsolidatable> {
        if !claim.requirements.has_min_values() {
            return Ok(());
        }
        let types = self.prices.instance_types(self.pool_name(claim));
        let offered = claim.instance_types.iter().map(|&at| &types[at as usize].requirements);
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

/// Whether a node of this capacity type would do.
fn allows_capacity_type(requirements: &Requirements, capacity_type: &str) -> bool {
    requirements.get(CAPACITY_TYPE).is_none_or(|types| types.has(capacity_type))
}

/// The same with some values of a label only.
fn narrow_requirements<'v>(
    requirements: &Requirements,
    key: &str,
    values: impl IntoIterator<Item = &'v str>,
) -> Arc<Requirements> {
    let mut narrowed = requirements.clone();
    narrowed.add(Requirement::in_values(key, values));
    Arc::new(narrowed)
}
