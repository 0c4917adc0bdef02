//! Records what a request changes in topology groups, to roll it back.

use super::super::input::SolverInput;
use super::super::requirement_store::RequirementStore;
use super::super::topology_groups::GroupId;
use super::Topology;
use crate::selector::Labels;

/// The current request, with the changes to roll back.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestState {
    number: u32,
    /// Removed nodes, by position in the snapshot.
    removed: Vec<usize>,
    /// None if changes are permanent.
    changes: Option<Vec<Change>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Counted(GroupId, usize),
    PodRemoved(GroupId, usize),
    Offered(GroupId, usize),
    NodeRemoved(usize, usize),
}

impl<'a> Topology<'a> {
    /// Starts a request without these nodes, by position in the snapshot.
    ///
    /// Later changes can be [rolled back](Self::roll_back).
    pub(in super::super) fn begin_request(&mut self, removed: Vec<usize>) {
        self.request.number += 1;
        self.request.removed = removed;
        self.request.changes = Some(Vec::new());
    }

    /// Starts the only request.
    pub(in super::super) fn begin_only_request(&mut self) {
        self.request.number += 1;
    }

    /// Restores the state before the request.
    pub(in super::super) fn roll_back(&mut self) {
        for change in self.request.changes.take().into_iter().flatten().rev() {
            match change {
                Change::Counted(id, domain) => self.groups[id.0 as usize].forget(domain, 1),
                Change::PodRemoved(id, domain) => self.groups[id.0 as usize].record(domain, 1),
                Change::Offered(id, domain) => self.groups[id.0 as usize].withdraw(domain),
                Change::NodeRemoved(presence, domain) => {
                    self.presences[presence].nodes[domain] += 1;
                }
            }
        }
        self.request.removed.clear();
    }

    pub(super) fn note(&mut self, change: Change) {
        if let Some(changes) = &mut self.request.changes {
            changes.push(change);
        }
    }

    /// Returns the number of the current request.
    pub(in super::super) fn request_number(&self) -> u32 {
        self.request.number
    }

    /// Returns whether a group is part of the request.
    pub(in super::super) fn is_in_request(&self, id: GroupId) -> bool {
        let group = self.group(id);
        group.is_permanent || group.last_request == self.request.number
    }

    /// Adds a group to the request. Returns whether it is new there.
    pub(in super::super) fn activate_group(
        &mut self,
        id: GroupId,
        input: &SolverInput<'a>,
        store: &mut RequirementStore<'_>,
    ) -> bool {
        let number = self.request.number;
        let group = &mut self.groups[id.0 as usize];
        let is_new = std::mem::replace(&mut group.last_request, number) != number;
        if let Some(presence) = group.presence.filter(|_| is_new) {
            self.subtract_removed_nodes(id, presence, input, store);
        }
        is_new
    }

    /// Subtracts the removed nodes from the nodes that a group counts.
    pub(super) fn subtract_removed_nodes(
        &mut self,
        id: GroupId,
        presence: usize,
        input: &SolverInput<'a>,
        store: &mut RequirementStore<'_>,
    ) {
        let number = self.request.number;
        if std::mem::replace(&mut self.presences[presence].last_request, number) == number {
            return;
        }
        for index in self.request.removed.clone() {
            if let Some(domain) = self.domain_of_node(id, index, input, store) {
                let nodes = &mut self.presences[presence].nodes[domain];
                if *nodes > 0 {
                    *nodes -= 1;
                    self.note(Change::NodeRemoved(presence, domain));
                }
            }
        }
    }

    /// Subtracts a bound pod of a node from a group.
    pub(in super::super) fn remove_bound_pod(
        &mut self,
        id: GroupId,
        node: usize,
        input: &SolverInput<'a>,
        store: &mut RequirementStore<'_>,
    ) {
        if let Some(domain) = self.domain_of_bound(id, node, input, store) {
            self.groups[id.0 as usize].forget(domain, 1);
            self.note(Change::PodRemoved(id, domain));
        }
    }

    /// Subtracts a bound pod with anti-affinity from its inverse group.
    pub(in super::super) fn remove_inverse_pod(&mut self, id: GroupId, labels: &Labels) {
        if let Some(domain) = self.domain_of_inverse(id, labels) {
            self.groups[id.0 as usize].forget(domain, 1);
            self.note(Change::PodRemoved(id, domain));
        }
    }
}
