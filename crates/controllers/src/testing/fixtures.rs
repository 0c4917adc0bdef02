//! Minimal objects for tests of controllers, and helpers that read them.

use k8s_openapi::api::core::v1::Node;
use karpenter_api::condition_set::{HasConditions as _, find};
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_operator::harness::Controller;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::Bench;

/// The pool that [`node_claim`] names.
pub(crate) const POOL: &str = "general";

/// A claim of [`POOL`] for one CPU, with changes as a merge patch.
pub(crate) fn node_claim(name: &str, changes: &Value) -> Value {
    let base = json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": POOL}},
        "spec": {
            "requirements": [],
            "resources": {"requests": {"cpu": "1"}},
            "nodeClassRef": {
                "group": "karpenter.test.sh",
                "kind": "TestNodeClass",
                "name": "default",
            },
            "expireAfter": "Never",
        },
    });
    merged(base, changes)
}

/// A pool of that name.
pub(crate) fn node_pool(name: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"spec": {
            "requirements": [],
            "nodeClassRef": {
                "group": "karpenter.test.sh",
                "kind": "TestNodeClass",
                "name": "default",
            },
        }}},
    })
}

/// The node class of both.
pub(crate) fn node_class() -> Value {
    json!({
        "apiVersion": "karpenter.test.sh/v1alpha1",
        "kind": "TestNodeClass",
        "metadata": {"name": "default"},
        "spec": {"version": 1},
    })
}

/// A pod of the namespace `default`, on a node or on none, with changes as a merge patch.
pub(crate) fn pod(name: &str, node: Option<&str>, changes: &Value) -> Value {
    let base = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "none"}]},
    });
    merged(base, changes)
}

/// Returns the changes that make a pod one of a DaemonSet.
pub(crate) fn daemon() -> Value {
    let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d"});
    json!({"metadata": {"ownerReferences": [owner]}})
}

/// The JSON with the merge patch applied.
pub(crate) fn merged(mut base: Value, changes: &Value) -> Value {
    let (Some(fields), Some(patch)) = (base.as_object_mut(), changes.as_object()) else {
        return changes.clone();
    };
    for (key, value) in patch {
        let known = fields.remove(key).unwrap_or(Value::Null);
        if !value.is_null() {
            fields.insert(key.clone(), merged(known, value));
        }
    }
    base
}

/// Status, reason and message of a condition.
#[track_caller]
pub(crate) fn condition(claim: &NodeClaim, type_: &str) -> (String, String, String) {
    let condition = find(claim.conditions(), type_).expect("the condition is there").clone();
    (condition.status, condition.reason, condition.message)
}

/// Whether a condition is there and has the status.
pub(crate) fn has(claim: &NodeClaim, type_: &str, status: &str) -> bool {
    find(claim.conditions(), type_).is_some_and(|condition| condition.status == status)
}

impl Bench {
    /// The claim, which is there.
    pub(crate) async fn claim(&self, name: &str) -> NodeClaim {
        self.get("", name).await.expect("the claim is there")
    }

    /// The node, which is there.
    pub(crate) async fn node(&self, name: &str) -> Node {
        self.get("", name).await.expect("the node is there")
    }

    /// Creates a DaemonSet, and returns the changes that make a pod one of it.
    pub(crate) async fn daemon(&self) -> Value {
        let labels = json!({"app": "daemon"});
        let set = json!({
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "daemon", "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "main", "image": "none"}]},
                },
            },
        });
        let uid = self.create(set).await.uid();
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "daemon", "uid": uid});
        json!({"metadata": {"ownerReferences": [owner]}})
    }

    /// Creates a claim and launches it.
    pub(crate) async fn launched(&self, lifecycle: &Controller, claim: Value) -> NodeClaim {
        let name = self.create(claim).await.name_any();
        self.reconcile(lifecycle, &name).await.expect("is launched");
        let claim = self.claim(&name).await;
        assert!(has(&claim, "Launched", "True"), "{:?}", claim.conditions());
        claim
    }

    /// Creates the node of an instance, ready and not registered, with changes as a merge patch.
    pub(crate) async fn join(&self, name: &str, provider_id: &str, changes: &Value) {
        let base = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "spec": {
                "providerID": provider_id,
                "taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}],
            },
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "capacity": {"cpu": "4", "memory": "8Gi"},
                "allocatable": {"cpu": "4", "memory": "8Gi"},
            },
        });
        self.create(merged(base, changes)).await;
        // The API server puts a taint on every new node, which goes when the kubelet has started.
        let spec = self.node(name).await.spec.unwrap_or_default();
        let taints = spec.taints.unwrap_or_default().into_iter();
        let taints: Vec<_> =
            taints.filter(|taint| taint.key != karpenter_api::taints::NOT_READY).collect();
        let manifest = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "spec": {"taints": taints},
        });
        self.patch(manifest).await;
    }

    /// The sum of the series of a metric that have these labels, as a whole number.
    pub(crate) fn metric(&self, name: &str, labels: &[(&str, &str)]) -> usize {
        format!("{:.0}", self.number(name, labels)).parse().expect("a count")
    }

    /// The same, as it is.
    pub(crate) fn number(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let text = self.context.metrics.registry().text();
        let is_match = |line: &&str| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
                && labels.iter().all(|(key, value)| line.contains(&format!("{key}=\"{value}\"")))
        };
        let value = |line: &str| line.rsplit_once(' ').and_then(|(_, n)| n.parse::<f64>().ok());
        text.lines().filter(is_match).filter_map(value).fold(0.0, |sum, n| sum + n)
    }

    /// Reasons and messages of the events since the last call.
    pub(crate) fn events(&self) -> Vec<(String, String)> {
        let events = self.published.take().into_iter();
        events.map(|event| (event.reason.into_owned(), event.message)).collect()
    }
}
