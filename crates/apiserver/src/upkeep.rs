//! What the controllers of a control plane do with objects after a request: here it is part of
//! the request, so nobody has to wait for it and every run gives the same.
//!
//! | part | stands in for |
//! |---|---|
//! | [`garbage`] | the garbage collector: owner references, foreground and orphan finalizers |
//! | [`namespaces`] | what every namespace has in it, and the end of namespaces |
//! | [`expiry`] | the time to live of events |
//! | [`definitions`] | CustomResourceDefinitions: names, conditions, serving, clean-up |
//!
//! Absent on purpose: everything that makes pods (see the simulated workloads), quotas, tokens.

mod bootstrap;
mod definitions;
mod expiry;
mod garbage;
mod namespaces;

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

pub(crate) use self::bootstrap::bootstrap;
#[cfg(test)]
pub(crate) use self::definitions::kinds_of;
pub(crate) use self::expiry::{Expiry, expire};
use crate::api::State;
use crate::store::{Key, ResourceId, Stored};

/// What a request did that has to be followed up.
#[derive(Debug, Default)]
pub(crate) struct Todo {
    events: VecDeque<Event>,
}

#[derive(Debug, Clone)]
enum Event {
    Stored { id: ResourceId, key: Key, created: bool },
    Removed { id: ResourceId, key: Key, stored: Arc<Stored> },
}

impl Todo {
    pub(crate) fn stored(&mut self, id: &ResourceId, key: &Key, stored: &Stored, existed: bool) {
        // Most writes concern nobody here: a pod's status, a lease, an event.
        let is_special = matches!(&*id.plural, "namespaces" | "customresourcedefinitions");
        let has_owner = !stored.owners.is_empty();
        if is_special || stored.is_ending || (has_owner && !existed) {
            let (id, key) = (id.clone(), key.clone());
            self.events.push_back(Event::Stored { id, key, created: !existed });
        }
    }

    pub(crate) fn removed(&mut self, id: &ResourceId, key: &Key, stored: &Arc<Stored>) {
        let (id, key, stored) = (id.clone(), key.clone(), stored.clone());
        self.events.push_back(Event::Removed { id, key, stored });
    }
}

/// Follows up everything that the request did, and what that brings about in turn.
pub(crate) fn run(state: &mut State) {
    while let Some(event) = state.todo.events.pop_front() {
        match event {
            Event::Stored { id, key, created } => {
                definitions::stored(state, &id, &key);
                namespaces::stored(state, &id, &key, created);
                garbage::stored(state, &id, &key);
            }
            Event::Removed { id, key, stored } => {
                garbage::removed(state, &id, &key, &stored);
                definitions::removed(state, &id, &key, &stored);
                namespaces::removed(state, &key);
            }
        }
    }
}

/// The object with its kind, if it is still there.
fn current(state: &State, id: &ResourceId, key: &Key) -> Option<Value> {
    let served = state.registry.any_version(id)?;
    let stored = state.store.get(id, key)?;
    Some(State::value(served, stored))
}

/// Stores a changed object, or removes it when nothing keeps it any more.
fn write(state: &mut State, id: &ResourceId, key: &Key, object: Value) {
    let Some(served) = state.registry.any_version(id).cloned() else {
        return;
    };
    if crate::verbs::update::is_finished(&object) {
        state.remove(id, key);
    } else {
        state.put(&served, key, object);
    }
}

/// Deletes as a client would, and takes it as it comes.
fn delete(
    state: &mut State,
    id: &ResourceId,
    key: &Key,
    options: &crate::verbs::options::DeleteOptions,
) {
    if let Some(served) = state.registry.any_version(id).cloned() {
        let _gone_or_waiting = crate::verbs::delete::delete_object(state, &served, key, options);
    }
}
