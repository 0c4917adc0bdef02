//! Tests of ingest. Objects are written as JSON, so that unmentioned fields are really absent.
#![expect(clippy::needless_pass_by_value, reason = "literals are handed over as they are")]

use jiff::Timestamp;
use serde_json::{Value, json};

use super::test_settings::{default_class, test_settings};
use super::*;

mod disruption;
mod nodes;
mod other_kinds;
mod pods;
mod pools;

fn settings() -> Settings {
    let now = Timestamp::from_second(1_750_000_000).unwrap();
    Settings { assume_pools_ready: true, ..test_settings(now) }
}

/// The object that some JSON stands for.
#[track_caller]
fn object<T: serde::de::DeserializeOwned>(json: Value) -> T {
    let text = json.to_string();
    serde_json::from_value(json).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// One pod with a spec, and what becomes of it.
#[track_caller]
pub(super) fn read_pod(metadata: Value, spec: Value, status: Value) -> Pod {
    let pod = object(json!({"metadata": metadata, "spec": spec, "status": status}));
    let objects = Objects { pods: vec![pod], ..Objects::default() };
    let pod = snapshot(&objects, &settings()).snapshot.pods.remove(0);
    Pod::clone(&pod)
}

/// One pod of which only the spec matters.
#[track_caller]
fn read_spec(mut spec: Value) -> Pod {
    if spec.get("containers").is_none() {
        spec["containers"] = json!([]);
    }
    read_pod(json!({"name": "p", "namespace": "n"}), spec, json!({}))
}

/// Returns diagnostics as `kind namespace/name: reason`, prefixed with `-` if the object is
/// excluded and `!` if it is invalid.
fn diagnostics(ingested: &IngestResult) -> Vec<String> {
    let diagnostics = ingested.diagnostics.iter().map(|diagnostic| {
        let IngestDiagnostic { kind, namespace, name, is_excluded, is_invalid, reason } =
            diagnostic;
        let sign = match (is_excluded, is_invalid) {
            (true, true) => "-!",
            (true, false) => "-",
            (false, true) => "!",
            (false, false) => "",
        };
        format!("{sign}{kind} {namespace}/{name}: {reason}")
    });
    diagnostics.collect()
}
