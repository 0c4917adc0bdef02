//! Tests of offering selection and of the Nodes that KWOK creates.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::catalog::{built_in, from_file};
use karpenter_operator::cloud::CloudErrorClass;

fn provider_labels(types: &[Arc<InstanceType>]) -> ProviderLabels {
    crate::catalog::provider_labels(types)
}

fn claim(requirements: &Value) -> NodeClaim {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": "web-x7",
            "labels": {"karpenter.sh/nodepool": "web", "topology.kubernetes.io/zone": "overruled"},
            "annotations": {"karpenter.sh/nodepool-hash": "1"},
        },
        "spec": {
            "requirements": requirements,
            "resources": {"requests": {"cpu": "1500m", "memory": "1024Mi", "example.com/gpu": "1"}},
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        },
    }))
    .unwrap()
}

fn one(key: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": "In", "values": values})
}

fn types(names: &[&str]) -> Value {
    one(labels::INSTANCE_TYPE, names)
}

const BOTH: [&str; 2] = ["spot", "on-demand"];

/// Returns type, capacity type and zone of the offering selected with this seed.
fn selected_offering(
    node_claim: &NodeClaim,
    types: &[Arc<InstanceType>],
    seed: u64,
) -> CloudResult<String> {
    let choice =
        select_offering(node_claim, types, &provider_labels(types), &mut SeededRng::new(seed))?;
    let value = |key| choice.offering.requirements.get(key).unwrap().values().first().unwrap();
    let (capacity_type, zone) = (value(labels::CAPACITY_TYPE), value(labels::ZONE));
    Ok(format!("{} {capacity_type} {zone}", choice.instance_type.name))
}

#[test]
fn the_cheapest_offering_of_the_requested_types_is_selected() {
    let small_and_large = types(&["s-4x-amd64-linux", "s-2x-amd64-linux"]);
    let zone = one(labels::ZONE, &["test-zone-b"]);
    #[rustfmt::skip]
    let cases = [
        ("40/KW-04", json!([small_and_large, zone, one(labels::CAPACITY_TYPE, &BOTH)]),          "s-2x-amd64-linux spot test-zone-b"),
        ("on demand", json!([small_and_large, zone, one(labels::CAPACITY_TYPE, &["on-demand"])]), "s-2x-amd64-linux on-demand test-zone-b"),
        ("old spelling", json!([small_and_large, one("failure-domain.beta.kubernetes.io/zone", &["test-zone-d"])]),
                                                                                                  "s-2x-amd64-linux spot test-zone-d"),
        ("first of equals", json!([types(&["c-2x-arm64-linux", "c-2x-amd64-linux"]), zone]),      "c-2x-arm64-linux spot test-zone-b"),
    ];
    let known = built_in();
    for (case, requirements, expected) in cases {
        for seed in 0..5 {
            let chosen = selected_offering(&claim(&requirements), &known, seed).unwrap();
            assert_eq!(chosen, expected, "{case}, seed {seed}");
        }
    }
}

#[test]
fn any_of_equally_cheap_offerings_may_be_selected() {
    let claim = claim(&json!([types(&["s-2x-amd64-linux"])]));
    let known: Vec<_> =
        built_in().into_iter().filter(|known| known.name == "s-2x-amd64-linux").collect();
    let seeds = (0..50).map(|seed| selected_offering(&claim, &known, seed).unwrap());
    let expected =
        ["a", "b", "c", "d"].map(|zone| format!("s-2x-amd64-linux spot test-zone-{zone}"));
    assert_eq!(seeds.collect::<BTreeSet<_>>(), BTreeSet::from(expected));
    assert_eq!(
        selected_offering(&claim, &known, 7).unwrap(),
        selected_offering(&claim, &known, 7).unwrap()
    );
}

#[test]
fn an_instance_type_without_a_compatible_offering_is_skipped() {
    let offering = |zone: &str, price: f64| json!({"Price": price, "Requirements": [one(labels::ZONE, &[zone]), one(labels::CAPACITY_TYPE, &["spot"])]});
    let file = json!([
        {"name": "cheap", "architecture": "amd64", "operatingSystems": ["linux"],
         "resources": {"cpu": "1", "memory": "1Gi"}, "offerings": [offering("a", 0.1)]},
        {"name": "dear", "architecture": "amd64", "operatingSystems": ["linux"],
         "resources": {"cpu": "1", "memory": "1Gi"}, "offerings": [offering("a", 9.0), offering("b", 9.0)]},
    ]);
    let known = from_file(file.to_string().as_bytes()).unwrap();
    let in_b = claim(&json!([types(&["cheap", "dear"]), one(labels::ZONE, &["b"])]));
    assert_eq!(selected_offering(&in_b, &known, 1).unwrap(), "dear spot b", "40/Q16");
    let nowhere = claim(&json!([types(&["cheap", "dear"]), one(labels::ZONE, &["c"])]));
    let error = selected_offering(&nowhere, &known, 1).unwrap_err();
    assert!(error.is(CloudErrorClass::InsufficientCapacity), "40/Q16: {error}");
    let mut unavailable = InstanceType::clone(&known[0]);
    std::sync::Arc::make_mut(&mut unavailable.offerings)[0].available = false;
    let in_a = claim(&json!([types(&["cheap"])]));
    let error = selected_offering(&in_a, &[Arc::new(unavailable)], 1).unwrap_err();
    assert!(error.is(CloudErrorClass::InsufficientCapacity), "{error}");
}

#[test]
fn a_nodeclaim_without_a_known_instance_type_is_an_error() {
    #[rustfmt::skip]
    let cases = [
        (json!([one(labels::ZONE, &["test-zone-a"])]),           "instance type requirement not found"),
        (json!([types(&["s-2x-amd64-linux", "unheard-of"])]),    "instance type not found (instance-type=unheard-of)"),
        (json!([{"key": labels::INSTANCE_TYPE, "operator": "Is"}]), "key node.kubernetes.io/instance-type has an unsupported operator Is"),
        (json!([types(&[])]),                                    "insufficient capacity, no available offering satisfies the requirements"),
    ];
    for (requirements, text) in cases {
        let error = selected_offering(&claim(&requirements), &built_in(), 1).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn the_node_has_the_labels_and_capacity_of_its_nodeclaim() {
    let claim = claim(&json!([
        types(&["s-2x-amd64-linux"]),
        one(labels::ZONE, &["test-zone-b"]),
        one("example.com/team", &["web"]),
        {"key": "example.com/other", "operator": "Exists"},
    ]));
    let known = built_in();
    let choice =
        select_offering(&claim, &known, &provider_labels(&known), &mut SeededRng::new(1)).unwrap();
    let node = build_node(&claim, choice, "kwok-web-x7-abc-1");
    let expected = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "kwok-web-x7-abc-1",
            "annotations": {"karpenter.sh/nodepool-hash": "1", "kwok.x-k8s.io/node": "fake"},
            "labels": {
                "eks-node-viewer/instance-price": "0.041013",
                "example.com/team": "web",
                "karpenter.kwok.sh/instance-cpu": "2",
                "karpenter.kwok.sh/instance-family": "s",
                "karpenter.kwok.sh/instance-memory": "8Gi",
                "karpenter.kwok.sh/instance-size": "2",
                "karpenter.sh/capacity-type": "spot",
                "karpenter.sh/nodepool": "web",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": "web-x7",
                "kubernetes.io/os": "linux",
                "kwok-partition": "a",
                "kwok.x-k8s.io/node": "fake",
                "node.kubernetes.io/instance-type": "s-2x-amd64-linux",
                "topology.kubernetes.io/zone": "test-zone-b",
            },
        },
        "spec": {
            "providerID": "kwok://kwok-web-x7-abc-1",
            "taints": [{"effect": "NoExecute", "key": "karpenter.sh/unregistered"}],
        },
        "status": {
            "phase": "Pending",
            "capacity": {"cpu": "1500m", "memory": "1Gi", "example.com/gpu": "1"},
            "allocatable": {
                "cpu": "1900m", "memory": "8182Mi", "example.com/gpu": "1",
                "pods": "32", "ephemeral-storage": "20Gi",
            },
        },
    });
    assert_eq!(serde_json::to_value(&node).unwrap(), expected);
}

#[test]
fn a_nodeclaim_read_from_a_node_has_its_zone_and_resources() {
    let node: Node = serde_json::from_value(json!({
        "metadata": {
            "name": "kwok-a-b-1",
            "labels": {"topology.kubernetes.io/zone": "test-zone-a"},
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"providerID": "kwok://kwok-a-b-1"},
        "status": {"capacity": {"cpu": "1"}, "allocatable": {"cpu": "900m"}},
    }))
    .unwrap();
    let claim = to_node_claim(&node);
    let status = claim.status.unwrap();
    assert_eq!(status.provider_id.as_deref(), Some("kwok://kwok-a-b-1"));
    assert_eq!(status.node_name.as_deref(), Some("kwok-a-b-1"));
    assert_eq!(status.capacity.unwrap()["cpu"], Quantity::from("1"));
    assert_eq!(status.allocatable.unwrap()["cpu"], Quantity::from("900m"));
    assert_eq!(claim.metadata.labels, node.metadata.labels);
    assert_eq!(claim.metadata.creation_timestamp, node.metadata.creation_timestamp);
}

#[test]
fn node_names_contain_the_nodeclaim_name_and_are_unique() {
    let claim = claim(&json!([]));
    let names: BTreeSet<_> =
        (0..100).map(|seed| node_name(&claim, &mut SeededRng::new(seed))).collect();
    assert_eq!(names.len(), 100);
    for name in names {
        let rest = name.strip_prefix("kwok-web-x7-").unwrap();
        let (word, number) = rest.split_once('-').unwrap();
        assert_eq!(word.len(), 10, "{name}");
        assert!(number.parse::<u32>().is_ok(), "{name}");
    }
}
