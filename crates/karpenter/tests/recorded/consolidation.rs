//! What may be removed or replaced (`scenarios/consolidation`): with the search `upstream` what
//! upstream removed, by default at least its saving.

use std::path::Path;

use serde_json::{Value, json};

use super::{ROUNDING, list, number, objects, plan, texts, upstream};

#[test]
fn recorded_clusters_are_consolidated_as_upstream_did() {
    let found = differences(|upstream, plan, _| {
        let ours: Vec<_> = list(&plan("upstream")["commands"]).map(told).collect();
        let answers: Vec<Vec<_>> =
            list(&upstream["answers"]).map(|answer| list(answer).map(told).collect()).collect();
        let same = |answer: &Vec<Told>| {
            answer.len() == ours.len()
                && answer
                    .iter()
                    .zip(&ours)
                    .all(|(a, b)| a.what == b.what && (a.savings - b.savings).abs() < ROUNDING)
        };
        (!answers.iter().any(same)).then(|| format!("ours {ours:?}\n  upstream {answers:?}"))
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_best_search_saves_at_least_what_upstream_did() {
    let found = differences(|upstream, plan, _| {
        let (ours, highest) = (number(&plan("best")["totalSavings"]), number(&upstream["savings"]));
        (ours < highest - ROUNDING).then(|| format!("saves {ours}, upstream at most {highest}"))
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_node_goes_or_has_a_reason_to_stay() {
    let found = differences(|_, plan, folder| {
        let told = plan("best");
        let going = list(&told["commands"]).flat_map(|command| texts(&command["candidates"]));
        let kept = || list(&told["kept"]).chain(list(&told["drifted"]));
        let names = kept().map(|kept| kept["node"].as_str().unwrap().to_owned());
        let mut all: Vec<String> = going.chain(names).collect();
        all.sort();
        let objects = objects(folder);
        let nodes = objects
            .iter()
            .filter(|object| object["kind"] == "Node")
            .map(|node| node["metadata"]["name"].as_str().unwrap());
        let told_twice = all.windows(2).any(|pair| pair[0] == pair[1]);
        let untold: Vec<_> = nodes.filter(|node| !all.iter().any(|told| told == node)).collect();
        let silent = kept().any(|kept| kept["text"].as_str().unwrap().is_empty());
        (told_twice || silent || !untold.is_empty()).then(|| format!("untold {untold:?}: {told}"))
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// What is wrong with each cluster, told by upstream's answer, our plan with a search, its folder.
fn differences(
    look: impl Fn(&Value, &dyn Fn(&str) -> Value, &Path) -> Option<String> + Sync,
) -> Vec<String> {
    super::differences("consolidation", 24, |folder| {
        let upstream = upstream(folder);
        let ours = |search: &str| {
            plan(folder, &upstream, &["--consolidate", "--consolidation-search", search])
        };
        look(&upstream, &ours, folder).into_iter().collect()
    })
}

/// What a command does.
#[derive(Debug)]
struct Told {
    what: Value,
    savings: f64,
}

fn told(command: &Value) -> Told {
    let replacement = |replacement: &Value| {
        let field = |key: &str| replacement[key].clone();
        json!([field("nodePool"), field("instanceTypes"), field("requirements")])
    };
    let replacements: Vec<_> = list(&command["replacements"]).map(replacement).collect();
    let what = json!([command["method"], command["decision"], command["candidates"], replacements]);
    Told { what, savings: number(&command["savings"]) }
}
