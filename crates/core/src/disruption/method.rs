//! The ways to disrupt nodes, in the order in which they are tried (spec 30 §2, spec 45 §5.1).

use super::Reason;

/// A way to disrupt nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Replaces or restarts unhealthy nodes.
    Repair,
    /// Removes nodes without pods.
    Emptiness,
    /// Replaces drifted nodes of static NodePools.
    StaticDrift,
    /// Replaces drifted nodes.
    Drift,
    /// Removes several nodes, for one at most.
    MultiNode,
    /// Removes one node, for one at most.
    SingleNode,
}

/// How a method treats pods that block disruption (spec 30 §3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DisruptionClass {
    /// Respects them always.
    Graceful,
    /// Respects them unless the NodeClaim bounds the drain of the node.
    Eventual,
    /// Ignores them and bounds the drain itself.
    Repair,
}

impl Method {
    /// All, in the order in which they are tried.
    pub const ALL: [Self; 6] = [
        Self::Repair,
        Self::Emptiness,
        Self::StaticDrift,
        Self::Drift,
        Self::MultiNode,
        Self::SingleNode,
    ];

    /// Why it disrupts, as budgets and conditions name it.
    pub fn reason(self) -> Reason {
        match self {
            Self::Repair => Reason::Unhealthy,
            Self::Emptiness => Reason::Empty,
            Self::StaticDrift | Self::Drift => Reason::Drifted,
            Self::MultiNode | Self::SingleNode => Reason::Underutilized,
        }
    }

    /// How it treats pods that must not be moved.
    pub fn class(self) -> DisruptionClass {
        match self {
            Self::Repair => DisruptionClass::Repair,
            Self::StaticDrift | Self::Drift => DisruptionClass::Eventual,
            Self::Emptiness | Self::MultiNode | Self::SingleNode => DisruptionClass::Graceful,
        }
    }

    /// The label `consolidation_type` of metrics.
    pub fn consolidation_type(self) -> &'static str {
        match self {
            Self::Repair | Self::StaticDrift | Self::Drift => "",
            Self::Emptiness => "empty",
            Self::MultiNode => "multi",
            Self::SingleNode => "single",
        }
    }

    /// Whether its commands are validated after a delay before they start.
    pub fn is_validated(self) -> bool {
        !self.consolidation_type().is_empty()
    }
}
