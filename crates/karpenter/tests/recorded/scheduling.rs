//! Compares the placement of pending pods with upstream's (`scenarios/parity`).

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::{
    ROUNDING, list, number, recorded_answer, run_plan, snapshot_objects, texts,
    unexplained_differences,
};

#[test]
fn plans_match_the_recorded_answers_of_upstream() {
    let found = unexplained_differences("parity", 60, scheduling_differences);
    assert!(found.is_empty(), "20/F6:\n{}", found.join("\n"));
}

/// Returns how our decision is neither one of upstream's nor a better one.
fn scheduling_differences(folder: &Path) -> Vec<String> {
    let upstream = recorded_answer(folder);
    let ours = run_plan(folder, &upstream, &[]);
    let mut differences = Vec::new();

    let unplaced = unplaced_pods(&ours, &snapshot_objects(folder));
    let allowed: Vec<BTreeSet<String>> = list(&upstream["unplaced"]).map(texts).collect();
    if !allowed.contains(&unplaced) {
        let nearest = allowed.iter().min_by_key(|set| set.symmetric_difference(&unplaced).count());
        let nearest = nearest.cloned().unwrap_or_default();
        differences.push(format!(
            "without a place only with us: {:?}, only with upstream: {:?}",
            unplaced.difference(&nearest).collect::<Vec<_>>(),
            nearest.difference(&unplaced).collect::<Vec<_>>()
        ));
    }
    let (price, highest) = (number(&ours["totalPrice"]), number(&upstream["price"][1]));
    if price > highest * (1.0 + ROUNDING) + ROUNDING {
        differences.push(format!("price {price:.6}, upstream at most {highest:.6}"));
    }
    let (nodes, most) = (list(&ours["nodeClaims"]).count(), number(&upstream["nodes"][1]));
    if f64::from(u32::try_from(nodes).unwrap()) > most {
        differences.push(format!("{nodes} nodes, upstream at most {most}"));
    }
    differences
}

/// Returns the pending or rejected pods that were not placed.
fn unplaced_pods(ours: &Value, objects: &[Value]) -> BTreeSet<String> {
    let is_waiting =
        |object: &&Value| object["kind"] == "Pod" && object["spec"]["nodeName"].is_null();
    let name = |pod: &Value| {
        let text = |key: &str| pod["metadata"][key].as_str().unwrap().to_owned();
        format!("{}/{}", text("namespace"), text("name"))
    };
    let mut unplaced: BTreeSet<String> = objects.iter().filter(is_waiting).map(name).collect();
    unplaced.extend(ours["errors"].as_object().unwrap().keys().cloned());
    for holder in list(&ours["nodeClaims"]).chain(list(&ours["existing"])) {
        for pod in texts(&holder["pods"]) {
            unplaced.remove(&pod);
        }
    }
    unplaced
}
