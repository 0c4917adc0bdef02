//! The table, and where it is kept.

use std::fmt::Write as _;
use std::fs;

use anyhow::Result;
use serde_json::json;

use super::{Row, Side};
use crate::host;
use crate::limit::Limit;
use crate::machine::Machine;
use crate::page;

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
    row("workload", &HEAD.map(str::to_owned))
}

pub(super) fn line(measured: &Row) -> String {
    row(&measured.name, &cells(measured))
}

fn row(name: &str, cells: &[String; 12]) -> String {
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
    let faster = |side: &Side| match upstream {
        Some(upstream) if side.seconds > 0.0 => {
            format!("{:.0} ×", upstream.seconds / side.seconds)
        }
        _ => none(),
    };
    let all = |value: fn(&Side) -> String| {
        let first = upstream.map_or_else(none, value);
        format!("{first} / {} / {}", value(&row.first), value(&row.best))
    };
    [
        row.nodes.to_string(),
        row.pods.to_string(),
        upstream.map_or_else(none, |side| seconds(side.seconds)),
        seconds(row.first.seconds),
        faster(&row.first),
        seconds(row.best.seconds),
        faster(&row.best),
        seconds(row.unchanged_seconds),
        match upstream {
            Some(side) => {
                format!("{} / {}", mebibytes(side.memory_bytes), mebibytes(row.best.memory_bytes))
            }
            None => mebibytes(row.best.memory_bytes),
        },
        all(|side| format!("{:.2}", side.savings)),
        all(|side| side.removed.to_string()),
        all(|side| side.added.to_string()),
    ]
}

fn seconds(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.2} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}

#[expect(clippy::cast_precision_loss, reason = "sizes of memory, for people")]
fn mebibytes(size: u64) -> String {
    format!("{:.1} MiB", size as f64 / 1_048_576.0)
}

/// Writes `bench/results/<date>-<machine>/disruption.json` and the table in the README.
pub(super) fn keep(rows: &[Row], limits: &[Limit]) -> Result<()> {
    let machine = Machine::this();
    let folder = machine.folder()?;
    let limits: Vec<_> = limits.iter().map(ToString::to_string).collect();
    let value = json!({
        "command": COMMAND, "date": machine.date, "cores": machine.cores, "cpu": machine.cpu,
        "rows": rows, "limits": limits,
    });
    fs::write(folder.join("disruption.json"), serde_json::to_string_pretty(&value)? + "\n")?;
    page::keep("Disruption", &section(rows, &limits, &machine))?;
    host::note(&format!("kept in {}", folder.display()));
    Ok(())
}

fn section(rows: &[Row], limits: &[String], machine: &Machine) -> String {
    let mut text = format!(
        "`{COMMAND}`, {} on {} cores ({}). One run on one machine: each side decides about the same file in a \
         process of its own.\n\
         Time is the decision alone. *upstream* is one pass of v1.15.0, without the wait before a \
         command is looked at again; *first* is ours with `--consolidation-search=upstream`, which \
         stops at the same command; *best* is ours by default, which looks at every candidate; \
         *unchanged* is the pass after it with nothing changed. Memory is the peak over what is \
         resident after the snapshot is loaded (upstream / best; ours: or the peak of the heap, if that \
         is more). Saved dollars per hour, removed \
         and added nodes are upstream / first / best. `packed`: full nodes, nothing to gain.\n\n",
        machine.date, machine.cores, machine.cpu
    );
    let _ = writeln!(text, "| workload | {} |", HEAD.join(" | "));
    let _ = writeln!(text, "|---|{}", "---:|".repeat(HEAD.len()));
    for row in rows {
        let _ = writeln!(text, "| {} | {} |", row.name, cells(row).join(" | "));
    }
    text.push_str("\nWhat must be reached:\n\n");
    for limit in limits {
        let _ = writeln!(text, "- {limit}");
    }
    text
}
