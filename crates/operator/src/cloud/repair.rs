//! What a provider says about unhealthy nodes (spec 45 §4.1).

use std::time::Duration;

/// What to do about nodes with a condition that lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairPolicy {
    /// Type of the node's condition.
    pub condition_type: String,
    /// Status of the condition that is unhealthy: `True`, `False` or `Unknown`.
    pub condition_status: String,
    /// What the condition's reason has to match somewhere. Empty for the default fallback of the
    /// set, of which there is exactly one.
    pub reason_regex: String,
    /// How long the condition is put up with.
    pub toleration_duration: Duration,
    /// Bound of the drain: none leaves it to the NodeClaim, zero is no drain.
    pub termination_grace_period: Option<Duration>,
    /// Weight from 0 to 100; the higher one goes first.
    pub priority: u8,
    /// What is done then.
    pub action: RepairAction,
}

/// A way to repair a node. The order is that of disruption: a later one disrupts more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RepairAction {
    /// Restart it in place.
    RebootNode,
    /// Put another one in its place.
    ReplaceNode,
}

impl RepairAction {
    /// The action as events and annotations name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::RebootNode => "RebootNode",
            Self::ReplaceNode => "ReplaceNode",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replacement_disrupts_more_than_a_reboot() {
        let (replace, reboot) = (RepairAction::ReplaceNode, RepairAction::RebootNode);
        assert_eq!((replace > reboot, reboot > replace), (true, false), "45/CP-8");
    }
}
