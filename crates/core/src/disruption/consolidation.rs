//! Consolidation: can the pods of some nodes go elsewhere, or onto one cheaper node? (spec 30 §6.4)
//!
//! [`Consolidation::consider`] answers for a set of candidates; [`single`] and [`multi`] choose sets
//! as upstream does. Searches that choose better are in [`super::search`].

use std::sync::Arc;

use super::balanced::{PoolScore, Totals};
use super::bounds::Bounds;
use super::prices::Prices;
use super::simulate::{Question, Simulated, Simulator};
use super::{Board, Candidate, Command, Method, Replacement};
use crate::catalog::{CAPACITY_TYPE, ON_DEMAND, SPOT};
use crate::plan::{Plan, PlannedClaim};
use crate::requirement::{Requirement, Requirements};
use crate::scheduling::{Fuel, Stopped, min_values};

mod eligible;
pub(super) mod multi;
mod same_type;
pub(super) mod single;
mod spot_to_spot;
mod unconsolidatable;

pub(super) use eligible::{is_eligible, is_eligible_empty};
pub use unconsolidatable::Unconsolidatable;

/// Considers sets of candidates of one world.
pub(super) struct Consolidation<'a> {
    pub(super) board: &'a Board<'a>,
    pub(super) simulator: Simulator<'a>,
    pub(super) prices: Prices<'a>,
    /// Made when they are first asked for.
    totals: Option<Totals>,
    bounds: Option<Bounds<'a>>,
}

/// A set of nodes that can go, and what for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Move {
    pub(super) plan: Plan,
    pub(super) replacement: Option<PlannedClaim>,
    /// What it saves per hour, if the cheapest option is launched.
    pub(super) savings: f64,
    pub(super) scores: Vec<PoolScore>,
}

impl<'a> Consolidation<'a> {
    pub(super) fn new(board: &'a Board<'a>) -> Self {
        let (simulator, prices) = (Simulator::new(board), Prices::new(board.world.catalog));
        Self { board, simulator, prices, totals: None, bounds: None }
    }

    /// What the NodePools have in all.
    pub(super) fn totals(&mut self) -> &Totals {
        self.totals.get_or_insert_with(|| Totals::new(self.board))
    }

    /// Whether the candidates may go without a replacement, as far as that is told easily.
    pub(super) fn may_delete(&mut self, candidates: &[&Candidate]) -> bool {
        !self.board.world.settings.prune
            || self.bounds.get_or_insert_with(|| Bounds::new(self.board)).may_delete(candidates)
    }

    /// Why the candidates cannot go, as far as that is told easily.
    fn check(&mut self, candidates: &[&Candidate]) -> Result<(), Unconsolidatable> {
        if !self.board.world.settings.prune {
            return Ok(());
        }
        let totals = self.totals.get_or_insert_with(|| Totals::new(self.board));
        let bounds = self.bounds.get_or_insert_with(|| Bounds::new(self.board));
        bounds.check(candidates, totals)
    }

    /// Whether the candidates can go, and what for. A set of several must not be replaced by one of
    /// their own, and has to be worth it where the policy is Balanced.
    pub(super) fn consider(
        &mut self,
        candidates: &[&Candidate],
        fuel: &mut Fuel<'_>,
    ) -> Result<Move, Unconsolidatable> {
        self.check(candidates)?;
        let mut found = self.compute(candidates, fuel)?;
        if candidates.len() > 1
            && let Some(claim) = found.replacement.take()
        {
            let claim = self.without_same_type(claim, candidates)?;
            found.savings = self.savings(candidates, Some(&claim));
            found.replacement = Some(claim);
        }
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
            replacements: found.replacement.into_iter().map(Replacement::Planned).collect(),
            plan: found.plan,
            savings: found.savings,
            terminate_first: None,
            is_reboot: false,
            drain_bound: None,
            scores: found.scores,
        }
    }

    fn compute(
        &mut self,
        candidates: &[&Candidate],
        fuel: &mut Fuel<'_>,
    ) -> Result<Move, Unconsolidatable> {
        let simulated = self.simulated(candidates, fuel)?;
        if simulated.plan.ran_dry {
            return Err(Unconsolidatable::RanDry);
        }
        if !simulated.places_all() {
            let snapshot = self.board.world.snapshot;
            let pods = simulated.misplaced.iter().map(|(pod, _)| snapshot.pod(*pod).full_name());
            let pods = pods.collect();
            return Err(Unconsolidatable::PodsWithoutPlace {
                text: simulated.text(snapshot),
                pods,
            });
        }
        let plan = simulated.plan;
        let claim = match &plan.claims[..] {
            [] => None,
            [claim] => Some(self.cheaper(claim.clone(), candidates)?),
            several => return Err(Unconsolidatable::TooMany { claims: several.len() }),
        };
        let savings = self.savings(candidates, claim.as_ref());
        Ok(Move { plan, replacement: claim, savings, scores: Vec::new() })
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
        self.simulator.simulate_one(candidates, fuel).map_err(|stopped| match stopped {
            Stopped::Claims => Unconsolidatable::TooMany { claims: 2 },
            Stopped::Refused(pod) => {
                let pod = self.board.world.snapshot.pod(pod).full_name();
                let text = format!("Not all pods would schedule, {pod}");
                Unconsolidatable::PodsWithoutPlace { text, pods: vec![pod] }
            }
        })
    }

    /// What is left of a replacement if it has to cost less than the candidates.
    fn cheaper(
        &mut self,
        claim: PlannedClaim,
        candidates: &[&Candidate],
    ) -> Result<PlannedClaim, Unconsolidatable> {
        let ceiling: f64 = candidates.iter().map(|candidate| candidate.price).sum();
        let is_spot = |one: &&Candidate| one.capacity_type.as_deref() == Some(SPOT);
        if candidates.iter().all(is_spot) && admits(&claim.requirements, SPOT) {
            return self.spot_to_spot(claim, candidates.len(), ceiling);
        }
        let claim = self.below(claim, ceiling)?;
        if admits(&claim.requirements, SPOT) && admits(&claim.requirements, ON_DEMAND) {
            return self.spot_only(claim);
        }
        Ok(claim)
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
            return Err(Unconsolidatable::NothingCheaper);
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
        claim.requirements = narrowed(&claim.requirements, SPOT);
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

    /// What the candidates cost less the cheapest launch of the first option.
    pub(super) fn savings(
        &mut self,
        candidates: &[&Candidate],
        claim: Option<&PlannedClaim>,
    ) -> f64 {
        let source: f64 = candidates.iter().map(|candidate| candidate.price).sum();
        source - claim.map_or(0.0, |claim| self.launch_price(claim))
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

/// The same with one capacity type only.
fn narrowed(requirements: &Requirements, capacity_type: &str) -> Arc<Requirements> {
    let mut narrowed = requirements.clone();
    narrowed.add(Requirement::in_values(CAPACITY_TYPE, [capacity_type]));
    Arc::new(narrowed)
}
