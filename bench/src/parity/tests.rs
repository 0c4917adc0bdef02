//! Tests of the scheduling comparison: the range of upstream's runs and the report.

use std::collections::BTreeSet;

use serde_json::json;

use super::{Difference, UpstreamRange, pending_pods};
use crate::decision::Decision;

fn decision(placed: &[&str], nodes: usize, price: f64) -> Decision {
    let mut decision: Decision = serde_json::from_value(json!({
        "existing": [{"node": "n", "pods": placed}], "errors": {}, "totalPrice": price,
    }))
    .unwrap();
    decision.node_claims.resize_with(nodes, Default::default);
    decision
}

fn pods(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn decisions_are_compared_with_the_range_of_upstream_runs() {
    let waiting = pods(&["d/a", "d/b", "d/c"]);
    let runs = [decision(&["d/a", "d/b"], 2, 1.0), decision(&["d/a", "d/c"], 3, 1.5)];
    let upstream = UpstreamRange::from_runs(&runs, &waiting);
    let unplaced = |only_ours: &[&str], only_upstream: &[&str]| Difference::Unplaced {
        only_ours: pods(only_ours).into_iter().collect(),
        only_upstream: pods(only_upstream).into_iter().collect(),
    };
    let cases = [
        ("as a run", decision(&["d/a", "d/b"], 2, 1.0), vec![]),
        ("between the runs", decision(&["d/a", "d/c"], 2, 1.2), vec![]),
        ("better", decision(&["d/a", "d/c"], 1, 0.5), vec![]),
        ("other last digits", decision(&["d/a", "d/c"], 3, 1.5 + 1e-12), vec![]),
        (
            "dearer",
            decision(&["d/a", "d/c"], 3, 1.6),
            vec![Difference::HigherPrice { ours: 1.6, highest: 1.5 }],
        ),
        (
            "more nodes",
            decision(&["d/a", "d/c"], 4, 1.5),
            vec![Difference::MoreNodes { ours: 4, most: 3 }],
        ),
        (
            "one more placed",
            decision(&["d/a", "d/b", "d/c"], 3, 1.5),
            vec![unplaced(&[], &["d/b"])],
        ),
        ("one more left", decision(&["d/b"], 3, 1.5), vec![unplaced(&["d/a"], &[])]),
    ];
    for (name, ours, expected) in cases {
        assert_eq!(upstream.differences(&ours, &waiting), expected, "{name}");
    }
}

#[test]
fn a_rejected_pod_of_a_deleting_node_counts_as_unplaced() {
    let decision: Decision =
        serde_json::from_value(json!({"errors": {"d/leaving": "no room"}})).unwrap();
    assert_eq!(decision.unplaced_pods(&pods(&["d/a"])), pods(&["d/a", "d/leaving"]));
}

#[test]
fn only_pods_without_a_node_are_pending() {
    let objects = [
        json!({"kind": "Pod", "metadata": {"namespace": "d", "name": "a"}, "spec": {}}),
        json!({"kind": "Pod", "metadata": {"namespace": "d", "name": "b"}, "spec": {"nodeName": "n"}}),
        json!({"kind": "Node", "metadata": {"name": "n"}, "spec": {}}),
    ];
    assert_eq!(pending_pods(&objects), pods(&["d/a"]));
}
