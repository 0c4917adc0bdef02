//! Reads the product's disruption commands from its log, and checks each of them.
//!
//! | when | must hold |
//! |---|---|
//! | a command starts | with it, no more nodes of a pool are disrupted than its budgets allow |
//! | its nodes are deleted | all its replacements are ready |
//! | its nodes are deleted | its replacements cost less, if it consolidates at stable prices |

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use karpenter_api::condition_set::{HasConditions as _, is_true};
use karpenter_api::conditions::{DISRUPTION_REASON, INITIALIZED, INSTANCE_TERMINATING};
use karpenter_api::labels;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use karpenter_core::disruption::Reason;
use karpenter_core::disruption::budget::{Budget, NodeCounts, allowance};
use kube::ResourceExt as _;
use serde_json::Value;

use super::log_subscriber::LogLine;

#[cfg(test)]
mod tests;

/// The longest time from the observation of a command's decision to its start.
const MAX_DECISION_AGE: SignedDuration = SignedDuration::from_mins(2);

/// A disruption command of the product, as its log reports it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Command {
    pub(super) id: String,
    pub(super) reason: Reason,
    pub(super) at: Timestamp,
    /// The NodeClaims that go.
    pub(super) sources: Vec<String>,
    /// The NodeClaims that come instead; none before they are made.
    pub(super) replacements: Option<Vec<String>>,
    /// What the sources cost per hour at the begin, if that is known.
    pub(super) cost: Option<f64>,
    /// Whether it was given up.
    pub(super) has_failed: bool,
}

/// The commands so far, in their order.
#[derive(Debug, Default)]
pub(super) struct Commands {
    pub(super) all: Vec<Command>,
    /// The number of commands whose start the write checker has checked.
    /// A number and not an id: a restarted process draws the same ids again.
    checked_count: usize,
}

impl Commands {
    /// Records a log line about a command; returns whether a command has started.
    pub(super) fn record_log_line(&mut self, line: &LogLine, now: Timestamp) -> bool {
        // `Underutilized/0b7e…: replace: …`
        let (reason, rest) = line.field("command").split_once('/').unwrap_or_default();
        let id = rest.split(':').next().unwrap_or_default();
        match line.message.as_str() {
            "disrupting node(s)" => {
                let Some(reason) = Reason::from_name(reason) else { return false };
                let nodes = json(line.field("disrupted-nodes"));
                let name = |node: &Value| node["NodeClaim"]["name"].as_str().map(str::to_owned);
                self.all.push(Command {
                    id: id.to_owned(),
                    reason,
                    at: now,
                    sources: nodes.iter().filter_map(name).collect(),
                    replacements: None,
                    cost: None,
                    has_failed: false,
                });
                return true;
            }
            "command is under way" => {
                let names = json(line.field("replacement-nodeclaims"));
                let names = names.iter().filter_map(Value::as_str).map(str::to_owned).collect();
                if let Some(command) = self.get_mut(id) {
                    command.replacements = Some(names);
                }
            }
            "failed terminating nodes while executing a disruption command" => {
                if let Some(command) = self.get_mut(id) {
                    command.has_failed = true;
                }
            }
            _ => {}
        }
        false
    }

    pub(super) fn get_mut(&mut self, id: &str) -> Option<&mut Command> {
        self.all.iter_mut().rev().find(|command| command.id == id)
    }

    /// Returns the commands that have started since the last call.
    pub(super) fn take_unchecked(&mut self) -> Vec<Command> {
        let first = std::mem::replace(&mut self.checked_count, self.all.len());
        self.all[first..].to_vec()
    }

    /// Skips the check of started commands, since their process was killed.
    pub(super) fn skip_unchecked(&mut self) {
        self.checked_count = self.all.len();
    }

    /// Returns the last command with this source NodeClaim, if it is active.
    /// Its replacements are created and it has not failed.
    pub(super) fn active_command_for(&self, source: &str) -> Option<&Command> {
        let is_its = |command: &&Command| command.sources.iter().any(|name| name == source);
        let last = self.all.iter().rev().find(is_its)?;
        (last.replacements.is_some() && !last.has_failed).then_some(last)
    }

    /// Returns how many nodes the commands from this one on remove.
    /// Commands that could not start, such as for the limits of a NodePool, remove none.
    pub(super) fn removals_since(&self, first: usize) -> usize {
        let begun = self.all.iter().skip(first).filter(|command| command.replacements.is_some());
        begun.map(|command| command.sources.len()).sum()
    }
}

/// A list in a log.
fn json(text: &str) -> Vec<Value> {
    let list = text.find('[').and_then(|at| serde_json::from_str(&text[at..]).ok());
    list.unwrap_or_default()
}

/// Reports NodePools of which started commands take more nodes than budgets allow.
/// Nodes that go for other reasons, such as manual deletion or repair, do not count: they may have
/// gone in between.
pub(super) fn budget_violations(
    begun: &[Command],
    pools: &[NodePool],
    claims: &[NodeClaim],
    now: Timestamp,
) -> Vec<String> {
    let mut found = Vec::new();
    for pool in pools {
        let name = pool.name_any();
        let own = claims.iter().filter(|claim| {
            claim.labels().get(labels::NODEPOOL) == Some(&name)
                && is_true(claim.conditions(), INITIALIZED)
                && !is_true(claim.conditions(), INSTANCE_TERMINATING)
        });
        let own: BTreeMap<String, &NodeClaim> =
            own.map(|claim| (claim.name_any(), claim)).collect();
        let total = u32::try_from(own.len()).unwrap_or(u32::MAX);
        let is_new = |name: &String| begun.iter().any(|command| command.sources.contains(name));
        let is_old = |claim: &NodeClaim| is_true(claim.conditions(), DISRUPTION_REASON);
        let old = own.iter().filter(|(name, claim)| !is_new(name) && is_old(claim));
        let mut going: BTreeSet<&String> = old.map(|(name, _)| name).collect();
        // One after the other: a budget for its reason says nothing about those that follow.
        for command in begun {
            let before = going.len();
            going.extend(command.sources.iter().filter(|name| own.contains_key(*name)));
            let allowed = most_allowed(pool, command.reason, total, now);
            if going.len() > before && going.len() > allowed {
                let (going, reason) = (going.len(), command.reason);
                found.push(format!(
                    "{going} of {total} nodes of NodePool {name} are disrupted at once, of {allowed} for {reason}"
                ));
            }
        }
    }
    found
}

/// Returns how many of `total` nodes may be disrupted at once for the reason.
/// The decision was made a moment ago, when a schedule may have allowed more.
fn most_allowed(pool: &NodePool, reason: Reason, total: u32, now: Timestamp) -> usize {
    let (budgets, counts) = (budgets(pool), NodeCounts { total, disrupting: 0 });
    let allowed =
        [now, now - MAX_DECISION_AGE].map(|time| allowance(&budgets, reason, time, counts).allowed);
    usize::try_from(allowed[0].max(allowed[1])).unwrap_or(usize::MAX)
}

fn budgets(pool: &NodePool) -> Vec<Budget> {
    let disruption = pool.spec.disruption.as_ref();
    let Some(budgets) = disruption.and_then(|disruption| disruption.budgets.as_ref()) else {
        let usual = "10%".to_owned();
        return vec![Budget { nodes: usual, schedule: None, duration: None, reasons: None }];
    };
    let named = |reasons: &Vec<String>| -> Vec<Reason> {
        reasons.iter().filter_map(|name| Reason::from_name(name)).collect()
    };
    let read = |budget: &karpenter_api::nodepool::Budget| Budget {
        nodes: budget.nodes.clone(),
        schedule: budget.schedule.clone(),
        duration: budget.duration.as_ref().map(ToString::to_string),
        reasons: budget.reasons.as_ref().map(named),
    };
    budgets.iter().map(read).collect()
}

/// Returns existing replacements of a command that are not initialized.
/// A replacement that was ready and is gone does not matter.
pub(super) fn unready_replacements<'a>(
    command: &Command,
    claims: &'a [NodeClaim],
) -> Vec<&'a NodeClaim> {
    let names = command.replacements.iter().flatten();
    let found = names.filter_map(|name| claims.iter().find(|claim| claim.name_any() == *name));
    found.filter(|claim| !is_true(claim.conditions(), INITIALIZED)).collect()
}

/// Returns whether the command must reduce the cost at current prices.
/// `changed` is when prices last changed.
pub(super) fn must_reduce_cost(command: &Command, changed: Option<Timestamp>) -> bool {
    matches!(command.reason, Reason::Underutilized | Reason::Empty)
        && changed.is_none_or(|changed| changed + MAX_DECISION_AGE < command.at)
}
