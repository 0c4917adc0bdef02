//! Checks minValues and reservations of a placement that fits otherwise.

use std::collections::BTreeSet;

use super::Solver;
use super::requirement_store::{KeyId, SetId, UndefinedLabels};
use super::reservations::FoundOfferings;
use crate::bit_set::BitSet;
use crate::rejection::ReservedOfferingRejection;

impl Solver<'_> {
    /// Returns the keys whose minValues the types miss (spec 45 §11.3).
    ///
    /// Each key has the number of values that the types have.
    pub(super) fn lacking_min_values(
        &mut self,
        set: SetId,
        variants: &BitSet,
        template: usize,
    ) -> Vec<(KeyId, u32)> {
        let types = &self.types[self.templates[template].types];
        let mut lacking = Vec::new();
        for &requirement in self.store.members(set) {
            let plain = self.store.get(requirement);
            let Some(wanted) = plain.min_values() else { continue };
            let key = self.store.key_of(requirement);
            let mut values: BTreeSet<&str> = BTreeSet::new();
            let mut offers: BTreeSet<_> = BTreeSet::new();
            for variant in variants.iter() {
                if values.len() >= wanted as usize {
                    break;
                }
                // Types share few requirements on a key, each of which is read once.
                let Some(offer) = types.requirement(variant, key) else { continue };
                if offers.insert(offer) {
                    let offer = self.store.get(offer);
                    let listed = offer.values().iter().filter(|_| !offer.is_complement());
                    values.extend(listed.filter(|v| plain.has(v)).map(String::as_str));
                }
            }
            if values.len() < wanted as usize {
                lacking.push((key, super::id(values.len())));
            }
        }
        lacking
    }

    /// Returns the set with minValues lowered to the available number.
    pub(super) fn relax_min_values(&mut self, set: SetId, lacking: Vec<(KeyId, u32)>) -> SetId {
        lacking.into_iter().fold(set, |set, (key, achieved)| {
            let Some(requirement) = self.store.find(set, key) else { return set };
            let lowered = self.store.get(requirement).clone().with_min_values(Some(achieved));
            let lowered = self.store.requirement(&lowered);
            self.store.replace(set, lowered)
        })
    }

    /// Returns the reservations that a placement would hold, or why it is rejected.
    pub(super) fn reservable(
        &mut self,
        set: SetId,
        variants: &BitSet,
        template: usize,
        claim: Option<usize>,
    ) -> Result<BTreeSet<String>, ReservedOfferingRejection> {
        let label = self.input.catalog.reservation_id_label.as_deref();
        let types = &self.types[self.templates[template].types];
        let mut found = FoundOfferings::default();
        for instance_type in types.types_of(variants) {
            let position = instance_type as usize;
            let offerings = types.list[position].offerings.iter().zip(&types.offerings[position]);
            for (offering, &required) in offerings {
                if !offering.available
                    || !self.store.compatible(set, required, UndefinedLabels::WellKnown)
                {
                    continue;
                }
                let id = offering.reservation_id(label).unwrap_or_default();
                let reserved =
                    offering.is_reserved().then_some((id, offering.reservation_capacity));
                self.reservations.inspect_offering(&mut found, claim, reserved);
            }
        }
        self.reservations.check(&found, claim, self.input.options.reserved_mode)?;
        Ok(found.reservable)
    }
}
