//! Tests of the consolidation comparison: differences, settling and the mutable snapshot.

use serde_json::json;

use super::differences::{Difference, find_differences, settling_differences};
use super::settle::SettledCluster;
use crate::consolidation::ConsolidationDecision;

fn decision(candidates: &[&str], types: &[&str], savings: f64) -> ConsolidationDecision {
    let replacements = match types {
        [] => json!(null),
        types => json!([{"nodePool": "default", "instanceTypes": types, "requirements": null}]),
    };
    serde_json::from_value(json!({"commands": [{
        "method": "multi", "decision": "delete", "candidates": candidates,
        "replacements": replacements, "savings": savings,
    }]}))
    .unwrap()
}

#[test]
fn commands_are_compared_with_those_of_upstream_runs() {
    let runs = [decision(&["a", "b"], &[], 1.0), decision(&["a", "c"], &["x"], 1.5)];
    let nothing = ConsolidationDecision::default();
    let saves_less = |ours| Difference::SavesLess { ours, highest: 1.5 };
    let cases = [
        ("as the first run", &runs[0], 1.5, vec![]),
        ("as the second run", &runs[1], 2.0, vec![]),
        ("best saves less", &runs[1], 1.2, vec![saves_less(1.2)]),
    ];
    for (name, same, best, expected) in cases {
        assert_eq!(find_differences(same, &decision(&["z"], &[], best), &runs), expected, "{name}");
    }
    let others = [
        ("other nodes", decision(&["b", "c"], &[], 1.0)),
        ("other types", decision(&["a", "c"], &["y"], 1.5)),
        ("another saving", decision(&["a", "b"], &[], 1.1)),
        ("nothing", nothing.clone()),
    ];
    for (name, same) in others {
        let found = find_differences(&same, &decision(&["z"], &[], 1.5), &runs);
        assert!(matches!(found.as_slice(), [Difference::Commands { .. }]), "{name}: {found:?}");
    }
    assert_eq!(find_differences(&nothing, &nothing, std::slice::from_ref(&nothing)), []);
}

#[test]
fn any_choice_of_empty_nodes_counts_as_that_of_upstream() {
    let empty = |nodes: &[&str], savings: f64| {
        let mut pass = decision(nodes, &[], savings);
        pass.commands[0].method = "empty".to_owned();
        pass
    };
    let runs = [empty(&["a", "b"], 2.0), empty(&["b", "c"], 2.0)];
    let cases = [
        ("a choice of its own", empty(&["a", "c"], 2.0), true),
        ("a node that none of them chose", empty(&["a", "d"], 2.0), false),
        ("too few", empty(&["a"], 1.0), false),
        ("by another method", decision(&["a", "c"], &[], 2.0), false),
    ];
    for (name, same, expected) in cases {
        let found = find_differences(&same, &empty(&["a", "b"], 2.0), &runs);
        assert_eq!(found.is_empty(), expected, "{name}: {found:?}");
    }
    let mixed = [empty(&["a", "b"], 2.0), decision(&["b", "c"], &[], 2.0)];
    assert!(
        !find_differences(&empty(&["a", "c"], 2.0), &empty(&["a", "b"], 2.0), &mixed).is_empty()
    );
}

#[test]
fn settling_compares_price_end_and_pods_without_node() {
    let settled = |price: f64, homeless: &[&str]| SettledCluster {
        price,
        is_settled: true,
        pods_without_node: homeless.iter().map(|pod| (*pod).to_owned()).collect(),
        ..SettledCluster::default()
    };
    let restless = SettledCluster { is_settled: false, rounds: 60, ..settled(1.0, &[]) };
    let cases = [
        ("the same", settled(1.0, &[]), settled(1.0, &[]), vec![]),
        ("cheaper", settled(0.9, &[]), settled(1.0, &[]), vec![]),
        (
            "dearer",
            settled(1.1, &[]),
            settled(1.0, &[]),
            vec![Difference::HigherPrice { ours: 1.1, upstream: 1.0 }],
        ),
        (
            "dearer for a pod that upstream left out",
            settled(1.1, &[]),
            settled(1.0, &["d/a"]),
            vec![],
        ),
        (
            "a pod without a place",
            settled(0.9, &["d/a"]),
            settled(1.0, &[]),
            vec![Difference::PodsWithoutNode { pods: vec!["d/a".to_owned()] }],
        ),
        ("no end", restless, settled(1.0, &[]), vec![Difference::NeverSettles { rounds: 60 }]),
    ];
    for (name, ours, upstream, expected) in cases {
        assert_eq!(settling_differences(&ours, &upstream), expected, "{name}");
    }
}
