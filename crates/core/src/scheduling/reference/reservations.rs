//! Tracks the slots of capacity reservations in a solve (spec 20 §3.14, spec 45 §11.1).

use std::collections::{BTreeMap, BTreeSet};

use super::input::SolverInput;
use crate::catalog::{InstanceType, Offering};
use crate::rejection::ReservedOfferingRejection;
use crate::requirement::Requirements;
use crate::scheduling::ReservedMode;

/// The slots that each reservation has left.
pub(super) struct Reservations {
    left: BTreeMap<String, u32>,
}

impl Reservations {
    /// Reads the slots of all reservations.
    ///
    /// A reservation has the least capacity that any pool sees, available or not, plus its credits.
    pub(super) fn new(input: &SolverInput<'_>) -> Self {
        let mut left: BTreeMap<String, u32> = BTreeMap::new();
        let types = input.snapshot.pools.iter().flat_map(|pool| input.types(pool));
        for offering in types.flat_map(|t| &*t.offerings).filter(|o| o.is_reserved()) {
            let capacity = left.entry(id(input, offering)).or_insert(offering.reservation_capacity);
            *capacity = offering.reservation_capacity.min(*capacity);
        }
        for (id, credit) in &input.options.reservation_credits {
            left.entry(id.clone())
                .and_modify(|capacity| *capacity = capacity.saturating_add(*credit));
        }
        Self { left }
    }

    /// Returns the reservations that a NodeClaim would hold with these types and requirements.
    pub(super) fn reservations_to_hold<'t>(
        &self,
        input: &SolverInput<'_>,
        held: &BTreeSet<String>,
        types: impl IntoIterator<Item = &'t InstanceType>,
        requirements: &Requirements,
    ) -> Result<BTreeSet<String>, ReservedOfferingRejection> {
        if !input.options.reserved_capacity {
            return Ok(BTreeSet::new());
        }
        let (mut fallback, mut full, mut real) = (false, false, false);
        let mut reserved = BTreeSet::new();
        for offering in types.into_iter().flat_map(|t| &*t.offerings).filter(|o| o.available) {
            if requirements.compatible(&offering.requirements, input.well_known()).is_err() {
                continue;
            }
            let id = id(input, offering);
            let credit = input.options.reservation_credits.get(&id).copied().unwrap_or(0);
            if !offering.is_reserved() {
                fallback = true;
            } else if offering.reservation_capacity == 0 && credit == 0 {
                full = true;
            } else {
                real = true;
                if held.contains(&id) || self.left.get(&id).is_some_and(|&left| left > 0) {
                    reserved.insert(id);
                }
            }
        }
        let is_strict = input.options.reserved_mode == ReservedMode::Strict;
        if is_strict && real && reserved.is_empty() {
            return Err(ReservedOfferingRejection::HeldByOthers);
        }
        if full && !real && !fallback {
            return Err(if is_strict {
                ReservedOfferingRejection::Full
            } else {
                ReservedOfferingRejection::FullInFallbackMode
            });
        }
        if is_strict && !held.is_empty() && reserved.is_empty() {
            return Err(ReservedOfferingRejection::WouldLoseReservations);
        }
        Ok(reserved)
    }

    /// Takes the slots that are new and returns those that are no longer held.
    pub(super) fn exchange(&mut self, held: &BTreeSet<String>, now: &BTreeSet<String>) {
        for id in now.difference(held) {
            self.left.entry(id.clone()).and_modify(|left| *left = left.saturating_sub(1));
        }
        for id in held.difference(now) {
            self.left.entry(id.clone()).and_modify(|left| *left = left.saturating_add(1));
        }
    }
}

fn id(input: &SolverInput<'_>, offering: &Offering) -> String {
    let label = input.catalog.reservation_id_label.as_deref();
    offering.reservation_id(label).unwrap_or_default().to_owned()
}
