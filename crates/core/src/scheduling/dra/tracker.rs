//! Tracks the devices that claims hold in a solve (rule 13).
//!
//! A NodeClaim has many instance types until it is launched, and each may hold other devices for
//! the same claims. A published device that any type holds is not available to other candidates; of
//! shared amounts, the largest amount over the types is not available. Template devices belong to
//! one type of one NodeClaim, so they need not be kept from others.

use std::collections::{BTreeMap, BTreeSet};

use super::counters::{Amounts, CapacityKey, CounterKey, Usage};
use super::types::{ClaimKey, DeviceId};
use crate::id::NodeId;
use crate::requirement::Requirements;
use crate::resources::Quantity;

/// The node or NodeClaim that devices are allocated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CandidateId {
    /// A node that exists.
    Node(NodeId),
    /// A NodeClaim that was opened in this solve, by a number of the solver's choice.
    InFlight(u32),
}

/// The devices that one instance type of a candidate holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TypeHold {
    /// Of published devices.
    pub(super) published: Usage,
    /// Of the type's own devices.
    pub(super) template: Usage,
}

/// The devices that a claim holds in this solve.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimHold {
    /// The candidate that holds them.
    pub candidate: CandidateId,
    /// Whether it has devices that only this candidate can use.
    pub is_local: bool,
    /// The devices of the claim if the candidate becomes this instance type.
    pub by_type: BTreeMap<String, ClaimDevices>,
}

/// The devices of a claim on one instance type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimDevices {
    /// The labels that a node needs to use them.
    pub requirements: Requirements,
    /// The devices, in the order chosen.
    pub devices: Vec<ChosenDevice>,
}

/// A device that a claim gets.
#[derive(Clone, Debug, PartialEq)]
pub struct ChosenDevice {
    /// The device.
    pub id: DeviceId,
    /// Whether it is from an instance type's template and not published yet.
    pub is_template: bool,
    /// The request that it is for, with the alternative after a slash.
    pub request: String,
    /// The share, if several claims can share the device.
    pub consumed: BTreeMap<String, Quantity>,
}

impl ClaimHold {
    /// Returns the labels that a node needs, for any instance type of the candidate.
    pub(super) fn requirements(&self) -> Requirements {
        let all = self.by_type.values().flat_map(|devices| devices.requirements.iter());
        all.cloned().collect()
    }
}

/// The devices that all candidates hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tracker {
    held: BTreeMap<CandidateId, CandidateHolds>,
    /// By published device that is not shared: the candidate that holds it.
    holders: BTreeMap<DeviceId, CandidateId>,
    /// Amounts of published counters and devices that all candidates hold together.
    reserve: Reserve,
    pub(super) claims: BTreeMap<ClaimKey, ClaimHold>,
}

/// The devices that one candidate holds.
#[derive(Clone, Debug, Default, PartialEq)]
struct CandidateHolds {
    types: BTreeMap<String, TypeHold>,
    reserve: Reserve,
}

/// Shared amounts that are kept from others.
#[derive(Clone, Debug, Default, PartialEq)]
struct Reserve {
    counters: Amounts<CounterKey>,
    capacity: Amounts<CapacityKey>,
}

impl Tracker {
    /// Returns whether a published device is free for one type of a candidate.
    ///
    /// Devices that the candidate holds for its other types are free: it becomes only one of them.
    pub(super) fn is_free(
        &self,
        device: &DeviceId,
        candidate: CandidateId,
        type_name: &str,
    ) -> bool {
        match self.holders.get(device) {
            None => true,
            Some(holder) if *holder != candidate => false,
            Some(_) => self
                .type_hold(candidate, type_name)
                .is_none_or(|hold| !hold.published.devices.contains(device)),
        }
    }

    /// Returns the devices that one type of a candidate holds.
    pub(super) fn type_hold(&self, candidate: CandidateId, type_name: &str) -> Option<&TypeHold> {
        self.held.get(&candidate)?.types.get(type_name)
    }

    /// Returns the amount of a published counter that all candidates hold.
    pub(super) fn counter(&self, key: &CounterKey) -> Quantity {
        self.reserve.counters.get(key)
    }

    /// Returns the amount of a published capacity that all candidates hold.
    pub(super) fn capacity(&self, key: &CapacityKey) -> Quantity {
        self.reserve.capacity.get(key)
    }

    pub(super) fn commit(
        &mut self,
        candidate: CandidateId,
        types: BTreeMap<String, TypeHold>,
        claims: BTreeMap<ClaimKey, ClaimHold>,
    ) {
        let held = self.held.entry(candidate).or_default();
        for (type_name, hold) in types {
            for device in &hold.published.devices {
                self.holders.entry(device.clone()).or_insert(candidate);
            }
            let own = held.types.entry(type_name).or_default();
            own.published.add(&hold.published);
            own.template.add(&hold.template);
        }
        held.update_reserve(&mut self.reserve);
        for (key, claim) in claims {
            // The first stays: a claim is met once in a solve.
            self.claims.entry(key).or_insert(ClaimHold { candidate, ..claim });
        }
    }

    pub(super) fn release(&mut self, candidate: CandidateId, types: &BTreeSet<&str>) {
        if let Some(held) = self.held.get_mut(&candidate) {
            held.types.retain(|name, _| !types.contains(name.as_str()));
            held.update_reserve(&mut self.reserve);
            let is_held = |device: &DeviceId| {
                held.types.values().any(|hold| hold.published.devices.contains(device))
            };
            self.holders.retain(|device, holder| *holder != candidate || is_held(device));
            if held.types.is_empty() {
                self.held.remove(&candidate);
            }
        }
        self.claims.retain(|_, claim| {
            if claim.candidate == candidate {
                claim.by_type.retain(|name, _| !types.contains(name.as_str()));
            }
            !claim.by_type.is_empty()
        });
    }
}

impl CandidateHolds {
    /// Sets the reserve to the largest amounts over the types, and updates the sum.
    fn update_reserve(&mut self, sum: &mut Reserve) {
        let mut reserve = Reserve::default();
        for hold in self.types.values() {
            reserve.counters.raise_to(&hold.published.counters);
            reserve.capacity.raise_to(&hold.published.capacity);
        }
        sum.counters.subtract_all(&self.reserve.counters);
        sum.capacity.subtract_all(&self.reserve.capacity);
        sum.counters.add_all(&reserve.counters);
        sum.capacity.add_all(&reserve.capacity);
        self.reserve = reserve;
    }
}
