//! `provisioner.trigger.pod`, `provisioner.trigger.node`: trigger the provisioner (spec 20 §2.1).

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::taints;
use karpenter_cluster::ingest::conversion::is_provisionable;
use karpenter_operator::harness::{Controller, Outcome, Reconcile, ReconcileResult};
use karpenter_operator::watch::ObjectKey;
use kube::ResourceExt;

use crate::Context;

/// How often a waiting object triggers the provisioner again.
const RETRIGGER_INTERVAL: Duration = Duration::from_secs(10);

pub(super) fn all(context: &Context) -> Vec<Controller> {
    let workers = context.workers(10, 1000);
    let pods = PodTrigger { context: context.clone() };
    let nodes = NodeTrigger { context: context.clone() };
    let cache = &context.cache;
    vec![
        Controller::new("provisioner.trigger.pod", &context.clock, pods)
            .for_kind("", "Pod")
            .workers(workers)
            .watch_if(&cache.pods, |change| {
                change.after.as_ref().is_some_and(|pod| is_provisionable(pod))
            }),
        Controller::new("provisioner.trigger.node", &context.clock, nodes)
            .for_kind("", "Node")
            .workers(workers)
            .watch_if(&cache.nodes, |change| {
                change.after.as_ref().is_some_and(|node| is_disrupted(node))
            }),
    ]
}

struct PodTrigger {
    context: Context,
}

impl Reconcile for PodTrigger {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let pod = self.context.cache.pods.get(&key.namespace, &key.name);
        let Some(pod) = pod.filter(|pod| is_provisionable(pod)) else { return Ok(Outcome::Done) };
        self.context.mirror.acknowledge_pod(&key.namespace, &key.name, self.context.clock.now());
        self.context.batcher.trigger(&pod.uid().unwrap_or_default());
        Ok(Outcome::RequeueAfter(RETRIGGER_INTERVAL))
    }
}

struct NodeTrigger {
    context: Context,
}

impl Reconcile for NodeTrigger {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let node = self.context.cache.nodes.get("", &key.name);
        let Some(node) = node.filter(|node| is_disrupted(node)) else { return Ok(Outcome::Done) };
        self.context.batcher.trigger(&node.uid().unwrap_or_default());
        Ok(Outcome::RequeueAfter(RETRIGGER_INTERVAL))
    }
}

fn is_disrupted(node: &Node) -> bool {
    let all = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let disrupted = taints::disrupted();
    all.is_some_and(|all| {
        all.iter().any(|taint| taint.key == disrupted.key && taint.effect == disrupted.effect)
    })
}
