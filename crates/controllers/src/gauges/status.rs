//! `operatorpkg.<kind>.status`: publishes metrics and events of status conditions (spec 40 §8.2).
//!
//! The controllers reconcile objects when they change. An empty key stands for all: every ten
//! seconds their ages are set anew.

use std::fmt::Debug;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::serde::de::DeserializeOwned;
use karpenter_api::capacity_buffer::CapacityBuffer;
use karpenter_api::condition_set::HasConditions as _;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use karpenter_operator::harness::{Controller, Outcome, Reconcile, ReconcileResult};
use karpenter_operator::metrics::ConditionMetrics;
use karpenter_operator::metrics::conditions::{ObjectStatus, ObservedCondition};
use karpenter_operator::options::Gate;
use karpenter_operator::watch::{Informer, ObjectKey};
use kube::Resource;

use crate::Context;

mod node_classes;
#[cfg(test)]
mod tests;

const REQUEUE_INTERVAL: Duration = Duration::from_secs(10);

pub(super) fn controllers(context: &Context) -> Vec<Controller> {
    let (cache, metrics) = (&context.cache, &context.metrics);
    let core = "karpenter.sh";
    let mut all = vec![
        StatusReconciler::new(
            context,
            &cache.node_claims,
            &metrics.nodeclaim_status,
            claim_conditions,
        )
        .controller("operatorpkg.nodeclaim.status", (core, "NodeClaim")),
        StatusReconciler::new(
            context,
            &cache.node_pools,
            &metrics.nodepool_status,
            pool_conditions,
        )
        .controller("operatorpkg.nodepool.status", (core, "NodePool")),
        StatusReconciler::new(context, &cache.nodes, &metrics.node_status, node_conditions)
            .controller("operatorpkg.node.status", ("", "Node")),
    ];
    all.extend(node_classes::controllers(context));
    if context.options.feature_gates.is_enabled(Gate::CapacityBuffer) {
        let buffers = &cache.capacity_buffers;
        all.push(
            StatusReconciler::new(
                context,
                buffers,
                &metrics.capacitybuffer_status,
                buffer_conditions,
            )
            .controller(
                "operatorpkg.capacitybuffer.status",
                ("autoscaling.x-k8s.io", "CapacityBuffer"),
            ),
        );
    }
    all
}

type Conditions = Vec<(String, ObservedCondition)>;

/// Returns a claim's conditions; missing ones count as Unknown.
fn claim_conditions(claim: &NodeClaim, now: Timestamp) -> Conditions {
    let mut claim = claim.clone();
    claim.condition_set(now);
    claim.conditions().iter().map(ObservedCondition::from_condition).collect()
}

/// Returns a pool's conditions; missing ones count as Unknown.
fn pool_conditions(pool: &NodePool, now: Timestamp) -> Conditions {
    let mut pool = pool.clone();
    pool.condition_set(now);
    pool.conditions().iter().map(ObservedCondition::from_condition).collect()
}

/// Returns the conditions that a node has.
fn node_conditions(node: &Node, _: Timestamp) -> Conditions {
    let conditions = node.status.iter().filter_map(|status| status.conditions.as_ref());
    conditions.flatten().map(ObservedCondition::from_node_condition).collect()
}

/// Returns the conditions that a buffer has.
fn buffer_conditions(buffer: &CapacityBuffer, _: Timestamp) -> Conditions {
    let conditions = buffer.status.iter().filter_map(|status| status.conditions.as_ref());
    conditions.flatten().map(ObservedCondition::from_condition).collect()
}

struct StatusReconciler<K: Resource> {
    context: Context,
    informer: Informer<K>,
    metrics: ConditionMetrics,
    conditions: fn(&K, Timestamp) -> Conditions,
}

impl<K> StatusReconciler<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    fn new(
        context: &Context,
        informer: &Informer<K>,
        metrics: &ConditionMetrics,
        conditions: fn(&K, Timestamp) -> Conditions,
    ) -> Self {
        let (context, informer, metrics) = (context.clone(), informer.clone(), metrics.clone());
        Self { context, informer, metrics, conditions }
    }

    fn controller(
        self,
        name: &'static str,
        (group, kind): (&'static str, &'static str),
    ) -> Controller {
        let (clock, informer) = (self.context.clock.clone(), self.informer.clone());
        Controller::new(name, &clock, self).for_kind(group, kind).watch(&informer).singleton()
    }
}

impl<K> Reconcile for StatusReconciler<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let now = self.context.clock.now();
        if key.name.is_empty() {
            self.metrics.refresh(now);
            return Ok(Outcome::RequeueAfter(REQUEUE_INTERVAL));
        }
        let events = match self.informer.get(&key.namespace, &key.name) {
            None => self.metrics.record_deletion(&key.namespace, &key.name, now),
            Some(object) => {
                let conditions = (self.conditions)(&object, now);
                let status = ObjectStatus::new(object.object_ref(&()), object.meta(), conditions);
                self.metrics.observe(&status, now)
            }
        };
        self.context.events.publish_all(events);
        Ok(Outcome::Done)
    }
}
