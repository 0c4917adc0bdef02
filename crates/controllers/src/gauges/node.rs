//! `metrics.node`: publishes the resources, pod usage and age of Nodes (spec 40 §8.1).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use karpenter_cluster::ingest::conversion;
use karpenter_cluster::mirror::{TrackedNode, Usage};
use karpenter_core::resources::Resources;
use karpenter_operator::harness::{Controller, Outcome, Reconcile, ReconcileResult};
use karpenter_operator::metrics::labels::ResourceType;
use karpenter_operator::metrics::{Sample, Store, resource_type};
use karpenter_operator::watch::ObjectKey;

use super::gauge_value;
use crate::Context;

#[cfg(test)]
mod tests;

const REQUEUE_INTERVAL: Duration = Duration::from_secs(5);

pub(super) fn controller(context: &Context) -> Controller {
    let gauges = NodeGauges {
        context: context.clone(),
        store: Store::new(),
        utilization: Store::new(),
        shown: Mutex::default(),
    };
    Controller::new("metrics.node", &context.clock, gauges).singleton()
}

struct NodeGauges {
    context: Context,
    /// The series of each Node, by its name; the first one is its age.
    store: Store<String>,
    utilization: Store<()>,
    /// What the series of each Node were made from.
    shown: Mutex<BTreeMap<String, Source>>,
}

/// The inputs of a Node's series, except the time.
struct Source {
    node: Arc<Node>,
    usage: Arc<Usage>,
    is_managed: bool,
}

impl Source {
    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.node, &other.node)
            && Arc::ptr_eq(&self.usage, &other.usage)
            && self.is_managed == other.is_managed
    }
}

impl Reconcile for NodeGauges {
    async fn reconcile(&self, _: &ObjectKey) -> ReconcileResult {
        let now = self.context.clock.now();
        let nodes = self.context.mirror.tracked_nodes(now);
        self.utilization.update(&(), self.utilization(&nodes));
        self.update_series(nodes, now);
        Ok(Outcome::RequeueAfter(REQUEUE_INTERVAL))
    }
}

impl NodeGauges {
    fn update_series(&self, nodes: Vec<TrackedNode>, now: Timestamp) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *shown);
        for state in nodes {
            let is_managed = state.is_managed();
            let Some(node) = state.node else { continue };
            let source = Source { node, usage: state.usage, is_managed };
            let name = source.node.metadata.name.clone().unwrap_or_default();
            let is_same = before.remove(&name).is_some_and(|before| before.is_same(&source));
            if is_same {
                self.store.set_values(&name, [age(&source.node, now)]);
            } else {
                self.store.update(&name, self.samples(&name, &source, now));
            }
            shown.insert(name, source);
        }
        for gone in before.keys() {
            self.store.delete(gone);
        }
    }

    fn samples(&self, name: &str, source: &Source, now: Timestamp) -> Vec<Sample> {
        let Source { node, usage, is_managed } = source;
        let metrics = &self.context.metrics.nodes;
        let status = node.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
        let labels = node.metadata.labels.as_ref();
        let label = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str);
        let series = metrics.series(name, phase, *is_managed, label);
        let capacity = conversion::resources(status.and_then(|status| status.capacity.as_ref()));
        let allocatable =
            conversion::resources(status.and_then(|status| status.allocatable.as_ref()));
        let overhead = capacity.subtract(&allocatable);
        let mut samples = vec![metrics.current_lifetime.sample(&series, age(node, now))];
        for (gauge, list) in [
            (&metrics.system_overhead, &overhead),
            (&metrics.total_pod_requests, &usage.requests),
            (&metrics.total_pod_limits, &usage.limits),
            (&metrics.total_daemon_requests, &usage.daemon_requests),
            (&metrics.total_daemon_limits, &usage.daemon_limits),
            (&metrics.allocatable, &allocatable),
        ] {
            for (resource, amount) in list.iter() {
                samples.push(gauge.sample(&series, resource, gauge_value(resource, amount)));
            }
        }
        samples
    }

    /// Returns the share of all Nodes' allocatable resources that pods request.
    fn utilization(&self, nodes: &[TrackedNode]) -> Vec<Sample> {
        let (mut allocatable, mut requests) = (Resources::default(), Resources::default());
        for node in nodes.iter().filter(|node| node.node.is_some()) {
            allocatable.add(&node.state_node.allocatable);
            requests.add(&node.usage.requests);
        }
        let gauge = &self.context.metrics.cluster_utilization_percent;
        let there = allocatable.iter().filter(|(_, amount)| !amount.is_zero());
        there
            .map(|(resource, amount)| {
                let taken = gauge_value(resource, requests.amount(resource));
                let percent = 100.0 * taken / gauge_value(resource, amount);
                gauge.sample(&ResourceType { resource_type: &resource_type(resource) }, percent)
            })
            .collect()
    }
}

fn age(node: &Node, now: Timestamp) -> f64 {
    let created = node.metadata.creation_timestamp.as_ref();
    created.map_or(0.0, |created| now.duration_since(created.0).as_secs_f64())
}
