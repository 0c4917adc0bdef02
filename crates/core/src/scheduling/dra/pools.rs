//! Pools of published devices, and which of them a node can use (rules 2, 5 and 6).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::counters::{CounterKey, consumption, counter_key};
use super::types::{Device, DeviceId, NodeAccess, Slice};
use crate::requirement::Requirements;
use crate::resources::Quantity;

/// The published devices that count, by pool.
#[derive(Debug)]
pub(super) struct Pools<'a> {
    by_key: Vec<Pool<'a>>,
    devices: Vec<PublishedDevice<'a>>,
    /// The counters of all pools, less the consumption of allocated devices.
    pub(super) counters: BTreeMap<CounterKey, Quantity>,
}

/// The slices of one pool at its highest generation.
#[derive(Debug)]
struct Pool<'a> {
    driver: Arc<str>,
    name: Arc<str>,
    slices: Vec<PoolSlice<'a>>,
    /// Fewer or more slices than declared.
    is_incomplete: bool,
    /// Whether a counter set is declared twice, or a device consumes an undeclared counter.
    has_bad_counters: bool,
}

/// A slice with devices.
#[derive(Debug)]
struct PoolSlice<'a> {
    slice: &'a Slice,
    /// Positions in [`Pools::devices`].
    devices: Range<usize>,
}

/// A device in a published ResourceSlice.
#[derive(Debug)]
pub(super) struct PublishedDevice<'a> {
    pub(super) id: DeviceId,
    pub(super) device: &'a Device,
    /// The labels that a node needs to use it; none if all nodes can, or one node by name.
    pub(super) topology: Option<Arc<Requirements>>,
    /// Whether only one node, by name, can use it.
    pub(super) is_local: bool,
}

/// A pool as one node sees it.
#[derive(Debug)]
pub(super) struct PoolView<'p> {
    pub(super) driver: &'p str,
    pub(super) name: &'p str,
    pub(super) is_incomplete: bool,
    /// Whether none of its devices can be allocated.
    pub(super) is_invalid: bool,
    /// Positions of devices.
    pub(super) devices: Vec<usize>,
}

impl<'a> Pools<'a> {
    /// Groups slices by driver and pool name. The order of slices is kept inside a pool.
    pub(super) fn new(slices: impl IntoIterator<Item = &'a Slice>) -> Self {
        let mut by_key: BTreeMap<(Arc<str>, Arc<str>), Vec<&'a Slice>> = BTreeMap::new();
        for slice in slices {
            let pool = by_key.entry((slice.driver.clone(), slice.pool.clone())).or_default();
            let newest = pool.first().map_or(slice.generation, |known| known.generation);
            if slice.generation > newest {
                pool.clear();
            }
            if slice.generation >= newest {
                pool.push(slice);
            }
        }
        let mut pools = Self { by_key: Vec::new(), devices: Vec::new(), counters: BTreeMap::new() };
        for ((driver, name), slices) in by_key {
            pools.add(driver, name, &slices);
        }
        pools
    }

    fn add(&mut self, driver: Arc<str>, name: Arc<str>, slices: &[&'a Slice]) {
        let declared = slices.first().map_or(0, |slice| slice.slice_count);
        let mut has_bad_counters = false;
        let mut sets = BTreeSet::new();
        for set in slices.iter().flat_map(|slice| &slice.counters) {
            has_bad_counters |= !sets.insert(set.name.as_str());
            for (counter, amount) in &set.counters {
                self.counters.insert(counter_key(&driver, &name, &set.name, counter), *amount);
            }
        }
        let mut pool_slices = Vec::new();
        for slice in slices.iter().filter(|slice| slice.counters.is_empty()) {
            let start = self.devices.len();
            let topology = topology(slice).map(Arc::new);
            self.devices.extend(slice.devices.iter().map(|device| PublishedDevice {
                id: DeviceId {
                    driver: driver.clone(),
                    pool: name.clone(),
                    device: device.name.clone(),
                },
                device,
                topology: topology.clone(),
                is_local: matches!(slice.node_access, NodeAccess::Node(_)),
            }));
            pool_slices.push(PoolSlice { slice, devices: start..self.devices.len() });
            has_bad_counters |=
                slice.devices.iter().flat_map(|device| &device.consumes).any(|set| {
                    !sets.contains(set.name.as_str())
                        || set.counters.keys().any(|counter| {
                            let key = counter_key(&driver, &name, &set.name, counter);
                            !self.counters.contains_key(&key)
                        })
                });
        }
        let is_incomplete = i64::try_from(slices.len()) != Ok(declared);
        let slices = pool_slices;
        self.by_key.push(Pool { driver, name, slices, is_incomplete, has_bad_counters });
    }

    /// Returns all published devices, by position.
    pub(super) fn devices(&self) -> &[PublishedDevice<'a>] {
        &self.devices
    }

    /// Subtracts the consumption of these devices from the counters.
    pub(super) fn consume_counters(&mut self, taken: impl Fn(&DeviceId) -> bool) {
        for published in self.devices.iter().filter(|published| taken(&published.id)) {
            for (key, amount) in consumption(&published.id, published.device).iter() {
                if let Some(remaining) = self.counters.get_mut(key) {
                    *remaining = remaining.saturating_sub(amount);
                }
            }
        }
    }

    /// Returns the pools that a node with these labels sees, by driver and name.
    ///
    /// A node sees a pool if it can use one of its slices, if the pool is invalid, or if devices
    /// that the node cannot use consume counters of the pool.
    pub(super) fn seen_by(
        &self,
        requirements: &Requirements,
        node_name: Option<&str>,
        well_known: &BTreeSet<String>,
    ) -> Vec<PoolView<'_>> {
        let reaches = |slice: &Slice| match &slice.node_access {
            NodeAccess::AllNodes => true,
            NodeAccess::Node(name) => node_name == Some(name),
            NodeAccess::Selector(terms) => {
                terms.iter().any(|term| requirements.compatible(term, well_known).is_ok())
            }
            NodeAccess::PerDevice => false,
        };
        self.by_key.iter().filter_map(|pool| pool.view(&self.devices, &reaches)).collect()
    }
}

impl Pool<'_> {
    fn view(
        &self,
        published: &[PublishedDevice<'_>],
        reaches: &dyn Fn(&Slice) -> bool,
    ) -> Option<PoolView<'_>> {
        let (seen, unseen): (Vec<_>, Vec<_>) =
            self.slices.iter().partition(|slice| reaches(slice.slice));
        let mut devices: Vec<_> = seen.iter().flat_map(|slice| slice.devices.clone()).collect();
        let names: BTreeSet<_> = devices.iter().map(|at| &published[*at].id.device).collect();
        let is_invalid = self.has_bad_counters || names.len() < devices.len();
        let has_consumers = || {
            let unseen = unseen.iter().flat_map(|slice| &slice.slice.devices);
            unseen.into_iter().any(|device| !device.consumes.is_empty())
        };
        if seen.is_empty() && !is_invalid && !has_consumers() {
            return None;
        }
        if is_invalid {
            devices.clear();
        }
        Some(PoolView {
            driver: &self.driver,
            name: &self.name,
            is_incomplete: self.is_incomplete,
            is_invalid,
            devices,
        })
    }
}

/// Returns the labels that the slice's node selector requires.
///
/// Terms are intersected: the API allows only one.
fn topology(slice: &Slice) -> Option<Requirements> {
    match &slice.node_access {
        NodeAccess::Selector(terms) => {
            Some(terms.iter().flat_map(Requirements::iter).cloned().collect())
        }
        NodeAccess::AllNodes | NodeAccess::Node(_) | NodeAccess::PerDevice => None,
    }
}
