//! Compares our consolidation with upstream's (`scenarios/consolidation`): with the search
//! `upstream` the same commands, by default at least the same saving.

use std::path::Path;

use serde_json::{Value, json};

use super::{ROUNDING, list, number, recorded_answer, run_plan, snapshot_objects, texts};

#[test]
fn the_upstream_search_equals_the_recorded_commands() {
    let found = consolidation_differences(|upstream, plan, _| {
        let ours: Vec<_> = list(&plan("upstream")["commands"]).map(comparable_command).collect();
        let answers: Vec<Vec<_>> = list(&upstream["answers"])
            .map(|answer| list(answer).map(comparable_command).collect())
            .collect();
        let same = |answer: &Vec<ComparableCommand>| {
            answer.len() == ours.len()
                && answer.iter().zip(&ours).all(|(a, b)| {
                    a.decision == b.decision && (a.savings - b.savings).abs() < ROUNDING
                })
        };
        (!answers.iter().any(same)).then(|| format!("ours {ours:?}\n  upstream {answers:?}"))
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_best_search_saves_at_least_as_much_as_upstream() {
    let found = consolidation_differences(|upstream, plan, _| {
        let (ours, highest) = (number(&plan("best")["totalSavings"]), number(&upstream["savings"]));
        (ours < highest - ROUNDING).then(|| format!("saves {ours}, upstream at most {highest}"))
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_node_is_removed_or_has_a_reason() {
    let found = consolidation_differences(|_, plan, folder| {
        let report = plan("best");
        let going = list(&report["commands"]).flat_map(|command| texts(&command["candidates"]));
        let kept = || list(&report["kept"]).chain(list(&report["drifted"]));
        let names = kept().map(|kept| kept["node"].as_str().unwrap().to_owned());
        let mut all: Vec<String> = going.chain(names).collect();
        all.sort();
        let objects = snapshot_objects(folder);
        let nodes = objects
            .iter()
            .filter(|object| object["kind"] == "Node")
            .map(|node| node["metadata"]["name"].as_str().unwrap());
        let is_listed_twice = all.windows(2).any(|pair| pair[0] == pair[1]);
        let unlisted: Vec<_> =
            nodes.filter(|node| !all.iter().any(|report| report == node)).collect();
        let silent = kept().any(|kept| kept["text"].as_str().unwrap().is_empty());
        (is_listed_twice || silent || !unlisted.is_empty())
            .then(|| format!("untold {unlisted:?}: {report}"))
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Returns the differences between our plans and upstream's answers, by cluster.
fn consolidation_differences(
    find_difference: impl Fn(&Value, &dyn Fn(&str) -> Value, &Path) -> Option<String> + Sync,
) -> Vec<String> {
    super::unexplained_differences("consolidation", 24, |folder| {
        let upstream = recorded_answer(folder);
        let ours = |search: &str| {
            run_plan(folder, &upstream, &["--consolidate", "--consolidation-search", search])
        };
        find_difference(&upstream, &ours, folder).into_iter().collect()
    })
}

/// The parts of a command that are compared.
#[derive(Debug)]
struct ComparableCommand {
    decision: Value,
    savings: f64,
}

fn comparable_command(command: &Value) -> ComparableCommand {
    let replacement = |replacement: &Value| {
        let field = |key: &str| replacement[key].clone();
        json!([field("nodePool"), field("instanceTypes"), field("requirements")])
    };
    let replacements: Vec<_> = list(&command["replacements"]).map(replacement).collect();
    let decision =
        json!([command["method"], command["decision"], command["candidates"], replacements]);
    ComparableCommand { decision, savings: number(&command["savings"]) }
}
