//! The table of disruption results and its limits.

use std::fmt::Write as _;

use anyhow::Result;

use super::{Row, SideResult};
use crate::limit::Limit;
use crate::results_page::{Section, format_mebibytes, format_seconds};

/// What makes the table.
const COMMAND: &str = "cargo xtask bench disruption";

const HEAD: [&str; 12] = [
    "nodes",
    "pods",
    "upstream",
    "first",
    "faster",
    "best",
    "faster",
    "unchanged",
    "memory",
    "saves",
    "removes",
    "adds",
];

pub(super) fn header() -> String {
    format_row("workload", &HEAD.map(str::to_owned))
}

pub(super) fn table_line(measured: &Row) -> String {
    format_row(&measured.name, &cells(measured))
}

fn format_row(name: &str, cells: &[String; 12]) -> String {
    let mut line = format!("{name:<18}");
    for (at, cell) in cells.iter().enumerate() {
        let width = [6, 7, 10, 10, 7, 10, 7, 10, 20, 24, 18, 14][at];
        let _ = write!(line, " {cell:>width$}");
    }
    line
}

/// Pairs and triples are upstream's, then those of our first command, then those of our whole pass.
fn cells(row: &Row) -> [String; 12] {
    let none = || "–".to_owned();
    let upstream = row.upstream.as_ref();
    let faster = |side: &SideResult| match upstream {
        Some(upstream) if side.seconds > 0.0 => {
            format!("{:.0} ×", upstream.seconds / side.seconds)
        }
        _ => none(),
    };
    let all = |value: fn(&SideResult) -> String| {
        let first = upstream.map_or_else(none, value);
        format!("{first} / {} / {}", value(&row.first), value(&row.best))
    };
    [
        row.nodes.to_string(),
        row.pods.to_string(),
        upstream.map_or_else(none, |side| format_seconds(side.seconds)),
        format_seconds(row.first.seconds),
        faster(&row.first),
        format_seconds(row.best.seconds),
        faster(&row.best),
        format_seconds(row.unchanged_seconds),
        match upstream {
            Some(side) => {
                format!(
                    "{} / {}",
                    format_mebibytes(side.memory_bytes),
                    format_mebibytes(row.best.memory_bytes)
                )
            }
            None => format_mebibytes(row.best.memory_bytes),
        },
        all(|side| format!("{:.2}", side.savings)),
        all(|side| side.removed.to_string()),
        all(|side| side.added.to_string()),
    ]
}

/// Saves the table and the limits.
pub(super) fn save(rows: &[Row], limits: &[Limit]) -> Result<()> {
    let mut table =
        format!("| workload | {} |\n|---|{}\n", HEAD.join(" | "), "---:|".repeat(HEAD.len()));
    for row in rows {
        let _ = writeln!(table, "| {} | {} |", row.name, cells(row).join(" | "));
    }
    Section { title: "Disruption", command: COMMAND, about: ABOUT, table, rows, limits }.save()
}

const ABOUT: &str = "One run on one machine: each side decides about the same file in a process of \
                     its own.\n\
                     Time is the decision alone. *upstream* is one pass of v1.15.0, without the \
                     wait before a command is looked at again (it does not always decide the same: \
                     where it is quick, what it saves is the most of five runs); *first* is ours with \
                     `--consolidation-search=upstream`, which stops at the same command; *best* is \
                     ours by default, which looks at every candidate; *unchanged* is the pass after \
                     it with nothing changed. Memory is the peak over what is resident after the \
                     snapshot is loaded (upstream / best; ours: or the peak of the heap, if that is \
                     more). Saved dollars per hour, removed and added nodes are upstream / first / \
                     best. `packed`: full nodes, nothing to gain.";
