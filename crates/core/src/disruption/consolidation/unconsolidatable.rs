//! Why a node is not consolidated, with the texts of events (spec 30 §6.1, §6.4, §6.5).

use std::fmt;

use jiff::Timestamp;

use super::PoolScore;
use crate::disruption::failed_consolidation::Workload;
use crate::id::PodId;
use crate::snapshot::Snapshot;

/// Why a node, or a set of them, is not consolidated. Shown as the event says it.
#[derive(Clone, Debug, PartialEq)]
pub enum Unconsolidatable {
    /// Its NodePool is static.
    Static,
    /// The catalog does not know its instance type.
    UnknownInstanceType {
        /// The label's value.
        label: String,
    },
    /// The node lacks a required label.
    MissingLabel {
        /// The label.
        key: &'static str,
    },
    /// Its NodePool does not consolidate.
    Disabled {
        /// The pool.
        pool: String,
    },
    /// The node holds virtual pods of a CapacityBuffer.
    HasBufferPods {
        /// The node.
        node: String,
    },
    /// It has no pods: emptiness removes it.
    Empty,
    /// It has pods: only consolidation can move them.
    NotEmpty,
    /// It has pods, and its NodePool removes empty nodes only.
    WhenEmpty {
        /// The pool.
        pool: String,
    },
    /// It is not marked Consolidatable (yet).
    NotConsolidatable,
    /// A recent consolidation of a workload on the node failed.
    FailedConsolidation {
        /// The kind of their controller.
        kind: String,
        /// Its `namespace/name`.
        name: String,
        /// When it is tried again at the latest.
        until: Timestamp,
    },
    /// Some pods would not be scheduled without the node.
    UnschedulablePods {
        /// Which and why.
        text: String,
        /// The pods.
        pods: Vec<PodId>,
    },
    /// The pods need more new nodes than allowed.
    TooManyReplacements {
        /// How many.
        claims: usize,
        /// The pods that ask for them, as far as they are known.
        pods: Vec<PodId>,
    },
    /// The cheaper instance types do not satisfy minValues.
    MinValuesUnmet {
        /// Which.
        text: String,
    },
    /// No other instance type costs less.
    NoCheaperInstanceType {
        /// The pods that ask for it, as far as they are known.
        pods: Vec<PodId>,
    },
    /// The replacement could have the type of a removed node.
    SameType,
    /// A spot node would be replaced by a spot node, which is switched off.
    SpotToSpotDisabled,
    /// Too few types for a spot node cost less.
    SpotToSpotInflexible {
        /// How many do.
        options: usize,
    },
    /// Policy Balanced rejects the score.
    ScoreTooLow {
        /// How it scores.
        scores: Vec<PoolScore>,
    },
    /// A budget of its NodePool allows no more.
    Budget {
        /// The pool.
        pool: String,
    },
    /// A recent command launched the node for a larger saving.
    LaunchedRecently,
    /// Another command of the pass moves pods to the node.
    Destination,
    /// Another command of the pass places pending pods on the node.
    PendingPodDestination,
    /// The search ran out of time.
    TimedOut,
}

impl Unconsolidatable {
    /// Returns the reason for a workload in backoff after failures.
    pub(super) fn failed_consolidation(workload: Workload<'_>, until: Timestamp) -> Self {
        let Workload { namespace, kind, name } = workload;
        Self::FailedConsolidation {
            kind: kind.to_owned(),
            name: format!("{namespace}/{name}"),
            until,
        }
    }

    /// Whether an event reports the reason.
    pub fn is_published(&self) -> bool {
        !matches!(
            self,
            Self::Static
                | Self::Empty
                | Self::NotEmpty
                | Self::NotConsolidatable
                | Self::SameType
                | Self::ScoreTooLow { .. }
                | Self::Budget { .. }
                | Self::LaunchedRecently
                | Self::Destination
                | Self::PendingPodDestination
                | Self::TimedOut
        )
    }

    /// In one word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Budget { .. } => "Budget",
            Self::TimedOut => "NotEvaluated",
            _ => "Unconsolidatable",
        }
    }

    /// The objects that are in the way, each as `Kind namespace/name`.
    pub fn blocked_by(&self, snapshot: &Snapshot) -> Vec<String> {
        match self {
            Self::UnschedulablePods { pods, .. }
            | Self::TooManyReplacements { pods, .. }
            | Self::NoCheaperInstanceType { pods } => {
                pods.iter().map(|&pod| format!("Pod {}", snapshot.pod(pod).full_name())).collect()
            }
            Self::Budget { pool } | Self::Disabled { pool } | Self::WhenEmpty { pool } => {
                vec![format!("NodePool {pool}")]
            }
            Self::FailedConsolidation { kind, name, .. } => vec![format!("{kind} {name}")],
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Unconsolidatable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static => f.write_str("NodePool is static"),
            Self::UnknownInstanceType { label } => write!(f, "Instance Type {label:?} not found"),
            Self::MissingLabel { key } => write!(f, "Node does not have label {key:?}"),
            Self::Disabled { pool } => write!(f, "NodePool {pool:?} has consolidation disabled"),
            Self::HasBufferPods { node } => write!(f, "Node {node:?} has buffer pods"),
            Self::Empty => f.write_str("Node is empty"),
            Self::NotEmpty => f.write_str("Node is not empty"),
            Self::WhenEmpty { pool } => write!(
                f,
                "NodePool {pool:?} has consolidation policy WhenEmpty, but node is not empty"
            ),
            Self::NotConsolidatable => f.write_str("Node is not consolidatable yet"),
            Self::FailedConsolidation { kind, name, until } => write!(
                f,
                "Pods of {kind} {name} found no room after the last consolidation, which is tried \
                 again by {until:.0}"
            ),
            Self::UnschedulablePods { text, .. } => f.write_str(text),
            Self::TooManyReplacements { claims, .. } => {
                write!(f, "Can't remove without creating {claims} candidates")
            }
            Self::MinValuesUnmet { text } => write!(f, "Filtering by price: {text}"),
            Self::NoCheaperInstanceType { .. } => f.write_str("Can't replace with a cheaper node"),
            Self::SameType => {
                f.write_str("Can't replace with a node cheaper than each of the same type")
            }
            Self::SpotToSpotDisabled => f.write_str(
                "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node",
            ),
            Self::SpotToSpotInflexible { options } => write!(
                f,
                "SpotToSpotConsolidation requires {} cheaper instance type options than the \
                 current candidate to consolidate, got {options}",
                super::spot_to_spot::MIN_INSTANCE_TYPES,
            ),
            Self::ScoreTooLow { scores } => {
                let scores: Vec<_> = scores
                    .iter()
                    .filter(|score| !score.is_approved())
                    .map(|score| format!("{:.2} for NodePool {:?}", score.score(), score.pool))
                    .collect();
                write!(f, "Savings are not worth the disruption (score {})", scores.join(", "))
            }
            Self::Budget { pool } => {
                write!(f, "Disruption budgets of NodePool {pool:?} allow no more disruptions")
            }
            Self::LaunchedRecently => {
                f.write_str("Node was launched recently to save more than its removal would")
            }
            Self::Destination => f.write_str("Pods of other nodes are about to be moved here"),
            Self::PendingPodDestination => {
                f.write_str("Pending pods are about to be scheduled here")
            }
            Self::TimedOut => f.write_str("No time was left to look at the node"),
        }
    }
}
