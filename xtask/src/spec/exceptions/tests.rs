//! Tests of the comparison with the table of exceptions.

use std::collections::BTreeSet;

use super::compare;
use crate::spec::index::SpecFile;

const SPEC: &str = "| id | given |\n|---|---|\n| A1 | x |\n| A2 | x |\n| A3 | x |\n";

fn faults(page: &str, tested: &[&str]) -> Vec<String> {
    let specification = [SpecFile::parse("11-a.md", SPEC), SpecFile::parse("12-b.md", SPEC)];
    let tested: BTreeSet<_> = tested.iter().map(|id| ("11".to_owned(), (*id).to_owned())).collect();
    compare(page, &["11"], &specification, &tested)
}

#[test]
fn a_complete_table_has_no_faults() {
    let page = "| Case | Why |\n|---|---|\n| 11/A1, A2 | none |\nNot 11/A3.\n";
    assert!(faults(page, &["A3"]).is_empty());
}

#[test]
fn missing_and_needless_rows_are_faults() {
    let page = "| Case | Why |\n|---|---|\n| 11/A1 | see 11/A3 |\n";
    assert_eq!(
        faults(page, &["A1", "A2"]),
        [
            "docs/coverage.md: 11/A1 has a test; remove its row",
            "docs/coverage.md: 11/A3 has no test; add one, or a row",
        ]
    );
}
