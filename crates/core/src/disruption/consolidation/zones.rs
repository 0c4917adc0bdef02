//! Restricts a replacement to the cheap zones, if every option is too expensive in some zone (spec
//! 30 §14.4 item 5).
//!
//! That cannot break anything: the node comes up in one of the zones of the NodeClaim in any case,
//! and its pods, with all their zone constraints, were placed for each of them. The cloud just has
//! less to choose from.

use std::sync::Arc;

use super::{Consolidation, Unconsolidatable, narrow_requirements};
use crate::catalog::InstanceType;
use crate::labels::ZONE;
use crate::plan::PlannedNodeClaim;

impl Consolidation<'_> {
    /// Keeps instance types priced below `ceiling`, in some zones if not in all.
    pub(super) fn retain_types_below_in_some_zone(
        &mut self,
        claim: PlannedNodeClaim,
        ceiling: f64,
    ) -> Result<PlannedNodeClaim, Unconsolidatable> {
        if !self.is_deep {
            return self.retain_types_below(claim, ceiling);
        }
        match self.retain_types_below(claim.clone(), ceiling) {
            Err(too_dear @ Unconsolidatable::NoCheaperInstanceType { .. }) => {
                let somewhere = self.restrict_to_cheap_zones(claim, ceiling).ok_or(too_dear)?;
                self.retain_types_below(somewhere, ceiling)
            }
            result => result,
        }
    }

    /// Restricts a NodeClaim to zones where its cheapest option is below `ceiling`.
    fn restrict_to_cheap_zones(
        &mut self,
        mut claim: PlannedNodeClaim,
        ceiling: f64,
    ) -> Option<PlannedNodeClaim> {
        let has_min_values = |zone: &crate::requirement::Requirement| zone.min_values().is_some();
        // A reservation is in one zone, which is not given up.
        if !claim.reservations.is_empty()
            || claim.requirements.get(ZONE).is_some_and(has_min_values)
        {
            return None;
        }
        let pool = self.pool_name(&claim);
        let types = self.prices.instance_types(pool);
        let zones = self.prices.by_zone(pool, &claim.requirements);
        let options = claim.instance_types.iter().copied();
        let options: Arc<[u32]> =
            options.filter(|&at| is_same_in_all_zones(&types[at as usize])).collect();
        let all = options.iter().flat_map(|&at| {
            zones.iter().map(move |(_, prices)| (prices[at as usize].worst, at as usize))
        });
        let (_, least) = all.min_by(|a, b| a.0.total_cmp(&b.0))?;
        let cheap = zones.iter().filter(|(_, prices)| prices[least].worst < ceiling);
        let cheap: Vec<&str> = cheap.map(|(zone, _)| zone.as_str()).collect();
        if cheap.is_empty() {
            return None;
        }
        claim.requirements = narrow_requirements(&claim.requirements, ZONE, cheap);
        let prices = self.prices.launch_prices(pool, &claim.requirements);
        let price = |at: &u32| (prices[*at as usize].cheapest, &types[*at as usize].name);
        let mut options = options.to_vec();
        options.sort_by(|a, b| {
            let (a, b) = (price(a), price(b));
            a.0.total_cmp(&b.0).then_with(|| a.1.cmp(b.1))
        });
        claim.lowest_price = options.first().map(|at| price(at).0);
        claim.instance_types = options.into();
        Some(claim)
    }
}

/// Whether an instance type has the same capacity in all zones.
/// Then pods that fit in one zone fit in another.
fn is_same_in_all_zones(of: &InstanceType) -> bool {
    let gives =
        |at: usize| (&of.offerings[at].capacity_override, &of.offerings[at].overhead_override);
    (1..of.offerings.len()).all(|at| gives(at) == gives(0))
}
