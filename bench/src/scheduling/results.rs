//! The tables of scheduling results and their limits.

use std::fmt::Write as _;

use anyhow::Result;

use super::{Row, SideResult};
use crate::limit::Limit;
use crate::results_page::{Section, format_mebibytes, format_seconds};

/// What makes the table.
const COMMAND: &str = "cargo xtask bench scheduling";

pub(super) fn header() -> String {
    format!(
        "{:<26} {:>10} {:>10} {:>8} {:>10} {:>10} {:>7} {:>15} {:>21}",
        "workload",
        "upstream",
        "ours",
        "faster",
        "upstream",
        "ours",
        "memory",
        "nodes",
        "price per hour"
    )
}

pub(super) fn table_line(row: &Row) -> String {
    let cells = cells(row);
    format!(
        "{:<26} {:>10} {:>10} {:>8} {:>10} {:>10} {:>7} {:>15} {:>21}",
        row.name, cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6], cells[7]
    )
}

/// Times, ratio, memory, ratio, nodes and price: upstream's, then ours.
fn cells(row: &Row) -> [String; 8] {
    let ours = &row.ours;
    let of = |value: fn(&SideResult) -> String| {
        row.upstream.as_ref().map_or_else(|| "–".to_owned(), value)
    };
    let ratio = |upstream: f64, ours: f64| {
        if ours > 0.0 { format!("{:.0} ×", upstream / ours) } else { "–".to_owned() }
    };
    let both = |value: fn(&SideResult) -> String| match &row.upstream {
        Some(upstream) => format!("{} / {}", value(upstream), value(ours)),
        None => value(ours),
    };
    let upstream = row.upstream.as_ref();
    [
        of(|side| format_seconds(side.seconds)),
        format_seconds(ours.seconds),
        upstream.map_or_else(|| "–".to_owned(), |up| ratio(up.seconds, ours.seconds)),
        of(|side| format_mebibytes(side.memory_bytes)),
        format_mebibytes(ours.memory_bytes),
        upstream.map_or_else(
            || "–".to_owned(),
            |up| ratio(bytes(up.memory_bytes), bytes(ours.memory_bytes)),
        ),
        both(|side| side.nodes.to_string()),
        both(|side| format!("{:.2}", side.total_price)),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "sizes of memory, for people")]
fn bytes(bytes: u64) -> f64 {
    bytes as f64
}

/// Saves the table and the limits.
pub(super) fn save(rows: &[Row], limits: &[Limit]) -> Result<()> {
    let mut table =
        "| workload | upstream | ours | faster | memory, upstream | memory, ours | less \
                     | nodes | price per hour |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n"
            .to_owned();
    for row in rows {
        let _ = writeln!(table, "| {} | {} |", row.name, cells(row).join(" | "));
    }
    Section { title: "Scheduling", command: COMMAND, about: ABOUT, table, rows, limits }.save()
}

const ABOUT: &str = "One run on one machine: each side decides about the same file in a process of \
                     its own.\n\
                     Time is the decision alone: upstream's `Solve` of v1.15.0 once, the best of \
                     some solves of ours. Memory is the peak over what is resident after the \
                     snapshot is loaded (ours: or the peak of the heap, if that is more). Pairs \
                     are upstream's / ours.";
