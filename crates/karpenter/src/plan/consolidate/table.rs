//! A pass for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use karpenter_core::disruption::Reason;

use super::report::{Command, Consolidation, DRIFTED, Kept};
use crate::commands::count;
use crate::plan::grid::{Column, Grid, wrap};
use crate::plan::report::{Claim, HOURS_PER_MONTH};
use crate::plan::table::{LINES, made_up, notes, remarks, rest, shown, some};

/// The report as text, at most `width` characters wide where that can be had.
pub(crate) fn table(told: &Consolidation, width: Option<usize>) -> String {
    let sections = [
        commands(told, width),
        stay("REPLACED BY DRIFT", &told.drifted, width),
        stay("STAY", &told.kept, width),
        remarks(&told.marked, width),
        made_up(&told.expanded, width),
        notes(&told.notes, width),
        summary(told, width),
    ];
    let told: Vec<_> = sections.into_iter().filter(|section| !section.is_empty()).collect();
    told.join("\n")
}

fn commands(told: &Consolidation, width: Option<usize>) -> String {
    if told.commands.is_empty() {
        return String::new();
    }
    let mut grid = Grid::new(&[
        ("STEP", Column::Number),
        ("WHY", Column::Whole),
        ("NODES", Column::Text),
        ("PODS", Column::Number),
        ("REPLACED BY", Column::Text),
        ("SAVES $/HOUR", Column::Number),
        ("$/MONTH", Column::Number),
    ]);
    for (position, command) in told.commands.iter().enumerate().take(LINES) {
        grid.row(vec![
            (position + 1).to_string(),
            command.reason.to_lowercase(),
            some(&command.candidates),
            command.pods.len().to_string(),
            replacements(command),
            saved(command, format!("{:.4}", command.savings)),
            saved(command, format!("{:.2}", command.monthly_savings)),
        ]);
    }
    let (going, commands) = (going(told), told.commands.len());
    let steps = if commands > 1 { format!(" in {commands} steps") } else { String::new() };
    format!(
        "REMOVE {}{steps}\n{}{}{}",
        count(going, "node"),
        grid.lines(2, width),
        rest(commands, "steps"),
        caveats(told, width)
    )
}

/// A saving as far as it is known.
fn saved(command: &Command, amount: String) -> String {
    match (command.is_priced(), command.unpriced.is_empty()) {
        (false, _) => "unknown".to_owned(),
        (true, false) => format!("{amount} or more"),
        (true, true) => amount,
    }
}

/// What to know about the nodes that go.
fn caveats(told: &Consolidation, width: Option<usize>) -> String {
    let all = |list: fn(&Command) -> &[String]| -> Vec<String> {
        told.commands.iter().flat_map(list).cloned().collect()
    };
    let mut text = String::new();
    let lost = all(|command| &command.pods_without_controller);
    if !lost.is_empty() {
        let have = if lost.len() == 1 { "has" } else { "have" };
        let pods = count(lost.len(), "pod");
        let line = format!("{pods} {have} no controller and will not come back: {}", some(&lost));
        text.push_str(&wrap("  ", &line, width));
    }
    // Empty nodes go before drift looks, the others after.
    let is_later = |command: &&Command| command.reason != Reason::Empty.name();
    let later = || told.commands.iter().filter(is_later);
    if !told.drifted.is_empty() && later().next().is_some() {
        let nodes = count(told.drifted.len(), "node");
        let line = format!(
            "drift of {nodes} comes before underutilized nodes, and counts against the same budgets"
        );
        text.push_str(&wrap("  ", &line, width));
    }
    let drifted: Vec<_> = later().flat_map(|command| &command.drifted).cloned().collect();
    if !drifted.is_empty() {
        let (have, them) = if drifted.len() == 1 { ("has", "it") } else { ("have", "them") };
        let nodes = count(drifted.len(), "node");
        let names = some(&drifted);
        let line = format!("{nodes} {have} drifted, drift may replace {them} first: {names}");
        text.push_str(&wrap("  ", &line, width));
    }
    text
}

fn going(told: &Consolidation) -> usize {
    told.commands.iter().map(|command| command.candidates.len()).sum()
}

fn replacements(command: &Command) -> String {
    let one = |claim: &Claim| {
        let others = match claim.instance_types.len().saturating_sub(1) {
            0 => String::new(),
            others => format!(" or {others} more"),
        };
        let zone = match claim.zones.as_slice() {
            [] => String::new(),
            [zone] => format!(", {}", shown(zone)),
            zones => format!(", any of {} zones", zones.len()),
        };
        let (pool, kind) = (shown(&claim.node_pool), shown(&claim.cheapest_type));
        format!("{pool}: {kind}{others}, {}{zone}", shown(&claim.capacity_type))
    };
    let all: Vec<_> = command.replacements.iter().map(one).collect();
    if all.is_empty() { "-".to_owned() } else { all.join("; ") }
}

/// Nodes that stay for one reason.
struct Group<'a> {
    kept: Vec<&'a Kept>,
    /// The objects that are in the way, each once.
    blocked_by: Vec<&'a str>,
}

/// Equal reasons together, the most frequent first. Texts that differ only in the pod that is in
/// the way are equal.
fn groups(kept: &[Kept]) -> Vec<Group<'_>> {
    let mut groups: BTreeMap<(&str, &str, Vec<&str>), Group<'_>> = BTreeMap::new();
    for one in kept {
        let lasting = one.blocked_by.iter().map(String::as_str).filter(|name| !is_pod(name));
        let key = (one.reason, head(one), lasting.collect());
        let group =
            groups.entry(key).or_insert_with(|| Group { kept: Vec::new(), blocked_by: Vec::new() });
        group.kept.push(one);
        for name in &one.blocked_by {
            if !group.blocked_by.contains(&name.as_str()) {
                group.blocked_by.push(name);
            }
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.kept.len()));
    groups
}

fn is_pod(object: &str) -> bool {
    object.starts_with("Pod ")
}

/// The text without what `blocked by` says as well.
fn head(kept: &Kept) -> &str {
    match kept.text.rsplit_once(" (") {
        Some((head, _)) if !kept.blocked_by.is_empty() && kept.text.ends_with(')') => head,
        _ => &kept.text,
    }
}

/// Nodes that consolidation leaves, by reason.
fn stay(title: &str, kept: &[Kept], width: Option<usize>) -> String {
    if kept.is_empty() {
        return String::new();
    }
    let mut text = format!("{title} {}\n", count(kept.len(), "node"));
    let groups = groups(kept);
    for group in groups.iter().take(LINES) {
        let name = |kept: &&Kept| {
            let is_held = kept.drifted && kept.reason != DRIFTED;
            if is_held { format!("{} (drifted)", kept.node) } else { kept.node.clone() }
        };
        let names: Vec<_> = group.kept.iter().map(name).collect();
        let who = match names.as_slice() {
            [node] => shown(node),
            nodes => format!("{} nodes ({})", nodes.len(), some(nodes)),
        };
        text.push_str(&wrap("  ", &format!("{who}: {}", shown(head(group.kept[0]))), width));
        if !group.blocked_by.is_empty() {
            let (mut lasting, pods): (Vec<_>, Vec<_>) =
                group.blocked_by.iter().map(|name| (*name).to_owned()).partition(|n| !is_pod(n));
            lasting.extend(pods);
            let is_forbidden = group.kept[0].reason != "Unconsolidatable";
            let why = if is_forbidden { "    blocked by " } else { "    because of " };
            text.push_str(&wrap(why, &some(&lasting), width));
        }
    }
    text.push_str(&rest(groups.len(), "reasons"));
    text
}

fn summary(told: &Consolidation, width: Option<usize>) -> String {
    let Consolidation { nodes, total_price, total_savings, monthly_savings, .. } = told;
    let (going, nodes) = (going(told), count(*nodes, "node"));
    let monthly = total_price * HOURS_PER_MONTH;
    let bill = format!("they cost ${total_price:.4} an hour, ${monthly:.2} a month");
    let unpriced = unpriced(told);
    if going == 0 {
        return wrap("", &format!("0 of {nodes} would go; {bill}{unpriced}"), width);
    }
    let coming: usize = told.commands.iter().map(|command| command.replacements.len()).sum();
    let mut text = format!("{going} of {nodes} would go, {coming} would come; {bill}; ");
    if told.commands.iter().any(Command::is_priced) {
        let is_known = told.commands.iter().all(|command| command.unpriced.is_empty());
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

/// The nodes that the sums leave out.
fn unpriced(told: &Consolidation) -> String {
    match told.unpriced.as_slice() {
        [] => String::new(),
        [node] => format!("; {} has no known price and is not in the sums", shown(node)),
        nodes => format!("; {} nodes have no known price and are not in the sums", nodes.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(node: &str, reason: &'static str, text: &str, blocked_by: &[&str]) -> Kept {
        let blocked_by = blocked_by.iter().map(|name| (*name).to_owned()).collect();
        Kept { node: node.to_owned(), reason, text: text.to_owned(), blocked_by, drifted: false }
    }

    fn command(candidates: &[&str], savings: f64, replacements: Vec<Claim>) -> Command {
        let candidates: Vec<String> = candidates.iter().map(|name| (*name).to_owned()).collect();
        Command {
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

    fn claim() -> Claim {
        Claim {
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
            amounts: crate::plan::report::Amounts::default(),
        }
    }

    #[test]
    fn what_goes_and_what_stays_is_told_with_its_saving_and_its_reason() {
        let pdb = "Pdb prevents pod evictions (PodDisruptionBudget=[shop/web])";
        let told = Consolidation {
            commands: vec![
                command(&["a", "b", "c", "d"], 0.5, Vec::new()),
                command(&["e"], 0.25, vec![claim()]),
            ],
            total_savings: 0.75,
            monthly_savings: 547.5,
            total_price: 3.0,
            nodes: 10,
            kept: vec![
                kept("f", "Unconsolidatable", "Can't replace with a cheaper node", &[]),
                kept("g", "Blocked", pdb, &["Pod shop/web-1", "PodDisruptionBudget shop/web"]),
                kept("h", "Blocked", pdb, &["Pod shop/web-2", "PodDisruptionBudget shop/web"]),
                kept("i", "Unconsolidatable", "Can't replace with a cheaper node", &[]),
                kept("j", "Unconsolidatable", "Can't replace with a cheaper node", &[]),
            ],
            ..Consolidation::default()
        };
        insta::assert_snapshot!(table(&told, None), @r"
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
    fn texts_that_differ_in_the_pod_only_are_one_reason() {
        let text = |pod: &str| {
            format!("Pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod=default/{pod})")
        };
        let told = Consolidation {
            nodes: 3,
            kept: vec![
                kept("a", "Blocked", &text("x"), &["Pod default/x"]),
                kept("b", "Blocked", &text("y"), &["Pod default/y"]),
                kept("c", "Budget", "No allowed disruptions (10%)", &[]),
            ],
            ..Consolidation::default()
        };
        insta::assert_snapshot!(table(&told, None), @r#"
        STAY 3 nodes
          2 nodes (a, b): Pod has "karpenter.sh/do-not-disrupt" annotation
            blocked by Pod default/x, Pod default/y
          c: No allowed disruptions (10%)

        0 of 3 nodes would go; they cost $0.0000 an hour, $0.00 a month
        "#);
    }
}
