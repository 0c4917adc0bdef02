//! Built-in controllers process the objects that an API request changed, within that request. So
//! clients need not wait for them, and every run gives the same objects.
//!
//! | module | replaces |
//! |---|---|
//! | [`garbage_collector`] | the garbage collector: owner references and finalizers |
//! | [`namespaces`] | the namespace controller: default objects, deletion of the contents |
//! | [`event_ttl`] | the TTL of Events |
//! | [`custom_resource_definitions`] | the CRD controllers: names, conditions, serving, deletion |
//!
//! The module has no controllers that create pods (see the simulated workloads), no quotas and no
//! token controller.

mod bootstrap;
mod custom_resource_definitions;
mod event_ttl;
mod garbage_collector;
mod namespaces;

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

pub(crate) use self::bootstrap::{cluster_default_objects, create_cluster_defaults};
#[cfg(test)]
pub(crate) use self::custom_resource_definitions::served_versions;
pub(crate) use self::event_ttl::{EventTtlQueue, expire_events};
use crate::api::State;
use crate::store::{ObjectKey, ResourceId, StoredObject};

/// The object changes of a request that the built-in controllers still have to process.
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
        // Most writes need no built-in controller: a pod's status, a lease, an event.
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

/// Runs the built-in controllers for all queued changes, including the changes that they make.
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

/// Returns the stored object with apiVersion and kind, or `None` if it was removed.
fn current_object(state: &State, id: &ResourceId, key: &ObjectKey) -> Option<Value> {
    let served = state.registry.any_version(id)?;
    let stored = state.store.get(id, key)?;
    Some(State::object(served, stored))
}

/// Stores a changed object, or removes it if nothing blocks its deletion any more.
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

/// Deletes an object as a client would, and ignores errors.
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
