//! Keeps several nodes from being replaced by one of their own instance types (spec 30 §6.6.5).
//! That would be a deletion of the others with more moves.

use std::collections::BTreeMap;

use super::{Candidate, Consolidation, Unconsolidatable};
use crate::plan::PlannedNodeClaim;
use crate::requirement::Requirements;

impl Consolidation<'_> {
    /// Restricts a replacement to options cheaper than candidates of its types.
    /// Those are the candidates with an instance type that the replacement could become.
    pub(super) fn without_same_type(
        &mut self,
        claim: PlannedNodeClaim,
        candidates: &[&Candidate],
    ) -> Result<PlannedNodeClaim, Unconsolidatable> {
        let own = self.cheapest_by_type(candidates);
        let types = self.prices.instance_types(self.pool_name(&claim));
        let shared = claim.instance_types.iter();
        let shared = shared.filter_map(|&at| own.get(types[at as usize].name.as_str()).copied());
        match shared.min_by(f64::total_cmp) {
            None => Ok(claim),
            Some(least) => self.retain_types_below(claim, least).map_err(|error| match error {
                Unconsolidatable::NoCheaperInstanceType { .. } => Unconsolidatable::SameType,
                other => other,
            }),
        }
    }

    /// Returns the lowest price among the candidates of each instance type, by name.
    /// A candidate without a matching offering costs nothing.
    fn cheapest_by_type<'c>(&self, candidates: &[&'c Candidate]) -> BTreeMap<&'c str, f64> {
        let catalog = self.index.context.catalog;
        let mut cheapest: BTreeMap<&str, f64> = BTreeMap::new();
        let mut unsold = Vec::new();
        for candidate in candidates {
            let Some(own) = &candidate.instance_type else { continue };
            let labels = &self.index.context.snapshot.node(candidate.node).labels;
            let labels = labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            let labels = Requirements::from_labels(labels, &catalog.aliases);
            let suits = own.offerings.iter().filter(|offering| {
                labels.compatible(&offering.requirements, &catalog.well_known).is_ok()
            });
            match suits.map(|offering| offering.price).min_by(f64::total_cmp) {
                Some(price) => {
                    let least = cheapest.entry(&own.name).or_insert(f64::INFINITY);
                    *least = least.min(price);
                }
                None => unsold.push(own.name.as_str()),
            }
        }
        for name in unsold {
            cheapest.entry(name).or_insert(0.0);
        }
        cheapest
    }
}
