//! The table, and what must be reached.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::process::Side;
use super::script::Figure;
use crate::limit::{Bound, Limit};
use crate::page::{self, Section};

const TITLE: &str = "Cluster";
const COMMAND: &str = "cargo xtask bench cluster";

/// A figure of both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) unit: String,
    pub(super) upstream: Option<f64>,
    pub(super) ours: Option<f64>,
}

/// What was found so far, in the order in which it came.
#[derive(Debug, Default)]
pub(super) struct Found(Vec<Repeated>);

/// A figure, as often as it was measured on each side.
#[derive(Debug)]
struct Repeated {
    what: &'static str,
    unit: &'static str,
    upstream: Vec<f64>,
    ours: Vec<f64>,
}

impl Found {
    pub(super) fn add(&mut self, side: Side, figures: Vec<Figure>) {
        for (what, value, unit) in figures {
            let known = self.0.iter().position(|one| one.what == what);
            let index = known.unwrap_or_else(|| {
                self.0.push(Repeated { what, unit, upstream: Vec::new(), ours: Vec::new() });
                self.0.len() - 1
            });
            match side {
                Side::Upstream => self.0[index].upstream.extend(value),
                Side::Ours => self.0[index].ours.extend(value),
            }
        }
    }

    pub(super) fn rows(self) -> Vec<Row> {
        let row = |Repeated { what, unit, upstream, ours }| Row {
            what: str::to_owned(what),
            unit: str::to_owned(unit),
            upstream: middle(upstream),
            ours: middle(ours),
        };
        self.0.into_iter().map(row).collect()
    }
}

/// The middle one; of an even number the higher of the two.
fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
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
        share("scale-down: time until it settles", 0.5),
        share("scale-down: nodes that are left", 1.0),
        ours("idle: CPU", 1.0),
        ours("idle: log lines a minute", 0.0),
        share("idle: of them writes", 1.0),
        ours("pending: peak memory", 200.0),
        ours("pending: growth in the last minute", 5.0),
        ours("pending: 99 of 100 probes are answered within", 50.0),
        ours("pending: slowest answer beyond the latest sleep", 50.0),
        ours("pending: answers after 50 ms beyond late sleeps", 1.0),
        ours("pending: slowest scrape of the metrics", 1_000.0),
        ours("pending: log lines a minute", 60.0),
    ]
}

/// What was kept on this day.
pub(super) fn kept() -> Result<Vec<Row>> {
    page::kept(TITLE)
}

/// What was kept, with the phases that were measured again.
pub(super) fn merged(mut kept: Vec<Row>, rows: Vec<Row>) -> Vec<Row> {
    let phase = |row: &Row| row.what.split_once(':').map(|(phase, _)| phase.to_owned());
    let anew: BTreeSet<_> = rows.iter().map(phase).collect();
    let place = kept.iter().position(|row| anew.contains(&phase(row))).unwrap_or(kept.len());
    kept.retain(|row| !anew.contains(&phase(row)));
    kept.splice(place..place, rows);
    kept
}

/// Keeps the table.
pub(super) fn keep(rows: &[Row], limits: &[Limit]) -> Result<()> {
    let mut table = "| what | upstream | ours |\n|---|---:|---:|\n".to_owned();
    for row in rows {
        let [upstream, ours] = [row.upstream, row.ours].map(shown);
        let unit = if row.unit.is_empty() { String::new() } else { format!(", {}", row.unit) };
        let _ = writeln!(table, "| {}{unit} | {upstream} | {ours} |", row.what);
    }
    Section { title: TITLE, command: COMMAND, about: ABOUT, table, rows, limits }.keep()
}

const ABOUT: &str = "One machine, and each side, upstream's KWOK build of v1.15.0 and ours, on real \
                     control planes of its own (v1.36.3), with the same kubelets, objects and \
                     steps: both sides of a phase right after each other, the scale-up three times \
                     in turn, of which the middle of each figure is shown (phases may be of \
                     different runs of the day). All of it shares the cores, so time is mostly that \
                     of the control plane; CPU and memory are those of the controller's process \
                     alone. Probes follow sleeps, which the busy machine ends late as well, and \
                     metrics are scraped meanwhile. A dash: nothing was there to measure.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_several_rounds_counts() {
        let mut found = Found::default();
        for (upstream, ours) in [(9.0, 3.0), (5.0, 7.0), (6.0, 2.0)] {
            found.add(Side::Upstream, vec![("CPU", Some(upstream), "s"), ("nodes", None, "")]);
            found.add(Side::Ours, vec![("CPU", Some(ours), "s"), ("nodes", Some(1.0), "")]);
        }
        let row = |what: &str, unit: &str, upstream, ours| Row {
            what: what.to_owned(),
            unit: unit.to_owned(),
            upstream,
            ours,
        };
        let cpu = row("CPU", "s", Some(6.0), Some(3.0));
        assert_eq!(found.rows(), [cpu, row("nodes", "", None, Some(1.0))]);
    }

    #[test]
    fn a_phase_that_is_measured_again_replaces_its_rows_alone() {
        let row = |what: &str, ours: f64| Row {
            what: what.to_owned(),
            unit: "s".to_owned(),
            upstream: Some(1.0),
            ours: Some(ours),
        };
        let kept = vec![row("up: CPU", 1.0), row("idle: CPU", 2.0), row("idle: old", 3.0)];
        let kept = [kept, vec![row("pending: CPU", 4.0)]].concat();
        let rows = vec![row("idle: CPU", 5.0), row("idle: new", 6.0)];
        let expected = vec![row("up: CPU", 1.0), rows[0].clone(), rows[1].clone()];
        let expected = [expected, vec![row("pending: CPU", 4.0)]].concat();
        assert_eq!(merged(kept, rows.clone()), expected);
        assert_eq!(merged(Vec::new(), rows.clone()), rows, "nothing was kept");
    }
}
