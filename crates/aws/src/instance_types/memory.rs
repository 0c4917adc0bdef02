//! The memory that nodes have really reported (spec 51 §4.5).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use karpenter_api::ec2_nodeclass::Ec2NodeClass;
use karpenter_core::resources::Quantity;
use karpenter_operator::clock::Clock;

use crate::expiring::ExpiringMap;

/// How long a figure is kept after the last node that confirmed it.
const TTL: Duration = Duration::from_hours(60 * 24);

/// The memory of registered nodes, by instance type and images of the node class.
///
/// A figure replaces the estimate in the capacity. It only shrinks.
#[derive(Debug)]
pub struct DiscoveredMemory {
    clock: Arc<dyn Clock>,
    known: Mutex<ExpiringMap<(String, String), Quantity>>,
}

impl DiscoveredMemory {
    /// Returns an empty cache.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, known: Mutex::default() }
    }

    /// Records the memory of a node, unless a smaller figure is known.
    pub fn record(&self, instance_type: &str, class: &Ec2NodeClass, memory: Quantity) {
        let now = self.clock.monotonic();
        let key = (instance_type.to_owned(), images(class));
        let mut known = self.lock();
        let before = known.get(&key, now).copied();
        if before.is_some_and(|before| before < memory) {
            return;
        }
        if before != Some(memory) {
            tracing::debug!("instance-type" = instance_type, "updating discovered capacity cache");
        }
        known.insert(key, memory, now, TTL);
    }

    /// Returns the recorded memory of an instance type with the images of a node class.
    pub fn get(&self, instance_type: &str, class: &Ec2NodeClass) -> Option<Quantity> {
        let known = self.lock();
        if known.is_empty() {
            return None;
        }
        known.get(&(instance_type.to_owned(), images(class)), self.clock.monotonic()).copied()
    }

    fn lock(&self) -> MutexGuard<'_, ExpiringMap<(String, String), Quantity>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn images(class: &Ec2NodeClass) -> String {
    let amis = class.status.as_ref().and_then(|status| status.amis.as_ref());
    serde_json::to_string(&amis).unwrap_or_default()
}
