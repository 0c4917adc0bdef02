//! Calculates the resource usage of a node's pods (spec 40 §5.1).
//!
//! A sum is calculated when a reader needs it, and kept until a pod of that node changes. Nothing
//! is ever subtracted, so sums are exact.

use std::sync::Arc;

use karpenter_core::resources::Resources;

use super::MirrorState;
use super::pods::PodEntry;

/// What the pods of a node take that are not over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// What all pods ask for, `pods` included.
    pub requests: Resources,
    /// What all pods may use at most.
    pub limits: Resources,
    /// What pods of DaemonSets ask for.
    pub daemon_requests: Resources,
    /// What pods of DaemonSets may use at most.
    pub daemon_limits: Resources,
    /// What it costs to move its pods: 1, and more for each that is not of a DaemonSet.
    pub disruption_cost: f64,
}

impl MirrorState {
    /// Drops the cached usage of a node whose pods have changed.
    pub(super) fn invalidate_usage(&mut self, node: &str) {
        if let Some(id) = self.state_nodes.id_of_node(node).map(str::to_owned)
            && let Some(state_node) = self.state_nodes.get_mut(&id)
        {
            state_node.usage = None;
        }
    }

    /// Returns the resource usage of the pods of a node.
    pub(super) fn usage(&mut self, id: &str) -> Arc<Usage> {
        let Some(state_node) = self.state_nodes.get_mut(id) else { return Arc::default() };
        if let Some(usage) = &state_node.usage {
            return Arc::clone(usage);
        }
        let mut usage = Usage { disruption_cost: 1.0, ..Usage::default() };
        let node = state_node.node_name.as_deref();
        for (_, pod) in node.into_iter().flat_map(|node| self.pods.on_node(node)) {
            if pod.is_using_resources() {
                usage.add(pod);
            }
        }
        let usage = Arc::new(usage);
        state_node.usage = Some(Arc::clone(&usage));
        usage
    }
}

impl Usage {
    fn add(&mut self, pod: &PodEntry) {
        self.requests.add(&pod.value.spec.requests);
        self.limits.add(&pod.limits);
        if pod.is_daemon() {
            self.daemon_requests.add(&pod.value.spec.requests);
            self.daemon_limits.add(&pod.limits);
        } else {
            self.disruption_cost += pod.value.eviction_cost.max(0.0);
        }
    }
}
