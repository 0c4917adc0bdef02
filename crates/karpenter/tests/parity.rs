//! `karpenter plan` decides as upstream did, on recorded clusters (`scenarios/parity`).
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use serde_json::Value;

/// Sums of the same prices in another order differ in the last digits.
const ROUNDING: f64 = 1e-9;

#[test]
fn recorded_clusters_are_decided_as_upstream_did() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/parity");
    let explained = explained(&root);
    let folders: Vec<PathBuf> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    assert!(folders.len() >= 60, "only {} recorded clusters", folders.len());

    let left = Mutex::new(folders);
    let differences = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let Some(folder) = left.lock().unwrap().pop() else { break };
                    let name = folder.file_name().unwrap().to_string_lossy().into_owned();
                    let found = differences_of(&folder);
                    if !explained.contains(&name) {
                        let named = found.into_iter().map(|found| format!("{name}: {found}"));
                        differences.lock().unwrap().extend(named);
                    }
                }
            });
        }
    });
    let mut differences = differences.into_inner().unwrap();
    differences.sort();
    assert!(differences.is_empty(), "20/F6:\n{}", differences.join("\n"));
}

/// How our decision about a cluster is none of upstream's, and not a better one.
fn differences_of(folder: &Path) -> Vec<String> {
    let upstream = json(&fs::read(folder.join("upstream.json")).unwrap());
    let ours = plan(folder, &upstream);
    let mut differences = Vec::new();

    let unplaced = unplaced(&ours, &fs::read_to_string(folder.join("snapshot.yaml")).unwrap());
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

fn plan(folder: &Path, upstream: &Value) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_karpenter"));
    command.args(["plan", "--provider", "kwok", "-o", "json", "-f"]);
    command.arg(folder.join("snapshot.yaml"));
    command.args(texts(&upstream["flags"]));
    let types = folder.join("instance-types.json");
    if types.exists() {
        command.arg("--instance-types").arg(types);
    }
    let output = command.output().unwrap();
    // 1 says that pods stay without a place.
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{command:?}: {complaint}");
    json(&output.stdout)
}

/// The pods that wait, or were refused, and were not placed.
fn unplaced(ours: &Value, snapshot: &str) -> BTreeSet<String> {
    let objects = snapshot.lines().filter(|line| *line != "---").map(|line| json(line.as_bytes()));
    let waiting =
        objects.filter(|object| object["kind"] == "Pod" && object["spec"]["nodeName"].is_null());
    let name = |pod: &Value| {
        let text = |key: &str| pod["metadata"][key].as_str().unwrap().to_owned();
        format!("{}/{}", text("namespace"), text("name"))
    };
    let mut unplaced: BTreeSet<String> = waiting.map(|pod| name(&pod)).collect();
    unplaced.extend(ours["errors"].as_object().unwrap().keys().cloned());
    for holder in list(&ours["nodeClaims"]).chain(list(&ours["existing"])) {
        for pod in texts(&holder["pods"]) {
            unplaced.remove(&pod);
        }
    }
    unplaced
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
