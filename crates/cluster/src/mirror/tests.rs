//! Tests of the mirror: the cases of spec 40 §5. Objects are written as JSON, so that unmentioned
//! fields are absent.
#![expect(clippy::needless_pass_by_value, reason = "literals are handed over as they are")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::ingest::test_settings::test_settings;

mod assumptions;
mod pods;
mod state_nodes;
mod sync;

const START: i64 = 1_750_000_000;

/// A mirror with a clock to turn.
struct Bench {
    mirror: Mirror,
    now: Arc<AtomicI64>,
}

impl Bench {
    fn new() -> Self {
        let now = Arc::new(AtomicI64::new(START));
        let clock = Arc::clone(&now);
        let settings = test_settings(Timestamp::UNIX_EPOCH);
        let time = move || Timestamp::from_second(clock.load(Ordering::Relaxed)).unwrap();
        Self { mirror: Mirror::new(settings, time), now }
    }

    fn advance(&self, seconds: i64) {
        self.now.fetch_add(seconds, Ordering::Relaxed);
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.now.load(Ordering::Relaxed)).unwrap()
    }

    #[track_caller]
    fn pod(&self, name: &str, metadata: Value, spec: Value, status: Value) {
        let mut pod = json!({"metadata": metadata, "spec": spec, "status": status});
        (pod["metadata"]["name"], pod["metadata"]["namespace"]) = (json!(name), json!("default"));
        if pod["spec"]["containers"].is_null() {
            pod["spec"]["containers"] = json!([]);
        }
        self.mirror.set_pod("default", name, Some(object(pod)));
    }

    /// Sets a pod with this CPU request, on a node unless its name is empty.
    #[track_caller]
    fn pod_on(&self, name: &str, node: &str, millis: i64, phase: &str) {
        let resources = json!({"requests": {"cpu": format!("{millis}m")}});
        let containers = json!([{"name": "c", "resources": resources}]);
        let spec = json!({"nodeName": node, "containers": containers});
        self.pod(name, json!({}), spec, json!({"phase": phase}));
    }

    fn delete_pod(&self, name: &str) {
        self.mirror.set_pod("default", name, None);
    }

    #[track_caller]
    fn node(&self, name: &str, labels: Value, spec: Value, status: Value) {
        let metadata = json!({"name": name, "labels": labels});
        let node = json!({"metadata": metadata, "spec": spec, "status": status});
        self.mirror.set_node(name, Some(object(node)));
    }

    /// Sets a Node that has no NodePool.
    #[track_caller]
    fn plain_node(&self, name: &str) {
        let status = json!({"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}});
        self.node(name, json!({}), json!({"providerID": format!("id/{name}")}), status);
    }

    /// A node of the pool `pool`, ready.
    #[track_caller]
    fn ready_node(&self, name: &str, provider_id: &str) {
        let status = json!({"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}});
        self.node(name, ready_labels(), json!({"providerID": provider_id}), status);
    }

    fn delete_node(&self, name: &str) {
        self.mirror.set_node(name, None);
    }

    /// Sets a NodeClaim of the NodePool `pool`; not launched if the provider id is empty.
    #[track_caller]
    fn claim(&self, name: &str, provider_id: &str) {
        self.claim_with(name, provider_id, json!({}), json!({}), json!({}));
    }

    #[track_caller]
    fn claim_with(&self, name: &str, provider_id: &str, meta: Value, spec: Value, status: Value) {
        let mut claim = json!({
            "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "pool"}},
            "spec": {"requirements": [], "nodeClassRef":
                {"group": "karpenter.test.sh", "kind": "TestNodeClass", "name": "default"}},
            "status": {"providerID": provider_id, "capacity": {"cpu": "8"}, "allocatable": {"cpu": "7"}},
        });
        for (part, more) in [("metadata", meta), ("spec", spec), ("status", status)] {
            for (key, value) in more.as_object().unwrap() {
                claim[part][key] = value.clone();
            }
        }
        self.mirror.set_node_claim(name, Some(object(claim)));
    }

    fn delete_claim(&self, name: &str) {
        self.mirror.set_node_claim(name, None);
    }

    #[track_caller]
    fn tracked_node(&self, id: &str) -> TrackedNode {
        self.mirror.tracked_node(id, self.now()).unwrap_or_else(|| panic!("{id} is not known"))
    }

    /// What the pods of a plain node ask for, in thousandths of a CPU.
    #[track_caller]
    fn cpu_on(&self, name: &str) -> i128 {
        self.tracked_node(&format!("id/{name}")).usage.requests.amount("cpu").millis()
    }

    /// Returns the CPUs and the number of nodes of the NodePool `pool`.
    fn pool_total(&self) -> Option<(i128, i128)> {
        let total = self.mirror.pool_usages().remove("pool")?;
        Some((total.amount("cpu").units(), total.amount("nodes").units()))
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.mirror.snapshot(self.now())
    }

    fn is_synced(&self) -> bool {
        self.mirror.is_synced(self.now())
    }

    fn mark(&self, id: &str, seconds: i64) {
        let until = self.now() + SignedDuration::from_secs(seconds);
        self.mirror.mark_for_deletion([id], self.now(), until);
    }

    fn unmark(&self, id: &str) {
        self.mirror.unmark_for_deletion([id], self.now());
    }

    fn nominate(&self, id: &str) {
        let window = crate::assumptions::nomination_window(Duration::from_secs(10));
        self.mirror.nominate(id, self.now(), window);
    }

    fn counts(&self) -> (usize, usize, usize) {
        let NodeCounts { active, deleting, pending_disruption } = self.mirror.node_counts("pool");
        (active, deleting, pending_disruption)
    }
}

/// Returns the labels of a ready node of the NodePool `pool`.
fn ready_labels() -> Value {
    json!({
        "karpenter.sh/nodepool": "pool", "node.kubernetes.io/instance-type": "m",
        "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
    })
}

/// The object that some JSON stands for.
#[track_caller]
fn object<T: serde::de::DeserializeOwned>(json: Value) -> Arc<T> {
    let text = json.to_string();
    Arc::new(serde_json::from_value(json).unwrap_or_else(|error| panic!("{error}: {text}")))
}
