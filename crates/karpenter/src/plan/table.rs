//! Renders the report of a plan as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use karpenter_core::resources::{CPU, MEMORY, Quantity, Resources};

use super::expand::ExpandedWorkload;
use super::grid::{Column, Grid, truncate, wrap};
use super::rejection_text::{self, NodePoolRejection};
use super::report::{HOURS_PER_MONTH, NodeClaimReport, Remark, Report};
use crate::commands::count_noun;
use crate::diagnostic::printable;

/// How many pod names of one group are printed; the others are counted.
const NAMES_MAX: usize = 3;
/// How many groups of one section are printed; the others are counted.
pub(super) const GROUPS_MAX: usize = 50;
/// The longest text and the longest word in it. Names and labels that Kubernetes takes are shorter.
const TEXT_WIDTH: usize = 2000;
const WORD_WIDTH: usize = 320;

/// Renders the report as text, at most `width` characters wide if possible.
pub(crate) fn render(report: &Report, width: Option<usize>) -> String {
    let sections = [
        launch_section(report, width),
        existing_nodes_section(report, width),
        pending_section(report, width),
        ignored_section(report, width),
        remarks_section(&report.marked, width),
        expanded_section(&report.expanded, width),
        notes_section(&report.notes, width),
        summary_line(report, width),
    ];
    let output: Vec<_> = sections.into_iter().filter(|section| !section.is_empty()).collect();
    output.join("\n")
}

/// Claims that a user cannot distinguish.
struct LaunchGroup<'a> {
    claims: Vec<&'a NodeClaimReport>,
}

impl LaunchGroup<'_> {
    fn first(&self) -> &NodeClaimReport {
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
        let sum = |of: fn(&NodeClaimReport) -> &Resources| {
            let amounts = self.claims.iter().map(|claim| of(claim).amount(name));
            amounts.fold(Quantity::ZERO, Quantity::saturating_add)
        };
        let requested = sum(|claim| &claim.amounts.requests);
        let allocatable = sum(|claim| &claim.amounts.allocatable);
        let amount = |quantity| rejection_text::quantity_text(name, quantity);
        format!(
            "{} / {}{}",
            amount(requested),
            amount(allocatable),
            percentage(requested, allocatable)
        )
    }
}

fn percentage(part: Quantity, whole: Quantity) -> String {
    if whole <= Quantity::ZERO {
        return String::new();
    }
    match part.nanos().saturating_mul(100) / whole.nanos() {
        percent if percent > 9999 => " (>9999%)".to_owned(),
        percent => format!(" ({percent}%)"),
    }
}

fn launch_section(report: &Report, width: Option<usize>) -> String {
    if report.node_claims.is_empty() {
        return String::new();
    }
    let mut launches: Vec<LaunchGroup<'_>> = Vec::new();
    let alike = |a: &NodeClaimReport, b: &NodeClaimReport| {
        (&a.node_pool, &a.cheapest_type, &a.zones, &a.capacity_type)
            == (&b.node_pool, &b.cheapest_type, &b.zones, &b.capacity_type)
    };
    for claim in &report.node_claims {
        match launches.iter_mut().find(|launch| alike(launch.first(), claim)) {
            Some(launch) => launch.claims.push(claim),
            None => launches.push(LaunchGroup { claims: vec![claim] }),
        }
    }
    let mut grid = Grid::new(&[
        ("NODEPOOL", Column::Text),
        ("NODES", Column::Number),
        ("CHEAPEST TYPE", Column::Text),
        ("ALTERNATIVES", Column::Number),
        ("ZONE", Column::Text),
        ("CAPACITY", Column::Uncut),
        ("PODS", Column::Number),
        ("CPU", Column::Uncut),
        ("MEMORY", Column::Uncut),
        ("$/HOUR", Column::Number),
        ("$/MONTH", Column::Number),
    ]);
    for launch in &launches {
        let claim = launch.first();
        let price = launch.price();
        grid.add_row(vec![
            printable_text(&claim.node_pool),
            launch.claims.len().to_string(),
            printable_text(&claim.cheapest_type),
            launch.alternatives(),
            match claim.zones.as_slice() {
                [] => "-".to_owned(),
                [zone] => printable_text(zone),
                zones => format!("any of {}", zones.len()),
            },
            printable_text(&claim.capacity_type),
            launch.pods().to_string(),
            launch.usage(CPU),
            launch.usage(MEMORY),
            price.map_or("?".to_owned(), |price| format!("{price:.4}")),
            price.map_or("?".to_owned(), |price| format!("{:.2}", price * HOURS_PER_MONTH)),
        ]);
    }
    format!("LAUNCH {}\n{}", count_noun(report.node_claims.len(), "node"), grid.lines(2, width))
}

fn existing_nodes_section(report: &Report, width: Option<usize>) -> String {
    if report.existing.is_empty() {
        return String::new();
    }
    let pods = report.existing.iter().map(|placement| placement.pods.len()).sum();
    let mut grid =
        Grid::new(&[("NODE", Column::Text), ("PODS", Column::Number), ("NAMES", Column::Text)]);
    for placement in &report.existing {
        grid.add_row(vec![
            printable_text(&placement.node),
            placement.pods.len().to_string(),
            first_names(&placement.pods),
        ]);
    }
    let head = format!("ON EXISTING NODES {}", count_noun(pods, "pod"));
    format!("{head}\n{}", grid.lines(2, width))
}

fn pending_section(report: &Report, width: Option<usize>) -> String {
    if report.explanations.is_empty() {
        return String::new();
    }
    let mut text = format!("PENDING {}\n", count_noun(report.errors.len(), "pod"));
    for group in report.explanations.iter().take(GROUPS_MAX) {
        // They are all in the namespace of their owner.
        let base = |pod: &String| pod.split_once('/').map_or(pod.as_str(), |(_, n)| n).to_owned();
        let short: Vec<_> = group.pods.iter().map(base).collect();
        let pods = match group.pods.as_slice() {
            [pod] if *pod == group.owner => printable_text(pod),
            pods => {
                format!(
                    "{} {} ({})",
                    printable_text(&group.owner),
                    count_noun(pods.len(), "pod"),
                    first_names(&short)
                )
            }
        };
        text.push_str(&wrap("  ", &pods, width));
        for (pools, verdict) in group_equal_rejections(&group.node_pools) {
            let description = printable_text(&verdict.problem);
            let description = match pools.as_slice() {
                [] => description,
                [pool] => format!("NodePool {}: {description}", printable_text(pool)),
                pools => format!("NodePools {}: {description}", first_names(pools)),
            };
            text.push_str(&wrap("    ", &description, width));
            if let Some(fix) = &verdict.fix {
                text.push_str(&wrap("      -> ", &printable_text(fix), width));
            }
        }
    }
    text.push_str(&more_lines(report.explanations.len(), "groups of pods"));
    text
}

/// Returns the line about omitted lines.
pub(super) fn more_lines(lines: usize, description: &str) -> String {
    match lines.saturating_sub(GROUPS_MAX) {
        0 => String::new(),
        left => format!("  {left} more {description}, all of them with -o json\n"),
    }
}

/// Groups equal rejections, with the names of their pools.
fn group_equal_rejections(
    verdicts: &[NodePoolRejection],
) -> Vec<(Vec<String>, &NodePoolRejection)> {
    let mut groups: Vec<(Vec<String>, &NodePoolRejection)> = Vec::new();
    for verdict in verdicts {
        let same = |(_, known): &&mut (_, &NodePoolRejection)| {
            (&known.problem, &known.fix) == (&verdict.problem, &verdict.fix)
        };
        let pool = verdict.node_pool.iter().cloned();
        match groups.iter_mut().find(same) {
            Some((pools, _)) => pools.extend(pool),
            None => groups.push((pool.collect(), verdict)),
        }
    }
    groups
}

fn ignored_section(report: &Report, width: Option<usize>) -> String {
    let mut text = String::new();
    if !report.ignored.is_empty() {
        let pods = report.ignored.iter().map(|ignored| ignored.pods.len()).sum();
        let _ = writeln!(text, "NOT CONSIDERED {}", count_noun(pods, "pod"));
        for ignored in report.ignored.iter().take(GROUPS_MAX) {
            let output =
                format!("{}: {}", first_names(&ignored.pods), printable_text(&ignored.reason));
            text.push_str(&wrap("  ", &output, width));
            if let Some(fix) = &ignored.fix {
                text.push_str(&wrap("    -> ", fix, width));
            }
        }
        text.push_str(&more_lines(report.ignored.len(), "reasons"));
    }
    text
}

pub(super) fn remarks_section(marked: &[Remark], width: Option<usize>) -> String {
    // Equal remarks about several objects of a kind are printed once.
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
    let mut text = format!("TO LOOK AT {}\n", count_noun(marked.len(), "object"));
    for (names, remark) in groups.iter().take(GROUPS_MAX) {
        text.push_str(&wrap("  ", &remark_text(names, remark), width));
        if let Some(fix) = &remark.fix {
            text.push_str(&wrap("    -> ", &printable_text(fix), width));
        }
    }
    text.push_str(&more_lines(groups.len(), "remarks"));
    text
}

fn remark_text(names: &[String], remark: &Remark) -> String {
    let Remark { object, place, field, problem, left_out, .. } = remark;
    let kind = object.split_once(' ').map_or("", |(kind, _)| kind);
    let mut description = match names {
        [_] => printable_text(object),
        names => format!("{} {}s: {}", names.len(), printable_text(kind), first_names(names)),
    };
    if let Some(field) = field {
        let _ = write!(description, ": {}", printable_text(field));
    }
    let _ = write!(description, ": {}", printable_text(problem));
    if *left_out {
        description.push_str("; left out");
    }
    if let Some(place) = place {
        let first = if names.len() > 1 { "first in " } else { "" };
        let _ = write!(description, " ({first}{})", printable_text(place));
    }
    description
}

pub(super) fn expanded_section(expanded: &[ExpandedWorkload], width: Option<usize>) -> String {
    if expanded.is_empty() {
        return String::new();
    }
    let one = |expanded: &ExpandedWorkload| {
        let left_out = match expanded.left_out {
            0 => String::new(),
            left_out => format!(", {left_out} more left out"),
        };
        let ExpandedWorkload { kind, namespace, name, pods, .. } = expanded;
        format!("{kind} {namespace}/{name} ({pods}{left_out})")
    };
    let names: Vec<_> = expanded.iter().map(one).collect();
    let pods = expanded.iter().map(|expanded| expanded.pods).sum();
    let output = format!(
        "Planned for {} that workloads would make: {}",
        count_noun(pods, "pod"),
        first_names(&names)
    );
    wrap("", &output, width)
}

pub(crate) fn notes_section(notes: &[String], width: Option<usize>) -> String {
    notes.iter().map(|note| wrap("note: ", &printable_text(note), width)).collect()
}

fn summary_line(report: &Report, width: Option<usize>) -> String {
    let nodes = report.node_claims.len();
    let existing: usize = report.existing.iter().map(|placement| placement.pods.len()).sum();
    let mut places = Vec::new();
    if nodes > 0 {
        places.push(format!("{} on {}", report.pods - existing, count_noun(nodes, "new node")));
    }
    if existing > 0 {
        let on = count_noun(report.existing.len(), "existing node");
        places.push(format!("{existing} on {on}"));
    }
    let places =
        if places.is_empty() { String::new() } else { format!(" ({})", places.join(", ")) };
    let pending = report.errors.len();
    let mut output =
        format!("{} placed{places}, {pending} pending", count_noun(report.pods, "pod"));
    if nodes > 0 {
        let (hour, month) = (report.total_price, report.monthly_price);
        let _ = write!(output, "; new nodes cost from ${hour:.4} an hour, ${month:.2} a month");
    }
    wrap("", &output, width)
}

/// Returns a user's text for one line of a terminal, truncated.
pub(crate) fn printable_text(text: &str) -> String {
    let text = printable(&truncate(text, TEXT_WIDTH));
    if text.len() <= WORD_WIDTH {
        return text;
    }
    let words: Vec<_> = text.split(' ').map(|word| truncate(word, WORD_WIDTH)).collect();
    words.join(" ")
}

/// Returns the first names, and how many more there are.
pub(super) fn first_names(names: &[String]) -> String {
    let mut output: Vec<_> =
        names.iter().take(NAMES_MAX).map(|name| printable_text(name)).collect();
    let others = names.len().saturating_sub(NAMES_MAX);
    if others > 0 {
        output.push(format!("{others} more"));
    }
    output.join(", ")
}
