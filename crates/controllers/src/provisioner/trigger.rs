//! `provisioner.trigger.pod`, `provisioner.trigger.node`: trigger the provisioner (spec 20 §2.1).

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::taints;
use karpenter_cluster::wire::Pod;
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

/// Whether the pod waits for capacity (spec 20 §2.3). This reads only the pod, so that events of
/// other pods are cheap.
pub(crate) fn is_provisionable(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    let is_unschedulable = conditions.into_iter().any(|condition| {
        condition.type_ == "PodScheduled" && condition.reason.as_deref() == Some("Unschedulable")
    });
    let is_empty = |text: Option<&String>| text.is_none_or(String::is_empty);
    let owners = pod.owner_references();
    is_unschedulable
        && is_empty(pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()))
        && is_empty(status.and_then(|status| status.nominated_node_name.as_ref()))
        && !owners.iter().any(|owner| {
            matches!(
                (owner.api_version.as_str(), owner.kind.as_str()),
                ("apps/v1", "DaemonSet") | ("v1", "Node")
            )
        })
}

fn is_disrupted(node: &Node) -> bool {
    let all = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let disrupted = taints::disrupted();
    all.is_some_and(|all| {
        all.iter().any(|taint| taint.key == disrupted.key && taint.effect == disrupted.effect)
    })
}
