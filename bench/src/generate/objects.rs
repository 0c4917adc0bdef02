//! Kubernetes objects, in the few shapes that the generator needs.

use serde_json::{Map, Value, json};

pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";
pub(super) const ARCH: &str = "kubernetes.io/arch";
pub(super) const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
pub(super) const CPU_LABEL: &str = "karpenter.kwok.sh/instance-cpu";
pub(super) const FAMILY: &str = "karpenter.kwok.sh/instance-family";
pub(super) const ZONES: [&str; 4] = ["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"];
pub(super) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
pub(super) const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn node_class() -> Value {
    json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}})
}

pub(crate) fn node_class_ref() -> Value {
    json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"})
}

/// A node selector requirement.
pub(crate) fn requirement(key: &str, operator: &str, values: &[&str]) -> Value {
    if values.is_empty() {
        json!({"key": key, "operator": operator})
    } else {
        json!({"key": key, "operator": operator, "values": values})
    }
}

/// Returns a container with these requests.
pub(super) fn container(cpu: &str, memory: &str) -> Value {
    json!({"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu, "memory": memory}}})
}

/// Returns the owner reference of a pod.
pub(super) fn owner(kind: &str, name: &str) -> Value {
    json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": format!("{}-{name}", kind.to_lowercase()), "controller": true}])
}

/// A pod that waits.
pub(super) fn pod(namespace: &str, name: &str, labels: &Value, spec: &Map<String, Value>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("{namespace}-{name}"), "labels": labels},
        "spec": spec,
    })
}

/// True conditions of these types.
pub(crate) fn conditions(types: &[&str]) -> Value {
    let condition = |kind: &&str| json!({"type": kind, "status": "True", "reason": kind, "lastTransitionTime": "2023-11-15T00:00:00Z"});
    types.iter().map(condition).collect()
}

/// A NodePool under construction.
#[derive(Default)]
pub(super) struct Pool {
    pub name: &'static str,
    pub requirements: Vec<Value>,
    pub weight: Option<i32>,
    pub taints: Vec<Value>,
    pub limits: Option<Value>,
    pub labels: Option<Value>,
    /// `spec.disruption`, if it is not to remove whatever can go.
    pub disruption: Option<Value>,
}

impl Pool {
    pub(super) fn build(self) -> Value {
        let mut node = json!({"nodeClassRef": node_class_ref(), "requirements": self.requirements, "expireAfter": "Never"});
        if !self.taints.is_empty() {
            node["taints"] = self.taints.into();
        }
        let mut template = json!({"spec": node});
        if let Some(labels) = self.labels {
            template["metadata"] = json!({"labels": labels});
        }
        let disruption = self.disruption.unwrap_or_else(|| {
            json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]})
        });
        let mut spec = json!({"template": template, "disruption": disruption});
        if let Some(weight) = self.weight {
            spec["weight"] = weight.into();
        }
        if let Some(limits) = self.limits {
            spec["limits"] = limits;
        }
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": self.name}, "spec": spec})
    }
}
