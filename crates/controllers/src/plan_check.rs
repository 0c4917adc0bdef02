//! Verifies plans before the controllers act on them, and reports violations as bugs.
//!
//! The provisioner and the disruption controller verify every plan that they carry out. What breaks
//! a rule is dropped before anything is written; the rest is carried out.

#[cfg(test)]
use std::sync::{Arc, Mutex};

use karpenter_core::disruption::{Command, PassContext, check_commands};
use karpenter_core::plan::Plan;
use karpenter_core::scheduling::Request;
use karpenter_core::verify::{Level, VerifiedPlan, Violation, count_by_rule, verify_plan};
use karpenter_operator::metrics::labels::ControllerRule;
use karpenter_operator::telemetry::json;
use tracing::error;

use crate::Context;

#[cfg(test)]
mod tests;

/// How many bytes of JSON the violations of a log line may have.
const VIOLATION_BYTES_MAX: usize = 8 << 10;
/// The same for the names of pods.
const POD_BYTES_MAX: usize = 4 << 10;
/// The same for the names of nodes and for those of NodePools.
const NODE_BYTES_MAX: usize = 1 << 10;
/// The same for one entry.
const ENTRY_BYTES_MAX: usize = 512;

/// Verifies plans and commands with the level of the process.
#[derive(Clone, Debug)]
pub(crate) struct PlanCheck {
    pub(crate) level: Level,
    #[cfg(test)]
    pub(crate) corruption: Arc<Mutex<Corruption>>,
}

/// Changes plans before they are verified, as a bug of the solver would.
#[cfg(test)]
#[derive(Default)]
pub(crate) struct Corruption {
    pub(crate) plan: Option<PlanChange>,
    pub(crate) commands: Option<CommandsChange>,
}

#[cfg(test)]
pub(crate) type PlanChange = Box<dyn FnMut(&Request<'_>, &mut Plan) + Send>;
#[cfg(test)]
pub(crate) type CommandsChange = Box<dyn FnMut(&PassContext<'_>, &mut Vec<Command>) + Send>;

#[cfg(test)]
impl std::fmt::Debug for Corruption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Corruption").finish_non_exhaustive()
    }
}

/// A disruption command that breaks rules.
#[derive(Clone, Debug)]
pub(crate) struct InvalidCommand {
    pub(crate) command: Command,
    pub(crate) violations: Vec<Violation>,
}

impl PlanCheck {
    /// Creates the check of a process.
    pub(crate) fn new(level: Level) -> Self {
        Self {
            level,
            #[cfg(test)]
            corruption: Arc::default(),
        }
    }

    /// Returns the plan without the placements that break a rule.
    pub(crate) fn verify_plan(&self, request: &Request<'_>, plan: Plan) -> VerifiedPlan {
        #[cfg(test)]
        let plan = self.corrupt_plan(request, plan);
        verify_plan(request, plan, self.level)
    }

    /// Splits the commands of a pass into valid and invalid ones.
    pub(crate) fn verify_commands(
        &self,
        context: &PassContext<'_>,
        commands: Vec<Command>,
    ) -> (Vec<Command>, Vec<InvalidCommand>) {
        #[cfg(test)]
        let commands = self.corrupt_commands(context, commands);
        if commands.is_empty() {
            return (commands, Vec::new());
        }
        let violations = check_commands(context, &commands, self.level);
        let (mut valid, mut invalid) = (Vec::new(), Vec::new());
        for (command, violations) in commands.into_iter().zip(violations) {
            if violations.is_empty() {
                valid.push(command);
            } else {
                invalid.push(InvalidCommand { command, violations });
            }
        }
        (valid, invalid)
    }

    #[cfg(test)]
    fn corrupt_plan(&self, request: &Request<'_>, mut plan: Plan) -> Plan {
        if let Some(change) = &mut self.corruption.lock().unwrap().plan {
            change(request, &mut plan);
        }
        plan
    }

    #[cfg(test)]
    fn corrupt_commands(
        &self,
        context: &PassContext<'_>,
        mut commands: Vec<Command>,
    ) -> Vec<Command> {
        if let Some(change) = &mut self.corruption.lock().unwrap().commands {
            change(context, &mut commands);
        }
        commands
    }
}

/// The objects of the dropped part of a plan, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct DroppedObjects {
    pub(crate) pods: Vec<String>,
    pub(crate) nodes: Vec<String>,
    pub(crate) node_pools: Vec<String>,
}

impl DroppedObjects {
    /// Returns the nodes and NodePools of a command.
    pub(crate) fn of_command(command: &Command) -> Self {
        Self {
            pods: Vec::new(),
            nodes: command.candidates.iter().map(|candidate| candidate.name.clone()).collect(),
            node_pools: command.pools().into_iter().map(str::to_owned).collect(),
        }
    }
}

/// Counts the violations and logs them as a bug. A log line has at most 16 KiB.
#[expect(clippy::cast_precision_loss, reason = "a number of violations")]
pub(crate) fn report_violations(
    context: &Context,
    controller: &'static str,
    violations: &[Violation],
    dropped: &DroppedObjects,
) {
    if violations.is_empty() {
        return;
    }
    for (rule, count) in count_by_rule(violations) {
        context.metrics.plan_violations.add(&ControllerRule { controller, rule }, count as f64);
    }
    let texts = violations.iter().map(ToString::to_string);
    let names = |names: &[String], most: usize| limited_list(names.iter().cloned(), most);
    error!(
        count = violations.len(),
        violations = ?json(&limited_list(texts, VIOLATION_BYTES_MAX)),
        Pods = ?json(&names(&dropped.pods, POD_BYTES_MAX)),
        Nodes = ?json(&names(&dropped.nodes, NODE_BYTES_MAX)),
        NodePools = ?json(&names(&dropped.node_pools, NODE_BYTES_MAX)),
        "dropping invalid part of plan, this is a bug: please report it"
    );
}

/// Returns the first texts that fit in so many bytes of JSON, and the number of the others.
fn limited_list(texts: impl Iterator<Item = String>, bytes_max: usize) -> Vec<String> {
    let mut texts = texts.peekable();
    let (mut list, mut bytes) = (Vec::new(), 0);
    while let Some(text) = texts.next() {
        let text = shortened(text);
        bytes += json_bytes(&text);
        // The last entry has room for the number of the others.
        if bytes > bytes_max - 64 {
            list.push(format!("and {} other(s)", texts.count() + 1));
            break;
        }
        list.push(text);
    }
    list
}

/// Cuts a text that is too long for one entry.
fn shortened(mut text: String) -> String {
    while json_bytes(&text) > ENTRY_BYTES_MAX {
        let half = text.chars().count() / 2;
        text = text.chars().take(half).chain("...".chars()).collect();
    }
    text
}

/// Returns the size of a text as an entry of a JSON list.
fn json_bytes(text: &str) -> usize {
    serde_json::to_string(text).map_or(text.len(), |json| json.len()) + 1
}
