//! The table, and what must be reached.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result};
use serde_json::json;

use super::Row;
use crate::host;
use crate::limit::Bound;
pub(super) use crate::limit::Limit;
use crate::machine::Machine;

const COMMAND: &str = "cargo xtask bench api";

pub(super) fn line(row: &Row) -> String {
    format!("{:<58} {:>12.2} {}\n", row.what, row.value, row.unit)
}

pub(super) fn limits(rows: &[Row]) -> Vec<Limit> {
    let found = |what: &str| rows.iter().find(|row| row.what == what).map(|row| row.value);
    [
        ("resident memory with all of them", 1_024.0),
        ("resident memory at the end", 1_024.0),
        ("a change until 50 watchers have it, 99 of 100", 10.0),
    ]
    .map(|(what, most)| Limit {
        what: what.to_owned(),
        found: found(what),
        bound: Bound::AtMost(most),
    })
    .into()
}

/// Writes `bench/results/<date>-<machine>/api.json` and `bench/results/api.md`.
pub(super) fn keep(rows: &[Row], limits: &[Limit]) -> Result<()> {
    let machine = Machine::this();
    let folder = machine.folder()?;
    let limits: Vec<_> = limits.iter().map(ToString::to_string).collect();
    let value = json!({
        "command": COMMAND, "date": machine.date, "cores": machine.cores, "cpu": machine.cpu,
        "rows": rows, "limits": limits,
    });
    fs::write(folder.join("api.json"), serde_json::to_string_pretty(&value)? + "\n")?;
    let path = host::repo().join("bench/results/api.md");
    fs::write(&path, page(rows, &limits, &machine))
        .with_context(|| format!("cannot write {}", path.display()))?;
    host::note(&format!("kept in {}", folder.display()));
    Ok(())
}

fn page(rows: &[Row], limits: &[String], machine: &Machine) -> String {
    let mut text = format!(
        "# The embedded API\n\n\
         Written by `{COMMAND}`; edit nothing here.\n\n\
         {} on {} cores ({}). One process: 5,000 nodes and 100,000 pods (created, bound, running) \
         through the service that clients are given, one request after the other; then lists, and \
         changes of one pod at a time while others watch all pods.\n\n\
         | what | figure |\n|---|---:|\n",
        machine.date, machine.cores, machine.cpu
    );
    for row in rows {
        let _ = writeln!(text, "| {} | {:.2} {} |", row.what, row.value, row.unit);
    }
    text.push_str("\nWhat must be reached:\n\n");
    for limit in limits {
        let _ = writeln!(text, "- {limit}");
    }
    text
}
