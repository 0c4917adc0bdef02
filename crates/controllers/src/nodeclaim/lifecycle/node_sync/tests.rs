//! Tests of the metadata and taints that a claim adds to its node.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::*;
use crate::testing::fixtures::node_claim;

fn claim() -> NodeClaim {
    let changes = json!({
        "metadata": {
            "uid": "u",
            "labels": {"team": "claim"},
            "annotations": {"note": "claim"},
        },
        "spec": {
            "taints": [{"key": "t", "value": "claim", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "s", "effect": "NoExecute"}],
        },
    });
    serde_json::from_value(node_claim("a", &changes)).unwrap()
}

fn node(metadata: &Value, taints: &Value) -> Node {
    serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {"taints": taints},
    }))
    .unwrap()
}

fn taints(node: &Node) -> Vec<String> {
    taints_of(node).iter().map(taints::display).collect()
}

#[test]
fn claim_metadata_is_synced_and_existing_node_taints_stay() {
    let known = json!([
        {"key": "own", "effect": "NoSchedule"},
        {"key": "t", "value": "node", "effect": "NoSchedule"},
        {"key": "s", "effect": "NoSchedule"},
    ]);
    let mut node = node(&json!({"labels": {"team": "node", "os": "x"}}), &known);
    sync_node(&claim(), &mut node);
    assert_eq!(node.labels()["team"], "claim", "40/LC-13");
    assert_eq!(node.labels()["os"], "x", "40/LC-13");
    assert_eq!(node.annotations()["note"], "claim", "40/LC-13");
    let expected = ["own:NoSchedule", "t=node:NoSchedule", "s:NoSchedule", "s:NoExecute"];
    assert_eq!(taints(&node), expected, "40/LC-13: by key and effect");
}

#[test]
fn a_second_sync_changes_nothing() {
    let mut node = node(&json!({}), &json!([]));
    sync_node(&claim(), &mut node);
    let once = node.clone();
    sync_node(&claim(), &mut node);
    assert_eq!(node, once, "40/LC-11");
    assert_eq!(node.owner_references().len(), 1, "40/LC-11");
    let other = NodeClaim { metadata: ObjectMeta::default(), ..claim() };
    sync_node(&other, &mut node);
    assert_eq!(node.owner_references().len(), 2, "another uid is another owner");
}

#[test]
fn the_do_not_sync_taints_label_skips_taints() {
    for (case, value, synced) in [
        ("40/LC-14, 10/KY-4", "true", false),
        ("40/LC-15, 10/KY-4", "false", true),
        ("40/LC-15", "yes", true),
    ] {
        let label = json!({"labels": {"karpenter.sh/do-not-sync-taints": value}});
        let unregistered = json!([{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]);
        let mut node = node(&label, &unregistered);
        sync_node(&claim(), &mut node);
        mark_registered(&mut node);
        let expected: &[&str] = if synced { &["t=claim:NoSchedule", "s:NoExecute"] } else { &[] };
        assert_eq!(taints(&node), expected, "{case}: {value}");
    }
}

#[test]
fn a_node_needs_the_unregistered_taint_or_the_registered_label() {
    let taint = |effect: &str| json!([{"key": "karpenter.sh/unregistered", "effect": effect}]);
    let cases = [
        ("40/LC-12", json!({}), json!([]), false),
        ("taint", json!({}), taint("NoExecute"), true),
        ("other effect", json!({}), taint("NoSchedule"), false),
        ("label", json!({"labels": {"karpenter.sh/registered": "x"}}), json!([]), true),
    ];
    for (case, metadata, taints, guarded) in cases {
        assert_eq!(is_tainted_or_registered(&node(&metadata, &taints)), guarded, "{case}");
    }
}
