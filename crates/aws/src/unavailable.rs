//! Offerings that EC2 could not launch a moment ago (spec 51 §9).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use karpenter_operator::clock::Clock;

use crate::expiring::ExpiringMap;

#[cfg(test)]
mod tests;

/// How long an offering stays unavailable after EC2 has refused it.
pub const UNAVAILABLE_FOR: Duration = Duration::from_mins(3);

/// How often the owner calls [`UnavailableOfferings::sweep`].
pub const SWEEP_PERIOD: Duration = Duration::from_secs(10);

/// Remembers the offerings that EC2 has refused, for three minutes each.
///
/// The sequence numbers change with every mark and every eviction, so that a cache of offerings
/// recomputes only the instance types that are affected.
#[derive(Debug)]
pub struct UnavailableOfferings {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    offerings: ExpiringMap<OfferingKey, ()>,
    capacity_types: ExpiringMap<String, ()>,
    subnets: ExpiringMap<String, ()>,
    /// The sequence number of each instance type that was ever marked.
    by_type: BTreeMap<String, u64>,
    /// Marks and evictions of capacity types and subnets, which concern every instance type.
    global: u64,
    /// All marks and evictions.
    version: u64,
}

/// An offering, maybe for one placement group only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OfferingKey {
    /// The instance type.
    pub instance_type: String,
    /// `on-demand`, `spot` or `reserved`.
    pub capacity_type: String,
    /// The name of the zone.
    pub zone: String,
    /// The placement group that lacks capacity; absent if all launches do.
    pub scope: Option<PlacementScope>,
}

/// A placement group, or a partition of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlacementScope {
    /// The id of the placement group.
    pub placement_group: String,
    /// The number of the partition.
    pub partition: Option<String>,
}

/// The reason and the context of a mark, for the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct MarkContext<'a> {
    /// Why EC2 refused, such as `InsufficientInstanceCapacity`.
    pub reason: &'a str,
    /// The fleet request that failed.
    pub fleet_id: &'a str,
}

impl UnavailableOfferings {
    /// Returns an empty cache.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: Mutex::default() }
    }

    /// Marks an offering as unavailable; a second mark extends the time.
    pub fn mark(&self, key: OfferingKey, context: MarkContext<'_>) {
        let now = self.clock.monotonic();
        let scope = key.scope.as_ref();
        tracing::debug!(
            reason = context.reason,
            "instance-type" = key.instance_type,
            zone = key.zone,
            "capacity-type" = key.capacity_type,
            ttl = ?UNAVAILABLE_FOR,
            "fleet-id" = context.fleet_id,
            "placement-group" = scope.map_or("", |scope| scope.placement_group.as_str()),
            "removing offering from offerings"
        );
        let mut state = self.lock();
        state.advance(&key.instance_type);
        state.offerings.insert(key, (), now, UNAVAILABLE_FOR);
    }

    /// Marks all offerings of a capacity type as unavailable.
    pub fn mark_capacity_type(&self, capacity_type: &str) {
        let now = self.clock.monotonic();
        let mut state = self.lock();
        state.capacity_types.insert(capacity_type.to_owned(), (), now, UNAVAILABLE_FOR);
        state.advance_all();
    }

    /// Marks a subnet as full.
    pub fn mark_subnet(&self, subnet: &str) {
        let now = self.clock.monotonic();
        let mut state = self.lock();
        state.subnets.insert(subnet.to_owned(), (), now, UNAVAILABLE_FOR);
        state.advance_all();
    }

    /// Returns whether an offering, its capacity type or all of its subnets are marked.
    ///
    /// Without subnets the last reason does not apply.
    pub fn is_unavailable(&self, key: &OfferingKey, subnets: &[String]) -> bool {
        let now = self.clock.monotonic();
        let state = self.lock();
        state.offerings.get(key, now).is_some()
            || state.capacity_types.get(key.capacity_type.as_str(), now).is_some()
            || (!subnets.is_empty()
                && subnets.iter().all(|subnet| state.subnets.get(subnet.as_str(), now).is_some()))
    }

    /// Returns whether this offering itself is marked.
    pub fn is_marked(&self, key: &OfferingKey) -> bool {
        let now = self.clock.monotonic();
        self.lock().offerings.get(key, now).is_some()
    }

    /// Removes expired marks; their sequence numbers grow.
    pub fn sweep(&self) {
        let now = self.clock.monotonic();
        let mut state = self.lock();
        for key in state.offerings.sweep(now) {
            state.advance(&key.instance_type);
        }
        let expired = state.capacity_types.sweep(now).len() + state.subnets.sweep(now).len();
        for _ in 0..expired {
            state.advance_all();
        }
    }

    /// Removes all marks without a change of the sequence numbers.
    pub fn flush(&self) {
        let mut state = self.lock();
        state.offerings.clear();
        state.capacity_types.clear();
        state.subnets.clear();
    }

    /// Returns the sequence number of an instance type.
    ///
    /// It grows with each mark and eviction that concerns the instance type.
    pub fn sequence(&self, instance_type: &str) -> u64 {
        let state = self.lock();
        state.global + state.by_type.get(instance_type).copied().unwrap_or_default()
    }

    /// Returns the number of all marks and evictions.
    ///
    /// While it stays the same, no sequence number has changed.
    pub fn version(&self) -> u64 {
        self.lock().version
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn advance(&mut self, instance_type: &str) {
        self.version += 1;
        match self.by_type.get_mut(instance_type) {
            Some(number) => *number += 1,
            None => {
                self.by_type.insert(instance_type.to_owned(), 1);
            }
        }
    }

    fn advance_all(&mut self) {
        self.version += 1;
        self.global += 1;
    }
}
