//! A spot node for spot nodes (spec 30 §6.5).

use super::{Consolidation, Unconsolidatable, narrow_requirements};
use crate::catalog::{CAPACITY_TYPE, SPOT};
use crate::plan::PlannedNodeClaim;
use crate::scheduling::min_values;

/// How many cheaper instance types a spot-to-spot replacement needs and offers.
/// A launch that may choose among all cheaper types would step down the prices, to ever rarer
/// types.
pub(super) const MIN_INSTANCE_TYPES: usize = 15;

impl Consolidation<'_> {
    pub(super) fn restrict_spot_to_spot(
        &mut self,
        mut claim: PlannedNodeClaim,
        candidates: usize,
        ceiling: f64,
    ) -> Result<PlannedNodeClaim, Unconsolidatable> {
        if !self.index.context.settings.spot_to_spot {
            return Err(Unconsolidatable::SpotToSpotDisabled);
        }
        claim.requirements = narrow_requirements(&claim.requirements, CAPACITY_TYPE, [SPOT]);
        let prices = self.prices.launch_prices(self.pool_name(&claim), &claim.requirements);
        let can_launch = |position: &&u32| prices[**position as usize].cheapest.is_finite();
        claim.instance_types = claim.instance_types.iter().filter(can_launch).copied().collect();
        let mut claim = self.retain_types_below_in_some_zone(claim, ceiling)?;
        if candidates > 1 {
            return Ok(claim);
        }
        let options = claim.instance_types.len();
        if options < MIN_INSTANCE_TYPES {
            return Err(Unconsolidatable::SpotToSpotInflexible { options });
        }
        let needed = self.count_needed_for_min_values(&claim).max(MIN_INSTANCE_TYPES);
        claim.instance_types = claim.instance_types[..needed.min(options)].into();
        Ok(claim)
    }

    /// Returns how many options, cheapest first, satisfy all minValues.
    fn count_needed_for_min_values(&self, claim: &PlannedNodeClaim) -> usize {
        let types = self.prices.instance_types(self.pool_name(claim));
        let offered = claim.instance_types.iter().map(|&at| &*types[at as usize].requirements);
        min_values::required_type_count(&claim.requirements, offered)
            .unwrap_or(claim.instance_types.len())
    }
}
