//! What a question changes of the groups, and how that is taken back.

use super::super::groups::GroupId;
use super::super::store::Store;
use super::super::world::World;
use super::Topology;
use crate::selector::Labels;

/// What the current question changed, so that it can be taken back.
#[derive(Clone, Debug, Default)]
pub(super) struct Question {
    number: u32,
    /// Nodes that are gone, by position in the snapshot.
    removed: Vec<usize>,
    /// None while changes are for good.
    changes: Option<Vec<Change>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Counted(GroupId, usize),
    Left(GroupId, usize),
    Offered(GroupId, usize),
    Gone(usize, usize),
}

impl<'a> Topology<'a> {
    /// Starts a question for which these nodes, by position in the snapshot, are gone beside those
    /// that were not there to begin with. What follows can be [rolled back](Self::roll_back).
    pub(in super::super) fn ask(&mut self, removed: Vec<usize>) {
        self.question.number += 1;
        self.question.removed = removed;
        self.question.changes = Some(Vec::new());
    }

    /// Starts the only question.
    pub(in super::super) fn ask_once(&mut self) {
        self.question.number += 1;
    }

    /// Everything as it was before the question.
    pub(in super::super) fn roll_back(&mut self) {
        for change in self.question.changes.take().into_iter().flatten().rev() {
            match change {
                Change::Counted(id, domain) => self.groups[id.0 as usize].forget(domain, 1),
                Change::Left(id, domain) => self.groups[id.0 as usize].record(domain, 1),
                Change::Offered(id, domain) => self.groups[id.0 as usize].withdraw(domain),
                Change::Gone(presence, domain) => self.presences[presence].nodes[domain] += 1,
            }
        }
        self.question.removed.clear();
    }

    pub(super) fn note(&mut self, change: Change) {
        if let Some(changes) = &mut self.question.changes {
            changes.push(change);
        }
    }

    /// The number of the question.
    pub(in super::super) fn question(&self) -> u32 {
        self.question.number
    }

    /// Whether a group is part of the question.
    pub(in super::super) fn is_asked(&self, id: GroupId) -> bool {
        let group = self.group(id);
        group.is_fixed || group.question == self.question.number
    }

    /// Makes a group part of the question. Returns whether it was not yet.
    pub(in super::super) fn join(
        &mut self,
        id: GroupId,
        world: &World<'a>,
        store: &mut Store<'_>,
    ) -> bool {
        let number = self.question.number;
        let group = &mut self.groups[id.0 as usize];
        let is_new = std::mem::replace(&mut group.question, number) != number;
        if let Some(presence) = group.presence.filter(|_| is_new) {
            self.take_out(id, presence, world, store);
        }
        is_new
    }

    /// Takes the nodes that are gone out of what a group sees.
    pub(super) fn take_out(
        &mut self,
        id: GroupId,
        presence: usize,
        world: &World<'a>,
        store: &mut Store<'_>,
    ) {
        let number = self.question.number;
        if std::mem::replace(&mut self.presences[presence].question, number) == number {
            return;
        }
        for index in self.question.removed.clone() {
            if let Some(domain) = self.presence_of(id, index, world, store) {
                let nodes = &mut self.presences[presence].nodes[domain];
                if *nodes > 0 {
                    *nodes -= 1;
                    self.note(Change::Gone(presence, domain));
                }
            }
        }
    }

    /// Counts a bound pod of the census no more.
    pub(in super::super) fn leave(
        &mut self,
        id: GroupId,
        node: usize,
        world: &World<'a>,
        store: &mut Store<'_>,
    ) {
        if let Some(domain) = self.domain_of_bound(id, node, world, store) {
            self.groups[id.0 as usize].forget(domain, 1);
            self.note(Change::Left(id, domain));
        }
    }

    /// Counts it no more.
    pub(in super::super) fn leave_inverse(&mut self, id: GroupId, labels: &Labels) {
        if let Some(domain) = self.domain_of_inverse(id, labels) {
            self.groups[id.0 as usize].forget(domain, 1);
            self.note(Change::Left(id, domain));
        }
    }
}
