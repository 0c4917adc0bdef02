//! Tests of reading DaemonSets, volumes, budgets, workloads, buffers, overlays and devices.

use karpenter_core::selector::{LabelSelector, Selector};
use karpenter_core::snapshot::WorkloadKey;

use super::*;

#[test]
fn a_daemonset_uses_its_newest_pod_and_the_template_affinity() {
    let pod = |name: &str, created: &str, uid: &str, cpu: &str| {
        object(json!({
            "metadata": {
                "name": name, "namespace": "n", "creationTimestamp": created,
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": uid, "controller": true}],
            },
            "spec": {
                "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}}},
            },
        }))
    };
    let set = |name: &str, uid: &str, affinity: Value| {
        object(json!({
            "metadata": {"name": name, "namespace": "n", "uid": uid},
            "spec": {"selector": {}, "template": {"spec": {
                "affinity": affinity,
                "containers": [{"name": "c", "resources": {"limits": {"cpu": "7", "memory": "1Gi"}, "requests": {"cpu": "5"}}}],
            }}},
        }))
    };
    let zone = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "failure-domain.beta.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}]}}});
    let objects = Objects {
        pods: vec![
            pod("old", "2025-01-01T00:00:00Z", "u", "1"),
            pod("new", "2025-01-02T00:00:00Z", "u", "2"),
            pod("other", "2025-01-03T00:00:00Z", "v", "3"),
        ],
        daemon_sets: vec![
            set("d", "u", zone),
            set("e", "w", json!(null)),
            set("f", "", json!(null)),
        ],
        ..Objects::default()
    };
    let daemons = snapshot(&objects, &settings()).snapshot.daemons;
    assert_eq!(daemons[0].spec.requests.json(), r#"{"cpu":"2","pods":"1"}"#, "20/C16, 40/CS-31");
    assert_eq!(
        daemons[0].spec.node_affinity[0].to_string(),
        "topology.kubernetes.io/zone In [a]",
        "20/C16"
    );
    let from_template = r#"{"cpu":"5","memory":"1Gi","pods":"1"}"#;
    assert_eq!(daemons[1].spec.requests.json(), from_template, "20/C17");
    assert_eq!(daemons[2].spec.requests.json(), from_template, "no uid, no pods");
}

#[test]
fn a_daemonset_over_the_bound_counts_at_least_where_it_runs() {
    let preferences: Value = (0..1_101)
        .map(|_| json!({"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}))
        .collect();
    let terms = |count: usize| -> Value {
        let zone = |index: usize| json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [index.to_string()]}]});
        (0..count).map(zone).collect()
    };
    let required = |terms: Value| json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
    for (affinity, selected_zones) in [
        (
            json!({"nodeAffinity": required(terms(2)), "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferences}}),
            2,
        ),
        (json!({"nodeAffinity": required(terms(1_101))}), 0),
    ] {
        let set = json!({
            "metadata": {"name": "d", "namespace": "n", "uid": "u"},
            "spec": {"selector": {}, "template": {"spec": {"affinity": affinity, "containers": []}}},
        });
        let mut pod_affinity = affinity.clone();
        pod_affinity["nodeAffinity"] = required(
            json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]),
        );
        let pod = object(json!({
            "metadata": {
                "name": "d-1", "namespace": "n",
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true}],
            },
            "spec": {"affinity": pod_affinity, "containers": []},
        }));
        for pods in [vec![], vec![pod]] {
            let daemon_sets = vec![object(set.clone())];
            let objects = Objects { pods, daemon_sets, ..Objects::default() };
            let daemons = snapshot(&objects, &settings()).snapshot.daemons;
            assert_eq!(
                daemons[0].spec.node_affinity.len(),
                selected_zones,
                "{} pods",
                objects.pods.len()
            );
        }
    }
}

#[test]
fn in_tree_volumes_are_read_with_their_csi_drivers() {
    let objects = Objects {
        persistent_volume_claims: vec![
            object(
                json!({"metadata": {"name": "a", "namespace": "n", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
                "spec": {"volumeName": "v", "storageClassName": ""}, "status": {"phase": "Lost"}}),
            ),
            object(json!({"metadata": {"name": "b", "namespace": "n"}})),
        ],
        persistent_volumes: vec![
            object(
                json!({"metadata": {"name": "csi"}, "spec": {"csi": {"driver": "x.csi", "volumeHandle": "h"}}}),
            ),
            object(
                json!({"metadata": {"name": "ebs"}, "spec": {"awsElasticBlockStore": {"volumeID": "v"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "failure-domain.beta.kubernetes.io/zone", "operator": "In", "values": ["z"]}]},
                    {"matchExpressions": []}, {},
                ]}}}}),
            ),
            object(
                json!({"metadata": {"name": "disk", "deletionTimestamp": "2025-01-01T00:00:00Z"}, "spec": {"local": {"path": "/d"}}}),
            ),
        ],
        storage_classes: vec![
            object(
                json!({"metadata": {"name": "gp2"}, "provisioner": "kubernetes.io/aws-ebs", "volumeBindingMode": "Immediate"}),
            ),
            object(
                json!({"metadata": {"name": "new"}, "provisioner": "other.csi", "volumeBindingMode": "WaitForFirstConsumer",
                "allowedTopologies": [{"matchLabelExpressions": [{"key": "failure-domain.beta.kubernetes.io/zone", "values": ["a", "b"]}]}, {}]}),
            ),
        ],
        ..Objects::default()
    };
    let volumes = snapshot(&objects, &settings()).snapshot.volumes;
    let claim = &volumes.claims[&("n".to_owned(), "a".to_owned())];
    assert!(claim.is_lost && claim.is_bind_completed && !claim.is_deleting);
    assert_eq!((claim.volume_name.as_str(), claim.storage_class.as_deref()), ("v", Some("")));
    assert_eq!(volumes.claims[&("n".to_owned(), "b".to_owned())].storage_class, None);
    assert_eq!(volumes.volumes["csi"].driver.as_deref(), Some("x.csi"));
    let ebs = &volumes.volumes["ebs"];
    assert_eq!(ebs.driver.as_deref(), Some("ebs.csi.aws.com"));
    let terms: Vec<_> = ebs.node_affinity.iter().map(ToString::to_string).collect();
    assert_eq!(terms, ["topology.kubernetes.io/zone In [z]"]);
    let disk = &volumes.volumes["disk"];
    assert!(disk.is_local && disk.is_deleting && disk.driver.is_none());
    let gp2 = &volumes.classes["gp2"];
    assert!(gp2.binds_immediately);
    assert_eq!(gp2.provisioner, "ebs.csi.aws.com");
    let new = &volumes.classes["new"];
    assert!(!new.binds_immediately);
    let terms: Vec<_> = new.allowed_topologies.iter().map(ToString::to_string).collect();
    assert_eq!(
        (new.provisioner.as_str(), terms.as_slice()),
        ("other.csi", &["topology.kubernetes.io/zone In [a b]".to_owned()][..])
    );
}

#[test]
fn pod_disruption_budgets_that_block_all_evictions_are_detected() {
    let all = json!({});
    #[rustfmt::skip]
    let cases = [
        ("zero",    json!({"maxUnavailable": 0, "selector": all}),       true),
        ("0 %",     json!({"maxUnavailable": "0%", "selector": all}),    true),
        ("100 %",   json!({"minAvailable": "100%", "selector": all}),    true),
        ("some",    json!({"maxUnavailable": 1, "selector": all}),       false),
        ("some",    json!({"minAvailable": "99%", "selector": all}),     false),
        ("number",  json!({"minAvailable": 100, "selector": all}),       false),
        ("nothing", json!({"selector": all}),                            false),
    ];
    for (case, spec, blocks_all) in cases {
        let budget = object(json!({"metadata": {"name": "b", "namespace": "n"}, "spec": spec}));
        let objects = Objects { pod_disruption_budgets: vec![budget], ..Objects::default() };
        let found = snapshot(&objects, &settings()).snapshot.disruption_budgets.remove(0);
        assert_eq!(found.blocks_all, blocks_all, "{case}");
        assert_eq!(found.selector, Selector::Matching(LabelSelector::default()), "{case}");
    }
}

#[test]
fn an_invalid_pod_disruption_budget_blocks_its_namespace() {
    let read = |selector: Value, allowed: i32| {
        let spec = json!({"selector": selector, "unhealthyPodEvictionPolicy": "AlwaysAllow"});
        let status = json!({"disruptionsAllowed": allowed, "currentHealthy": 1,
            "desiredHealthy": 0, "expectedPods": 1});
        let meta = json!({"name": "b", "namespace": "n"});
        let budget = object(json!({"metadata": meta, "spec": spec, "status": status}));
        let objects = Objects { pod_disruption_budgets: vec![budget], ..Objects::default() };
        let mut ingested = snapshot(&objects, &settings());
        (ingested.snapshot.disruption_budgets.remove(0), diagnostics(&ingested))
    };
    let (found, reported) = read(json!({"matchExpressions": [{"key": "a", "operator": "?"}]}), 3);
    assert_eq!(found.selector, Selector::Matching(LabelSelector::default()));
    assert_eq!((found.disruptions_allowed, found.always_evicts_unhealthy), (0, false));
    assert_eq!(
        reported,
        [
            "!PodDisruptionBudget n/b: spec.selector cannot be read: key a: \"?\" is not an operator; \
          it holds every pod of its namespace"
        ]
    );
    let (found, reported) = read(json!({}), -3);
    assert_eq!((found.disruptions_allowed, reported.len()), (0, 0), "less than nothing is nothing");
}

#[test]
fn services_workloads_and_namespaces_are_found_by_name() {
    let service = |name: &str, spec: Value| {
        object(json!({"metadata": {"name": name, "namespace": "n"}, "spec": spec}))
    };
    let objects = Objects {
        services: vec![service("b", json!({"selector": {"app": "web"}})), service("a", json!({}))],
        replication_controllers: vec![object(
            json!({"metadata": {"name": "rc", "namespace": "n"}, "spec": {"selector": {"app": "rc"}}}),
        )],
        stateful_sets: vec![object(json!({"metadata": {"name": "s", "namespace": "n"},
            "spec": {"serviceName": "", "selector": {"matchLabels": {"app": "s"}}, "template": {}}}))],
        replica_sets: vec![object(
            json!({"metadata": {"name": "bad", "namespace": "n"}, "spec": {"selector": {"matchLabels": {"-": "s"}}}}),
        )],
        namespaces: vec![object(json!({"metadata": {"name": "n", "labels": {"team": "a"}}}))],
        pods: vec![object(json!({"metadata": {"name": "p", "namespace": "mentioned"}}))],
        ..Objects::default()
    };
    let ingested = snapshot(&objects, &settings());
    let found = &ingested.snapshot;
    let services: Vec<_> =
        found.services.iter().map(|s| (s.name.as_str(), s.selector.is_some())).collect();
    assert_eq!(services, [("a", false), ("b", true)]);
    let key = |group: &str, kind: &str, name: &str| WorkloadKey {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace: "n".to_owned(),
        name: name.to_owned(),
    };
    let keys: Vec<_> = found.workloads.keys().cloned().collect();
    assert_eq!(keys, [key("", "ReplicationController", "rc"), key("apps", "StatefulSet", "s")]);
    assert_eq!(found.namespaces["n"]["team"], "a");
    assert!(found.namespaces["mentioned"].is_empty());
    assert_eq!(ingested.diagnostics.len(), 1, "{:?}", ingested.diagnostics);
}

#[test]
fn capacity_buffers_become_virtual_pods() {
    let template = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        },
    });
    let buffer = |name: &str, spec: Value| {
        object(json!({"metadata": {"name": name, "namespace": "n", "uid": name}, "spec": spec}))
    };
    let objects = Objects {
        pod_templates: vec![object(
            json!({"metadata": {"name": "t", "namespace": "n"}, "template": template}),
        )],
        deployments: vec![object(json!({"metadata": {"name": "web", "namespace": "n"},
            "spec": {"replicas": 10, "selector": {}, "template": template}}))],
        capacity_buffers: vec![
            buffer(
                "a",
                json!({"podTemplateRef": {"name": "t"}, "replicas": 3, "limits": {"cpu": "2", "pods": "1"}}),
            ),
            buffer(
                "b",
                json!({"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"}, "percentage": 15}),
            ),
            buffer("c", json!({"podTemplateRef": {"name": "gone"}, "replicas": 3})),
            buffer("d", json!({"scalableRef": {"kind": "Job", "name": "j"}, "replicas": 3})),
            buffer("e", json!({"replicas": 3})),
        ],
        ..Objects::default()
    };
    let gates = Gates { capacity_buffer: true, ..Gates::default() };
    let ingested = snapshot(&objects, &Settings { gates, ..settings() });
    let pods: Vec<_> =
        ingested.snapshot.pods.iter().map(|p| (p.full_name(), p.uid.clone())).collect();
    let expected = [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
        .map(|(buffer, n)| (format!("n/capacity-buffer-{buffer}-{n}"), format!("{buffer}-{n}")));
    assert_eq!(pods, expected, "limits cap, percentages round up");
    for pod in &ingested.snapshot.pods {
        assert!(pod.is_virtual && pod.unschedulable && pod.volume_claims.is_empty());
        assert_eq!(
            (pod.labels["app"].as_str(), pod.spec.requests.json().as_str()),
            ("web", r#"{"cpu":"1","pods":"1"}"#)
        );
    }
    assert_eq!(
        diagnostics(&ingested),
        [
            "-!CapacityBuffer n/c: PodTemplate n/gone is not there",
            "-!CapacityBuffer n/d: cannot scale Job of \"\"",
            "-!CapacityBuffer n/e: Neither podTemplateRef nor scalableRef is set",
        ]
    );
    assert!(snapshot(&objects, &settings()).snapshot.pods.is_empty(), "without the gate");
}

#[test]
fn capacity_buffers_are_limited_in_virtual_pods() {
    let template = json!({"spec": {"containers": []}});
    let buffer = |name: &str| {
        object(json!({"metadata": {"name": name, "namespace": "n"},
            "spec": {"podTemplateRef": {"name": "t"}, "replicas": 2_000_000_000}}))
    };
    let objects = Objects {
        pod_templates: vec![object(
            json!({"metadata": {"name": "t", "namespace": "n"}, "template": template}),
        )],
        capacity_buffers: ["a", "b", "c", "d", "e"].map(buffer).into(),
        ..Objects::default()
    };
    let gates = Gates { capacity_buffer: true, ..Gates::default() };
    let ingested = snapshot(&objects, &Settings { gates, ..settings() });
    assert_eq!(ingested.snapshot.pods.len(), 200_000);
    let marks = diagnostics(&ingested);
    assert_eq!(marks[0], "!CapacityBuffer n/a: asks for 2000000000 pods; room is kept for 50000");
    assert_eq!(marks[4], "!CapacityBuffer n/e: asks for 2000000000 pods; room is kept for 0");
}

#[test]
fn node_overlays_are_read_with_their_problems() {
    let overlay =
        |name: &str, spec: Value| object(json!({"metadata": {"name": name}, "spec": spec}));
    let objects = Objects {
        node_overlays: vec![
            overlay(
                "a",
                json!({"weight": 5, "priceAdjustment": "-10%", "capacity": {"example.com/x": "2"},
                "requirements": [{"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]}),
            ),
            overlay("b", json!({"price": "x", "requirements": [], "capacity": {"cpu": "1"}})),
        ],
        ..Objects::default()
    };
    let gates = Gates { node_overlay: true, ..Gates::default() };
    let ingested = snapshot(&objects, &Settings { gates, ..settings() });
    let [a, b] = ingested.overlays.as_slice() else { panic!("{:?}", ingested.overlays) };
    assert_eq!((a.name.as_str(), a.overlay.weight, &a.problem), ("a", Some(5), &None));
    assert_eq!(a.requirements.to_string(), "kubernetes.io/arch In [arm64]");
    assert_eq!(a.overlay.price, Some(karpenter_core::overlay::PriceChange::Percent(-10.0)));
    assert_eq!(a.overlay.capacity.json(), r#"{"example.com/x":"2"}"#);
    let problem = b.problem.as_deref().unwrap();
    assert!(problem.starts_with("invalid capacity: cpu in resource, restricted; "), "{problem}");
    assert!(snapshot(&objects, &settings()).overlays.is_empty(), "without the gate");
}

#[test]
fn manifest_files_get_the_defaults_of_a_cluster() {
    let mut objects = Objects {
        pods: vec![
            object(json!({"metadata": {"name": "a", "namespace": "n"}})),
            object(json!({"metadata": {"name": "b"}, "spec": {"containers": [], "nodeName": "x"}})),
            object(
                json!({"metadata": {"name": "c", "uid": "u", "creationTimestamp": "2025-01-01T00:00:00Z"},
                "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}}),
            ),
        ],
        node_pools: vec![object(json!({"metadata": {"name": "p"}, "spec": {"template": {"spec": {
            "requirements": [], "nodeClassRef": {"group": "", "kind": "", "name": ""}}}}}))],
        nodes: vec![object(json!({"metadata": {"name": "x"}}))],
        ..Objects::default()
    };
    objects.fill_defaults(&default_class());
    let found = snapshot(&objects, &settings()).snapshot;
    let facts: Vec<_> = found
        .pods
        .iter()
        .map(|p| (p.uid.as_str(), p.created.as_second(), p.unschedulable))
        .collect();
    let expected = [
        ("Pod/n/a", 1_700_000_000, true),
        ("Pod/default/b", 1_700_000_000, false),
        ("u", 1_735_689_600, false),
    ];
    assert_eq!(facts, expected);
    assert_eq!(found.pools[0].node_class.name, "default");
}

#[test]
fn resource_slices_claims_and_device_classes_are_read() {
    use karpenter_core::scheduling::dra::{
        Attribute, ClaimKey, ConstraintRule, Consumer, Count, DeviceRequestKind, DeviceSelector,
        NodeAccess,
    };

    let slice = |name: &str, spec: Value| {
        let mut all = json!({"driver": "gpu.x", "pool": {"name": "p", "generation": 2, "resourceSliceCount": 1}});
        for (key, value) in spec.as_object().unwrap() {
            all[key] = value.clone();
        }
        object(
            json!({"metadata": {"name": name, "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]}, "spec": all}),
        )
    };
    let device = |name: &str| {
        json!({
            "name": name, "attributes": {"model": {"string": "a"}, "index": {"int": 3}, "list": {"ints": [1]}},
            "capacity": {"memory": {"value": "40Gi", "requestPolicy": {"default": "1Gi", "validValues": ["4Gi", "1Gi"]}}},
            "consumesCounters": [{"counterSet": "s", "counters": {"slots": {"value": "2"}}}],
        })
    };
    let zones = json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "failure-domain.beta.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}]});
    let objects = Objects {
        resource_slices: vec![
            slice("b", json!({"nodeSelector": zones, "devices": []})),
            slice("a", json!({"nodeName": "n", "devices": [device("d0"), device("d1")]})),
            slice(
                "c",
                json!({"allNodes": true, "sharedCounters": [{"name": "s", "counters": {"slots": {"value": "?"}}}]}),
            ),
            slice("d", json!({"perDeviceNodeSelection": true})),
        ],
        device_classes: vec![object(
            json!({"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "true"}}, {}]}}),
        )],
        resource_claims: vec![object(json!({
            "metadata": {"name": "mine", "namespace": "n"},
            "spec": {"devices": {
                "requests": [
                    {"name": "one", "exactly": {"deviceClassName": "gpu"}},
                    {"name": "any", "firstAvailable": [{"name": "all", "deviceClassName": "gpu", "allocationMode": "All"}, {"name": "two", "deviceClassName": "gpu", "count": 2}]},
                    {"name": "new", "exactly": {"deviceClassName": "gpu", "allocationMode": "Half"}},
                ],
                "constraints": [{"matchAttribute": "x/numa", "requests": ["one"]}, {"distinctAttribute": "x/numa"}, {}],
            }},
            "status": {
                "allocation": {
                    "devices": {"results": [{"request": "one", "driver": "gpu.x", "pool": "p", "device": "d0", "consumedCapacity": {"memory": "1Gi"}}]},
                    "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]},
                },
                "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}, {"apiGroup": "x", "resource": "pods", "name": "p", "uid": "u"}],
            },
        }))],
        ..Objects::default()
    };
    let ingested = snapshot(&objects, &settings());
    let state = &ingested.snapshot.dynamic_resources;
    let [a, b, c, d] = state.slices.as_slice() else { panic!("{state:?}") };
    assert_eq!((&*a.driver, &*a.pool, a.generation, a.slice_count), ("gpu.x", "p", 2, 1));
    assert_eq!(
        (a.owner_node.as_deref(), &a.node_access),
        (Some("n"), &NodeAccess::Node("n".to_owned()))
    );
    assert!(std::sync::Arc::ptr_eq(&a.devices[0].shape, &a.devices[1].shape), "they look the same");
    let shape = &a.devices[0].shape;
    assert_eq!(shape.attributes.len(), 2, "lists of values are newer than we are");
    assert_eq!(shape.attributes["index"], Attribute::Int(3));
    let policy = shape.capacity["memory"].policy.as_ref().unwrap();
    assert!(policy.values.is_sorted() && policy.values.len() == 2);
    assert_eq!(a.devices[1].consumes[0].counters["slots"].units(), 2);
    assert!(
        matches!(&b.node_access, NodeAccess::Selector(terms) if terms[0].to_string() == "topology.kubernetes.io/zone In [a]")
    );
    assert_eq!((&c.node_access, &d.node_access), (&NodeAccess::AllNodes, &NodeAccess::PerDevice));
    assert!(
        diagnostics(&ingested)[0].starts_with("!ResourceSlice /c: slots: "),
        "{:?}",
        ingested.diagnostics
    );
    let selectors = [DeviceSelector::Cel("true".to_owned()), DeviceSelector::Unsupported];
    assert_eq!(state.classes["gpu"].selectors, selectors);

    let claim = &state.claims[&ClaimKey { namespace: "n".to_owned(), name: "mine".to_owned() }];
    let [one, any, new] = claim.requests.as_slice() else { panic!("{claim:?}") };
    assert!(
        matches!(&one.kind, DeviceRequestKind::Exactly(query) if query.count == Count::Exact(1))
    );
    let DeviceRequestKind::FirstAvailable(alternatives) = &any.kind else { panic!("{any:?}") };
    let counts: Vec<_> =
        alternatives.iter().map(|query| (query.name.as_str(), query.count)).collect();
    assert_eq!(counts, [("all", Count::All), ("two", Count::Exact(2))]);
    assert_eq!(new.kind, DeviceRequestKind::Unsupported);
    let rules: Vec<_> =
        claim.constraints.iter().map(|constraint| constraint.rule.clone()).collect();
    assert_eq!(
        rules,
        [
            ConstraintRule::MatchAttribute("x/numa".to_owned()),
            ConstraintRule::DistinctAttribute,
            ConstraintRule::Unsupported
        ]
    );
    let allocation = claim.allocation.as_ref().unwrap();
    assert_eq!((allocation.node.as_deref(), &*allocation.devices[0].id.device), (Some("n"), "d0"));
    assert!(allocation.devices[0].consumed.contains_key("memory"));
    assert_eq!(claim.reserved_for, [Consumer::Pod("u".to_owned()), Consumer::Other]);
}
