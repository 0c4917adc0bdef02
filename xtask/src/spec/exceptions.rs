//! Compares `docs/coverage.md` with the cases that have no test.
//!
//! The table there says for each case why it has no test. It stays complete for the files of which
//! every case is due, and names no case that has a test.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context as _, Result};

use super::citation::{self, Target};
use super::index::SpecFile;
use super::untested_cases;
use crate::host;

#[cfg(test)]
mod tests;

/// The page with the table of cases without a test.
pub(super) const FILE: &str = "docs/coverage.md";
/// The files of which every case needs a test or a row in the table.
const COMPLETE: &[&str] = &["10", "20", "30", "40", "45"];

/// Returns a line for each case that misses a test and a row, or has both.
pub(super) fn faults(
    specification: &[SpecFile],
    tested: &BTreeSet<(String, String)>,
) -> Result<Vec<String>> {
    let page =
        fs::read_to_string(host::repo().join(FILE)).with_context(|| format!("reading {FILE}"))?;
    Ok(compare(&page, COMPLETE, specification, tested))
}

fn compare(
    page: &str,
    complete: &[&str],
    specification: &[SpecFile],
    tested: &BTreeSet<(String, String)>,
) -> Vec<String> {
    let excepted = excepted_cases(page, specification);
    let mut faults: Vec<_> = excepted
        .intersection(tested)
        .map(|(number, id)| format!("{FILE}: {number}/{id} has a test; remove its row"))
        .collect();
    for file in specification.iter().filter(|file| complete.contains(&file.number.as_str())) {
        for id in untested_cases(file, tested) {
            if !excepted.contains(&(file.number.clone(), id.to_owned())) {
                let number = &file.number;
                faults.push(format!("{FILE}: {number}/{id} has no test; add one, or a row"));
            }
        }
    }
    faults
}

/// Returns the cases in the first cells of the tables.
fn excepted_cases(page: &str, specification: &[SpecFile]) -> BTreeSet<(String, String)> {
    let numbers: Vec<_> = specification.iter().map(|file| file.number.clone()).collect();
    let first_cells = page.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
    first_cells
        .flat_map(|cell| citation::citations(cell, &numbers))
        .filter_map(|citation| match (citation.target, citation.files.into_iter().next()) {
            (Target::Row(id), Some(number)) => Some((number, id)),
            _ => None,
        })
        .collect()
}
