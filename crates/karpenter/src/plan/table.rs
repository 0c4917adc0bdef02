//! A report for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use karpenter_core::resources::{CPU, MEMORY, Quantity, Resources};

use super::expand::Expanded;
use super::grid::{Column, Grid, cut, wrap};
use super::report::{Claim, HOURS_PER_MONTH, Remark, Report};
use super::words::{self, PoolVerdict};
use crate::commands::count;
use crate::diagnostic::printable;

/// Names of pods that are told of one group; the others are counted.
const NAMES: usize = 3;
/// Groups that are told of one section; the others are counted.
pub(super) const LINES: usize = 50;
/// The longest text and the longest word in it. Names and labels that Kubernetes takes are shorter.
const TEXT_WIDTH: usize = 2000;
const WORD_WIDTH: usize = 320;

/// The report as text, at most `width` characters wide where that can be had.
pub(crate) fn table(report: &Report, width: Option<usize>) -> String {
    let sections = [
        launches(report, width),
        placements(report, width),
        pending(report, width),
        ignored(report, width),
        remarks(&report.marked, width),
        made_up(&report.expanded, width),
        notes(&report.notes, width),
        summary(report, width),
    ];
    let told: Vec<_> = sections.into_iter().filter(|section| !section.is_empty()).collect();
    told.join("\n")
}

/// Claims that look alike to a person.
struct Launch<'a> {
    claims: Vec<&'a Claim>,
}

impl Launch<'_> {
    fn first(&self) -> &Claim {
        self.claims[0]
    }

    fn price(&self) -> Option<f64> {
        self.claims.iter().map(|claim| claim.cheapest_price).sum()
    }

    fn pods(&self) -> usize {
        self.claims.iter().map(|claim| claim.pods.len()).sum()
    }

    /// How many other types would do, per claim.
    fn alternatives(&self) -> String {
        let counts = self.claims.iter().map(|claim| claim.instance_types.len().saturating_sub(1));
        let (least, most) = (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0));
        match (least, most) {
            (0, 0) => "-".to_owned(),
            _ if least == most => most.to_string(),
            _ => format!("{least}-{most}"),
        }
    }

    /// `requested/allocatable` and the share.
    fn usage(&self, name: &str) -> String {
        let sum = |of: fn(&Claim) -> &Resources| {
            let amounts = self.claims.iter().map(|claim| of(claim).amount(name));
            amounts.fold(Quantity::ZERO, Quantity::saturating_add)
        };
        let requested = sum(|claim| &claim.amounts.requests);
        let allocatable = sum(|claim| &claim.amounts.allocatable);
        let amount = |quantity| words::bare_amount(name, quantity);
        format!("{} / {}{}", amount(requested), amount(allocatable), share(requested, allocatable))
    }
}

fn share(part: Quantity, whole: Quantity) -> String {
    if whole <= Quantity::ZERO {
        return String::new();
    }
    match part.nanos().saturating_mul(100) / whole.nanos() {
        percent if percent > 9999 => " (>9999%)".to_owned(),
        percent => format!(" ({percent}%)"),
    }
}

fn launches(report: &Report, width: Option<usize>) -> String {
    if report.node_claims.is_empty() {
        return String::new();
    }
    let mut launches: Vec<Launch<'_>> = Vec::new();
    let alike = |a: &Claim, b: &Claim| {
        (&a.node_pool, &a.cheapest_type, &a.zones, &a.capacity_type)
            == (&b.node_pool, &b.cheapest_type, &b.zones, &b.capacity_type)
    };
    for claim in &report.node_claims {
        match launches.iter_mut().find(|launch| alike(launch.first(), claim)) {
            Some(launch) => launch.claims.push(claim),
            None => launches.push(Launch { claims: vec![claim] }),
        }
    }
    let mut grid = Grid::new(&[
        ("NODEPOOL", Column::Text),
        ("NODES", Column::Number),
        ("CHEAPEST TYPE", Column::Text),
        ("ALTERNATIVES", Column::Number),
        ("ZONE", Column::Text),
        ("CAPACITY", Column::Whole),
        ("PODS", Column::Number),
        ("CPU", Column::Whole),
        ("MEMORY", Column::Whole),
        ("$/HOUR", Column::Number),
        ("$/MONTH", Column::Number),
    ]);
    for launch in &launches {
        let claim = launch.first();
        let price = launch.price();
        grid.row(vec![
            shown(&claim.node_pool),
            launch.claims.len().to_string(),
            shown(&claim.cheapest_type),
            launch.alternatives(),
            match claim.zones.as_slice() {
                [] => "-".to_owned(),
                [zone] => shown(zone),
                zones => format!("any of {}", zones.len()),
            },
            shown(&claim.capacity_type),
            launch.pods().to_string(),
            launch.usage(CPU),
            launch.usage(MEMORY),
            price.map_or("?".to_owned(), |price| format!("{price:.4}")),
            price.map_or("?".to_owned(), |price| format!("{:.2}", price * HOURS_PER_MONTH)),
        ]);
    }
    format!("LAUNCH {}\n{}", count(report.node_claims.len(), "node"), grid.lines(2, width))
}

fn placements(report: &Report, width: Option<usize>) -> String {
    if report.existing.is_empty() {
        return String::new();
    }
    let pods = report.existing.iter().map(|placement| placement.pods.len()).sum();
    let mut grid =
        Grid::new(&[("NODE", Column::Text), ("PODS", Column::Number), ("NAMES", Column::Text)]);
    for placement in &report.existing {
        grid.row(vec![
            shown(&placement.node),
            placement.pods.len().to_string(),
            some(&placement.pods),
        ]);
    }
    let head = format!("ON EXISTING NODES {}", count(pods, "pod"));
    format!("{head}\n{}", grid.lines(2, width))
}

fn pending(report: &Report, width: Option<usize>) -> String {
    if report.explanations.is_empty() {
        return String::new();
    }
    let mut text = format!("PENDING {}\n", count(report.errors.len(), "pod"));
    for group in report.explanations.iter().take(LINES) {
        // They are all in the namespace of their owner.
        let base = |pod: &String| pod.split_once('/').map_or(pod.as_str(), |(_, n)| n).to_owned();
        let short: Vec<_> = group.pods.iter().map(base).collect();
        let pods = match group.pods.as_slice() {
            [pod] if *pod == group.owner => shown(pod),
            pods => {
                format!("{} {} ({})", shown(&group.owner), count(pods.len(), "pod"), some(&short))
            }
        };
        text.push_str(&wrap("  ", &pods, width));
        for (pools, verdict) in alike(&group.node_pools) {
            let what = shown(&verdict.what);
            let what = match pools.as_slice() {
                [] => what,
                [pool] => format!("NodePool {}: {what}", shown(pool)),
                pools => format!("NodePools {}: {what}", some(pools)),
            };
            text.push_str(&wrap("    ", &what, width));
            if let Some(fix) = &verdict.fix {
                text.push_str(&wrap("      -> ", &shown(fix), width));
            }
        }
    }
    text.push_str(&rest(report.explanations.len(), "groups of pods"));
    text
}

/// What is said of lines that are left away.
pub(super) fn rest(lines: usize, what: &str) -> String {
    match lines.saturating_sub(LINES) {
        0 => String::new(),
        left => format!("  {left} more {what}, all of them with -o json\n"),
    }
}

/// Verdicts that say the same, with the pools that they are from.
fn alike(verdicts: &[PoolVerdict]) -> Vec<(Vec<String>, &PoolVerdict)> {
    let mut groups: Vec<(Vec<String>, &PoolVerdict)> = Vec::new();
    for verdict in verdicts {
        let same = |(_, known): &&mut (_, &PoolVerdict)| {
            (&known.what, &known.fix) == (&verdict.what, &verdict.fix)
        };
        let pool = verdict.node_pool.iter().cloned();
        match groups.iter_mut().find(same) {
            Some((pools, _)) => pools.extend(pool),
            None => groups.push((pool.collect(), verdict)),
        }
    }
    groups
}

fn ignored(report: &Report, width: Option<usize>) -> String {
    let mut text = String::new();
    if !report.ignored.is_empty() {
        let pods = report.ignored.iter().map(|ignored| ignored.pods.len()).sum();
        let _ = writeln!(text, "NOT CONSIDERED {}", count(pods, "pod"));
        for ignored in report.ignored.iter().take(LINES) {
            let told = format!("{}: {}", some(&ignored.pods), shown(&ignored.reason));
            text.push_str(&wrap("  ", &told, width));
            if let Some(fix) = &ignored.fix {
                text.push_str(&wrap("    -> ", fix, width));
            }
        }
        text.push_str(&rest(report.ignored.len(), "reasons"));
    }
    text
}

pub(super) fn remarks(marked: &[Remark], width: Option<usize>) -> String {
    // What is said of several objects of a kind is said once.
    let mut groups: Vec<(Vec<String>, &Remark)> = Vec::new();
    let mut known: BTreeMap<(&str, &str, &str, bool), usize> = BTreeMap::new();
    for remark in marked {
        let (kind, name) = remark.object.split_once(' ').unwrap_or((&remark.object, ""));
        let field = remark.field.as_deref().unwrap_or_default();
        let position =
            *known.entry((kind, field, &remark.problem, remark.left_out)).or_insert_with(|| {
                groups.push((Vec::new(), remark));
                groups.len() - 1
            });
        groups[position].0.push(name.to_owned());
    }
    if groups.is_empty() {
        return String::new();
    }
    let mut text = format!("TO LOOK AT {}\n", count(marked.len(), "object"));
    for (names, remark) in groups.iter().take(LINES) {
        text.push_str(&wrap("  ", &remark_text(names, remark), width));
        if let Some(fix) = &remark.fix {
            text.push_str(&wrap("    -> ", &shown(fix), width));
        }
    }
    text.push_str(&rest(groups.len(), "remarks"));
    text
}

fn remark_text(names: &[String], remark: &Remark) -> String {
    let Remark { object, place, field, problem, left_out, .. } = remark;
    let kind = object.split_once(' ').map_or("", |(kind, _)| kind);
    let mut what = match names {
        [_] => shown(object),
        names => format!("{} {}s: {}", names.len(), shown(kind), some(names)),
    };
    if let Some(field) = field {
        let _ = write!(what, ": {}", shown(field));
    }
    let _ = write!(what, ": {}", shown(problem));
    if *left_out {
        what.push_str("; left out");
    }
    if let Some(place) = place {
        let first = if names.len() > 1 { "first in " } else { "" };
        let _ = write!(what, " ({first}{})", shown(place));
    }
    what
}

pub(super) fn made_up(expanded: &[Expanded], width: Option<usize>) -> String {
    if expanded.is_empty() {
        return String::new();
    }
    let one = |expanded: &Expanded| {
        let left_out = match expanded.left_out {
            0 => String::new(),
            left_out => format!(", {left_out} more left out"),
        };
        let Expanded { kind, namespace, name, pods, .. } = expanded;
        format!("{kind} {namespace}/{name} ({pods}{left_out})")
    };
    let names: Vec<_> = expanded.iter().map(one).collect();
    let pods = expanded.iter().map(|expanded| expanded.pods).sum();
    let told =
        format!("Planned for {} that workloads would make: {}", count(pods, "pod"), some(&names));
    wrap("", &told, width)
}

pub(super) fn notes(notes: &[String], width: Option<usize>) -> String {
    notes.iter().map(|note| wrap("note: ", &shown(note), width)).collect()
}

fn summary(report: &Report, width: Option<usize>) -> String {
    let nodes = report.node_claims.len();
    let existing: usize = report.existing.iter().map(|placement| placement.pods.len()).sum();
    let mut places = Vec::new();
    if nodes > 0 {
        places.push(format!("{} on {}", report.pods - existing, count(nodes, "new node")));
    }
    if existing > 0 {
        let on = count(report.existing.len(), "existing node");
        places.push(format!("{existing} on {on}"));
    }
    let places =
        if places.is_empty() { String::new() } else { format!(" ({})", places.join(", ")) };
    let pending = report.errors.len();
    let mut told = format!("{} placed{places}, {pending} pending", count(report.pods, "pod"));
    if nodes > 0 {
        let (hour, month) = (report.total_price, report.monthly_price);
        let _ = write!(told, "; new nodes cost from ${hour:.4} an hour, ${month:.2} a month");
    }
    wrap("", &told, width)
}

/// Text of a user for one line of a terminal, cut where nobody would read on.
pub(super) fn shown(text: &str) -> String {
    let text = printable(&cut(text, TEXT_WIDTH));
    if text.len() <= WORD_WIDTH {
        return text;
    }
    let words: Vec<_> = text.split(' ').map(|word| cut(word, WORD_WIDTH)).collect();
    words.join(" ")
}

/// The first few of a list.
pub(super) fn some(names: &[String]) -> String {
    let mut told: Vec<_> = names.iter().take(NAMES).map(|name| shown(name)).collect();
    let others = names.len().saturating_sub(NAMES);
    if others > 0 {
        told.push(format!("{others} more"));
    }
    told.join(", ")
}
