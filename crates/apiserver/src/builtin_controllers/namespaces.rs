//! The namespace controller creates the default objects of a namespace and empties a terminating
//! one.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::api::State;
use crate::builtin_controllers::{bootstrap, current_object, delete_object, store_or_remove};
use crate::store::{ObjectKey, ResourceId};
use crate::verbs::options::{DeleteOptions, Propagation};

pub(super) fn on_stored(state: &mut State, id: &ResourceId, key: &ObjectKey, created: bool) {
    if &*id.plural != "namespaces" || !id.group.is_empty() {
        return;
    }
    let Some(namespace) = current_object(state, id, key) else {
        return;
    };
    if namespace["metadata"].get("deletionTimestamp").is_some() {
        delete_contents(state, key.name());
        set_deletion_conditions(state, key.name());
        finalize(state, key.name());
    } else if created && state.has_service_accounts() {
        bootstrap::create_namespace_defaults(state, key.name());
    }
}

/// Finalizes the namespace of a removed object if it was the last one in it.
pub(super) fn on_removed(state: &mut State, key: &ObjectKey) {
    let namespace = key.namespace();
    if !namespace.is_empty() {
        finalize(state, namespace);
    }
}

/// Deletes all objects of a namespace. Pods stay for their grace period.
fn delete_contents(state: &mut State, namespace: &str) {
    let options =
        DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
    for (id, key) in contents(state, namespace) {
        let is_ending = current_object(state, &id, &key)
            .is_none_or(|object| object["metadata"].get("deletionTimestamp").is_some());
        if !is_ending {
            delete_object(state, &id, &key, &options);
        }
    }
}

/// Sets conditions on a terminating namespace that report the remaining objects and finalizers.
fn set_deletion_conditions(state: &mut State, namespace: &str) {
    let (id, key) = (ResourceId::new("", "namespaces"), ObjectKey::new("", namespace));
    let left = contents(state, namespace);
    let Some(mut object) = current_object(state, &id, &key) else {
        return;
    };
    if left.is_empty() || object["metadata"].get("deletionTimestamp").is_none() {
        return;
    }
    let mut kinds = BTreeMap::<String, usize>::new();
    let mut finalizers = BTreeMap::<String, usize>::new();
    for (id, key) in &left {
        *kinds.entry(format!("{}.{} has", id.plural, id.group)).or_default() += 1;
        let held = current_object(state, id, key).unwrap_or_default();
        for finalizer in held["metadata"]["finalizers"].as_array().into_iter().flatten() {
            let name = finalizer.as_str().unwrap_or_default();
            *finalizers.entry(format!("{name} in")).or_default() += 1;
        }
    }
    let conditions = deletion_conditions(&kinds, &finalizers, &state.now());
    let is_same = |old: &Value| {
        let messages = |conditions: &Value| -> Vec<Value> {
            let conditions = conditions.as_array().into_iter().flatten();
            conditions.map(|condition| condition["message"].clone()).collect()
        };
        messages(old) == messages(&conditions)
    };
    if !is_same(&object["status"]["conditions"]) {
        object["status"]["conditions"] = conditions;
        store_or_remove(state, &id, &key, object);
    }
}

fn deletion_conditions(
    kinds: &BTreeMap<String, usize>,
    finalizers: &BTreeMap<String, usize>,
    now: &str,
) -> Value {
    let counted = |counts: &BTreeMap<String, usize>| {
        let texts =
            counts.iter().map(|(label, count)| format!("{label} {count} resource instances"));
        texts.collect::<Vec<_>>().join(", ")
    };
    let remaining = format!("Some resources are remaining: {}", counted(kinds));
    let held =
        format!("Some content in the namespace has finalizers remaining: {}", counted(finalizers));
    let (held, held_reason, is_held) = if finalizers.is_empty() {
        ("All content-preserving finalizers finished", "ContentHasNoFinalizers", "False")
    } else {
        (held.as_str(), "SomeFinalizersRemain", "True")
    };
    let deleted = "All content successfully deleted, may be waiting on finalization";
    let discovered = "All resources successfully discovered";
    let parsed = "All legacy kube types successfully parsed";
    [
        ("NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered", discovered),
        ("NamespaceDeletionGroupVersionParsingFailure", "False", "ParsedGroupVersions", parsed),
        ("NamespaceDeletionContentFailure", "False", "ContentDeleted", deleted),
        ("NamespaceContentRemaining", "True", "SomeResourcesRemain", remaining.as_str()),
        ("NamespaceFinalizersRemaining", is_held, held_reason, held),
    ]
    .into_iter()
    .map(|(kind, status, reason, message)| {
        json!({
            "type": kind, "status": status, "lastTransitionTime": now,
            "reason": reason, "message": message,
        })
    })
    .collect()
}

fn contents(state: &State, namespace: &str) -> Vec<(ResourceId, ObjectKey)> {
    let in_table = |(id, table): (&ResourceId, &crate::store::ResourceTable)| {
        let keys = table.range(namespace, None).map(|(key, _)| key.clone());
        keys.map(|key| (id.clone(), key)).collect::<Vec<_>>()
    };
    let namespaced = |id: &ResourceId| {
        state.registry.any_version(id).is_some_and(|served| served.resource.namespaced)
    };
    state.store.tables().filter(|(id, _)| namespaced(id)).flat_map(in_table).collect()
}

/// Lets an empty namespace go.
fn finalize(state: &mut State, namespace: &str) {
    let id = ResourceId::new("", "namespaces");
    let key = ObjectKey::new("", namespace);
    let Some(mut object) = current_object(state, &id, &key) else {
        return;
    };
    if object["metadata"].get("deletionTimestamp").is_none() || has_contents(state, namespace) {
        return;
    }
    let finalizers = object["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
    let kept: Vec<Value> = finalizers.into_iter().filter(|name| name != "kubernetes").collect();
    let is_last = kept.is_empty();
    object["spec"] = if is_last { json!({}) } else { json!({"finalizers": kept}) };
    if is_last && object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty) {
        state.remove(&id, &key);
    } else if current_object(state, &id, &key).is_some_and(|old| old["spec"] != object["spec"]) {
        store_or_remove(state, &id, &key, object);
    }
}

fn has_contents(state: &State, namespace: &str) -> bool {
    state.store.tables().any(|(id, table)| {
        state.registry.any_version(id).is_some_and(|served| served.resource.namespaced)
            && table.range(namespace, None).next().is_some()
    })
}
