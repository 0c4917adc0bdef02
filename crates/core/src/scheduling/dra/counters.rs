//! Amounts that devices share: counters of pools and capacities of devices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::types::{Device, DeviceId, SliceTemplate};
use crate::resources::Quantity;

/// A counter of a pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CounterKey {
    pub(super) driver: Arc<str>,
    pub(super) pool: Arc<str>,
    pub(super) set: String,
    pub(super) counter: String,
}

/// A capacity of a device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CapacityKey {
    pub(super) device: DeviceId,
    pub(super) dimension: String,
}

/// Amounts by key. Zero amounts are not stored, so equal amounts are equal values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Amounts<K>(BTreeMap<K, Quantity>);

impl<K> Default for Amounts<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone> Amounts<K> {
    pub(super) fn get(&self, key: &K) -> Quantity {
        self.0.get(key).copied().unwrap_or_default()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, Quantity)> {
        self.0.iter().map(|(key, amount)| (key, *amount))
    }

    pub(super) fn add(&mut self, key: K, amount: Quantity) {
        let sum = self.get(&key).saturating_add(amount);
        self.set(key, sum);
    }

    pub(super) fn add_all(&mut self, others: &Self) {
        others.iter().for_each(|(key, amount)| self.add(key.clone(), amount));
    }

    pub(super) fn subtract_all(&mut self, others: &Self) {
        for (key, amount) in others.iter() {
            self.set(key.clone(), self.get(key).saturating_sub(amount));
        }
    }

    /// Raises each amount to at least the other amount of its key.
    pub(super) fn raise_to(&mut self, others: &Self) {
        for (key, amount) in others.iter() {
            self.set(key.clone(), self.get(key).max(amount));
        }
    }

    fn set(&mut self, key: K, amount: Quantity) {
        if amount.is_zero() {
            self.0.remove(&key);
        } else {
            self.0.insert(key, amount);
        }
    }
}

/// The devices, counters and capacity that claims of one node take.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Usage {
    /// Whole devices.
    pub(super) devices: BTreeSet<DeviceId>,
    /// Amounts of the counters of pools.
    pub(super) counters: Amounts<CounterKey>,
    /// Amounts of devices that several claims can share.
    pub(super) capacity: Amounts<CapacityKey>,
}

impl Usage {
    pub(super) fn add(&mut self, other: &Self) {
        self.devices.extend(other.devices.iter().cloned());
        self.counters.add_all(&other.counters);
        self.capacity.add_all(&other.capacity);
    }

    /// Subtracts a usage that was added before.
    ///
    /// Devices are exclusive, so no two additions have the same.
    pub(super) fn subtract(&mut self, other: &Self) {
        self.devices.retain(|device| !other.devices.contains(device));
        self.counters.subtract_all(&other.counters);
        self.capacity.subtract_all(&other.capacity);
    }
}

/// Returns the amounts of its pool's counters that a device consumes.
pub(super) fn consumption(id: &DeviceId, device: &Device) -> Amounts<CounterKey> {
    let mut amounts = Amounts::default();
    for set in &device.consumes {
        for (counter, amount) in &set.counters {
            amounts.add(counter_key(&id.driver, &id.pool, &set.name, counter), *amount);
        }
    }
    amounts
}

/// Returns the counters that an instance type's templates declare.
///
/// If two slices declare one counter, the later one counts.
pub(super) fn template_counters(templates: &[SliceTemplate]) -> BTreeMap<CounterKey, Quantity> {
    let declared = |template: &SliceTemplate| {
        let (driver, pool) = (template.driver.clone(), template.pool.clone());
        let counters = template.counters.iter().flat_map(|set| {
            set.counters.iter().map(|(counter, amount)| (set.name.clone(), counter, *amount))
        });
        counters
            .map(|(set, counter, amount)| (counter_key(&driver, &pool, &set, counter), amount))
            .collect::<Vec<_>>()
    };
    templates.iter().flat_map(declared).collect()
}

pub(super) fn counter_key(
    driver: &Arc<str>,
    pool: &Arc<str>,
    set: &str,
    counter: &str,
) -> CounterKey {
    CounterKey {
        driver: driver.clone(),
        pool: pool.clone(),
        set: set.to_owned(),
        counter: counter.to_owned(),
    }
}
