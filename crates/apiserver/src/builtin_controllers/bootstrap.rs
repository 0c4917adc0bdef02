//! Creates the objects that a new cluster or namespace has.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::State;
use crate::builtin_controllers;
use crate::registry::ServedResource;
use crate::verbs::create;

/// Creates the objects that every new cluster has.
pub(crate) fn create_cluster_defaults(state: &mut State) {
    for (group, plural, object) in cluster_default_objects() {
        if let Some(served) = state.registry.get(group, "v1", plural) {
            create_if_missing(state, &served, object);
        }
        builtin_controllers::process_queue(state);
    }
}

/// Returns the namespaces, priority classes and the service of a new cluster. Each comes with its
/// group and plural, and the order is one in which they can be created.
pub(crate) fn cluster_default_objects() -> Vec<(&'static str, &'static str, Value)> {
    let namespace = |name: &str| {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        ("", "namespaces", object)
    };
    let class = |name: &str, value: i64, description: &str| {
        let object = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value, "description": description,
        });
        ("scheduling.k8s.io", "priorityclasses", object)
    };
    vec![
        namespace("kube-system"),
        namespace("kube-public"),
        namespace("kube-node-lease"),
        namespace("default"),
        class(
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        class(
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to \
             another node if necessary.",
        ),
        ("", "services", kubernetes_service()),
    ]
}

/// The API itself, as seen from inside.
fn kubernetes_service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": "10.96.0.1",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    })
}

/// Creates the objects that every namespace has: a ServiceAccount and a ConfigMap.
pub(super) fn create_namespace_defaults(state: &mut State, namespace: &str) {
    let metadata = json!({"name": "default", "namespace": namespace});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
    let metadata = json!({
        "name": "kube-root-ca.crt",
        "namespace": namespace,
        "annotations": {"kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."},
    });
    let bundle = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"ca.crt": ""},
    });
    for (plural, object) in [("serviceaccounts", account), ("configmaps", bundle)] {
        if let Some(served) = state.registry.get("", "v1", plural) {
            create_if_missing(state, &served, object);
        }
    }
}

/// Creates a valid object unless it exists.
fn create_if_missing(state: &mut State, served: &Arc<ServedResource>, mut object: Value) {
    if served.decode(&mut object).is_ok() {
        let _there_already =
            create::create_object(state, served, object, "kube-controller-manager", false);
    }
}
