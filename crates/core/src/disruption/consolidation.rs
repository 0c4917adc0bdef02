//! Consolidation: can the pods of some nodes go elsewhere, or onto one cheaper node? (spec 30 §6.4)
//! If it is to look deeper, also onto fewer nodes that cost less together.
//!
//! [`Consolidation::consider`] answers for a set of candidates; [`single`] and [`multi`] choose sets
//! as upstream does. Searches that choose better are in [`super::search`].

use std::collections::BTreeMap;
use std::sync::Arc;

use super::balanced::{PoolScore, Totals};
use super::bounds::Bounds;
use super::prices::Prices;
use super::simulate::{Question, Simulated, Simulator};
use super::{Board, Candidate, Command, Method, Replacement, Search};
use crate::catalog::{CAPACITY_TYPE, ON_DEMAND, SPOT};
use crate::id::{NodeId, PodId};
use crate::plan::{Plan, PlannedClaim};
use crate::requirement::{Requirement, Requirements};
use crate::scheduling::{Fuel, Stopped, min_values};

mod eligible;
pub(super) mod multi;
mod same_type;
mod several;
pub(super) mod single;
mod spot_to_spot;
mod unconsolidatable;
mod zones;

pub(super) use eligible::{is_eligible, is_eligible_empty};
pub use unconsolidatable::Unconsolidatable;

/// What sums of prices may be off by, as a share.
const ROUNDING: f64 = 1e-9;

/// Considers sets of candidates of one world.
pub(super) struct Consolidation<'a> {
    pub(super) board: &'a Board<'a>,
    pub(super) simulator: Simulator<'a>,
    pub(super) prices: Prices<'a>,
    /// Made when they are first asked for.
    totals: Option<Totals>,
    bounds: Option<Bounds<'a>>,
    /// What was said about nodes on their own: several searches ask.
    alone: BTreeMap<NodeId, Result<Move, Unconsolidatable>>,
    /// Whether several nodes may come, and zones may be left out.
    is_deep: bool,
}

/// A set of nodes that can go, and what for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Move {
    pub(super) plan: Plan,
    /// In the order of the plan's claims.
    pub(super) replacements: Vec<PlannedClaim>,
    /// What it saves per hour, if the cheapest option is launched.
    pub(super) savings: f64,
    pub(super) scores: Vec<PoolScore>,
}

impl<'a> Consolidation<'a> {
    pub(super) fn new(board: &'a Board<'a>) -> Self {
        let (simulator, prices) = (Simulator::new(board), Prices::new(board.world.catalog));
        let alone = BTreeMap::new();
        Self { board, simulator, prices, totals: None, bounds: None, alone, is_deep: false }
    }

    /// The same for another look at the cluster.
    pub(super) fn on<'b>(&self, board: &'b Board<'b>) -> Consolidation<'b> {
        Consolidation { is_deep: self.is_deep, ..Consolidation::new(board) }
    }

    /// From now on several nodes may be replaced by fewer, and zones may be left out.
    pub(super) fn deepen(&mut self) {
        self.is_deep = true;
        self.alone.clear();
    }

    pub(super) fn is_deep(&self) -> bool {
        self.is_deep
    }

    /// So many nodes may come for the candidates.
    fn most(&self, candidates: &[&Candidate]) -> usize {
        if self.is_deep { candidates.len().saturating_sub(1).max(1) } else { 1 }
    }

    /// What the NodePools have in all.
    pub(super) fn totals(&mut self) -> &Totals {
        self.totals.get_or_insert_with(|| Totals::new(self.board))
    }

    /// Whether the candidates may go without a replacement, as far as that is told easily.
    fn may_delete(&mut self, candidates: &[&Candidate]) -> bool {
        !self.board.world.settings.prune
            || self.bounds.get_or_insert_with(|| Bounds::new(self.board)).may_delete(candidates)
    }

    /// Why the candidates cannot go, as far as that is told easily.
    fn check(&mut self, candidates: &[&Candidate]) -> Result<(), Unconsolidatable> {
        if !self.board.world.settings.prune {
            return Ok(());
        }
        let most = self.most(candidates);
        let totals = self.totals.get_or_insert_with(|| Totals::new(self.board));
        let bounds = self.bounds.get_or_insert_with(|| Bounds::new(self.board));
        bounds.check(candidates, most, totals)
    }

    /// Whether the candidates can go, and what for. A set of several must not be replaced by one of
    /// their own, and has to be worth it where the policy is Balanced.
    pub(super) fn consider(
        &mut self,
        candidates: &[&Candidate],
        fuel: &mut Fuel<'_>,
    ) -> Result<Move, Unconsolidatable> {
        let &[candidate] = candidates else { return self.consider_anew(candidates, fuel) };
        if let Some(known) = self.alone.get(&candidate.node) {
            return known.clone();
        }
        let result = self.consider_anew(candidates, fuel);
        if result != Err(Unconsolidatable::RanDry) {
            self.alone.insert(candidate.node, result.clone());
        }
        result
    }

    /// The move if the candidates can go without a replacement.
    pub(super) fn delete(
        &mut self,
        candidates: &[&Candidate],
        fuel: &mut Fuel<'_>,
    ) -> Option<Move> {
        if !self.may_delete(candidates) {
            return None;
        }
        if candidates.len() == 1 {
            let found = self.consider(candidates, fuel).ok();
            return found.filter(|found| found.replacements.is_empty());
        }
        self.check(candidates).ok()?;
        let simulated = self.simulator.simulate_within(candidates, 0, fuel).ok()?;
        let found = self.judged(candidates, simulated).ok()?;
        self.worth_it(candidates, found).ok()
    }

    fn consider_anew(
        &mut self,
        candidates: &[&Candidate],
        fuel: &mut Fuel<'_>,
    ) -> Result<Move, Unconsolidatable> {
        self.check(candidates)?;
        let simulated = self.simulated(candidates, fuel)?;
        let found = self.judged(candidates, simulated)?;
        self.worth_it(candidates, found)
    }

    /// The move, if all pools agree that it is worth it.
    fn worth_it(
        &mut self,
        candidates: &[&Candidate],
        mut found: Move,
    ) -> Result<Move, Unconsolidatable> {
        let board = self.board;
        found.scores = self.totals().scores(board, candidates, found.savings);
        if found.scores.iter().all(PoolScore::is_approved) {
            Ok(found)
        } else {
            Err(Unconsolidatable::NotWorthIt { scores: found.scores })
        }
    }

    /// The command that a move is.
    pub(super) fn command(method: Method, candidates: &[&Candidate], found: Move) -> Command {
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
    fn judged(
        &mut self,
        candidates: &[&Candidate],
        simulated: Simulated,
    ) -> Result<Move, Unconsolidatable> {
        if simulated.plan.ran_dry {
            return Err(Unconsolidatable::RanDry);
        }
        if !simulated.places_all() {
            let snapshot = self.board.world.snapshot;
            let pods = simulated.misplaced.iter().map(|(pod, _)| *pod).collect();
            return Err(Unconsolidatable::PodsWithoutPlace {
                text: simulated.text(snapshot),
                pods,
            });
        }
        let plan = simulated.plan;
        let replacements = self.replacements(&plan.claims, candidates)?;
        let savings = self.savings(candidates, &replacements);
        Ok(Move { plan, replacements, savings, scores: Vec::new() })
    }

    /// What is left of the NodeClaims of a plan if they have to cost less than the candidates.
    fn replacements(
        &mut self,
        claims: &[PlannedClaim],
        candidates: &[&Candidate],
    ) -> Result<Vec<PlannedClaim>, Unconsolidatable> {
        if claims.len() > self.most(candidates) {
            let pods = claims.iter().flat_map(|claim| self.pods_of(claim)).collect();
            return Err(Unconsolidatable::TooMany { claims: claims.len(), pods });
        }
        let cheaper = claims.iter().map(|claim| {
            let claim = self.cheaper(claim.clone(), candidates)?;
            if candidates.len() > 1 { self.without_same_type(claim, candidates) } else { Ok(claim) }
        });
        let cheaper = cheaper.collect::<Result<Vec<_>, _>>()?;
        if cheaper.len() > 1 { self.cheaper_together(cheaper, candidates) } else { Ok(cheaper) }
    }

    /// Where their pods would go. Of a single node it is told in full why it cannot go; of several
    /// the first thing that is wrong will do.
    fn simulated(
        &mut self,
        candidates: &[&Candidate],
        fuel: &mut Fuel<'_>,
    ) -> Result<Simulated, Unconsolidatable> {
        if candidates.len() == 1 {
            let question = Question::Consolidation;
            return Ok(self.simulator.simulate(candidates, question, fuel));
        }
        let most = self.most(candidates);
        self.simulator.simulate_within(candidates, most, fuel).map_err(|stopped| match stopped {
            Stopped::Claims => Unconsolidatable::TooMany { claims: most + 1, pods: Vec::new() },
            Stopped::Refused(pod) => {
                let name = self.board.world.snapshot.pod(pod).full_name();
                let text = format!("Not all pods would schedule, {name}");
                Unconsolidatable::PodsWithoutPlace { text, pods: vec![pod] }
            }
        })
    }

    /// The pods that a NodeClaim is for: those that have to leave their node, and those that wait.
    fn pods_of(&self, claim: &PlannedClaim) -> impl Iterator<Item = PodId> {
        let snapshot = self.board.world.snapshot;
        claim.pods.iter().copied().filter(|&pod| !snapshot.pod(pod).is_virtual)
    }

    /// What is left of a replacement if it has to cost less than the candidates.
    fn cheaper(
        &mut self,
        claim: PlannedClaim,
        candidates: &[&Candidate],
    ) -> Result<PlannedClaim, Unconsolidatable> {
        let ceiling = self.ceiling(candidates);
        let is_spot = |one: &&Candidate| one.capacity_type.as_deref() == Some(SPOT);
        if candidates.iter().all(is_spot) && admits(&claim.requirements, SPOT) {
            return self.spot_to_spot(claim, candidates.len(), ceiling);
        }
        let claim = self.below_somewhere(claim, ceiling)?;
        if admits(&claim.requirements, SPOT) && admits(&claim.requirements, ON_DEMAND) {
            return self.spot_only(claim);
        }
        Ok(claim)
    }

    /// What replacements have to cost less than. Sums of prices are off in the last digits; upstream
    /// moves pods for a saving that is nothing but that.
    fn ceiling(&self, candidates: &[&Candidate]) -> f64 {
        let sum: f64 = candidates.iter().map(|candidate| candidate.price).sum();
        match self.board.world.settings.search {
            Search::Upstream => sum,
            Search::Best | Search::Deep => sum * (1.0 - ROUNDING),
        }
    }

    /// The instance types whose launch costs less in any case.
    fn below(
        &mut self,
        mut claim: PlannedClaim,
        ceiling: f64,
    ) -> Result<PlannedClaim, Unconsolidatable> {
        let prices = self.prices.of(self.pool_name(&claim), &claim.requirements);
        let is_below = |position: &&u32| prices[**position as usize].worst < ceiling;
        claim.instance_types = claim.instance_types.iter().filter(is_below).copied().collect();
        self.meets_min_values(&claim)?;
        if claim.instance_types.is_empty() {
            return Err(Unconsolidatable::NothingCheaper { pods: self.pods_of(&claim).collect() });
        }
        Ok(claim)
    }

    /// The prices were those of spot instances, so a launch that falls back to a dearer on-demand one
    /// must fail instead. That makes sense only where spot can be had at all (spec 30 §13 14).
    fn spot_only(&mut self, mut claim: PlannedClaim) -> Result<PlannedClaim, Unconsolidatable> {
        let prices = self.prices.of(self.pool_name(&claim), &claim.requirements);
        let has_spot = |position: &&u32| prices[**position as usize].has_spot;
        let with_spot: Arc<[u32]> = claim.instance_types.iter().filter(has_spot).copied().collect();
        if with_spot.is_empty() {
            return Ok(claim);
        }
        claim.instance_types = with_spot;
        claim.requirements = narrowed(&claim.requirements, CAPACITY_TYPE, [SPOT]);
        self.meets_min_values(&claim)?;
        Ok(claim)
    }

    /// minValues hold strictly here, whatever the policy (spec 30 §6.4). An empty list misses none.
    fn meets_min_values(&self, claim: &PlannedClaim) -> Result<(), Unconsolidatable> {
        if !claim.requirements.has_min_values() {
            return Ok(());
        }
        let types = self.prices.types(self.pool_name(claim));
        let offered = claim.instance_types.iter().map(|&at| &types[at as usize].requirements);
        match min_values::needed(&claim.requirements, offered) {
            Ok(_) => Ok(()),
            Err(unmet) => Err(Unconsolidatable::MinValues { text: unmet.to_string() }),
        }
    }

    /// What the candidates cost less the cheapest launch of the first option of each replacement.
    fn savings(&mut self, candidates: &[&Candidate], claims: &[PlannedClaim]) -> f64 {
        let source: f64 = candidates.iter().map(|candidate| candidate.price).sum();
        claims.iter().fold(source, |left, claim| left - self.launch_price(claim))
    }

    /// The cheapest launch of the first option of a NodeClaim; 0 if there is none.
    pub(super) fn launch_price(&mut self, claim: &PlannedClaim) -> f64 {
        let prices = self.prices.of(self.pool_name(claim), &claim.requirements);
        let first = claim.instance_types.first().map(|&at| prices[at as usize].cheapest);
        first.filter(|price| price.is_finite()).unwrap_or(0.0)
    }

    pub(super) fn pool_name(&self, claim: &PlannedClaim) -> &'a str {
        &self.board.world.snapshot.pool(claim.pool).name
    }
}

/// Whether a node of this capacity type would do.
fn admits(requirements: &Requirements, capacity_type: &str) -> bool {
    requirements.get(CAPACITY_TYPE).is_none_or(|types| types.has(capacity_type))
}

/// The same with some values of a label only.
fn narrowed<'v>(
    requirements: &Requirements,
    key: &str,
    values: impl IntoIterator<Item = &'v str>,
) -> Arc<Requirements> {
    let mut narrowed = requirements.clone();
    narrowed.add(Requirement::in_values(key, values));
    Arc::new(narrowed)
}
