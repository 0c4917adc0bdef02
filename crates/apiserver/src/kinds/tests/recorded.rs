//! Requests and the answers that kube-apiserver 1.36.3 gave, one row per line of
//! `recorded.jsonl`: an object, what it became (or `refused`: the first line of the message; or
//! neither, when only being accepted counts), and updates of it, each a merge patch.

use serde_json::{Map, Value};

use super::{TestApi, default_objects};
use crate::status::StatusError;

const ROWS: &str = include_str!("recorded.jsonl");

#[test]
fn objects_match_the_recorded_kube_apiserver_results() {
    let api = TestApi::new(default_objects());
    let mut problems = Vec::new();
    let mut count = 0;
    for (line, row) in ROWS.lines().enumerate() {
        let row: Value = serde_json::from_str(row).unwrap();
        let [group, plural] = ["group", "plural"].map(|name| row[name].as_str().unwrap());
        let label = format!("line {}: {plural} {}", line + 1, row["object"]);
        let created = api.create(group, plural, row["object"].clone());
        count += 1;
        problems.extend(compare(&label, &row, &created));
        let Ok(mut old) = created else { continue };
        for update in row["updates"].as_array().into_iter().flatten() {
            let mut new = old.clone();
            apply_merge_patch(&mut new, &update["patch"]);
            let status = update["status"] == true;
            let updated = api.update(group, plural, new, &old, status);
            count += 1;
            problems.extend(compare(
                &format!("{label}\n  then {}", update["patch"]),
                update,
                &updated,
            ));
            if let Ok(updated) = updated {
                old = updated;
            }
        }
    }
    assert!(count > 300, "only {count} rows");
    assert!(problems.is_empty(), "{} of {count} differ:\n{}", problems.len(), problems.join("\n"));
}

fn compare(label: &str, expected: &Value, found: &Result<Value, StatusError>) -> Option<String> {
    match (expected["refused"].as_str(), found) {
        (Some(expected), Err(failure)) => {
            let found = failure.message.lines().next().unwrap_or_default();
            (found != expected)
                .then(|| format!("{label}\n  expected {expected}\n  found    {found}"))
        }
        (Some(expected), Ok(_)) => Some(format!("{label}\n  accepted, but {expected}")),
        (None, Err(failure)) => Some(format!("{label}\n  refused: {}", failure.message)),
        (None, Ok(found)) => {
            let expected = expected.get("answer")?;
            let found = without_generated_values(found.clone());
            (found != *expected)
                .then(|| format!("{label}\n  expected {expected}\n  found    {found}"))
        }
    }
}

/// Removes or replaces the values that differ from run to run.
fn without_generated_values(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let dropped = ["uid", "creationTimestamp", "lastPhaseTransitionTime"];
            let kept = fields.into_iter().filter(|(name, _)| !dropped.contains(&name.as_str()));
            let kept = kept.map(|(name, value)| {
                let value = match name.as_str() {
                    "clusterIP" | "clusterIPs" | "nodePort"
                        if value != "None" && value != serde_json::json!(["None"]) =>
                    {
                        "ALLOC".into()
                    }
                    "timeAdded" | "lastTransitionTime" => "T".into(),
                    _ => without_generated_values(value),
                };
                (name, value)
            });
            Value::Object(kept.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.into_iter().map(without_generated_values).collect(),
        Value::String(text) if text.starts_with("kube-api-access-") => {
            "kube-api-access-(chance)".into()
        }
        other => other,
    }
}

fn apply_merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let fields = target.as_object_mut().unwrap();
    for (name, value) in patch {
        if value.is_null() {
            fields.shift_remove(name);
        } else {
            apply_merge_patch(fields.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}
