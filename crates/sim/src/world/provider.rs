//! The provider of a world.

use std::fmt;
use std::sync::Arc;

use karpenter_operator::clock::Clock;
use karpenter_operator::cloud::{CloudProvider, RepairPolicy};
use karpenter_operator::harness::tasks::Tasks;
use karpenter_operator::provider::ProviderFacts;
use karpenter_operator::rng::SeededRng;
use kube::Client;
use serde_json::Value;

/// A provider whose cloud belongs to the world: it survives a restart of the product.
pub struct WorldProvider {
    /// The facts about the provider.
    pub facts: ProviderFacts,
    /// The actions for unhealthy nodes.
    pub repair_policies: Vec<RepairPolicy>,
    /// CRDs, then node classes; the world creates them in this order.
    pub objects: Vec<Value>,
    /// Builds the cloud.
    pub build_cloud: BuildCloud,
}

/// Builds the cloud of a world.
pub type BuildCloud = Box<dyn FnOnce(CloudEnvironment<'_>) -> Arc<dyn CloudProvider>>;

/// What a world gives to its cloud.
pub struct CloudEnvironment<'a> {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub rng: &'a SeededRng,
    pub tasks: Tasks,
}

impl fmt::Debug for WorldProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorldProvider").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl fmt::Debug for CloudEnvironment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudEnvironment").field("tasks", &self.tasks).finish_non_exhaustive()
    }
}
