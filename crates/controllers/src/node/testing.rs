//! Objects for tests of what happens to nodes.

use k8s_openapi::api::core::v1::Node;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_cluster::wire::Pod;
use karpenter_operator::harness::{Controller, ReconcileResult};
use karpenter_operator::watch::ObjectKey;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::testing::Bench;

/// A Node `name` of the pool `pool`, ready, with the finalizer, on the instance `fake:///<name>`.
pub(crate) fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "karpenter.test.sh/testnodeclass": "default",
                "karpenter.sh/nodepool": "pool",
                "karpenter.sh/capacity-type": "spot",
                "karpenter.sh/initialized": "true",
                "topology.kubernetes.io/zone": "zone-1",
            },
            "finalizers": ["karpenter.sh/termination"],
        },
        "spec": {"providerID": format!("fake:///{name}")},
        "status": {
            "conditions": [condition("Ready", "True", "2026-01-01T00:00:00Z")],
            "nodeInfo": {
                "bootID": "boot-1", "architecture": "", "containerRuntimeVersion": "",
                "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "",
                "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": "",
            },
        },
    })
}

/// A condition of a Node or a NodeClaim.
pub(crate) fn condition(condition_type: &str, status: &str, since: &str) -> Value {
    json!({
        "type": condition_type, "status": status, "reason": condition_type, "message": "",
        "lastTransitionTime": since,
    })
}

/// The NodeClaim `name` of the Node `name`, which has registered.
pub(crate) fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": name,
            "labels": {"karpenter.sh/nodepool": "pool"},
            "finalizers": ["karpenter.sh/termination"],
        },
        "spec": {
            "requirements": [],
            "nodeClassRef": {
                "group": "karpenter.test.sh", "kind": "TestNodeClass", "name": "default",
            },
        },
        "status": {
            "providerID": format!("fake:///{name}"),
            "nodeName": name,
            "imageID": "image-1",
            "conditions": [
                condition("Launched", "True", "2026-01-01T00:00:00Z"),
                condition("Registered", "True", "2026-01-01T00:00:00Z"),
                condition("Initialized", "True", "2026-01-01T00:00:00Z"),
                condition("Ready", "True", "2026-01-01T00:00:00Z"),
            ],
        },
    })
}

/// A pod `name` in the namespace `default` that runs on a Node.
pub(crate) fn pod(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "main", "image": "pause"}],
        },
        "status": {
            "phase": "Running",
            "conditions": [condition("Ready", "True", "2026-01-01T00:00:00Z")],
        },
    })
}

/// Returns a PodDisruptionBudget that allows no eviction of the pods `app`.
pub(crate) fn budget(name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
        "status": {
            "observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1,
            "desiredHealthy": 1, "expectedPods": 1,
        },
    })
}

/// The manifest with other values at some places, such as `/metadata/name`.
pub(crate) fn with<const N: usize>(mut manifest: Value, changes: [(&str, Value); N]) -> Value {
    for (place, value) in changes {
        let (parent, key) = place.rsplit_once('/').expect("a place");
        let parent = manifest.pointer_mut(parent).unwrap_or_else(|| panic!("no {parent}"));
        match parent {
            Value::Array(items) => items.push(value),
            parent => parent[key] = value,
        }
    }
    manifest
}

/// Helpers for tests of nodes.
impl Bench {
    /// Creates a Node with its NodeClaim and an instance.
    pub(crate) async fn create_node(&self, name: &str) {
        self.create_node_and_claim(node(name), claim(name)).await;
    }

    /// Creates this Node and this NodeClaim, with an instance.
    pub(crate) async fn create_node_and_claim(&self, node: Value, claim: Value) {
        self.cloud.put_instance(serde_json::from_value(claim.clone()).expect("a claim"));
        self.create(node).await;
        self.create(claim).await;
    }

    pub(crate) async fn find_node(&self, name: &str) -> Option<Node> {
        self.get("", name).await
    }

    pub(crate) async fn pod(&self, name: &str) -> Option<Pod> {
        self.get("default", name).await
    }

    pub(crate) async fn delete_node(&self, name: &str) {
        let api: Api<Node> = Api::all(self.context.client.clone());
        api.delete(name, &DeleteParams::default()).await.expect("is deleted");
        self.settle().await;
    }

    pub(crate) async fn delete_claim(&self, name: &str) {
        let api: Api<NodeClaim> = Api::all(self.context.client.clone());
        api.delete(name, &DeleteParams::default()).await.expect("is deleted");
        self.settle().await;
    }

    /// Removes the pod at once, as when its kubelet has ended it.
    pub(crate) async fn remove_pod(&self, name: &str) {
        let api: Api<Pod> = Api::namespaced(self.context.client.clone(), "default");
        let params = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        api.delete(name, &params).await.expect("is deleted");
        self.settle().await;
    }

    /// Reconciles a pod of the eviction queue once.
    pub(crate) async fn reconcile_pod(
        &self,
        controller: &Controller,
        name: &str,
    ) -> ReconcileResult {
        let result = controller.reconcile(&ObjectKey::new("default", name)).await;
        self.settle().await;
        result
    }

    /// Returns the events since the last call, as `reason: message`.
    pub(crate) fn event_texts(&self) -> Vec<String> {
        let events = self.published.take();
        events.iter().map(|event| format!("{}: {}", event.reason, event.message)).collect()
    }
}
