//! The table of API results and its limits.

use std::fmt::Write as _;

use anyhow::Result;

use super::Row;
use crate::limit::{Bound, Limit};
use crate::results_page::Section;

const COMMAND: &str = "cargo xtask bench api";

pub(super) fn line(row: &Row) -> String {
    format!("{:<58} {:>12.2} {}\n", row.metric, row.value, row.unit)
}

pub(super) fn limits(rows: &[Row]) -> Vec<Limit> {
    let found = |metric: &str| rows.iter().find(|row| row.metric == metric).map(|row| row.value);
    [
        ("resident memory with all of them", 1_024.0),
        ("resident memory at the end", 1_024.0),
        ("a change until 50 watchers have it, 99 of 100", 10.0),
    ]
    .map(|(metric, most)| Limit {
        metric: metric.to_owned(),
        value: found(metric),
        bound: Bound::AtMost(most),
    })
    .into()
}

/// Saves the table and the limits.
pub(super) fn save(rows: &[Row], limits: &[Limit]) -> Result<()> {
    let mut table = "| what | figure |\n|---|---:|\n".to_owned();
    for row in rows {
        let _ = writeln!(table, "| {} | {:.2} {} |", row.metric, row.value, row.unit);
    }
    Section { title: "API", command: COMMAND, about: ABOUT, table, rows, limits }.save()
}

const ABOUT: &str = "The embedded API in one process: 5,000 nodes and 100,000 pods (created, bound, \
                     running) through the service that clients are given, one request after the \
                     other; then lists, and changes of one pod at a time while others watch all pods.";
