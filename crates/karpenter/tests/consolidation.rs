//! `karpenter plan --consolidate` decides as upstream did, on recorded clusters
//! (`scenarios/consolidation`), and by default saves at least as much.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use serde_json::{Value, json};

/// Sums of the same prices in another order differ in the last digits.
const ROUNDING: f64 = 1e-9;

#[test]
fn recorded_clusters_are_consolidated_as_upstream_did() {
    let found = differences(|folder| {
        let upstream = json(&fs::read(folder.join("upstream.json")).unwrap());
        let ours: Vec<_> =
            list(&plan(folder, &upstream, "upstream")["commands"]).map(told).collect();
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
    let found = differences(|folder| {
        let upstream = json(&fs::read(folder.join("upstream.json")).unwrap());
        let told = plan(folder, &upstream, "best");
        let (ours, highest) = (number(&told["totalSavings"]), number(&upstream["savings"]));
        (ours < highest - ROUNDING).then(|| format!("saves {ours}, upstream at most {highest}"))
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_node_goes_or_has_a_reason_to_stay() {
    let found = differences(|folder| {
        let upstream = json(&fs::read(folder.join("upstream.json")).unwrap());
        let told = plan(folder, &upstream, "best");
        let going = list(&told["commands"]).flat_map(|command| texts(&command["candidates"]));
        let going: Vec<_> = going.collect();
        let kept = list(&told["kept"]).map(|kept| kept["node"].as_str().unwrap().to_owned());
        let mut all: Vec<String> = going.iter().cloned().chain(kept).collect();
        all.sort();
        let snapshot = fs::read_to_string(folder.join("snapshot.yaml")).unwrap();
        let objects = snapshot.lines().filter(|line| *line != "---").map(|l| json(l.as_bytes()));
        let nodes: BTreeSet<_> = objects
            .filter(|object| object["kind"] == "Node")
            .map(|node| node["metadata"]["name"].as_str().unwrap().to_owned())
            .collect();
        let told_twice = all.windows(2).any(|pair| pair[0] == pair[1]);
        let untold: Vec<_> = nodes.iter().filter(|node| !all.contains(node)).collect();
        let silent = list(&told["kept"]).any(|kept| kept["text"].as_str().unwrap().is_empty());
        (told_twice || silent || !untold.is_empty()).then(|| format!("untold {untold:?}: {told}"))
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
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

/// What is wrong with each recorded cluster that nothing explains.
fn differences(look: impl Fn(&Path) -> Option<String> + Sync) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/consolidation");
    let explained = explained(&root);
    let folders: Vec<PathBuf> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    assert!(folders.len() >= 24, "only {} recorded clusters", folders.len());
    let left = Mutex::new(folders);
    let differences = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let Some(folder) = left.lock().unwrap().pop() else { break };
                    let name = folder.file_name().unwrap().to_string_lossy().into_owned();
                    if let Some(found) = look(&folder).filter(|_| !explained.contains(&name)) {
                        differences.lock().unwrap().push(format!("{name}: {found}"));
                    }
                }
            });
        }
    });
    let mut differences = differences.into_inner().unwrap();
    differences.sort();
    differences
}

fn plan(folder: &Path, upstream: &Value, search: &str) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_karpenter"));
    command.args(["plan", "--consolidate", "--consolidation-search", search]);
    command.args(["--provider", "kwok", "-o", "json", "-f"]).arg(folder.join("snapshot.yaml"));
    command.args(texts(&upstream["flags"]));
    let types = folder.join("instance-types.json");
    if types.exists() {
        command.arg("--instance-types").arg(types);
    }
    let output = command.output().unwrap();
    // 1 says that something was left out.
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{command:?}: {complaint}");
    json(&output.stdout)
}

fn explained(root: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(root.join("explained.txt")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect()
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn texts(value: &Value) -> BTreeSet<String> {
    list(value).map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}
