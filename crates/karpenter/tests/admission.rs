//! Runs every schema and CEL case of the API on the embedded admission code.
//!
//! The same tables run on a real API server in `tests/e2e/tests/admit_tables.rs`.

use std::collections::BTreeMap;

use karpenter_api::crds::{CrdSet, crds};
use karpenter_apiserver::admission::CustomKind;
use karpenter_apiserver::testing::admission_table::{Row, parse};

type CustomKindsByName = BTreeMap<String, CustomKind>;

fn compile_kinds(set: CrdSet) -> CustomKindsByName {
    let compiled = crds(set).into_iter().map(|crd| {
        let kind = CustomKind::from_crd(&crd).unwrap_or_else(|error| panic!("{error}"));
        (kind.kind().to_owned(), kind)
    });
    compiled.collect()
}

#[track_caller]
fn check(set: CrdSet, table: &str) {
    let kinds = compile_kinds(set);
    let rows = parse(table).rows;
    assert!(rows.len() > 50, "the table was read");
    let problems: Vec<_> = rows.iter().filter_map(|row| row_problem(&kinds, row)).collect();
    assert!(
        problems.is_empty(),
        "{} of {} rows:\n{}",
        problems.len(),
        rows.len(),
        problems.join("\n")
    );
}

fn row_problem(kinds: &CustomKindsByName, row: &Row) -> Option<String> {
    let kind = &kinds[row.object["kind"].as_str().unwrap_or_default()];
    let answer = row.admit(kind);
    let problem = row.find_mismatch(answer.as_ref().map_err(String::as_str))?;
    Some(format!("{} {}: {}: {problem}", row.id, row.claim, row.object))
}

#[test]
fn nodepool_admission_table_holds() {
    check(CrdSet::Aws, include_str!("../../../scenarios/admission/nodepool.yaml"));
}

#[test]
fn nodeclaim_admission_table_holds() {
    check(CrdSet::Aws, include_str!("../../../scenarios/admission/nodeclaim.yaml"));
}

#[test]
fn nodeoverlay_admission_table_holds() {
    check(CrdSet::Aws, include_str!("../../../scenarios/admission/nodeoverlay.yaml"));
}

#[test]
fn capacitybuffer_admission_table_holds() {
    check(CrdSet::Aws, include_str!("../../../scenarios/admission/capacitybuffer.yaml"));
}

#[test]
fn ec2nodeclass_admission_table_holds() {
    check(CrdSet::Aws, include_str!("../../../scenarios/admission/ec2nodeclass.yaml"));
}

#[test]
fn kwok_admission_table_holds() {
    check(CrdSet::Kwok, include_str!("../../../scenarios/admission/kwok.yaml"));
}
