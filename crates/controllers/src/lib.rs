//! The provider-neutral controllers: observe, decide, act.
//!
//! Each controller reads facts from the [`Cache`] or the
//! [`Mirror`](karpenter_cluster::mirror::Mirror), calls a pure function of `karpenter-core` and
//! carries out what it returned. A controller also writes the API server's response to the cache at
//! once, before the watch delivers it, so that no controller acts on a stale object. [`all`] lists
//! all controllers.

pub mod cache;
pub mod capacity_buffer;
pub mod context;
pub mod device_selectors;
mod disruptor;
mod failed_consolidation;
pub mod gauges;
pub mod node;
pub mod node_overlay;
pub mod nodeclaim;
pub mod nodepool;
mod objects;
mod plan_check;
mod pod_deletion_cost;
pub mod process;
pub mod provisioner;
pub mod state;
pub mod static_capacity;
#[cfg(test)]
pub(crate) mod testing;
mod ttl_cache;

pub use cache::Cache;
pub use context::{Context, Dependencies};
use karpenter_operator::harness::Controller;

/// Every controller that runs with these options, in the order in which they start.
pub fn all(context: &Context) -> Vec<Controller> {
    let mut all = Vec::new();
    all.extend(state::all(context));
    all.extend(provisioner::all(context));
    all.extend(disruptor::all(context));
    all.extend(nodepool::all(context));
    all.extend(nodeclaim::all(context));
    let evictions = node::Evictions::new(context);
    all.push(nodeclaim::reboot::controller(context, &evictions));
    all.extend(node::all(context, &evictions));
    all.extend(static_capacity::all(context));
    all.extend(pod_deletion_cost::all(context));
    all.extend(node_overlay::all(context));
    all.extend(capacity_buffer::all(context));
    all.extend(gauges::all(context));
    all
}
