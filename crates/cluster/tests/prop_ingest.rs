//! Property tests of ingest: any objects are read without a panic, and no pod is lost.

use std::collections::BTreeSet;

use jiff::Timestamp;
use karpenter_cluster::ingest::{Gates, Objects, Settings, snapshot};
use proptest::prelude::*;
use serde_json::{Value, json};

#[path = "../src/ingest/test_settings.rs"]
mod test_settings;

use test_settings::{default_class, test_settings};

/// Texts that may occur in any field: existing names, and values that are invalid everywhere.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => prop::sample::select(vec![
            "", "a", "b", "node", "machine", "karpenter.sh/nodepool", "karpenter.sh/registered",
            "karpenter.sh/initialized", "true", "kubernetes.io/hostname", "beta.kubernetes.io/arch",
            "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type", "default",
            "karpenter.sh/do-not-disrupt", "1h", "pv.kubernetes.io/bind-completed",
        ]).prop_map(str::to_owned),
        1 => "\\PC{0,12}",
        1 => Just("x".repeat(317)),
    ]
}

fn quantity() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "1",
            "-1",
            "0",
            "100m",
            "64Mi",
            "1e30",
            "-9e999999999",
            "9999999999999999999999Ei",
            "1e-99999",
            ".",
            "",
            "1 1",
            "NaN",
            "0x10",
            "1.5e3Ki",
            "-0",
        ])
        .prop_map(str::to_owned),
        "[-+]?[0-9]{0,40}(\\.[0-9]{0,40})?[a-zA-Z]{0,3}",
    ]
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(text(), 0..3)
}

fn map(values: impl Strategy<Value = String>) -> impl Strategy<Value = Value> {
    let key = prop_oneof![3 => text(), 1 => Just("cpu".to_owned()), 1 => Just("memory".to_owned())];
    prop::collection::btree_map(key, values, 0..4).prop_map(|map| json!(map))
}

fn operator() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "In",
        "NotIn",
        "Exists",
        "DoesNotExist",
        "Gt",
        "Lt",
        "Gte",
        "Lte",
        "",
        "?",
    ])
}

fn expression() -> impl Strategy<Value = Value> {
    let numbers = prop::collection::vec(
        prop::sample::select(vec!["1", "-1", "9223372036854775807", "99999999999999999999", "x"]),
        0..3,
    );
    prop_oneof![
        (text(), operator(), texts()).prop_map(
            |(key, operator, values)| json!({"key": key, "operator": operator, "values": values})
        ),
        (text(), operator(), numbers).prop_map(
            |(key, operator, values)| json!({"key": key, "operator": operator, "values": values})
        ),
    ]
}

fn expressions() -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec(expression(), 0..3)
}

fn selector() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        (map(text()), expressions()).prop_map(
            |(labels, expressions)| json!({"matchLabels": labels, "matchExpressions": expressions})
        ),
    ]
}

fn taints() -> impl Strategy<Value = Value> {
    let effect = prop::sample::select(vec!["NoSchedule", "NoExecute", "PreferNoSchedule", "", "?"]);
    let taint = (text(), text(), effect)
        .prop_map(|(key, value, effect)| json!({"key": key, "value": value, "effect": effect, "operator": value}));
    prop::collection::vec(taint, 0..3).prop_map(|taints| json!(taints))
}

fn metadata() -> impl Strategy<Value = Value> {
    let time = prop::sample::select(vec![
        Value::Null,
        json!("2025-01-01T00:00:00Z"),
        json!("9999-12-30T00:00:00Z"),
    ]);
    let owner = (text(), prop::sample::select(vec!["DaemonSet", "Node", "StatefulSet", "ReplicaSet"]), text(), any::<bool>())
        .prop_map(|(version, kind, uid, controller)| json!({"apiVersion": version, "kind": kind, "name": uid, "uid": uid, "controller": controller}));
    let owners = prop::collection::vec(owner, 0..3);
    (text(), text(), text(), map(text()), map(text()), time.clone(), time, owners).prop_map(
        |(name, namespace, uid, labels, annotations, created, deleted, owners)| {
            json!({
                "name": name, "namespace": namespace, "uid": uid, "labels": labels, "annotations": annotations,
                "creationTimestamp": created, "deletionTimestamp": deleted, "ownerReferences": owners,
            })
        },
    )
}

fn container() -> impl Strategy<Value = Value> {
    let policy = prop::sample::select(vec![Value::Null, json!("Always"), json!("?")]);
    (map(quantity()), map(quantity()), any::<i32>(), text(), policy).prop_map(|(requests, limits, port, ip, policy)| {
        json!({
            "name": "c", "resources": {"requests": requests, "limits": limits}, "restartPolicy": policy,
            "ports": [{"containerPort": 1, "hostPort": port, "hostIP": ip}],
        })
    })
}

fn affinity() -> impl Strategy<Value = Value> {
    let term = || {
        (text(), selector(), selector(), texts()).prop_map(|(key, selector, namespaces, names)| {
        json!({"topologyKey": key, "labelSelector": selector, "namespaceSelector": namespaces, "namespaces": names})
    })
    };
    let node_term = || {
        (expressions(), expressions()).prop_map(
            |(expressions, fields)| json!({"matchExpressions": expressions, "matchFields": fields}),
        )
    };
    let node_terms = prop::collection::vec(node_term(), 0..3);
    (node_terms, any::<i32>(), node_term(), term(), term()).prop_map(|(required, weight, preferred, near, far)| {
        json!({
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": required},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "preference": preferred}],
            },
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]},
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "podAffinityTerm": far}]},
        })
    })
}

fn pod_spec() -> impl Strategy<Value = Value> {
    let spread = (text(), any::<i32>(), text(), selector(), any::<Option<i32>>(), texts()).prop_map(|(key, skew, when, selector, domains, keys)| {
        json!({"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": when, "labelSelector": selector,
            "minDomains": domains, "matchLabelKeys": keys, "nodeTaintsPolicy": when})
    });
    let containers = || prop::collection::vec(container(), 0..3);
    (
        (containers(), containers(), map(quantity()), map(quantity())),
        prop::option::of(affinity()), map(text()), taints(), spread, text(), text(),
    ).prop_map(|((containers, init, overhead, pod), affinity, selector, tolerations, spread, node, claim)| {
        json!({
            "containers": containers, "initContainers": init, "overhead": overhead, "resources": {"requests": pod},
            "affinity": affinity, "nodeSelector": selector, "tolerations": tolerations,
            "topologySpreadConstraints": [spread], "nodeName": node,
            "volumes": [{"name": claim, "persistentVolumeClaim": {"claimName": claim}}, {"name": claim, "ephemeral": {}}],
            "resourceClaims": [{"name": claim, "resourceClaimTemplateName": claim}],
        })
    })
}

fn pod() -> impl Strategy<Value = Value> {
    (metadata(), prop::option::of(pod_spec()), prop::option::of(pod_status())).prop_map(
        |(metadata, spec, status)| json!({"metadata": metadata, "spec": spec, "status": status}),
    )
}

fn pod_status() -> impl Strategy<Value = Value> {
    let resize = prop::sample::select(vec!["Infeasible", "Deferred"]);
    (map(quantity()), map(quantity()), text(), resize).prop_map(|(resources, allocated, name, resize)| json!({
        "phase": name, "nominatedNodeName": name, "startTime": "2025-01-01T00:00:00Z",
        "conditions": [{"type": "PodScheduled", "status": name, "reason": "Unschedulable"},
                {"type": "PodResizePending", "status": "True", "reason": resize}],
        "resourceClaimStatuses": [{"name": name, "resourceClaimName": name}],
        "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
            "resources": {"requests": resources}, "allocatedResources": allocated}],
    }))
}

/// The pod fields that ingest reads.
const POD_FIELDS: [&str; 18] = [
    "/spec/containers",
    "/spec/containers/0/ports",
    "/spec/containers/0/resources",
    "/spec/initContainers",
    "/spec/initContainers/0/restartPolicy",
    "/spec/overhead",
    "/spec/resources",
    "/spec/affinity/nodeAffinity",
    "/spec/affinity/podAffinity",
    "/spec/affinity/podAntiAffinity",
    "/spec/nodeSelector",
    "/spec/tolerations",
    "/spec/resourceClaims",
    "/spec/topologySpreadConstraints",
    "/status/containerStatuses/0/resources",
    "/status/containerStatuses/0/allocatedResources",
    "/status/resourceClaimStatuses",
    "/status/conditions",
];

/// A pod that no node holds.
fn unbound_pod() -> impl Strategy<Value = Value> {
    (metadata(), pod_spec(), pod_status()).prop_map(|(metadata, mut spec, status)| {
        spec["nodeName"] = Value::Null;
        json!({"metadata": metadata, "spec": spec, "status": status})
    })
}

fn node() -> impl Strategy<Value = Value> {
    (metadata(), text(), taints(), map(quantity()), map(quantity())).prop_map(
        |(metadata, provider_id, taints, capacity, allocatable)| {
            json!({"metadata": metadata, "spec": {"providerID": provider_id, "taints": taints},
            "status": {"capacity": capacity, "allocatable": allocatable}})
        },
    )
}

fn class() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => Just(json!({"group": "karpenter.test.sh", "kind": "TestNodeClass", "name": "default"})),
        1 => text().prop_map(|text| json!({"group": text, "kind": text, "name": text})),
    ]
}

fn claim() -> impl Strategy<Value = Value> {
    (metadata(), class(), text(), taints(), map(quantity())).prop_map(|(metadata, class, provider_id, taints, resources)| {
        json!({"metadata": metadata, "spec": {"requirements": [], "nodeClassRef": class, "taints": taints, "startupTaints": taints},
            "status": {"providerID": provider_id, "capacity": resources, "allocatable": resources}})
    })
}

fn pool() -> impl Strategy<Value = Value> {
    let after = prop::sample::select(vec!["Never", "0s", "30s", "", "x", "999999999h"]);
    (metadata(), class(), expressions(), taints(), map(quantity()), map(text()), after, any::<Option<i32>>()).prop_map(
        |(metadata, class, requirements, taints, limits, labels, after, weight)| {
            json!({"metadata": metadata, "spec": {
                "template": {"metadata": {"labels": labels}, "spec": {"requirements": requirements, "nodeClassRef": class, "taints": taints}},
                "limits": limits, "disruption": {"consolidateAfter": after}, "weight": weight,
            }})
        },
    )
}

fn other_objects() -> impl Strategy<Value = Objects> {
    (metadata(), selector(), pod_spec(), map(quantity()), text(), expressions(), any::<i32>()).prop_map(
        |(metadata, selector, spec, quantities, text, expressions, number)| {
            let workload = json!({"metadata": metadata, "spec": {
                "selector": selector, "serviceName": text, "template": {"spec": spec}, "replicas": number}});
            let mut workload_with_selector = workload.clone();
            if selector.is_null() {
                workload_with_selector["spec"]["selector"] = json!({});
            }
            Objects {
                daemon_sets: vec![read(&workload_with_selector)],
                deployments: vec![read(&workload_with_selector)],
                replica_sets: vec![read(&workload_with_selector)],
                stateful_sets: vec![read(&workload_with_selector)],
                pod_disruption_budgets: vec![read(&json!({"metadata": metadata, "spec": {"selector": selector, "maxUnavailable": text}}))],
                capacity_buffers: vec![read(&json!({"metadata": metadata, "spec": {
                    "scalableRef": {"kind": "Deployment", "name": metadata["name"]}, "percentage": 1, "limits": quantities}}))],
                node_overlays: vec![read(&json!({"metadata": metadata, "spec": {"requirements": expressions, "price": text, "capacity": quantities}}))],
                persistent_volumes: vec![read(&json!({"metadata": metadata, "spec": {"nodeAffinity": {"required": {
                    "nodeSelectorTerms": [{"matchExpressions": expressions}]}}}}))],
                persistent_volume_claims: vec![read(&json!({"metadata": metadata, "spec": {"volumeName": text}}))],
                storage_classes: vec![read(&json!({"metadata": metadata, "provisioner": text}))],
                csi_nodes: vec![read(&json!({"metadata": metadata, "spec": {"drivers": [{"name": text, "nodeID": "", "allocatable": {"count": number}}]}}))],
                ..Objects::default()
            }
        },
    )
}

/// Far beyond what Kubernetes stores, at every place of a pod that takes a text.
#[test]
fn a_megabyte_of_text_does_not_break_ingest() {
    let long = "x".repeat(1 << 20);
    let pod = json!({
        "metadata": {"name": long, "namespace": long, "labels": {&long: long}, "annotations": {"karpenter.sh/do-not-disrupt": long}},
        "spec": {
            "containers": [{"name": "c", "resources": {"requests": {&long: long, "cpu": "1".repeat(1 << 20)}}}],
            "nodeSelector": {&long: long},
            "topologySpreadConstraints": [{"topologyKey": long, "maxSkew": 1, "whenUnsatisfiable": long, "labelSelector": {"matchLabels": {&long: long}}}],
        },
    });
    let objects = Objects { pods: vec![read(&pod)], ..Objects::default() };
    let now = Timestamp::from_second(1_750_000_000).unwrap();
    let ingested = snapshot(&objects, &test_settings(now));
    assert!(ingested.snapshot.pods[0].problem.is_some());
}

#[track_caller]
fn read<T: serde::de::DeserializeOwned>(json: &Value) -> T {
    serde_json::from_value(json.clone()).unwrap_or_else(|error| panic!("{error}: {json}"))
}

fn objects() -> impl Strategy<Value = Objects> {
    let several = |object| prop::collection::vec(object, 0..5);
    (
        prop::collection::vec(pod(), 0..8),
        several(node().boxed()),
        several(claim().boxed()),
        several(pool().boxed()),
        other_objects(),
    )
        .prop_map(|(pods, nodes, claims, pools, rest)| Objects {
            pods: pods.iter().map(read).collect(),
            nodes: nodes.iter().map(read).collect(),
            node_claims: claims.iter().map(read).collect(),
            node_pools: pools.iter().map(read).collect(),
            ..rest
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_pod_is_in_the_snapshot_or_in_a_diagnostic(
        mut objects in objects(),
        is_file: bool,
        assume_pools_ready: bool,
    ) {
        if is_file {
            objects.fill_defaults(&default_class());
        }
        let now = Timestamp::from_second(1_750_000_000).unwrap();
        let gates = Gates { node_overlay: true, capacity_buffer: true, ..Gates::default() };
        let settings = Settings { gates, assume_pools_ready, ..test_settings(now) };
        let ingested = snapshot(&objects, &settings);
        let real = ingested.snapshot.pods.iter().filter(|pod| !pod.is_virtual);
        let left_out = ingested.diagnostics.iter().filter(|mark| mark.is_excluded);
        let count = |kind: &str| left_out.clone().filter(|mark| mark.kind == kind).count();
        prop_assert_eq!(real.count() + count("Pod"), objects.pods.len());
        prop_assert_eq!(ingested.snapshot.pools.len() + count("NodePool"), objects.node_pools.len());
        prop_assert_eq!(ingested.overlays.len(), objects.node_overlays.len());
        // Each Node and each NodeClaim is in one entry, alone or joined.
        let nodes = &ingested.snapshot.nodes;
        let objects_in = objects.nodes.len() + objects.node_claims.len();
        let joined = nodes.iter().filter(|node| node.is_managed && node.object.is_some()).count();
        prop_assert_eq!(nodes.len() + joined + count("Node") + count("NodeClaim"), objects_in);
        for pod in &ingested.snapshot.pods {
            prop_assert!(pod.node.is_none_or(|node| node.index() < nodes.len()));
            prop_assert!(ingested.snapshot.namespaces.contains_key(&pod.namespace));
        }
        let provider_ids: BTreeSet<_> = nodes.iter().map(|node| &node.provider_id).collect();
        prop_assert_eq!(provider_ids.len(), nodes.len(), "one entry per machine");
    }
    /// Parsing the shared spec of two replicas once gives the same result.
    #[test]
    fn replicas_read_together_equal_replicas_read_alone(mut pod in unbound_pod(), other in unbound_pod()) {
        pod["metadata"]["name"] = json!("a");
        let settings = test_settings(Timestamp::from_second(1_750_000_000).unwrap());
        let read_all = |pods: &[&Value]| {
            let pods = pods.iter().map(|pod| read(pod)).collect();
            snapshot(&Objects { pods, ..Objects::default() }, &settings).snapshot.pods
        };
        for part in POD_FIELDS {
            let mut replica = pod.clone();
            replica["metadata"]["name"] = json!("b");
            if let (Some(own), Some(others)) = (replica.pointer_mut(part), other.pointer(part)) {
                *own = others.clone();
            }
            let alone = [read_all(&[&pod]), read_all(&[&replica])].concat();
            prop_assert_eq!(read_all(&[&pod, &replica]), alone, "{}", part);
        }
    }
}
