//! Replaces several nodes by fewer (spec 30 §14.4 item 3). Whichever option of each replacement is
//! launched, together they cost less than the removed nodes.
//!
//! ```text
//! slack = price of the removed nodes - price of the cheapest option of each replacement
//! each replacement may cost its cheapest option and an equal share of the slack
//! ```

use super::{Candidate, Consolidation, Unconsolidatable};
use crate::plan::PlannedNodeClaim;

impl Consolidation<'_> {
    /// Restricts replacements to options cheaper than the candidates together.
    /// Each replacement alone is cheaper already.
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

    /// Returns the highest launch price of each option of a NodeClaim.
    fn worst_launch_prices(&mut self, claim: &PlannedNodeClaim) -> impl Iterator<Item = f64> {
        let prices = self.prices.launch_prices(self.pool_name(claim), &claim.requirements);
        claim.instance_types.iter().map(move |&at| prices[at as usize].worst)
    }
}
