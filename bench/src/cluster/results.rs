//! The table, and what must be reached.

use std::fmt::Write as _;
use std::fs;

use anyhow::Result;
use serde::Serialize;
use serde_json::json;

use crate::limit::{Bound, Limit};
use crate::machine::Machine;
use crate::{host, page};

const COMMAND: &str = "cargo xtask bench cluster";

/// A figure of both sides.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) what: &'static str,
    pub(super) unit: &'static str,
    pub(super) upstream: Option<f64>,
    pub(super) ours: Option<f64>,
}

pub(super) fn table(rows: &[Row]) -> String {
    let mut text = format!("{:<46} {:>12} {:>12}\n", "", "upstream", "ours");
    for row in rows {
        let [upstream, ours] = [row.upstream, row.ours].map(shown);
        let _ = writeln!(text, "{:<46} {upstream:>12} {ours:>12} {}", row.what, row.unit);
    }
    text
}

fn shown(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value.fract() == 0.0 => format!("{value:.0}"),
        Some(value) => format!("{value:.2}"),
    }
}

pub(super) fn limits(rows: &[Row]) -> Vec<Limit> {
    let row = |what: &str| rows.iter().find(|row| row.what == what);
    let ours = |what: &str, most: f64| Limit {
        what: what.to_owned(),
        found: row(what).and_then(|row| row.ours),
        bound: Bound::AtMost(most),
    };
    let share = |what: &str, most: f64| Limit {
        what: format!("{what}, share of upstream's"),
        found: row(what).and_then(|row| Some(row.ours? / row.upstream?.max(1e-9))),
        bound: Bound::AtMost(most),
    };
    vec![
        share("scale-up: time until all pods run", 1.0),
        share("scale-up: CPU", 1.0 / 6.0),
        ours("scale-up: peak memory", 80.0),
        share("scale-up: API requests per node", 1.0),
        ours("scale-down: time until it settles", 60.0),
        share("scale-down: nodes that are left", 1.0),
        ours("idle: CPU", 1.0),
        ours("idle: log lines a minute", 0.0),
        ours("idle: of them writes", 0.0),
        ours("pending: peak memory", 200.0),
        ours("pending: growth in the last minute", 5.0),
        ours("pending: log lines a minute", 60.0),
    ]
}

/// Writes `bench/results/<date>-<machine>/cluster.json` and the table in the README.
pub(super) fn keep(rows: &[Row], limits: &[Limit]) -> Result<()> {
    let machine = Machine::this();
    let folder = machine.folder()?;
    let limits: Vec<_> = limits.iter().map(ToString::to_string).collect();
    let value = json!({
        "command": COMMAND, "date": machine.date, "cores": machine.cores, "cpu": machine.cpu,
        "rows": rows, "limits": limits,
    });
    fs::write(folder.join("cluster.json"), serde_json::to_string_pretty(&value)? + "\n")?;
    page::keep("Cluster", &section(rows, &limits, &machine))?;
    host::note(&format!("kept in {}", folder.display()));
    Ok(())
}

fn section(rows: &[Row], limits: &[String], machine: &Machine) -> String {
    let mut text = format!(
        "`{COMMAND}`, {} on {} cores ({}). One run on one machine: each side, upstream's KWOK build \
         of v1.15.0 and ours, on a real control plane of its own (v1.36.3), one after the other, \
         with the same kubelets, objects and steps. All of it shares the cores, so time is mostly \
         that of the control plane; CPU and memory are those of the controller's process alone. A \
         dash: nothing was there to measure.\n\n\
         | what | upstream | ours |\n|---|---:|---:|\n",
        machine.date, machine.cores, machine.cpu
    );
    for row in rows {
        let [upstream, ours] = [row.upstream, row.ours].map(shown);
        let unit = if row.unit.is_empty() { String::new() } else { format!(", {}", row.unit) };
        let _ = writeln!(text, "| {}{unit} | {upstream} | {ours} |", row.what);
    }
    text.push_str("\nWhat must be reached:\n\n");
    for limit in limits {
        let _ = writeln!(text, "- {limit}");
    }
    text
}
