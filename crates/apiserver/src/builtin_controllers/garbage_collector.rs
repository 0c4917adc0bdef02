//! The garbage collector deletes dependents whose last owner was removed, and handles the
//! foreground and orphan finalizers.

use serde_json::Value;

use crate::api::State;
use crate::builtin_controllers::{current_object, delete_object, store_or_remove};
use crate::registry::remove_field;
use crate::store::{ObjectKey, ResourceId, StoredObject};
use crate::verbs::delete::{FOREGROUND, ORPHAN};
use crate::verbs::options::{DeleteOptions, Propagation};

/// Processes a written object that has owners or is terminating.
pub(super) fn on_stored(state: &mut State, id: &ResourceId, key: &ObjectKey) {
    let Some(object) = current_object(state, id, key) else {
        return;
    };
    if object["metadata"].get("deletionTimestamp").is_none() {
        return collect_orphaned(state, id, key, &object);
    }
    let finalizers = object["metadata"]["finalizers"].as_array();
    let has = |name: &str| finalizers.is_some_and(|list| list.iter().any(|item| item == name));
    if has(ORPHAN) {
        orphan_dependents(state, &object);
        remove_finalizer(state, id, key, ORPHAN);
    } else if has(FOREGROUND) {
        delete_dependents(state, &object);
        finish_foreground_deletion(state, id, key);
    }
}

/// Collects the dependents of a removed object, and finishes owners that waited for it.
pub(super) fn on_removed(
    state: &mut State,
    id: &ResourceId,
    key: &ObjectKey,
    stored: &StoredObject,
) {
    let _ = (id, key);
    for (id, key) in state.store.dependents(&stored.uid) {
        if let Some(object) = current_object(state, &id, &key) {
            collect_orphaned(state, &id, &key, &object);
        }
    }
    for owner in &stored.owners {
        if let Some((id, key)) = find_owner(state, owner, &stored.to_value()) {
            finish_foreground_deletion(state, &id, &key);
        }
    }
}

/// Deletes an object without living owners, or drops its references to removed ones.
fn collect_orphaned(state: &mut State, id: &ResourceId, key: &ObjectKey, object: &Value) {
    let references = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    if references.is_empty() {
        return;
    }
    let lives: Vec<bool> = references.iter().map(|owner| owner_exists(state, owner, key)).collect();
    if lives.iter().all(|lives| *lives) {
        return;
    }
    if lives.iter().any(|lives| *lives) {
        let mut object = object.clone();
        let kept =
            references.into_iter().zip(lives).filter_map(|(owner, lives)| lives.then_some(owner));
        object["metadata"]["ownerReferences"] = kept.collect::<Vec<_>>().into();
        return store_or_remove(state, id, key, object);
    }
    if object["metadata"].get("deletionTimestamp").is_none() {
        // Its own finalizers say how its dependents go; without one, in the background.
        let options = DeleteOptions {
            propagation: Some(propagation_from_finalizers(object)),
            ..DeleteOptions::default()
        };
        delete_object(state, id, key, &options);
    }
}

fn propagation_from_finalizers(object: &Value) -> Propagation {
    let finalizers = object["metadata"]["finalizers"].as_array();
    let has = |name: &str| finalizers.is_some_and(|list| list.iter().any(|item| item == name));
    match () {
        () if has(ORPHAN) => Propagation::Orphan,
        () if has(FOREGROUND) => Propagation::Foreground,
        () => Propagation::Background,
    }
}

/// Returns whether the owner exists with the uid of the reference. An owner of a kind that the API
/// does not serve counts as existing: the real garbage collector waits for such a kind to appear.
fn owner_exists(state: &State, owner: &Value, dependent: &ObjectKey) -> bool {
    let text = |field: &str| owner[field].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").rsplit_once('/').unwrap_or(("", text("apiVersion")));
    let Some(served) = state.registry.by_kind(group, version, text("kind")) else {
        return true;
    };
    let namespace = if served.resource.namespaced { dependent.namespace() } else { "" };
    let stored = state.store.get(&served.id, &ObjectKey::new(namespace, text("name")));
    stored.is_some_and(|stored| *stored.uid == *text("uid"))
}

fn find_owner(state: &State, uid: &str, dependent: &Value) -> Option<(ResourceId, ObjectKey)> {
    let references = dependent["metadata"]["ownerReferences"].as_array()?;
    let owner = references.iter().find(|owner| owner["uid"] == uid)?;
    let text = |field: &str| owner[field].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").rsplit_once('/').unwrap_or(("", text("apiVersion")));
    let served = state.registry.by_kind(group, version, text("kind"))?;
    let namespace = dependent["metadata"]["namespace"].as_str().unwrap_or_default();
    let namespace = if served.resource.namespaced { namespace } else { "" };
    Some((served.id.clone(), ObjectKey::new(namespace, text("name"))))
}

fn delete_dependents(state: &mut State, owner: &Value) {
    let uid = owner["metadata"]["uid"].as_str().unwrap_or_default();
    let options =
        DeleteOptions { propagation: Some(Propagation::Foreground), ..DeleteOptions::default() };
    for (id, key) in state.store.dependents(uid) {
        let is_ending = current_object(state, &id, &key)
            .is_none_or(|object| object["metadata"].get("deletionTimestamp").is_some());
        if !is_ending {
            delete_object(state, &id, &key, &options);
        }
    }
}

/// Removes the foreground finalizer of an owner without blocking dependents.
fn finish_foreground_deletion(state: &mut State, id: &ResourceId, key: &ObjectKey) {
    let Some(object) = current_object(state, id, key) else {
        return;
    };
    if object["metadata"].get("deletionTimestamp").is_none() {
        return;
    }
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    let blocks = |(id, key): &(ResourceId, ObjectKey)| {
        let dependent = current_object(state, id, key).unwrap_or_default();
        let references = dependent["metadata"]["ownerReferences"].as_array().cloned();
        let blocks = |owner: &Value| owner["uid"] == uid && owner["blockOwnerDeletion"] == true;
        references.unwrap_or_default().iter().any(blocks)
    };
    if !state.store.dependents(uid).iter().any(blocks) {
        remove_finalizer(state, id, key, FOREGROUND);
    }
}

fn orphan_dependents(state: &mut State, owner: &Value) {
    let uid = owner["metadata"]["uid"].as_str().unwrap_or_default();
    for (id, key) in state.store.dependents(uid) {
        let Some(mut object) = current_object(state, &id, &key) else {
            continue;
        };
        let references = object["metadata"]["ownerReferences"].as_array().cloned();
        let kept: Vec<Value> = references
            .unwrap_or_default()
            .into_iter()
            .filter(|owner| owner["uid"] != uid)
            .collect();
        if kept.is_empty() {
            remove_field(&mut object["metadata"], "ownerReferences");
        } else {
            object["metadata"]["ownerReferences"] = kept.into();
        }
        store_or_remove(state, &id, &key, object);
    }
}

/// Removes a finalizer from the object, if it has it.
fn remove_finalizer(state: &mut State, id: &ResourceId, key: &ObjectKey, finalizer: &str) {
    let Some(mut object) = current_object(state, id, key) else {
        return;
    };
    let finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let kept: Vec<Value> = finalizers.iter().filter(|name| *name != finalizer).cloned().collect();
    if kept.len() == finalizers.len() {
        return;
    }
    if kept.is_empty() {
        remove_field(&mut object["metadata"], "finalizers");
    } else {
        object["metadata"]["finalizers"] = kept.into();
    }
    store_or_remove(state, id, key, object);
}
