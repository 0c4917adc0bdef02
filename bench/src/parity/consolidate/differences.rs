//! Finds where our consolidation commands leave the range of upstream's runs.

use std::collections::BTreeSet;
use std::fmt;

use super::settle::SettledCluster;
use crate::consolidation::{Command, ConsolidationDecision};

/// How a decision leaves what upstream does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Difference {
    /// The search `upstream` found other commands. Compared with upstream's first run.
    Commands { ours: Vec<String>, upstream: Vec<String> },
    /// The search `best` saves less.
    SavesLess { ours: f64, highest: f64 },
    /// Our bill is higher after all commands are carried out.
    HigherPrice { ours: f64, upstream: f64 },
    /// New commands appear without end.
    NeverSettles { rounds: usize },
    /// Pods that ran have no node any more.
    PodsWithoutNode { pods: Vec<String> },
}

/// Sums of the same prices in another order differ in the last digits.
const ROUNDING: f64 = 1e-9;

/// Returns where our decisions leave the range of upstream's runs.
pub(super) fn find_differences(
    same: &ConsolidationDecision,
    best: &ConsolidationDecision,
    runs: &[ConsolidationDecision],
) -> Vec<Difference> {
    let mut differences = Vec::new();
    let is_one_of_them = runs.iter().any(|run| equal_commands(&same.commands, &run.commands));
    if !is_one_of_them && !is_choice_of_empty_nodes(&same.commands, runs) {
        let upstream = runs.first().map(|run| command_texts(&run.commands)).unwrap_or_default();
        differences.push(Difference::Commands { ours: command_texts(&same.commands), upstream });
    }
    let (ours, highest) =
        (best.savings(), runs.iter().map(ConsolidationDecision::savings).fold(0.0, f64::max));
    if ours < highest - ROUNDING {
        differences.push(Difference::SavesLess { ours, highest });
    }
    differences
}

/// Whether our empty nodes are a choice that upstream could make.
/// When a budget does not allow all of them, upstream's map order draws which ones go: as many must
/// go, each of which goes in some run. There are more choices than the runs show.
fn is_choice_of_empty_nodes(ours: &[Command], runs: &[ConsolidationDecision]) -> bool {
    let [ours] = ours else { return false };
    let mut going = BTreeSet::new();
    for run in runs {
        let [theirs] = run.commands.as_slice() else { return false };
        if theirs.method != "empty" || theirs.candidates.len() != ours.candidates.len() {
            return false;
        }
        going.extend(&theirs.candidates);
    }
    ours.method == "empty" && ours.candidates.iter().all(|node| going.contains(node))
}

/// Returns how our settled cluster is worse than upstream's.
pub(super) fn settling_differences(
    ours: &SettledCluster,
    upstream: &SettledCluster,
) -> Vec<Difference> {
    let mut differences = Vec::new();
    if !ours.is_settled {
        differences.push(Difference::NeverSettles { rounds: ours.rounds });
    }
    let homeless = ours.pods_without_node.difference(&upstream.pods_without_node);
    let homeless: Vec<_> = homeless.cloned().collect();
    if !homeless.is_empty() {
        differences.push(Difference::PodsWithoutNode { pods: homeless });
    }
    if ours.price > upstream.price + ROUNDING
        && upstream.pods_without_node.is_subset(&ours.pods_without_node)
    {
        differences.push(Difference::HigherPrice { ours: ours.price, upstream: upstream.price });
    }
    differences
}

/// Whether the commands are equal, except for rounding of their savings.
pub(super) fn equal_commands(a: &[Command], b: &[Command]) -> bool {
    let same = |(a, b): (&Command, &Command)| {
        (&a.method, &a.decision, &a.candidates, &a.replacements)
            == (&b.method, &b.decision, &b.candidates, &b.replacements)
            && (a.savings - b.savings).abs() < ROUNDING
    };
    a.len() == b.len() && a.iter().zip(b).all(same)
}

fn command_texts(commands: &[Command]) -> Vec<String> {
    commands.iter().map(command_text).collect()
}

/// Formats a command as one line.
fn command_text(command: &Command) -> String {
    let Command { method, decision, candidates, replacements, savings, .. } = command;
    let one = |replacement: &crate::consolidation::Replacement| {
        let (types, requirements) = (&replacement.instance_types, &replacement.requirements);
        let names = match types.as_slice() {
            [first, _, .., last] => format!("{first} .. {last}"),
            few => few.join(" "),
        };
        let own = ["karpenter.sh/capacity-type", "topology.kubernetes.io/zone"];
        let own: Vec<_> = requirements
            .iter()
            .filter(|text| own.iter().any(|key| text.starts_with(key)))
            .map(String::as_str)
            .collect();
        format!("{} ({}: {names}) {}", replacement.node_pool, types.len(), own.join(", "))
    };
    let replacements: Vec<_> = replacements.iter().map(one).collect();
    format!(
        "{method} {decision} [{}] -> [{}] saves {savings:.6}",
        candidates.join(" "),
        replacements.join("; ")
    )
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Commands { ours, upstream } => {
                write!(
                    f,
                    "commands\n    ours: {}\n    upstream: {}",
                    ours.join(" | "),
                    upstream.join(" | ")
                )
            }
            Self::SavesLess { ours, highest } => {
                write!(f, "best saves {ours:.6}, upstream at most {highest:.6}")
            }
            Self::HigherPrice { ours, upstream } => {
                write!(f, "settles at {ours:.6} an hour, with upstream at {upstream:.6}")
            }
            Self::NeverSettles { rounds } => write!(f, "still changes after {rounds} rounds"),
            Self::PodsWithoutNode { pods } => write!(f, "no place any more: {}", pods.join(" ")),
        }
    }
}
