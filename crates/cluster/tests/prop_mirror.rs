//! Whatever comes in whatever order, the mirror is what reading all objects at once gives.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, PodTemplate, ReplicationController,
    Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use karpenter_api::capacity_buffer::CapacityBuffer;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use karpenter_cluster::ingest::{Gates, Objects, Settings, snapshot};
use karpenter_cluster::mirror::Mirror;
use karpenter_cluster::wire::Pod;
use karpenter_core::resources::{NODES, Quantity, Resources};
use karpenter_core::snapshot::Snapshot;
use proptest::prelude::*;
use serde_json::{Value, json};

#[path = "../src/ingest/test_settings.rs"]
mod test_settings;

use test_settings::test_settings;

const START: i64 = 1_750_000_000;

/// Something happens to one object: it is there from now on like this, or it is gone.
#[derive(Clone, Debug)]
enum Event {
    Pod(&'static str, &'static str, Option<Value>),
    Node(&'static str, Option<Value>),
    Claim(&'static str, Option<Value>),
    Other(&'static str, &'static str, &'static str, Option<Value>),
    /// Seconds.
    Time(i64),
    /// A reader holds the current snapshot from now on.
    HoldSnapshot,
}

fn pick<T: Clone + std::fmt::Debug + 'static>(all: &[T]) -> impl Strategy<Value = T> + use<T> {
    prop::sample::select(all.to_vec())
}

fn maybe(present: impl Strategy<Value = Value>) -> impl Strategy<Value = Option<Value>> {
    prop::option::weighted(0.7, present)
}

const NAMES: [&str; 3] = ["a", "b", "c"];
const NAMESPACES: [&str; 2] = ["default", "other"];

fn pod() -> impl Strategy<Value = Event> {
    let protection = pick(&["", "", "true", "60s", "x"]);
    let owner = pick(&["", "ReplicaSet", "DaemonSet"]);
    let node = pick(&["", "", "a", "b", "c", "nowhere"]);
    let phase = pick(&["Pending", "Running", "Succeeded"]);
    let object = (protection, owner, node, phase, 1..4_i64, 0..3_i64).prop_map(
        |(protection, owner, node, phase, cpu, age)| {
            let created = Timestamp::from_second(START + age).unwrap().to_string();
            json!({
                "metadata": {
                    "uid": "u", "creationTimestamp": created, "labels": {"app": owner},
                    "annotations": if protection.is_empty() { json!({}) } else {
                        json!({"karpenter.sh/do-not-disrupt": protection}) },
                    "ownerReferences": if owner.is_empty() { json!([]) } else { json!([{
                        "apiVersion": "apps/v1", "kind": owner, "name": "a", "uid": "set-a", "controller": true}]) },
                },
                "spec": {"nodeName": node, "containers": [{"name": "c",
                    "resources": {"requests": {"cpu": cpu.to_string()}, "limits": {"cpu": "4"}}}]},
                "status": {"phase": phase, "startTime": created},
            })
        },
    );
    (pick(&NAMESPACES), pick(&NAMES), maybe(object))
        .prop_map(|(namespace, name, object)| Event::Pod(namespace, name, object))
}

fn labels() -> impl Strategy<Value = Value> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), pick(&["", "x", "y"]));
    flags.prop_map(|(registered, initialized, typed, pool)| {
        let mut labels = serde_json::Map::new();
        if registered {
            labels.insert("karpenter.sh/registered".to_owned(), json!("true"));
        }
        if initialized {
            labels.insert("karpenter.sh/initialized".to_owned(), json!("true"));
        }
        if typed {
            labels.insert("node.kubernetes.io/instance-type".to_owned(), json!("m"));
        }
        if !pool.is_empty() {
            labels.insert("karpenter.sh/nodepool".to_owned(), json!(pool));
        }
        Value::Object(labels)
    })
}

const PROVIDER_IDS: [&str; 4] = ["", "m1", "m2", "a"];

fn deleted() -> impl Strategy<Value = Value> {
    pick(&[Value::Null, Value::Null, json!("2025-06-15T00:00:00Z")])
}

fn node() -> impl Strategy<Value = Event> {
    let object = (labels(), pick(&PROVIDER_IDS), 0..4_i64, deleted()).prop_map(
        |(labels, provider_id, cpu, deleted)| {
            let capacity = json!({"cpu": cpu.to_string(), "memory": "1Gi"});
            json!({
                "metadata": {"labels": labels, "deletionTimestamp": deleted},
                "spec": {"providerID": provider_id, "taints": [
                    {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
                "status": {"capacity": capacity, "allocatable": capacity},
            })
        },
    );
    (pick(&NAMES), maybe(object)).prop_map(|(name, object)| Event::Node(name, object))
}

fn claim() -> impl Strategy<Value = Event> {
    let class = pick(&["TestNodeClass", "TestNodeClass", "Other"]);
    let terminating = pick(&["True", "False"]);
    let object = (labels(), class, pick(&PROVIDER_IDS), deleted(), terminating).prop_map(
        |(labels, class, provider_id, deleted, terminating)| {
            json!({
                "metadata": {"labels": labels, "deletionTimestamp": deleted},
                "spec": {"requirements": [], "nodeClassRef":
                    {"group": "karpenter.test.sh", "kind": class, "name": "default"}},
                "status": {"providerID": provider_id, "capacity": {"cpu": "8"}, "allocatable": {"cpu": "7"},
                    "conditions": [{"type": "InstanceTerminating", "status": terminating, "reason": "x",
                        "message": "", "lastTransitionTime": "2025-06-15T00:00:00Z"}]},
            })
        },
    );
    (pick(&NAMES), maybe(object)).prop_map(|(name, object)| Event::Claim(name, object))
}

const OTHER: [&str; 17] = [
    "NodePool",
    "DaemonSet",
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "ReplicationController",
    "PodTemplate",
    "CapacityBuffer",
    "Service",
    "Namespace",
    "PodDisruptionBudget",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "CSINode",
    "ResourceClaim",
    "ResourceSlice",
];

fn other() -> impl Strategy<Value = Event> {
    let parts = (pick(&OTHER), pick(&NAMESPACES), pick(&NAMES), 0..4_i64, any::<bool>());
    (parts, prop::option::weighted(0.7, Just(()))).prop_map(
        |((kind, namespace, name, number, is_odd), is_there)| {
            Event::Other(kind, namespace, name, is_there.map(|()| object(kind, number, is_odd)))
        },
    )
}

/// An object of another kind, one of a few.
fn object(kind: &str, number: i64, is_odd: bool) -> Value {
    let selector = json!({"matchLabels": {"app": number.to_string()}});
    let pod = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [
        {"name": "c", "resources": {"requests": {"cpu": number.to_string()}}}]}});
    let ready = if is_odd { "True" } else { "False" };
    match kind {
        "NodePool" => json!({
            "metadata": {"generation": number},
            "spec": {"weight": number + 1, "template": {"spec": {"requirements": [], "nodeClassRef":
                {"group": "karpenter.test.sh", "kind": "TestNodeClass", "name": "default"}}}},
            "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "x", "message": "",
                "lastTransitionTime": "2025-06-15T00:00:00Z"}]},
        }),
        "DaemonSet" => json!({"metadata": {"uid": if is_odd { "set-a" } else { "set-b" }},
            "spec": {"selector": selector, "template": pod}}),
        "Deployment" | "ReplicaSet" | "StatefulSet" => json!({"metadata": {}, "spec": {
            "selector": selector, "serviceName": "s", "template": pod, "replicas": number}}),
        "ReplicationController" => json!({"metadata": {}, "spec": {"selector": {"app": "x"}}}),
        "PodTemplate" => json!({"metadata": {}, "template": pod}),
        "CapacityBuffer" if is_odd => json!({"metadata": {"uid": "b"}, "spec": {
            "podTemplateRef": {"name": "a"}, "replicas": number}}),
        "CapacityBuffer" => json!({"metadata": {"uid": "b"}, "spec": {
            "scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "b"}, "percentage": 50}}),
        "Service" => json!({"metadata": {}, "spec": {"selector": {"app": number.to_string()}}}),
        "Namespace" => json!({"metadata": {"labels": {"team": number.to_string()}}}),
        "PodDisruptionBudget" => json!({"metadata": {},
            "spec": {"selector": selector, "maxUnavailable": number}}),
        "PersistentVolumeClaim" => {
            json!({"metadata": {}, "spec": {"volumeName": number.to_string()}})
        }
        "PersistentVolume" => json!({"metadata": {}, "spec": {"csi":
            {"driver": number.to_string(), "volumeHandle": "v"}}}),
        "StorageClass" => json!({"metadata": {}, "provisioner": number.to_string()}),
        "CSINode" => json!({"metadata": {}, "spec": {"drivers": [
            {"name": "ebs", "nodeID": "n", "allocatable": {"count": number}}]}}),
        "ResourceClaim" => json!({"metadata": {}, "spec": {"devices": {"requests": [
            {"name": "r", "exactly": {"deviceClassName": number.to_string()}}]}}}),
        "ResourceSlice" => json!({"metadata": {}, "spec": {"driver": number.to_string(),
            "allNodes": true, "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d"}]}}),
        other => panic!("{other}"),
    }
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => pod(),
        4 => node(),
        4 => claim(),
        4 => other(),
        1 => (0..40_i64).prop_map(Event::Time),
        1 => Just(Event::HoldSnapshot),
    ]
}

/// The existing objects by kind, namespace and name, and the mirror of them.
struct MirrorModel {
    objects: BTreeMap<(&'static str, &'static str, &'static str), Value>,
    now: Arc<AtomicI64>,
    settings: Settings,
    mirror: Mirror,
    /// Snapshots that readers hold, each with a copy of its original value.
    held: Vec<(Arc<Snapshot>, Snapshot)>,
}

impl MirrorModel {
    fn new() -> Self {
        let gates = Gates { capacity_buffer: true, ..Gates::default() };
        let settings = Settings { gates, ..test_settings(Timestamp::from_second(START).unwrap()) };
        let now = Arc::new(AtomicI64::new(START));
        let clock = Arc::clone(&now);
        let time = move || Timestamp::from_second(clock.load(Ordering::Relaxed)).unwrap();
        let mirror = Mirror::new(settings.clone(), time);
        Self { objects: BTreeMap::new(), now, settings, mirror, held: Vec::new() }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.now.load(Ordering::Relaxed)).unwrap()
    }

    fn apply(&mut self, event: Event) {
        let (kind, namespace, name, object) = match event {
            Event::Pod(namespace, name, object) => ("Pod", namespace, name, object),
            Event::Node(name, object) => ("Node", "", name, object),
            Event::Claim(name, object) => ("NodeClaim", "", name, object),
            Event::Other(kind, namespace, name, object) => {
                let is_namespaced = ![
                    "NodePool",
                    "Namespace",
                    "PersistentVolume",
                    "StorageClass",
                    "CSINode",
                    "ResourceSlice",
                ]
                .contains(&kind);
                (kind, if is_namespaced { namespace } else { "" }, name, object)
            }
            Event::Time(seconds) => {
                self.now.fetch_add(seconds, Ordering::Relaxed);
                return;
            }
            Event::HoldSnapshot => {
                let snapshot = self.mirror.snapshot(self.now());
                self.held.push((snapshot.clone(), Snapshot::clone(&snapshot)));
                return;
            }
        };
        let object = object.map(|mut object| {
            object["metadata"]["name"] = json!(name);
            if !namespace.is_empty() {
                object["metadata"]["namespace"] = json!(namespace);
            }
            object
        });
        self.update_mirror(kind, namespace, name, object.as_ref());
        match object {
            Some(object) => self.objects.insert((kind, namespace, name), object),
            None => self.objects.remove(&(kind, namespace, name)),
        };
    }

    fn update_mirror(&self, kind: &str, namespace: &str, name: &str, object: Option<&Value>) {
        let mirror = &self.mirror;
        match kind {
            "Pod" => mirror.set_pod(namespace, name, shared::<Pod>(object)),
            "Node" => mirror.set_node(name, shared::<Node>(object)),
            "NodeClaim" => mirror.set_node_claim(name, shared::<NodeClaim>(object)),
            "NodePool" => mirror.set_node_pool(name, shared::<NodePool>(object).as_deref()),
            "DaemonSet" => mirror.set_daemon_set(namespace, name, shared::<DaemonSet>(object)),
            "Deployment" => mirror.set_deployment(namespace, name, shared::<Deployment>(object)),
            "ReplicaSet" => mirror.set_replica_set(namespace, name, shared::<ReplicaSet>(object)),
            "StatefulSet" => {
                mirror.set_stateful_set(namespace, name, shared::<StatefulSet>(object));
            }
            "ReplicationController" => {
                let object = shared::<ReplicationController>(object);
                mirror.set_replication_controller(namespace, name, object.as_deref());
            }
            "PodTemplate" => {
                mirror.set_pod_template(namespace, name, shared::<PodTemplate>(object));
            }
            "CapacityBuffer" => {
                mirror.set_capacity_buffer(namespace, name, shared::<CapacityBuffer>(object));
            }
            "Service" => mirror.set_service(namespace, name, shared::<Service>(object).as_deref()),
            "Namespace" => mirror.set_namespace(name, shared::<Namespace>(object).as_deref()),
            "PodDisruptionBudget" => {
                let object = shared::<PodDisruptionBudget>(object);
                mirror.set_pod_disruption_budget(namespace, name, object.as_deref());
            }
            "PersistentVolumeClaim" => {
                let object = shared::<PersistentVolumeClaim>(object);
                mirror.set_persistent_volume_claim(namespace, name, object.as_deref());
            }
            "PersistentVolume" => {
                mirror.set_persistent_volume(name, shared::<PersistentVolume>(object).as_deref());
            }
            "StorageClass" => {
                mirror.set_storage_class(name, shared::<StorageClass>(object).as_deref());
            }
            "CSINode" => mirror.set_csi_node(name, shared::<CSINode>(object).as_deref()),
            "ResourceClaim" => {
                let object = shared::<ResourceClaim>(object);
                mirror.set_resource_claim(namespace, name, object.as_deref());
            }
            "ResourceSlice" => {
                mirror.set_resource_slice(name, shared::<ResourceSlice>(object).as_deref());
            }
            other => panic!("{other}"),
        }
    }

    fn all<T: serde::de::DeserializeOwned>(&self, kind: &str) -> Vec<T> {
        let of_kind = self.objects.iter().filter(|(key, _)| key.0 == kind);
        of_kind.map(|(_, object)| serde_json::from_value(object.clone()).unwrap()).collect()
    }

    /// All that exists, read at once.
    fn expected(&self) -> Snapshot {
        let objects = Objects {
            pods: self.all("Pod"),
            nodes: self.all("Node"),
            node_claims: self.all("NodeClaim"),
            node_pools: self.all("NodePool"),
            node_overlays: Vec::new(),
            capacity_buffers: self.all("CapacityBuffer"),
            daemon_sets: self.all("DaemonSet"),
            deployments: self.all("Deployment"),
            replica_sets: self.all("ReplicaSet"),
            stateful_sets: self.all("StatefulSet"),
            replication_controllers: self.all("ReplicationController"),
            pod_templates: self.all("PodTemplate"),
            services: self.all("Service"),
            namespaces: self.all("Namespace"),
            pod_disruption_budgets: self.all("PodDisruptionBudget"),
            persistent_volume_claims: self.all("PersistentVolumeClaim"),
            persistent_volumes: self.all("PersistentVolume"),
            storage_classes: self.all("StorageClass"),
            csi_nodes: self.all("CSINode"),
            resource_claims: self.all("ResourceClaim"),
            resource_claim_templates: Vec::new(),
            resource_slices: self.all("ResourceSlice"),
            device_classes: self.all::<DeviceClass>("DeviceClass"),
        };
        snapshot(&objects, &Settings { now: self.now(), ..self.settings.clone() }).snapshot
    }
}

fn shared<T: serde::de::DeserializeOwned>(object: Option<&Value>) -> Option<Arc<T>> {
    object.map(|object| Arc::new(serde_json::from_value(object.clone()).unwrap()))
}

/// The same snapshot with every list in one order, and nodes of pods by that order.
fn sorted(mut snapshot: Snapshot) -> Snapshot {
    let provider_ids: Vec<String> =
        snapshot.nodes.iter().map(|node| node.provider_id.clone()).collect();
    snapshot.nodes.sort_by(|a, b| a.provider_id.cmp(&b.provider_id));
    for pod in &mut snapshot.pods {
        let provider_id = pod.node.map(|node| &provider_ids[node.index()]);
        let position = provider_id.and_then(|provider_id| {
            snapshot.nodes.iter().position(|node| node.provider_id == *provider_id)
        });
        pod.node = position.map(karpenter_core::id::NodeId::new);
    }
    snapshot.pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    snapshot.pools.sort_by(|a, b| a.name.cmp(&b.name));
    snapshot.daemons.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    snapshot
}

/// What the nodes of each pool have, added up anew.
fn totals(snapshot: &Snapshot) -> BTreeMap<String, Resources> {
    let mut totals: BTreeMap<String, Resources> = BTreeMap::new();
    for node in snapshot.nodes.iter().filter(|node| !node.is_deleting) {
        if let Some(pool) = &node.pool {
            let mut capacity = node.capacity.clone();
            capacity.set(NODES, Quantity::from_units(1));
            totals.entry(pool.clone()).or_default().add(&capacity);
        }
    }
    totals
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_mirror_snapshot_equals_a_full_ingest_of_all_objects(
        events in prop::collection::vec(event(), 0..40),
    ) {
        let mut world = MirrorModel::new();
        for event in events {
            world.apply(event);
            let got = sorted(Snapshot::clone(&world.mirror.snapshot(world.now())));
            let expected = sorted(world.expected());
            prop_assert_eq!(&got, &expected);
            for (pool, total) in totals(&expected) {
                let found = world.mirror.pool_usage(&pool);
                for (name, amount) in total.iter() {
                    prop_assert_eq!(found.amount(name), amount, "{} of {}", name, pool);
                }
            }
            for pool in ["x", "y"] {
                let has = world.mirror.pool_usages().contains_key(pool);
                prop_assert_eq!(has, totals(&expected).contains_key(pool), "{}", pool);
            }
            for node in world.mirror.tracked_nodes(world.now()) {
                let mut sum = Resources::default();
                for pod in expected.pods.iter().filter(|pod| !pod.is_terminal()) {
                    let on = pod.node.map(|id| expected.node(id).provider_id.as_str());
                    if on == Some(node.provider_id.as_str()) {
                        sum.add(&pod.spec.requests);
                    }
                }
                prop_assert_eq!(&node.usage.requests, &sum, "pods of {}", node.provider_id);
            }
        }
        for (held, was) in &world.held {
            prop_assert_eq!(&**held, was, "who holds a snapshot sees no change");
        }
    }
}
