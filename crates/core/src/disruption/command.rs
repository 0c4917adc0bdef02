//! Commands: the nodes to remove and their replacements, and why other nodes are retained.

use std::fmt;

use jiff::SignedDuration;

use super::repair::RepairDecision;
use super::{Candidate, Method, Reason};
use crate::id::NodeId;
use crate::plan::{Plan, PlannedNodeClaim};

/// Nodes to remove together, and what has to be ready before.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// How it was found.
    pub method: Method,
    /// The nodes that go.
    pub candidates: Vec<Candidate>,
    /// The nodes that have to be initialized before the candidates are deleted.
    pub replacements: Vec<Replacement>,
    /// Where their pods go, by ids of the snapshot it was decided on: which nodes to nominate.
    pub plan: Plan,
    /// What it saves per hour.
    pub savings: f64,
    /// Why the node is terminated before its replacement launches, if it is.
    pub terminate_first: Option<TerminateFirstReason>,
    /// Whether the node is restarted instead of removed.
    pub is_reboot: bool,
    /// How long the drain may take at most, where repair bounds it.
    pub drain_bound: Option<SignedDuration>,
    /// Why the node is repaired.
    pub repair: Option<RepairDecision>,
    /// Scores of Balanced NodePools, by name.
    pub scores: Vec<super::PoolScore>,
}

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Decision {
    /// Nothing.
    NoOp,
    /// Removes nodes.
    Delete,
    /// Removes nodes when others are ready.
    Replace,
    /// Removes a node so that another can come.
    TerminateFirst,
    /// Restarts a node.
    Reboot,
}

impl Decision {
    /// The name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoOp => "no-op",
            Self::Delete => "delete",
            Self::Replace => "replace",
            Self::TerminateFirst => "terminate-first",
            Self::Reboot => "reboot",
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a node is terminated before its replacement launches (spec 45 §8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TerminateFirstReason {
    /// The only capacity is the slot of a full reservation that the node holds.
    NoReservedCapacity,
    /// A static NodePool may have no more nodes.
    StaticAtLimit,
}

impl TerminateFirstReason {
    /// The name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoReservedCapacity => "no-reserved-capacity",
            Self::StaticAtLimit => "static-at-limit",
        }
    }
}

/// A node that launches before the candidates are removed.
#[derive(Clone, Debug, PartialEq)]
pub enum Replacement {
    /// As the scheduler planned it, with what consolidation left of its instance types and
    /// requirements.
    Planned(PlannedNodeClaim),
    /// Whatever the template of a static NodePool gives.
    Template {
        /// The pool's name.
        pool: String,
    },
}

impl Replacement {
    /// What the scheduler planned.
    pub fn planned(&self) -> Option<&PlannedNodeClaim> {
        match self {
            Self::Planned(claim) => Some(claim),
            Self::Template { .. } => None,
        }
    }
}

impl Command {
    /// What it does.
    pub fn decision(&self) -> Decision {
        if self.candidates.is_empty() {
            Decision::NoOp
        } else if self.is_reboot {
            Decision::Reboot
        } else if !self.replacements.is_empty() {
            Decision::Replace
        } else if self.terminate_first.is_some() {
            Decision::TerminateFirst
        } else {
            Decision::Delete
        }
    }

    /// Why.
    pub fn reason(&self) -> Reason {
        self.method.reason()
    }

    /// How many pods are moved.
    pub fn pod_count(&self) -> usize {
        self.candidates.iter().map(|candidate| candidate.pods.len()).sum()
    }

    /// What the nodes that go cost per hour.
    pub fn source_price(&self) -> f64 {
        self.candidates.iter().map(|candidate| candidate.price).sum()
    }

    /// The NodePools of the nodes that go, each once, in the order of the nodes.
    pub fn pools(&self) -> Vec<&str> {
        let mut pools = Vec::new();
        for candidate in &self.candidates {
            if !pools.contains(&candidate.pool.as_str()) {
                pools.push(candidate.pool.as_str());
            }
        }
        pools
    }

    /// Returns the text of the command in logs, with an id (spec 30 §12.5).
    pub fn describe(&self, id: &str) -> String {
        let names: Vec<_> = self.candidates.iter().map(|one| one.name.as_str()).collect();
        format!(
            "{}/{id}: {}: nodepools=[{}]: [{}]{} (savings: ${:.2})",
            self.reason(),
            self.decision(),
            self.pools().join(","),
            names.join(", "),
            self.replacements_text(),
            self.savings,
        )
    }

    /// Returns the text of the command in events on a node (spec 30 §12.2).
    pub fn describe_for_node(&self, node: &str) -> String {
        match self.candidates.len() {
            1 => format!("{}: [{node}]{}", self.decision(), self.replacements_text()),
            count => {
                format!("{}: [{node}] (part of {count}-node consolidation)", self.decision())
            }
        }
    }

    fn replacements_text(&self) -> String {
        match self.replacements.len() {
            0 => String::new(),
            1 => " -> [1 replacement]".to_owned(),
            count => format!(" -> [{count} replacements]"),
        }
    }
}

/// A node that no command of the pass removes, with the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct RetainedNode {
    /// The node's name.
    pub node: String,
    /// In one word: `Blocked`, `Budget`, `Unconsolidatable` and so on.
    pub reason: &'static str,
    /// In a sentence, as events have it.
    pub text: String,
    /// The objects that are in the way, each as `Kind namespace/name`.
    pub blocked_by: Vec<String>,
    /// What drift does about it, if it has drifted.
    pub drift: Option<DriftStatus>,
}

/// What the drift methods do about a retained node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriftStatus {
    /// It replaces the node in its turn.
    Due {
        /// In a sentence.
        text: String,
    },
    /// Nothing: drift must not disrupt the node.
    Blocked,
    /// Nothing: drift may disrupt the node, but cannot replace it.
    /// Only evaluated with [`explain_drift`](super::Settings::explain_drift).
    CannotReplace {
        /// In a sentence, as drift's own events have it.
        text: String,
        /// The objects that are in the way, each as `Kind namespace/name`.
        blocked_by: Vec<String>,
    },
}

/// An event to publish on a Node and its NodeClaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEvent {
    /// The node.
    pub node: NodeId,
    /// The method that emits it.
    pub method: Method,
    /// Its kind.
    pub kind: NodeEventKind,
    /// The message.
    pub text: String,
}

/// The kind of a node event; sets the reason of the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeEventKind {
    /// `DisruptionBlocked`.
    Blocked,
    /// `Unconsolidatable`.
    Unconsolidatable,
    /// `ConsolidationCandidate`.
    ConsolidationCandidate,
    /// `NodeRepairBlocked`, a warning, also on the NodePool.
    RepairBlocked,
}

/// The result of a disruption pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PassOutcome {
    /// The commands, in this order.
    /// Together they are consistent and within the budgets.
    pub commands: Vec<Command>,
    /// Every node that no command removes, by name.
    pub retained_nodes: Vec<RetainedNode>,
    /// Methods that found nothing, limited neither by a budget nor by time.
    /// They need not run again until something changes.
    pub settled: Vec<Method>,
    /// NodePools that single-node consolidation did not reach.
    pub unseen_pools: Vec<String>,
    /// Methods that ran out of time.
    pub timed_out: Vec<Method>,
    /// The number of candidates of each method that ran.
    pub eligible_counts: Vec<(Method, usize)>,
    /// The events to publish on nodes, in order.
    pub node_events: Vec<NodeEvent>,
    /// The scores of moves that policy Balanced rejected.
    pub rejected_scores: Vec<super::PoolScore>,
}
