//! Tests of the scheduler without an API: shared helpers, and a module for each topic.

#![expect(clippy::needless_pass_by_value, reason = "values are written where they are passed")]

use k8s_openapi::api::core::v1::{Node, Pod as WirePod};
use k8s_openapi::serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use karpenter_operator::watch::ObjectKey;

mod filters;
mod messages;
mod properties;
mod queue;
mod scale;
mod scores;
mod topology;
mod volumes;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";

/// A value with others laid over it.
fn over(mut base: Value, more: &Value) -> Value {
    match (&mut base, more) {
        (Value::Object(base), Value::Object(more)) => {
            for (key, value) in more {
                let known = base.remove(key).unwrap_or(Value::Null);
                base.insert(key.clone(), over(known, value));
            }
        }
        (base, more) => *base = more.clone(),
    }
    base
}

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// A node in a zone with 4 cores, 16 GiB and 10 pods.
fn node(name: &str, zone: &str, more: Value) -> Node {
    let base = json!({
        "metadata": { "name": name, "labels": { HOSTNAME: name, ZONE: zone } },
        "status": { "allocatable": { "cpu": "4", "memory": "16Gi", "pods": "10" } },
    });
    object(over(base, &more))
}

/// A pod with label `app` that requests a core, with its spec laid over.
fn pod(name: &str, app: &str, spec: Value) -> WirePod {
    let base = json!({
        "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1" } } }],
    });
    object(json!({
        "metadata": {
            "namespace": "default", "name": name, "uid": name, "labels": { "app": app },
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": over(base, &spec),
    }))
}

fn on(node: &str, mut pod: WirePod) -> WirePod {
    pod.spec.as_mut().unwrap().node_name = Some(node.to_owned());
    pod
}

/// Returns a scheduler cache with these nodes and bound pods.
fn cache_with(nodes: &[Node], bound: &[WirePod]) -> SchedulerCache {
    let mut cache = SchedulerCache::default();
    for node in nodes {
        cache.set_node(node);
    }
    for pod in bound {
        cache.set_pod(PodInfo::read(pod));
    }
    cache
}

/// The node of a pod, or the message.
fn placed(cache: &mut SchedulerCache, pod: &WirePod) -> String {
    let pending = cache.prepare(PodInfo::read(pod));
    let outcome = schedule_pod(&pending, cache);
    cache.release(&pending);
    outcome.map_or_else(|unfit| unfit.to_string(), |placement| placement.node)
}

/// The first part of the message, which has the reasons; or the node.
fn reasons(cache: &mut SchedulerCache, pod: &WirePod) -> String {
    let text = placed(cache, pod);
    match text.split_once(" nodes are available: ") {
        Some((_, rest)) => rest.split(". ").next().unwrap().to_owned(),
        None => text,
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}
