//! Several nodes for fewer (spec 30 §14.4 item 3): whatever option of each replacement is launched,
//! together they cost less than the nodes that go.
//!
//! ```text
//! slack = what the nodes that go cost - the least that the replacements may cost
//! each replacement may cost its least and an equal share of the slack
//! ```

use super::{Candidate, Consolidation, Unconsolidatable};
use crate::plan::PlannedClaim;

impl Consolidation<'_> {
    /// What is left of replacements if they have to cost less than the candidates together. Each of
    /// them does on its own.
    pub(super) fn cheaper_together(
        &mut self,
        claims: Vec<PlannedClaim>,
        candidates: &[&Candidate],
    ) -> Result<Vec<PlannedClaim>, Unconsolidatable> {
        let ceiling = self.ceiling(candidates);
        let least: Vec<f64> =
            claims.iter().map(|claim| self.worst(claim).fold(f64::INFINITY, f64::min)).collect();
        let slack = ceiling - least.iter().sum::<f64>();
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let share = slack / claims.len() as f64;
        let pods = claims.iter().flat_map(|claim| self.pods_of(claim)).collect();
        let within = claims.into_iter().zip(least);
        let within = within.map(|(claim, least)| self.below(claim, least + share));
        let within = within.collect::<Result<Vec<_>, _>>()?;
        // Sums of shares may be off in the last digit.
        let most: f64 = within.iter().map(|claim| self.worst(claim).fold(0.0, f64::max)).sum();
        if most < ceiling { Ok(within) } else { Err(Unconsolidatable::NothingCheaper { pods }) }
    }

    /// What a launch of each option costs at most.
    fn worst(&mut self, claim: &PlannedClaim) -> impl Iterator<Item = f64> {
        let prices = self.prices.of(self.pool_name(claim), &claim.requirements);
        claim.instance_types.iter().map(move |&at| prices[at as usize].worst)
    }
}
