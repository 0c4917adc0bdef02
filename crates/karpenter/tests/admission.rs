//! Every schema and CEL case of the API, answered by the embedded admission code.
//!
//! The same tables run on a real API server in `tests/e2e/tests/admit_tables.rs`.

use std::collections::BTreeMap;

use karpenter_api::crds::{CrdSet, crds};
use karpenter_apiserver::admission::CustomKind;
use karpenter_apiserver::testing::admission_table::{Row, parse};

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
    let answer = row.ask(kind);
    let problem = row.judge(answer.as_ref().map_err(String::as_str))?;
    Some(format!("{} {}: {}: {problem}", row.id, row.says, row.object))
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
