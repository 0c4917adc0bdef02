//! Several nodes for fewer (spec 30 §14.4 item 3): whatever option of each replacement is launched,
//! together they cost less than the nodes that go.
//!
//! ```text
//! slack = what the nodes that go cost - the least that the replacements may cost
//! each replacement may cost its least and an equal share of the slack
//! ```

use super::{Candidate, Consolidation, Unconsolidatable};
use crate::plan::PlannedNodeClaim;

impl Consolidation<'_> {
    /// What is left of replacements if they have to cost less than the candidates together. Each of
    /// them does on its own.
    pub(super) fn restrict_to_cheaper_total(
        &mut self,
        claims: Vec<PlannedNodeClaim>,
        candidates: &[&Candidate],
    ) -> Result<Vec<PlannedNodeClaim>, Unconsolidatable> {
        let ceiling = self.price_ceiling(candidates);
        let least: Vec<f64> = claims
            .iter()
            .map(|claim| self.worst_launch_prices(claim).fold(f64::INFINITY, f64::min))
            .collect();
        let slack = ceiling - least.iter().sum::<f64>();
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let share = slack / claims.len() as f64;
        let pods = claims.iter().flat_map(|claim| self.pods_of(claim)).collect();
        let within = claims.into_iter().zip(least);
        let within = within.map(|(claim, least)| self.retain_types_below(claim, least + share));
        let within = within.collect::<Result<Vec<_>, _>>()?;
        // Sums of shares may be off in the last digit.
        let most: f64 =
            within.iter().map(|claim| self.worst_launch_prices(claim).fold(0.0, f64::max)).sum();
        if most < ceiling {
            Ok(within)
        } else {
            Err(Unconsolidatable::NoCheaperInstanceType { pods })
        }
    }

    /// What a launch of each option costs at most.
    fn worst_launch_prices(&mut self, claim: &PlannedNodeClaim) -> impl Iterator<Item = f64> {
        let prices = self.prices.launch_prices(self.pool_name(claim), &claim.requirements);
        claim.instance_types.iter().map(move |&at| prices[at as usize].worst)
    }
}
