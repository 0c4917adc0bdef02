//! Tests of reading Nodes and NodeClaims into StateNodes.

use karpenter_core::snapshot::StateNode;

use super::*;

/// A NodeClaim of ours.
fn claim(
    name: &str,
    provider_id: &str,
    spec: Value,
    status: Value,
) -> karpenter_api::nodeclaim::NodeClaim {
    let mut json = json!({
        "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "pool", "from": "claim"}},
        "spec": {
            "requirements": [],
            "nodeClassRef": {"group": "karpenter.test.sh", "kind": "TestNodeClass", "name": "default"},
        },
        "status": {"providerID": provider_id},
    });
    for (part, more) in [("spec", spec), ("status", status)] {
        for (key, value) in more.as_object().unwrap() {
            json[part][key] = value.clone();
        }
    }
    object(json)
}

fn node(name: &str, labels: Value, spec: Value, status: Value) -> k8s_openapi::api::core::v1::Node {
    let mut all = json!({"karpenter.sh/nodepool": "pool", "node.kubernetes.io/instance-type": "t", "from": "node"});
    for (key, value) in labels.as_object().unwrap() {
        all[key] = value.clone();
    }
    object(json!({"metadata": {"name": name, "labels": all}, "spec": spec, "status": status}))
}

/// A Node and its NodeClaim `c`, joined.
#[track_caller]
fn join(labels: Value, taints: Value, claim_spec: Value, claim_status: Value) -> StateNode {
    let objects = Objects {
        nodes: vec![node("n", labels, json!({"providerID": "m", "taints": taints}), json!({}))],
        node_claims: vec![claim("c", "m", claim_spec, claim_status)],
        ..Objects::default()
    };
    let mut nodes = snapshot(&objects, &settings()).snapshot.nodes;
    assert_eq!(nodes.len(), 1);
    StateNode::clone(&nodes.remove(0))
}

fn condition(kind: &str, status: &str) -> Value {
    json!({"conditions": [{"type": kind, "status": status, "reason": "", "message": "",
        "lastTransitionTime": "2025-06-01T00:00:00Z"}]})
}

#[test]
fn nodeclaim_names_and_labels_count_until_the_node_is_registered() {
    #[rustfmt::skip]
    let cases = [
        ("not registered", json!({}),                                  "c", "claim"),
        ("registered",     json!({"karpenter.sh/registered": "true"}), "n", "node"),
        ("other text",     json!({"karpenter.sh/registered": "yes"}),  "c", "claim"),
    ];
    for (case, labels, name, from) in cases {
        let node = join(labels, json!([]), json!({}), json!({}));
        assert_eq!((node.name.as_str(), node.labels["from"].as_str()), (name, from), "{case}");
        assert_eq!(node.pool.as_deref(), Some("pool"), "{case}");
        assert!(node.is_managed && !node.is_initialized, "{case}");
        assert_eq!(node.object.unwrap().labels["from"], "node", "{case}");
    }
}

#[test]
fn ephemeral_taints_are_dropped_until_initialized_and_while_rebooting() {
    let registered = json!({"karpenter.sh/registered": "true"});
    let ready = json!({"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"});
    let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
    let on_node = json!([
        taint("node.kubernetes.io/not-ready", "NoSchedule"),
        taint("readiness.k8s.io/x", "NoSchedule"),
        taint("startup", "NoExecute"),
        taint("startup", "NoSchedule"),
        taint("karpenter.sh/rebooting", "NoSchedule"),
    ]);
    let spec = json!({
        "taints": [taint("own", "NoSchedule"), taint("karpenter.sh/unregistered", "NoExecute")],
        "startupTaints": [{"key": "startup", "value": "v", "effect": "NoExecute"}],
    });
    let all = "node.kubernetes.io/not-ready:NoSchedule readiness.k8s.io/x:NoSchedule startup:NoExecute \
               startup:NoSchedule karpenter.sh/rebooting:NoSchedule";
    #[rustfmt::skip]
    let cases = [
        ("not registered",     json!({}),          json!({}),                       "own:NoSchedule"),
        ("20/C4, 40/CS-24",    registered,         json!({}),                       "startup:NoSchedule"),
        ("20/C4 initialised",  ready.clone(),      json!({}),                       all),
        ("45/ST-3 rebooting",  ready.clone(),      condition("Rebooting", "True"),  "startup:NoSchedule"),
        ("45/ST-3 finished",   ready,              condition("Rebooting", "False"), all),
    ];
    for (case, labels, status, expected) in cases {
        let node = join(labels, on_node.clone(), spec.clone(), status);
        let taints: Vec<_> = node.taints.iter().map(ToString::to_string).collect();
        assert_eq!(taints.join(" "), expected, "{case}");
    }

    let unmanaged = object(json!({"metadata": {"name": "n"}, "spec": {"taints": on_node}}));
    let objects = Objects { nodes: vec![unmanaged], ..Objects::default() };
    let nodes = snapshot(&objects, &settings()).snapshot.nodes;
    assert_eq!(nodes[0].taints.len(), 5, "40/CS-25");
    assert!(nodes[0].is_initialized && !nodes[0].is_managed);
}

#[test]
fn an_uninitialized_node_takes_missing_resources_from_its_nodeclaim() {
    let read = |labels: Value| {
        let status = json!({
            "allocatable": {"cpu": "4", "nvidia.com/gpu": "0"},
            "capacity": {"cpu": "5", "nvidia.com/gpu": "0"},
        });
        let promised = json!({
            "allocatable": {"cpu": "3", "memory": "1Gi", "nvidia.com/gpu": "2"},
            "capacity": {"cpu": "3", "memory": "2Gi", "nvidia.com/gpu": "2"},
        });
        let objects = Objects {
            nodes: vec![node("n", labels, json!({"providerID": "m"}), status)],
            node_claims: vec![
                claim("c", "m", json!({}), promised.clone()),
                claim("d", "o", json!({}), promised),
            ],
            ..Objects::default()
        };
        snapshot(&objects, &settings()).snapshot.nodes
    };
    let nodes = read(json!({}));
    assert_eq!(
        nodes[0].allocatable.json(),
        r#"{"cpu":"4","memory":"1Gi","nvidia.com/gpu":"2"}"#,
        "20/C6"
    );
    assert_eq!(
        nodes[0].capacity.json(),
        r#"{"cpu":"5","memory":"2Gi","nvidia.com/gpu":"2"}"#,
        "20/C6"
    );
    assert_eq!(nodes[1].name, "d");
    assert_eq!(nodes[1].capacity.json(), r#"{"cpu":"3","memory":"2Gi","nvidia.com/gpu":"2"}"#);
    assert_eq!((nodes[1].provider_id.as_str(), &nodes[1].object), ("o", &None));
    let nodes = read(json!({"karpenter.sh/initialized": "true"}));
    assert_eq!(nodes[0].allocatable.json(), r#"{"cpu":"4","nvidia.com/gpu":"0"}"#);
}

#[test]
fn a_node_is_deleting_with_its_nodeclaim_or_if_it_has_none() {
    let deleting = |name: &str, provider_id: &str| {
        object(json!({
            "metadata": {"name": name, "deletionTimestamp": "2025-06-01T00:00:00Z"},
            "spec": {"providerID": provider_id},
        }))
    };
    let mut gone = claim("gone", "m2", json!({}), json!({}));
    gone.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(settings().now));
    let objects = Objects {
        nodes: vec![deleting("claimed", "m1"), deleting("alone", "m0")],
        node_claims: vec![
            claim("c1", "m1", json!({}), json!({})),
            gone,
            claim("c3", "m3", json!({}), condition("InstanceTerminating", "True")),
            claim("c4", "m4", json!({}), condition("InstanceTerminating", "False")),
        ],
        ..Objects::default()
    };
    let nodes = snapshot(&objects, &settings()).snapshot.nodes;
    let deleting: Vec<_> =
        nodes.iter().map(|node| (node.name.as_str(), node.is_deleting)).collect();
    let expected = [("c1", false), ("alone", true), ("gone", true), ("c3", true), ("c4", false)];
    assert_eq!(deleting, expected, "40/CS-13");
}

#[test]
fn excluded_nodes_and_nodeclaims_are_reported() {
    let mut other = claim("other", "m9", json!({}), json!({}));
    other.spec.node_class_ref.kind = "EC2NodeClass".to_owned();
    let objects = Objects {
        nodes: vec![
            node("nameless", json!({}), json!({}), json!({})),
            node(
                "typeless",
                json!({"node.kubernetes.io/instance-type": ""}),
                json!({"providerID": "a"}),
                json!({}),
            ),
            node(
                "initialized",
                json!({"node.kubernetes.io/instance-type": "", "karpenter.sh/initialized": "true"}),
                json!({"providerID": "b"}),
                json!({}),
            ),
            node("twin", json!({}), json!({"providerID": "b"}), json!({})),
            node(
                "others",
                json!({}),
                json!({"providerID": "m9"}),
                json!({"capacity": {"cpu": "?"}}),
            ),
        ],
        node_claims: vec![
            claim("early", "", json!({}), json!({})),
            claim("c", "b", json!({}), json!({})),
            claim("c2", "b", json!({}), json!({})),
            other,
        ],
        ..Objects::default()
    };
    let ingested = snapshot(&objects, &settings());
    assert_eq!(
        diagnostics(&ingested),
        [
            "-NodeClaim /early: not launched yet",
            "-!NodeClaim /c2: another claim has the same machine",
            "-NodeClaim /other: EC2NodeClass.karpenter.test.sh is not ours",
            "-Node /nameless: belongs to a NodePool and has no providerID yet",
            "-Node /typeless: belongs to a NodePool and has no instance type yet",
            "-!Node /twin: another node has the same name or machine",
            "!Node /others: status.capacity[cpu]: quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ],
        "40/CS-09, 40/CS-10"
    );
    let nodes: Vec<_> =
        ingested.snapshot.nodes.iter().map(|n| (n.name.as_str(), n.is_managed)).collect();
    assert_eq!(
        nodes,
        [("c", true), ("others", false)],
        "another installation's nodes are not ours"
    );
}

#[test]
fn csi_drivers_and_nodeclaim_times_are_read() {
    let mut objects = Objects {
        nodes: vec![node("n", json!({}), json!({"providerID": "m"}), json!({}))],
        node_claims: vec![claim("c", "m", json!({}), condition("Initialized", "True"))],
        ..Objects::default()
    };
    objects.csi_nodes.push(object(json!({"metadata": {"name": "n"}, "spec": {"drivers": [
        {"name": "a", "nodeID": "", "allocatable": {"count": 7}}, {"name": "b", "nodeID": ""},
        {"name": "c", "nodeID": "", "allocatable": {"count": -1}},
    ]}})));
    objects.node_claims[0].status.as_mut().unwrap().last_pod_event_time =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(settings().now));
    let node = snapshot(&objects, &settings()).snapshot.nodes.remove(0);
    let drivers = [("a", Some(7)), ("b", None), ("c", Some(0))];
    let drivers = drivers.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(node.published_volume_limits, drivers.into(), "40/CS-12");
    assert_eq!(node.initialized_at.unwrap().to_string(), "2025-06-01T00:00:00Z");
    assert_eq!(node.last_pod_event, Some(settings().now));
}
