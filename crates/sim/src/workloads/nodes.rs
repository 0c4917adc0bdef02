//! Syncs nodes and the pods on them: writes taints and conditions, evicts pods.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::controllers::{Controllers, Requeue};
use super::pods::{is_finished, is_ready, is_terminating, node_name};
use super::queue::later;
use super::write::ignore_not_found_or_conflict;
use super::{eviction, node_lifecycle};
use karpenter_operator::watch::ObjectKey;

const LEASES: &str = "kube-node-lease";

/// For how long the lease of a kubelet holds, usually.
const LEASE_SECONDS: i32 = 40;

/// When the kubelet has renewed its lease. One that renews less often than usual, and says so by a
/// longer lease, may be silent for so much longer.
fn renewed(lease: &LeaseSpec) -> Option<Timestamp> {
    let renewed = lease.renew_time.as_ref()?.0;
    let extra = lease.lease_duration_seconds.unwrap_or(LEASE_SECONDS).max(LEASE_SECONDS);
    Some(later(renewed, Duration::from_secs(u64::try_from(extra - LEASE_SECONDS).ok()?)))
}

impl Controllers<'_> {
    pub(super) async fn sync_node(&mut self, name: &str) -> Result<Requeue, kube::Error> {
        let Some(node) = self.cache.nodes.get(&ObjectKey::new("", name)).cloned() else {
            return Ok(None);
        };
        let lease = self.informers.leases.get(LEASES, name);
        let renewed = lease.and_then(|lease| renewed(lease.spec.as_ref()?));
        let decision = node_lifecycle::decide(&node, renewed, self.clock.now());
        let api: Api<Node> = Api::all(self.writer.client());
        // A change by another client in between is handled first.
        let mut version = node.resource_version();
        let params = PatchParams::default();
        if let Some(conditions) = decision.conditions {
            let patch = json!({
                "metadata": {"resourceVersion": version}, "status": {"conditions": conditions},
            });
            let patched = api.patch_status(name, &params, &Patch::Merge(patch)).await?;
            version = patched.resource_version();
            self.informers.nodes.apply_write_result(patched);
        }
        if let Some(taints) = decision.taints {
            let patch =
                json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
            let patched = api.patch(name, &params, &Patch::Merge(patch)).await?;
            self.informers.nodes.apply_write_result(patched);
        }
        if !node_lifecycle::is_ready(&node) {
            self.mark_not_ready(name).await?;
        }
        Ok(decision.requeue_at)
    }

    /// What runs on a node that is not ready cannot be relied on.
    async fn mark_not_ready(&mut self, node: &str) -> Result<(), kube::Error> {
        let keys = self.cache.by_node.get(node).into_iter().flatten();
        let pods: Vec<_> = keys.filter_map(|key| self.cache.pods.get(key).cloned()).collect();
        for pod in pods.iter().filter(|pod| is_ready(pod)) {
            let condition = json!({
                "type": "Ready", "status": "False", "lastTransitionTime": self.time(),
            });
            self.patch_pod(pod, json!({"conditions": [condition]})).await?;
        }
        Ok(())
    }

    pub(super) async fn sync_eviction(&mut self, key: &ObjectKey) -> Result<Requeue, kube::Error> {
        let Some(pod) = self.cache.pods.get(key).cloned() else { return Ok(None) };
        let uid = pod.uid().unwrap_or_default();
        let node = node_name(&pod).and_then(|name| self.cache.nodes.get(&ObjectKey::new("", name)));
        let patience = node.and_then(|node| eviction::toleration_period(&pod, node));
        let Some(patience) = patience.filter(|_| !self.cache.is_deletion_accepted(&pod)) else {
            self.cache.evicting_since.remove(&uid);
            return Ok(None);
        };
        let now = self.clock.now();
        let end = later(*self.cache.evicting_since.entry(uid).or_insert(now), patience);
        if end > now {
            return Ok(Some(end));
        }
        let message = "Taint manager: deleting due to NoExecute taint";
        let condition = self.disruption_condition("DeletionByTaintManager", message);
        self.patch_pod(&pod, json!({"conditions": [condition]})).await?;
        self.writer.delete_pod(&self.informers.pods, &pod, None).await?;
        self.cache.record_accepted_deletion(&pod);
        Ok(None)
    }

    /// Fails and deletes a pod whose node is gone, as the pod garbage collector.
    pub(super) async fn sync_orphaned_pod(
        &mut self,
        key: &ObjectKey,
    ) -> Result<Requeue, kube::Error> {
        let Some(pod) = self.cache.pods.get(key).cloned() else { return Ok(None) };
        let Some(node) = node_name(&pod) else { return Ok(None) };
        if self.cache.nodes.get(&ObjectKey::new("", node)).is_some() {
            return Ok(None);
        }
        if !is_finished(&pod) {
            let condition =
                self.disruption_condition("DeletionByPodGC", "PodGC: node no longer exists");
            let status = json!({"phase": "Failed", "conditions": [condition]});
            self.patch_pod(&pod, status).await?;
        }
        self.writer.delete_pod(&self.informers.pods, &pod, Some(0)).await?;
        if !is_terminating(&pod) {
            self.cache.record_accepted_deletion(&pod);
        }
        Ok(None)
    }

    fn disruption_condition(&self, reason: &str, message: &str) -> Value {
        json!({
            "type": "DisruptionTarget", "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": self.time(),
        })
    }

    /// Whole seconds, as Kubernetes writes times.
    fn time(&self) -> String {
        format!("{:.0}", self.clock.now())
    }

    async fn patch_pod(&self, pod: &Pod, status: Value) -> Result<(), kube::Error> {
        let patch = Patch::Strategic(json!({"metadata": {"uid": pod.uid()}, "status": status}));
        let api = self.writer.api(pod);
        match api.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await {
            Ok(patched) => {
                self.informers.pods.apply_write_result(patched);
                Ok(())
            }
            Err(error) => ignore_not_found_or_conflict(Err(error)),
        }
    }
}
