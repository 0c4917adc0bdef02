//! Tracks the reserved capacity that NodeClaims of a solve hold (spec 20 §3.14, spec 45 §11.1).

use std::collections::{BTreeMap, BTreeSet};

use super::input::SolverInput;
use crate::rejection::ReservedOfferingRejection;
use crate::scheduling::ReservedMode;

/// The remaining slots of each reservation, and the NodeClaims that hold slots.
#[derive(Clone, Debug, Default)]
pub(super) struct Reservations {
    /// Slots that are free according to the catalog.
    capacity: BTreeMap<String, i64>,
    /// Slots that the request adds.
    credits: BTreeMap<String, u32>,
    left: BTreeMap<String, i64>,
    held: BTreeMap<usize, BTreeSet<String>>,
}

/// The compatible offerings that a placement has found.
#[derive(Debug, Default)]
pub(super) struct FoundOfferings {
    /// Reservations with a slot for the placement.
    pub(super) reservable: BTreeSet<String>,
    has_real: bool,
    has_full: bool,
    has_fallback: bool,
}

impl Reservations {
    pub(super) fn new(input: &SolverInput<'_>) -> Self {
        let label = input.catalog.reservation_id_label.as_deref();
        let mut left: BTreeMap<String, i64> = BTreeMap::new();
        let mut lists = Vec::new();
        for types in input.pools.iter().filter_map(|pool| input.catalog.pools.get(&pool.name)) {
            // Pools often share a list.
            if lists.iter().any(|&list| std::sync::Arc::ptr_eq(list, types)) {
                continue;
            }
            lists.push(types);
            for offering in types.iter().flat_map(|t| &*t.offerings).filter(|o| o.is_reserved()) {
                let id = offering.reservation_id(label).unwrap_or_default();
                let capacity = i64::from(offering.reservation_capacity);
                left.entry(id.to_owned())
                    .and_modify(|least| *least = capacity.min(*least))
                    .or_insert(capacity);
            }
        }
        let mut reservations = Self { capacity: left, ..Self::default() };
        reservations.reset(&input.options.reservation_credits);
        reservations
    }

    /// Releases all reservations, and adds these slots to the free ones.
    pub(super) fn reset(&mut self, credits: &BTreeMap<String, u32>) {
        self.held.clear();
        self.left.clone_from(&self.capacity);
        self.credits.clone_from(credits);
        for (id, &credit) in credits {
            if let Some(left) = self.left.get_mut(id) {
                *left += i64::from(credit);
            }
        }
    }

    /// Adds one available, compatible offering to the found ones.
    ///
    /// `claim` is none for a new NodeClaim. `reserved` is the reservation's id and capacity, none
    /// for an offering that is not reserved.
    pub(super) fn inspect_offering(
        &self,
        found: &mut FoundOfferings,
        claim: Option<usize>,
        reserved: Option<(&str, u32)>,
    ) {
        let Some((id, capacity)) = reserved else {
            found.has_fallback = true;
            return;
        };
        let credit = self.credits.get(id).copied().unwrap_or(0);
        if capacity == 0 && credit == 0 {
            found.has_full = true;
            return;
        }
        found.has_real = true;
        if self.holds(claim, id) || self.left.get(id).is_some_and(|&left| left > 0) {
            found.reservable.insert(id.to_owned());
        }
    }

    fn holds(&self, claim: Option<usize>, id: &str) -> bool {
        let held = claim.and_then(|claim| self.held.get(&claim));
        held.is_some_and(|held| held.contains(id))
    }

    /// Checks whether the placement may use the offerings that it found.
    pub(super) fn check(
        &self,
        found: &FoundOfferings,
        claim: Option<usize>,
        mode: ReservedMode,
    ) -> Result<(), ReservedOfferingRejection> {
        let is_strict = mode == ReservedMode::Strict;
        let held = claim.and_then(|claim| self.held.get(&claim));
        let holds_some = held.is_some_and(|held| !held.is_empty());
        if is_strict && found.has_real && found.reservable.is_empty() {
            return Err(ReservedOfferingRejection::HeldByOthers);
        }
        if found.has_full && !found.has_real && !found.has_fallback {
            return Err(if is_strict {
                ReservedOfferingRejection::Full
            } else {
                ReservedOfferingRejection::FullInFallbackMode
            });
        }
        if is_strict && holds_some && found.reservable.is_empty() {
            return Err(ReservedOfferingRejection::WouldLoseReservations);
        }
        Ok(())
    }

    /// Makes a NodeClaim hold exactly these reservations.
    pub(super) fn hold(&mut self, claim: usize, wanted: BTreeSet<String>) {
        let held = self.held.entry(claim).or_default();
        if *held == wanted {
            return;
        }
        for id in held.difference(&wanted) {
            *self.left.entry(id.clone()).or_default() += 1;
        }
        for id in wanted.difference(held) {
            *self.left.entry(id.clone()).or_default() -= 1;
        }
        *held = wanted;
    }

    /// Returns the reservations that a NodeClaim holds, sorted.
    pub(super) fn held_by(&self, claim: usize) -> Vec<String> {
        self.held.get(&claim).into_iter().flatten().cloned().collect()
    }
}
