//! A spot node for spot nodes (spec 30 §6.5).

use super::{Consolidation, Unconsolidatable, narrowed};
use crate::catalog::{CAPACITY_TYPE, SPOT};
use crate::plan::PlannedClaim;
use crate::scheduling::min_values;

/// So many cheaper instance types are needed, and no more are offered: a launch that may choose among
/// all cheaper ones would walk down the prices, to ever rarer types.
pub(super) const FLEXIBILITY: usize = 15;

impl Consolidation<'_> {
    pub(super) fn spot_to_spot(
        &mut self,
        mut claim: PlannedClaim,
        candidates: usize,
        ceiling: f64,
    ) -> Result<PlannedClaim, Unconsolidatable> {
        if !self.board.world.settings.spot_to_spot {
            return Err(Unconsolidatable::SpotToSpotDisabled);
        }
        claim.requirements = narrowed(&claim.requirements, CAPACITY_TYPE, [SPOT]);
        let prices = self.prices.of(self.pool_name(&claim), &claim.requirements);
        let can_launch = |position: &&u32| prices[**position as usize].cheapest.is_finite();
        claim.instance_types = claim.instance_types.iter().filter(can_launch).copied().collect();
        let mut claim = self.below_somewhere(claim, ceiling)?;
        if candidates > 1 {
            return Ok(claim);
        }
        let options = claim.instance_types.len();
        if options < FLEXIBILITY {
            return Err(Unconsolidatable::SpotToSpotInflexible { options });
        }
        let needed = self.needed_for_min_values(&claim).max(FLEXIBILITY);
        claim.instance_types = claim.instance_types[..needed.min(options)].into();
        Ok(claim)
    }

    /// How many of the options, cheapest first, reach all minValues.
    fn needed_for_min_values(&self, claim: &PlannedClaim) -> usize {
        let types = self.prices.types(self.pool_name(claim));
        let offered = claim.instance_types.iter().map(|&at| &types[at as usize].requirements);
        min_values::needed(&claim.requirements, offered).unwrap_or(claim.instance_types.len())
    }
}
