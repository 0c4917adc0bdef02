//! The product's commands, as its log tells of them, and what must hold for each.
//!
//! | when | must hold |
//! |---|---|
//! | a command begins | with it, no more nodes of a pool are going than a budget allows for its reason |
//! | its nodes go | everything that it launched in their place is ready |
//! | its nodes go | what it launched costs less than they do, if it is about money |

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

/// From the look that a command is decided on to its begin, at the most.
const MAX_DECISION_AGE: SignedDuration = SignedDuration::from_mins(2);

/// What is known of a command.
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
    /// Of how many somebody has looked at the begin. By number: a process that is started again
    /// draws the same ids again.
    checked_count: usize,
}

impl Commands {
    /// Takes in what the log says. Whether a command has begun.
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

    /// Those that have begun since the last call.
    pub(super) fn take_unchecked(&mut self) -> Vec<Command> {
        let first = std::mem::replace(&mut self.checked_count, self.all.len());
        self.all[first..].to_vec()
    }

    /// Nobody carries them out any more.
    pub(super) fn skip_unchecked(&mut self) {
        self.checked_count = self.all.len();
    }

    /// The last one that is about the claim, if its replacements are made and it has not failed.
    pub(super) fn active_command_for(&self, source: &str) -> Option<&Command> {
        let is_its = |command: &&Command| command.sources.iter().any(|name| name == source);
        let last = self.all.iter().rev().find(is_its)?;
        (last.replacements.is_some() && !last.has_failed).then_some(last)
    }

    /// How many nodes were to go because of commands from that one on. Those that could not begin,
    /// such as for want of room within the limits of a pool, have moved nothing.
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

/// Pools of which commands that begin now take more nodes than a budget allows. What else goes, by
/// hand or because it is broken, is left out: it may have come in between.
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

/// How many of so many nodes may go at once. The decision was made a moment ago, when a schedule may
/// have allowed more.
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

/// Replacements of a command that are there and not ready. One that was, and has gone since, does
/// not matter.
pub(super) fn unready_replacements<'a>(
    command: &Command,
    claims: &'a [NodeClaim],
) -> Vec<&'a NodeClaim> {
    let names = command.replacements.iter().flatten();
    let found = names.filter_map(|name| claims.iter().find(|claim| claim.name_any() == *name));
    found.filter(|claim| !is_true(claim.conditions(), INITIALIZED)).collect()
}

/// Whether the command has to save money at the prices of the moment; `changed` is when they last
/// changed.
pub(super) fn must_reduce_cost(command: &Command, changed: Option<Timestamp>) -> bool {
    matches!(command.reason, Reason::Underutilized | Reason::Empty)
        && changed.is_none_or(|changed| changed + MAX_DECISION_AGE < command.at)
}
