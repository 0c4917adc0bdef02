//! The nodes that commands of a pass put pods on: they have to stay.

use std::collections::BTreeSet;

use super::{NodeId, Unconsolidatable};
use crate::disruption::Command;
use crate::disruption::simulation::is_pending;
use crate::snapshot::Snapshot;

/// Nodes on which commands of the pass place pods.
#[derive(Clone, Debug, Default)]
pub(super) struct Destinations {
    /// Nodes that get pods of other nodes.
    moved: BTreeSet<NodeId>,
    /// Nodes that get pending pods.
    pending: BTreeSet<NodeId>,
}

impl Destinations {
    /// Returns the destinations of commands.
    pub(super) fn of_commands(snapshot: &Snapshot, commands: &[Command]) -> Self {
        let mut destinations = Self::default();
        for command in commands {
            destinations.add(snapshot, command);
        }
        destinations
    }

    /// Adds the destinations of one more command.
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

    /// Returns why the node is retained, if it is a destination.
    pub(super) fn rejection(&self, node: NodeId) -> Option<Unconsolidatable> {
        if self.moved.contains(&node) {
            Some(Unconsolidatable::Destination)
        } else {
            self.pending.contains(&node).then_some(Unconsolidatable::PendingPodDestination)
        }
    }
}
