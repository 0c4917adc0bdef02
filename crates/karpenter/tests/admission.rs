//! Every schema and CEL case of the API, answered by the embedded admission code.
//!
//! The same tables run on a real API server in `tests/e2e/tests/admit_tables.rs`.

use std::collections::BTreeMap;

use karpenter_api::crds::{CrdSet, crds};
use karpenter_apiserver::admission::{CustomKind, FieldError};
use karpenter_apiserver::testing::admission_table::{Row, Then, parse, patched};
use serde_json::Value;

type Kinds = BTreeMap<String, CustomKind>;

fn kinds(set: CrdSet) -> Kinds {
    let compiled = crds(set).into_iter().map(|crd| {
        let kind = CustomKind::from_crd(&crd).unwrap_or_else(|error| panic!("{error}"));
        (kind.kind().to_owned(), kind)
    });
    compiled.collect()
}

#[track_caller]
fn check(set: CrdSet, table: &str) {
    let kinds = kinds(set);
    let rows = parse(table).rows;
    assert!(rows.len() > 50, "the table was read");
    let problems: Vec<_> = rows.iter().filter_map(|row| judge(&kinds, row)).collect();
    assert!(
        problems.is_empty(),
        "{} of {} rows:\n{}",
        problems.len(),
        rows.len(),
        problems.join("\n")
    );
}

fn judge(kinds: &Kinds, row: &Row) -> Option<String> {
    let kind = &kinds[row.object["kind"].as_str().unwrap_or_default()];
    let answer = admit(kind, row);
    let problem = row.judge(answer.as_ref().map_err(String::as_str))?;
    Some(format!("{} {}: {}: {problem}", row.id, row.says, row.object))
}

/// What a server that stores the row's object would answer to the row's last request.
fn admit(kind: &CustomKind, row: &Row) -> Result<Value, String> {
    let created = create(kind, row.object.clone());
    let created = match &row.then {
        Then::Nothing => return created,
        _ => created.unwrap_or_else(|refusal| panic!("{} {}: {refusal}", row.id, row.says)),
    };
    match &row.then {
        Then::Nothing => Ok(created),
        Then::Update(patch) => {
            let mut new = patched(&created, patch);
            copy(&created, &mut new, "status");
            prepare(kind, &mut new);
            answer(kind, &kind.validate_update(&new, &created), new)
        }
        Then::UpdateStatus(patch) => {
            let mut new = patched(&created, patch);
            copy(&created, &mut new, "spec");
            prepare(kind, &mut new);
            answer(kind, &kind.validate_status_update(&new, &created), new)
        }
    }
}

fn create(kind: &CustomKind, mut object: Value) -> Result<Value, String> {
    if let Value::Object(object) = &mut object
        && kind.has_status()
    {
        object.shift_remove("status");
    }
    prepare(kind, &mut object);
    answer(kind, &kind.validate_create(&object), object)
}

fn prepare(kind: &CustomKind, object: &mut Value) {
    if kind.is_namespaced() && object["metadata"].get("namespace").is_none() {
        object["metadata"]["namespace"] = "default".into();
    }
    kind.prune(object);
    kind.apply_defaults(object);
}

/// One subresource does not write the other's part of an object.
fn copy(from: &Value, to: &mut Value, part: &str) {
    match (from.get(part), to) {
        (Some(value), Value::Object(to)) => drop(to.insert(part.to_owned(), value.clone())),
        (None, Value::Object(to)) => drop(to.shift_remove(part)),
        _ => {}
    }
}

fn answer(kind: &CustomKind, errors: &[FieldError], object: Value) -> Result<Value, String> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if errors.is_empty() { Ok(object) } else { Err(kind.invalid_message(name, errors)) }
}

#[test]
fn nodepool() {
    check(CrdSet::Aws, include_str!("../../../scenarios/admission/nodepool.yaml"));
}

#[test]
fn nodeclaim() {
    check(CrdSet::Aws, include_str!("../../../scenarios/admission/nodeclaim.yaml"));
}

#[test]
fn nodeoverlay() {
    check(CrdSet::Aws, include_str!("../../../scenarios/admission/nodeoverlay.yaml"));
}

#[test]
fn capacitybuffer() {
    check(CrdSet::Aws, include_str!("../../../scenarios/admission/capacitybuffer.yaml"));
}

#[test]
fn ec2nodeclass() {
    check(CrdSet::Aws, include_str!("../../../scenarios/admission/ec2nodeclass.yaml"));
}

#[test]
fn kwok() {
    check(CrdSet::Kwok, include_str!("../../../scenarios/admission/kwok.yaml"));
}
