//! Renders the report of a consolidation pass as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use karpenter_core::disruption::Reason;

use super::report::{CommandReport, ConsolidationReport, DRIFTED_REASON, RetainedNode};
use crate::commands::count_noun;
use crate::plan::grid::{Column, Grid, wrap};
use crate::plan::report::{HOURS_PER_MONTH, NodeClaimReport};
use crate::plan::table::{
    GROUPS_MAX, expanded_section, first_names, more_lines, notes_section, printable_text,
    remarks_section,
};

/// Renders the report as text, at most `width` characters wide if possible.
pub(crate) fn render(report: &ConsolidationReport, width: Option<usize>) -> String {
    let sections = [
        commands_section(report, width),
        retained_section("REPLACED BY DRIFT", &report.drifted, width),
        retained_section("STAY", &report.kept, width),
        remarks_section(&report.marked, width),
        expanded_section(&report.expanded, width),
        notes_section(&report.notes, width),
        summary_line(report, width),
    ];
    let report: Vec<_> = sections.into_iter().filter(|section| !section.is_empty()).collect();
    report.join("\n")
}

fn commands_section(report: &ConsolidationReport, width: Option<usize>) -> String {
    if report.commands.is_empty() {
        return String::new();
    }
    let mut grid = Grid::new(&[
        ("STEP", Column::Number),
        ("WHY", Column::Uncut),
        ("NODES", Column::Text),
        ("PODS", Column::Number),
        ("REPLACED BY", Column::Text),
        ("SAVES $/HOUR", Column::Number),
        ("$/MONTH", Column::Number),
    ]);
    for (position, command) in report.commands.iter().enumerate().take(GROUPS_MAX) {
        grid.add_row(vec![
            (position + 1).to_string(),
            command.reason.to_lowercase(),
            first_names(&command.candidates),
            command.pods.len().to_string(),
            replacements_text(command),
            savings_text(command, format!("{:.4}", command.savings)),
            savings_text(command, format!("{:.2}", command.monthly_savings)),
        ]);
    }
    let (going, commands) = (removed_node_count(report), report.commands.len());
    let steps = if commands > 1 { format!(" in {commands} steps") } else { String::new() };
    format!(
        "REMOVE {}{steps}\n{}{}{}",
        count_noun(going, "node"),
        grid.lines(2, width),
        more_lines(commands, "steps"),
        caveat_lines(report, width)
    )
}

/// Returns the savings, marked if some prices are unknown.
fn savings_text(command: &CommandReport, amount: String) -> String {
    match (command.is_priced(), command.unpriced.is_empty()) {
        (false, _) => "unknown".to_owned(),
        (true, false) => format!("{amount} or more"),
        (true, true) => amount,
    }
}

/// Returns the warnings about the nodes that the commands remove.
fn caveat_lines(report: &ConsolidationReport, width: Option<usize>) -> String {
    let all = |list: fn(&CommandReport) -> &[String]| -> Vec<String> {
        report.commands.iter().flat_map(list).cloned().collect()
    };
    let mut text = String::new();
    let lost = all(|command| &command.pods_without_controller);
    if !lost.is_empty() {
        let have = if lost.len() == 1 { "has" } else { "have" };
        let pods = count_noun(lost.len(), "pod");
        let line =
            format!("{pods} {have} no controller and will not come back: {}", first_names(&lost));
        text.push_str(&wrap("  ", &line, width));
    }
    // Empty nodes are removed before the drift method runs, the others after.
    let is_later = |command: &&CommandReport| command.reason != Reason::Empty.name();
    let later = || report.commands.iter().filter(is_later);
    if !report.drifted.is_empty() && later().next().is_some() {
        let nodes = count_noun(report.drifted.len(), "node");
        let line = format!(
            "drift of {nodes} comes before underutilized nodes, and counts against the same budgets"
        );
        text.push_str(&wrap("  ", &line, width));
    }
    let drifted: Vec<_> = later().flat_map(|command| &command.drifted).cloned().collect();
    if !drifted.is_empty() {
        let (have, them) = if drifted.len() == 1 { ("has", "it") } else { ("have", "them") };
        let nodes = count_noun(drifted.len(), "node");
        let names = first_names(&drifted);
        let line = format!("{nodes} {have} drifted, drift may replace {them} first: {names}");
        text.push_str(&wrap("  ", &line, width));
    }
    text
}

fn removed_node_count(report: &ConsolidationReport) -> usize {
    report.commands.iter().map(|command| command.candidates.len()).sum()
}

fn replacements_text(command: &CommandReport) -> String {
    let one = |claim: &NodeClaimReport| {
        let others = match claim.instance_types.len().saturating_sub(1) {
            0 => String::new(),
            others => format!(" or {others} more"),
        };
        let zone = match claim.zones.as_slice() {
            [] => String::new(),
            [zone] => format!(", {}", printable_text(zone)),
            zones => format!(", any of {} zones", zones.len()),
        };
        let (pool, kind) = (printable_text(&claim.node_pool), printable_text(&claim.cheapest_type));
        format!("{pool}: {kind}{others}, {}{zone}", printable_text(&claim.capacity_type))
    };
    let all: Vec<_> = command.replacements.iter().map(one).collect();
    if all.is_empty() { "-".to_owned() } else { all.join("; ") }
}

/// Nodes that stay for one reason.
struct RetainedGroup<'a> {
    nodes: Vec<&'a RetainedNode>,
    /// The objects that are in the way, each once.
    blocked_by: Vec<&'a str>,
}

/// Groups nodes by reason, the most frequent first. Texts that differ only in the blocking pod are
/// equal.
fn group_by_reason(kept: &[RetainedNode]) -> Vec<RetainedGroup<'_>> {
    let mut groups: BTreeMap<(&str, &str, Vec<&str>), RetainedGroup<'_>> = BTreeMap::new();
    for one in kept {
        let lasting = one.blocked_by.iter().map(String::as_str).filter(|name| !is_pod(name));
        let key = (one.reason, text_without_blocker(one), lasting.collect());
        let group = groups
            .entry(key)
            .or_insert_with(|| RetainedGroup { nodes: Vec::new(), blocked_by: Vec::new() });
        group.nodes.push(one);
        for name in &one.blocked_by {
            if !group.blocked_by.contains(&name.as_str()) {
                group.blocked_by.push(name);
            }
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.nodes.len()));
    groups
}

fn is_pod(object: &str) -> bool {
    object.starts_with("Pod ")
}

/// Returns the text without the part that `blocked by` repeats.
fn text_without_blocker(kept: &RetainedNode) -> &str {
    match kept.text.rsplit_once(" (") {
        Some((head, _)) if !kept.blocked_by.is_empty() && kept.text.ends_with(')') => head,
        _ => &kept.text,
    }
}

/// Renders nodes that consolidation leaves, by reason.
fn retained_section(title: &str, kept: &[RetainedNode], width: Option<usize>) -> String {
    if kept.is_empty() {
        return String::new();
    }
    let mut text = format!("{title} {}\n", count_noun(kept.len(), "node"));
    let groups = group_by_reason(kept);
    for group in groups.iter().take(GROUPS_MAX) {
        let name = |kept: &&RetainedNode| {
            let is_held = kept.drifted && kept.reason != DRIFTED_REASON;
            if is_held { format!("{} (drifted)", kept.node) } else { kept.node.clone() }
        };
        let names: Vec<_> = group.nodes.iter().map(name).collect();
        let nodes_text = match names.as_slice() {
            [node] => printable_text(node),
            nodes => format!("{} nodes ({})", nodes.len(), first_names(nodes)),
        };
        text.push_str(&wrap(
            "  ",
            &format!("{nodes_text}: {}", printable_text(text_without_blocker(group.nodes[0]))),
            width,
        ));
        if !group.blocked_by.is_empty() {
            let (mut lasting, pods): (Vec<_>, Vec<_>) =
                group.blocked_by.iter().map(|name| (*name).to_owned()).partition(|n| !is_pod(n));
            lasting.extend(pods);
            let is_forbidden = group.nodes[0].reason != "Unconsolidatable";
            let why = if is_forbidden { "    blocked by " } else { "    because of " };
            text.push_str(&wrap(why, &first_names(&lasting), width));
        }
    }
    text.push_str(&more_lines(groups.len(), "reasons"));
    text
}

fn summary_line(report: &ConsolidationReport, width: Option<usize>) -> String {
    let ConsolidationReport { nodes, total_price, total_savings, monthly_savings, .. } = report;
    let (going, nodes) = (removed_node_count(report), count_noun(*nodes, "node"));
    let monthly = total_price * HOURS_PER_MONTH;
    let bill = format!("they cost ${total_price:.4} an hour, ${monthly:.2} a month");
    let unpriced = unpriced_text(report);
    if going == 0 {
        return wrap("", &format!("0 of {nodes} would go; {bill}{unpriced}"), width);
    }
    let coming: usize = report.commands.iter().map(|command| command.replacements.len()).sum();
    let mut text = format!("{going} of {nodes} would go, {coming} would come; {bill}; ");
    if report.commands.iter().any(CommandReport::is_priced) {
        let is_known = report.commands.iter().all(|command| command.unpriced.is_empty());
        let least = if is_known { "" } else { "at least " };
        let _ = write!(
            text,
            "this saves {least}${total_savings:.4} an hour, ${monthly_savings:.2} a month"
        );
        if *total_price > 0.0 {
            let _ = write!(text, " ({:.0}%)", 100.0 * total_savings / total_price);
        }
    } else {
        text.push_str("what this saves is not known");
    }
    text.push_str(&unpriced);
    wrap("", &text, width)
}

/// Returns the note about nodes that the sums leave out.
fn unpriced_text(report: &ConsolidationReport) -> String {
    match report.unpriced.as_slice() {
        [] => String::new(),
        [node] => format!("; {} has no known price and is not in the sums", printable_text(node)),
        nodes => format!("; {} nodes have no known price and are not in the sums", nodes.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retained_node(
        node: &str,
        reason: &'static str,
        text: &str,
        blocked_by: &[&str],
    ) -> RetainedNode {
        let blocked_by = blocked_by.iter().map(|name| (*name).to_owned()).collect();
        RetainedNode {
            node: node.to_owned(),
            reason,
            text: text.to_owned(),
            blocked_by,
            drifted: false,
        }
    }

    fn command(
        candidates: &[&str],
        savings: f64,
        replacements: Vec<NodeClaimReport>,
    ) -> CommandReport {
        let candidates: Vec<String> = candidates.iter().map(|name| (*name).to_owned()).collect();
        CommandReport {
            method: "multi",
            reason: "Underutilized",
            decision: "delete",
            pods: candidates.iter().map(|name| format!("shop/on-{name}")).collect(),
            candidates,
            replacements,
            savings,
            monthly_savings: savings * HOURS_PER_MONTH,
            existing: Vec::new(),
            pods_without_controller: Vec::new(),
            unpriced: Vec::new(),
            drifted: Vec::new(),
        }
    }

    fn claim() -> NodeClaimReport {
        NodeClaimReport {
            node_pool: "general".to_owned(),
            pods: Vec::new(),
            instance_types: vec!["c-4x".to_owned(), "c-8x".to_owned()],
            cheapest_price: Some(0.1),
            requests: BTreeMap::new(),
            requirements: Vec::new(),
            weight: 0,
            monthly_price: Some(73.0),
            cheapest_type: "c-4x".to_owned(),
            allocatable: BTreeMap::new(),
            zones: vec!["a".to_owned(), "b".to_owned()],
            capacity_type: "spot".to_owned(),
            reservations: Vec::new(),
            min_values_relaxed: false,
            amounts: crate::plan::report::ClaimAmounts::default(),
        }
    }

    #[test]
    fn the_table_lists_removed_and_retained_nodes_with_reasons() {
        let pdb = "Pdb prevents pod evictions (PodDisruptionBudget=[shop/web])";
        let report = ConsolidationReport {
            commands: vec![
                command(&["a", "b", "c", "d"], 0.5, Vec::new()),
                command(&["e"], 0.25, vec![claim()]),
            ],
            total_savings: 0.75,
            monthly_savings: 547.5,
            total_price: 3.0,
            nodes: 10,
            kept: vec![
                retained_node("f", "Unconsolidatable", "Can't replace with a cheaper node", &[]),
                retained_node(
                    "g",
                    "Blocked",
                    pdb,
                    &["Pod shop/web-1", "PodDisruptionBudget shop/web"],
                ),
                retained_node(
                    "h",
                    "Blocked",
                    pdb,
                    &["Pod shop/web-2", "PodDisruptionBudget shop/web"],
                ),
                retained_node("i", "Unconsolidatable", "Can't replace with a cheaper node", &[]),
                retained_node("j", "Unconsolidatable", "Can't replace with a cheaper node", &[]),
            ],
            ..ConsolidationReport::default()
        };
        insta::assert_snapshot!(render(&report, None), @r"
        REMOVE 5 nodes in 2 steps
          STEP  WHY            NODES            PODS  REPLACED BY                                    SAVES $/HOUR  $/MONTH
             1  underutilized  a, b, c, 1 more     4  -                                                    0.5000   365.00
             2  underutilized  e                   1  general: c-4x or 1 more, spot, any of 2 zones        0.2500   182.50

        STAY 5 nodes
          3 nodes (f, i, j): Can't replace with a cheaper node
          2 nodes (g, h): Pdb prevents pod evictions
            blocked by PodDisruptionBudget shop/web, Pod shop/web-1, Pod shop/web-2

        5 of 10 nodes would go, 1 would come; they cost $3.0000 an hour, $2190.00 a month; this saves $0.7500 an hour, $547.50 a month (25%)
        ");
    }

    #[test]
    fn reasons_that_differ_only_in_the_pod_are_grouped() {
        let text = |pod: &str| {
            format!("Pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod=default/{pod})")
        };
        let report = ConsolidationReport {
            nodes: 3,
            kept: vec![
                retained_node("a", "Blocked", &text("x"), &["Pod default/x"]),
                retained_node("b", "Blocked", &text("y"), &["Pod default/y"]),
                retained_node("c", "Budget", "No allowed disruptions (10%)", &[]),
            ],
            ..ConsolidationReport::default()
        };
        insta::assert_snapshot!(render(&report, None), @r#"
        STAY 3 nodes
          2 nodes (a, b): Pod has "karpenter.sh/do-not-disrupt" annotation
            blocked by Pod default/x, Pod default/y
          c: No allowed disruptions (10%)

        0 of 3 nodes would go; they cost $0.0000 an hour, $0.00 a month
        "#);
    }
}
