//! Tables, and where they are kept.

use std::fmt::Write as _;
use std::fs;

use anyhow::Result;
use serde_json::json;

use super::{Row, Side};
use crate::limit::Limit;
use crate::machine::Machine;
use crate::{host, page};

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

pub(super) fn line(row: &Row) -> String {
    let cells = cells(row);
    format!(
        "{:<26} {:>10} {:>10} {:>8} {:>10} {:>10} {:>7} {:>15} {:>21}",
        row.name, cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6], cells[7]
    )
}

/// Times, ratio, memory, ratio, nodes and price: upstream's, then ours.
fn cells(row: &Row) -> [String; 8] {
    let ours = &row.ours;
    let of =
        |value: fn(&Side) -> String| row.upstream.as_ref().map_or_else(|| "–".to_owned(), value);
    let ratio = |upstream: f64, ours: f64| {
        if ours > 0.0 { format!("{:.0} ×", upstream / ours) } else { "–".to_owned() }
    };
    let both = |value: fn(&Side) -> String| match &row.upstream {
        Some(upstream) => format!("{} / {}", value(upstream), value(ours)),
        None => value(ours),
    };
    let upstream = row.upstream.as_ref();
    [
        of(|side| seconds(side.seconds)),
        seconds(ours.seconds),
        upstream.map_or_else(|| "–".to_owned(), |up| ratio(up.seconds, ours.seconds)),
        of(|side| mebibytes(side.memory_bytes)),
        mebibytes(ours.memory_bytes),
        upstream.map_or_else(
            || "–".to_owned(),
            |up| ratio(bytes(up.memory_bytes), bytes(ours.memory_bytes)),
        ),
        both(|side| side.nodes.to_string()),
        both(|side| format!("{:.2}", side.total_price)),
    ]
}

fn seconds(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.2} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}

fn mebibytes(size: u64) -> String {
    format!("{:.1} MiB", bytes(size) / 1_048_576.0)
}

#[expect(clippy::cast_precision_loss, reason = "sizes of memory, for people")]
fn bytes(bytes: u64) -> f64 {
    bytes as f64
}

/// Writes `bench/results/<date>-<machine>/scheduling.json` and the table in the README.
pub(super) fn keep(rows: &[Row], limits: &[Limit]) -> Result<()> {
    let machine = Machine::this();
    let folder = machine.folder()?;
    let limits: Vec<_> = limits.iter().map(ToString::to_string).collect();
    let value = json!({
        "command": COMMAND, "date": machine.date, "cores": machine.cores, "cpu": machine.cpu,
        "rows": rows, "limits": limits,
    });
    fs::write(folder.join("scheduling.json"), serde_json::to_string_pretty(&value)? + "\n")?;
    page::keep("Scheduling", &section(rows, &limits, &machine))?;
    host::note(&format!("kept in {}", folder.display()));
    Ok(())
}

fn section(rows: &[Row], limits: &[String], machine: &Machine) -> String {
    let mut text = format!(
        "`{COMMAND}`, {} on {} cores ({}). One run on one machine: each side decides about the same file in a \
         process of its own.\n\
         Time is the decision alone: upstream's `Solve` of v1.15.0 once, the best of some solves of \
         ours. Memory is the peak over what is resident after the snapshot is loaded (ours: or the \
         peak of the heap, if that is more). Pairs are upstream's / ours.\n\n\
         | workload | upstream | ours | faster | memory, upstream | memory, ours | less | nodes | price per hour |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        machine.date, machine.cores, machine.cpu
    );
    for row in rows {
        let _ = writeln!(text, "| {} | {} |", row.name, cells(row).join(" | "));
    }
    text.push_str("\nWhat must be reached:\n\n");
    for limit in limits {
        let _ = writeln!(text, "- {limit}");
    }
    text
}
