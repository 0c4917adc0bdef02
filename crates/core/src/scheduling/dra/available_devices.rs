//! Tracks the devices, shares and counters that one instance type can still use (rules 9 and 12).

use std::collections::BTreeMap;

use super::allocator::{Allocator, CandidateType};
use super::capacity;
use super::counters::{
    CapacityKey, CounterKey, Usage, consumption, counter_key, template_counters,
};
use super::devices::CandidateDevice;
use super::tracker::{CandidateId, TypeHold};
use crate::resources::Quantity;

/// The devices that one search on an instance type can still take.
///
/// The allocator and its tracker count the devices held before; `taken` counts those of this
/// search.
#[derive(Debug)]
pub(super) struct AvailableDevices<'s, 'a> {
    allocator: &'s Allocator<'a>,
    candidate: CandidateId,
    type_name: &'s str,
    /// The counters of the type's own pools.
    template_counters: BTreeMap<CounterKey, Quantity>,
    taken: TypeHold,
}

impl<'s, 'a> AvailableDevices<'s, 'a> {
    pub(super) fn new(
        allocator: &'s Allocator<'a>,
        candidate: CandidateId,
        candidate_type: &CandidateType<'s>,
    ) -> Self {
        Self {
            allocator,
            candidate,
            type_name: candidate_type.name,
            template_counters: template_counters(candidate_type.templates),
            taken: TypeHold::default(),
        }
    }

    /// Returns the usage and the share if the search takes the device.
    ///
    /// None if the device or its counters are not available.
    pub(super) fn usage(
        &self,
        requests: &BTreeMap<String, Quantity>,
        item: &CandidateDevice<'_>,
    ) -> Option<(Usage, BTreeMap<String, Quantity>)> {
        let mut usage = Usage::default();
        let mut share = BTreeMap::new();
        if item.device.shape.allows_multiple {
            share = capacity::share(requests, &item.device.shape.capacity)?;
            for (dimension, amount) in &share {
                let key = CapacityKey { device: item.id.clone(), dimension: dimension.clone() };
                usage.capacity.add(key, *amount);
            }
        } else {
            usage.devices.insert(item.id.clone());
        }
        usage.counters = consumption(&item.id, item.device);
        let is_available = self.is_free(item)
            && self.has_share(item, &share)
            && self.has_remaining_counters(item, &usage);
        is_available.then_some((usage, share))
    }

    pub(super) fn take(&mut self, item: &CandidateDevice<'_>, usage: &Usage) {
        self.side(item).add(usage);
    }

    pub(super) fn put_back(&mut self, item: &CandidateDevice<'_>, usage: &Usage) {
        self.side(item).subtract(usage);
    }

    pub(super) fn into_hold(self) -> TypeHold {
        self.taken
    }

    fn side(&mut self, item: &CandidateDevice<'_>) -> &mut Usage {
        if item.is_template { &mut self.taken.template } else { &mut self.taken.published }
    }

    /// Returns the usage of the type's own devices by earlier pods of this candidate.
    fn held_templates(&self) -> Option<&'s Usage> {
        Some(&self.allocator.tracker().type_hold(self.candidate, self.type_name)?.template)
    }

    fn is_free(&self, item: &CandidateDevice<'_>) -> bool {
        if item.device.shape.allows_multiple {
            return true;
        }
        if item.is_template {
            return !self.taken.template.devices.contains(&item.id)
                && self.held_templates().is_none_or(|held| !held.devices.contains(&item.id));
        }
        !self.taken.published.devices.contains(&item.id)
            && !self.allocator.is_taken(&item.id)
            && self.allocator.tracker().is_free(&item.id, self.candidate, self.type_name)
    }

    /// Returns whether a shared device has this much capacity left.
    fn has_share(&self, item: &CandidateDevice<'_>, share: &BTreeMap<String, Quantity>) -> bool {
        share.iter().all(|(dimension, amount)| {
            let key = CapacityKey { device: item.id.clone(), dimension: dimension.clone() };
            let used = if item.is_template {
                let held = self.held_templates().map(|held| held.capacity.get(&key));
                held.unwrap_or_default().saturating_add(self.taken.template.capacity.get(&key))
            } else {
                let of_others = self
                    .allocator
                    .consumed(&key)
                    .saturating_add(self.allocator.tracker().capacity(&key));
                of_others.saturating_add(self.taken.published.capacity.get(&key))
            };
            let total = item.device.shape.capacity.get(dimension).map(|capacity| capacity.value);
            total.is_some_and(|total| used.saturating_add(*amount) <= total)
        })
    }

    /// Returns whether the pool's counters cover what the device consumes.
    ///
    /// A counter that no slice declares has nothing, not even zero.
    fn has_remaining_counters(&self, item: &CandidateDevice<'_>, usage: &Usage) -> bool {
        item.device.consumes.iter().all(|set| {
            set.counters.keys().all(|counter| {
                let key = counter_key(&item.id.driver, &item.id.pool, &set.name, counter);
                self.left(item, &key).is_some_and(|left| usage.counters.get(&key) <= left)
            })
        })
    }

    /// Returns the remaining amount of a counter; none if no slice declares it.
    fn left(&self, item: &CandidateDevice<'_>, key: &CounterKey) -> Option<Quantity> {
        let (total, held, taken) = if item.is_template {
            let held = self.held_templates().map(|held| held.counters.get(key));
            let taken = self.taken.template.counters.get(key);
            (*self.template_counters.get(key)?, held.unwrap_or_default(), taken)
        } else {
            let held = self.allocator.tracker().counter(key);
            (self.allocator.available_counter(key)?, held, self.taken.published.counters.get(key))
        };
        Some(total.saturating_sub(held).saturating_sub(taken))
    }
}
