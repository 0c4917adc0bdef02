//! The nodes that commands of a pass put pods on: they have to stay.

use std::collections::BTreeSet;

use super::{NodeId, Unconsolidatable};
use crate::disruption::Command;
use crate::disruption::simulation::is_pending;
use crate::snapshot::Snapshot;

/// Nodes that pods are to come to.
#[derive(Clone, Debug, Default)]
pub(super) struct Destinations {
    /// Some of the pods leave another node.
    moved: BTreeSet<NodeId>,
    /// At least pods that have no place yet.
    pending: BTreeSet<NodeId>,
}

impl Destinations {
    /// Those of commands.
    pub(super) fn of_commands(snapshot: &Snapshot, commands: &[Command]) -> Self {
        let mut destinations = Self::default();
        for command in commands {
            destinations.add(snapshot, command);
        }
        destinations
    }

    /// Those of one more command.
    pub(super) fn add(&mut self, snapshot: &Snapshot, command: &Command) {
        for (node, pods) in &command.plan.existing_nodes {
            let is_moved = pods.iter().any(|&pod| !is_pending(snapshot, pod));
            if is_moved {
                self.moved.insert(*node)
            } else {
                self.pending.insert(*node)
            };
        }
    }

    /// Why the node has to stay, if it is one of them.
    pub(super) fn rejection(&self, node: NodeId) -> Option<Unconsolidatable> {
        if self.moved.contains(&node) {
            Some(Unconsolidatable::Destination)
        } else {
            self.pending.contains(&node).then_some(Unconsolidatable::PendingPodDestination)
        }
    }
}
