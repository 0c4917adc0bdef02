//! Compares `karpenter plan` with upstream's recorded decisions.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod consolidation;
mod scheduling;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use serde_json::Value;

/// Sums of the same prices in another order differ in the last digits.
const ROUNDING: f64 = 1e-9;

/// Returns the differences of recorded clusters in `scenarios/<folder>` without an explanation.
fn unexplained_differences(
    folder: &str,
    at_least: usize,
    find_differences: impl Fn(&Path) -> Vec<String> + Sync,
) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(folder);
    let explained = explained_scenarios(&root);
    let folders: Vec<PathBuf> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    assert!(folders.len() >= at_least, "only {} recorded clusters", folders.len());
    let left = Mutex::new(folders);
    let differences = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let Some(folder) = left.lock().unwrap().pop() else { break };
                    let name = folder.file_name().unwrap().to_string_lossy().into_owned();
                    let found = find_differences(&folder);
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
    differences
}

fn explained_scenarios(root: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(root.join("explained.txt")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect()
}

/// Returns upstream's recorded answer about the cluster of a folder.
fn recorded_answer(folder: &Path) -> Value {
    json(&fs::read(folder.join("upstream.json")).unwrap())
}

/// Runs `karpenter plan` with the flags of upstream's recording.
fn run_plan(folder: &Path, upstream: &Value, more: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_karpenter"));
    command.args(["plan", "--provider", "kwok", "-o", "json", "-f"]);
    command.arg(folder.join("snapshot.yaml")).args(more).args(texts(&upstream["flags"]));
    let types = folder.join("instance-types.json");
    if types.exists() {
        command.arg("--instance-types").arg(types);
    }
    let output = command.output().unwrap();
    // Exit code 1: an object was left out.
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{command:?}: {complaint}");
    json(&output.stdout)
}

/// Returns the objects of a snapshot, one per line.
fn snapshot_objects(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("snapshot.yaml")).unwrap();
    text.lines().filter(|line| *line != "---").map(|line| json(line.as_bytes())).collect()
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
