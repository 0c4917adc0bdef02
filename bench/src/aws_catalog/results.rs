//! The table of the AWS instance types and its limits.

use std::fmt::Write as _;

use anyhow::Result;

use super::Row;
use crate::limit::{Bound, Limit};
use crate::results_page::Section;

const COMMAND: &str = "cargo xtask bench aws-catalog";

pub(super) fn line(row: &Row) -> String {
    format!("{:<58} {:>12}\n", name(row), value(row))
}

fn name(row: &Row) -> String {
    format!("{}: {}", row.task, row.figure.metric)
}

/// Returns small times with more digits.
fn value(row: &Row) -> String {
    let (value, unit) = (row.figure.value, &row.figure.unit);
    let digits = if unit.is_empty() && value.fract() == 0.0 {
        0
    } else if value < 0.1 {
        4
    } else {
        2
    };
    format!("{value:.digits$} {unit}").trim_end().to_owned()
}

pub(super) fn limits(rows: &[Row]) -> Vec<Limit> {
    let found = |metric: &str| rows.iter().find(|row| name(row) == metric);
    [
        ("resolution: instance types", Bound::AtLeast(1354.0)),
        ("resolution: cold", Bound::AtMost(50.0)),
        ("resolution: unchanged", Bound::AtMost(0.1)),
        ("resolution: types resolved again after one mark", Bound::AtMost(0.0)),
        ("resolution: types with new offerings after one mark", Bound::AtMost(1.0)),
        ("resolution: types with new offerings after one mark", Bound::AtLeast(1.0)),
        ("memory: peak with 20 NodePools, added", Bound::AtMost(30.0)),
        ("pools: 500 NodePools, times those of 20", Bound::AtMost(1.2)),
        ("solve: types of us-west-2, times 400 fake types", Bound::AtMost(3.0)),
    ]
    .map(|(metric, bound)| Limit {
        metric: metric.to_owned(),
        value: found(metric).map(|row| row.figure.value),
        bound,
    })
    .into()
}

/// Saves the table and the limits.
pub(super) fn save(rows: &[Row], limits: &[Limit]) -> Result<()> {
    let mut table = "| what | figure |\n|---|---:|\n".to_owned();
    for row in rows {
        let _ = writeln!(table, "| {} | {} |", name(row), value(row));
    }
    Section { title: "AWS catalog", command: COMMAND, about: ABOUT, table, rows, limits }.save()
}

const ABOUT: &str = "The committed table of us-west-2, spot and on-demand in four zones. Each task \
                     runs in a process of its own, and times are the best of 20 runs.\n\
                     *resolution*: one NodeClass, from empty caches, then unchanged (the mean of \
                     1,000 lists), then after one offering is marked unavailable. *memory*: the \
                     peak of resident memory over that of the process when it starts, with the \
                     decoded tables and the lists of 20 NodePools on 5 different NodeClasses. \
                     *pools*: the lists of all NodePools on 5 NodeClasses, from empty caches; 20 \
                     and 500 NodePools in turn. *solve*: the decision about 10,000 diverse pods on \
                     one NodePool, with upstream's 400 fake types and with these types in turn.";
