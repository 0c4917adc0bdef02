//! What the controllers of a control plane do with objects after a request: here it is part of
//! the request, so nobody has to wait for it and every run gives the same.
//!
//! | part | stands in for |
//! |---|---|
//! | [`garbage_collector`] | the garbage collector: owner references, foreground and orphan finalizers |
//! | [`namespaces`] | what every namespace has in it, and the end of namespaces |
//! | [`event_ttl`] | the time to live of events |
//! | [`custom_resource_definitions`] | CustomResourceDefinitions: names, conditions, serving, clean-up |
//!
//! Absent on purpose: everything that makes pods (see the simulated workloads), quotas, tokens.

mod bootstrap;
mod custom_resource_definitions;
mod event_ttl;
mod garbage_collector;
mod namespaces;

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

pub(crate) use self::bootstrap::create_cluster_defaults;
#[cfg(test)]
pub(crate) use self::custom_resource_definitions::served_versions;
pub(crate) use self::event_ttl::{EventTtlQueue, expire_events};
use crate::api::State;
use crate::store::{ObjectKey, ResourceId, StoredObject};

/// What a request did that has to be followed up.
#[derive(Debug, Default)]
pub(crate) struct ControllerQueue {
    changes: VecDeque<ObjectChange>,
}

#[derive(Debug, Clone)]
enum ObjectChange {
    Stored { id: ResourceId, key: ObjectKey, created: bool },
    Removed { id: ResourceId, key: ObjectKey, stored: Arc<StoredObject> },
}

impl ControllerQueue {
    pub(crate) fn enqueue_stored(
        &mut self,
        id: &ResourceId,
        key: &ObjectKey,
        stored: &StoredObject,
        existed: bool,
    ) {
        // Most writes concern nobody here: a pod's status, a lease, an event.
        let is_special = matches!(&*id.plural, "namespaces" | "customresourcedefinitions");
        let has_owner = !stored.owners.is_empty();
        if is_special || stored.is_terminating || (has_owner && !existed) {
            let (id, key) = (id.clone(), key.clone());
            self.changes.push_back(ObjectChange::Stored { id, key, created: !existed });
        }
    }

    pub(crate) fn enqueue_removed(
        &mut self,
        id: &ResourceId,
        key: &ObjectKey,
        stored: &Arc<StoredObject>,
    ) {
        let (id, key, stored) = (id.clone(), key.clone(), stored.clone());
        self.changes.push_back(ObjectChange::Removed { id, key, stored });
    }
}

/// Follows up everything that the request did, and what that brings about in turn.
pub(crate) fn process_queue(state: &mut State) {
    while let Some(event) = state.controller_queue.changes.pop_front() {
        match event {
            ObjectChange::Stored { id, key, created } => {
                custom_resource_definitions::on_stored(state, &id, &key);
                namespaces::on_stored(state, &id, &key, created);
                garbage_collector::on_stored(state, &id, &key);
            }
            ObjectChange::Removed { id, key, stored } => {
                garbage_collector::on_removed(state, &id, &key, &stored);
                custom_resource_definitions::on_removed(state, &id, &key, &stored);
                namespaces::on_removed(state, &key);
            }
        }
    }
}

/// The object with its kind, if it is still there.
fn current_object(state: &State, id: &ResourceId, key: &ObjectKey) -> Option<Value> {
    let served = state.registry.any_version(id)?;
    let stored = state.store.get(id, key)?;
    Some(State::object(served, stored))
}

/// Stores a changed object, or removes it when nothing keeps it any more.
fn store_or_remove(state: &mut State, id: &ResourceId, key: &ObjectKey, object: Value) {
    let Some(served) = state.registry.any_version(id).cloned() else {
        return;
    };
    if crate::verbs::update::is_fully_deleted(&object) {
        state.remove(id, key);
    } else {
        state.put(&served, key, object);
    }
}

/// Deletes as a client would, and takes it as it comes.
fn delete_object(
    state: &mut State,
    id: &ResourceId,
    key: &ObjectKey,
    options: &crate::verbs::options::DeleteOptions,
) {
    if let Some(served) = state.registry.any_version(id).cloned() {
        let _gone_or_waiting = crate::verbs::delete::delete_object(state, &served, key, options);
    }
}
