//! Serves CustomResourceDefinitions: accepts names, sets conditions, and deletes the custom objects
//! with a definition.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::admission::CustomKind;
use crate::api::State;
use crate::builtin_controllers::{current_object, delete_object, store_or_remove};
use crate::kinds::{KindDefinition, Resource, Subresource};
use crate::registry::ServedResource;
use crate::store::{ObjectKey, ResourceId, StoredObject};
use crate::type_model::custom;
use crate::verbs::options::{DeleteOptions, Propagation};

/// Keeps a definition until its objects are gone.
const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

fn is_crd(id: &ResourceId) -> bool {
    &*id.plural == "customresourcedefinitions" && &*id.group == "apiextensions.k8s.io"
}

pub(super) fn on_stored(state: &mut State, id: &ResourceId, key: &ObjectKey) {
    if !is_crd(id) {
        return;
    }
    let Some(mut crd) = current_object(state, id, key) else {
        return;
    };
    if crd["metadata"].get("deletionTimestamp").is_some() {
        return finish_deletion(state, id, key, &crd);
    }
    serve_versions(state, &crd);
    let before = crd.clone();
    complete_status(&mut crd, &state.now());
    add_finalizer(&mut crd);
    if crd != before {
        store_or_remove(state, id, key, crd);
    }
}

/// Finishes the deletion of a terminating CRD whose last object may have been removed. Stops
/// serving the kind if the CRD itself was removed.
pub(super) fn on_removed(
    state: &mut State,
    id: &ResourceId,
    key: &ObjectKey,
    stored: &StoredObject,
) {
    let crds = ResourceId::new("apiextensions.k8s.io", "customresourcedefinitions");
    if is_crd(id) {
        let crd = stored.to_value();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (group, plural) = (text(&crd["spec"]["group"]), text(&crd["spec"]["names"]["plural"]));
        state.registry.remove(&ResourceId::new(&group, &plural));
    } else if state.registry.any_version(id).is_some_and(|served| served.custom().is_some()) {
        let definition = ObjectKey::new("", &format!("{}.{}", id.plural, id.group));
        if let Some(crd) = current_object(state, &crds, &definition)
            && crd["metadata"].get("deletionTimestamp").is_some()
        {
            finish_deletion(state, &crds, &definition, &crd);
        }
    }
    let _ = key;
}

/// Serves the versions of a CRD that have `served: true`.
fn serve_versions(state: &mut State, crd: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&crd["spec"]["group"]), text(&crd["spec"]["names"]["plural"]));
    let id = ResourceId::new(&group, &plural);
    if state.registry.any_version(&id).is_none() {
        state.store.begin_history(&id);
    }
    state.registry.remove(&id);
    for served in served_versions(crd) {
        state.registry.add(served);
    }
}

/// Returns the custom resource in every version with `served: true`.
pub(crate) fn served_versions(crd: &Value) -> Vec<ServedResource> {
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    versions
        .filter(|version| version["served"] == true)
        .filter_map(|version| served_version(crd, version))
        .collect()
}

fn served_version(crd: &Value, version: &Value) -> Option<ServedResource> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names = &crd["spec"]["names"];
    let name = text(&version["name"]);
    let kind = CustomKind::from_crd_version(crd, &name).ok()?;
    let (types, shape) = custom::types_from_schema(&version["schema"]["openAPIV3Schema"]);
    let list = |value: &Value| -> Vec<Box<str>> {
        value.as_array().into_iter().flatten().map(|item| text(item).into()).collect()
    };
    let mut subresources = Vec::new();
    if version["subresources"]["status"].is_object() {
        subresources.push(Subresource::Status);
    }
    if version["subresources"]["scale"].is_object() {
        subresources.push(Subresource::Scale);
    }
    let kind_name = text(&names["kind"]);
    let or = |value: &Value, other: String| value.as_str().map_or(other, str::to_owned);
    let resource = Resource {
        group: text(&crd["spec"]["group"]).into(),
        version: name.into(),
        plural: text(&names["plural"]).into(),
        singular: or(&names["singular"], kind_name.to_lowercase()).into(),
        list_kind: or(&names["listKind"], format!("{kind_name}List")).into(),
        kind: kind_name.into(),
        short_names: list(&names["shortNames"]),
        categories: list(&names["categories"]),
        namespaced: kind.is_namespaced(),
        subresources,
        type_id: shape,
        definition: KindDefinition::Custom(Arc::new(kind)),
    };
    let mut served = ServedResource::from_custom_kind(resource, types);
    served.schema = version["schema"]["openAPIV3Schema"].clone();
    served.printer_columns =
        version["additionalPrinterColumns"].as_array().cloned().unwrap_or_default();
    let selectable = version["selectableFields"].as_array().into_iter().flatten();
    served.selectable_fields = selectable
        .map(|field| text(&field["jsonPath"]).trim_start_matches('.').to_owned())
        .collect();
    served.scale_paths = version["subresources"]["scale"].clone();
    Some(served)
}

/// What the controllers of definitions write: names, conditions, stored versions.
fn complete_status(crd: &mut Value, now: &str) {
    let names = &mut crd["spec"]["names"];
    let kind = names["kind"].as_str().unwrap_or_default().to_owned();
    if names["singular"].as_str().is_none_or(str::is_empty) {
        names["singular"] = kind.to_lowercase().into();
    }
    if names["listKind"].as_str().is_none_or(str::is_empty) {
        names["listKind"] = format!("{kind}List").into();
    }
    let accepted = names.clone();
    let versions = crd["spec"]["versions"].as_array().cloned().unwrap_or_default();
    let stored = versions.iter().filter(|v| v["storage"] == true).map(|v| v["name"].clone());
    let status = &mut crd["status"];
    let mut stored_versions = status["storedVersions"].as_array().cloned().unwrap_or_default();
    for version in stored {
        if !stored_versions.contains(&version) {
            stored_versions.push(version);
        }
    }
    status["storedVersions"] = stored_versions.into();
    status["acceptedNames"] = accepted;
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    for (kind, reason, message) in [
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ] {
        if !conditions.iter().any(|condition| condition["type"] == kind) {
            conditions.push(json!({
                "type": kind, "status": "True", "lastTransitionTime": now,
                "reason": reason, "message": message,
            }));
        }
    }
    status["conditions"] = conditions.into();
}

fn add_finalizer(crd: &mut Value) {
    let metadata = &mut crd["metadata"];
    let mut finalizers = metadata["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.iter().any(|name| name == FINALIZER) {
        finalizers.push(FINALIZER.into());
        metadata["finalizers"] = finalizers.into();
    }
}

/// Deletes the objects of a terminating CRD; removes its finalizer when none is left.
fn finish_deletion(state: &mut State, id: &ResourceId, key: &ObjectKey, crd: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&crd["spec"]["group"]), text(&crd["spec"]["names"]["plural"]));
    let resource = ResourceId::new(&group, &plural);
    let options =
        DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
    let keys: Vec<ObjectKey> =
        state.store.table(&resource).range("", None).map(|(key, _)| key.clone()).collect();
    for key in keys {
        let is_ending = current_object(state, &resource, &key)
            .is_none_or(|object| object["metadata"].get("deletionTimestamp").is_some());
        if !is_ending {
            delete_object(state, &resource, &key, &options);
        }
    }
    if state.store.table(&resource).range("", None).next().is_some() {
        return;
    }
    let mut crd = crd.clone();
    let finalizers = crd["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let kept: Vec<Value> = finalizers.iter().filter(|name| *name != FINALIZER).cloned().collect();
    if kept.len() == finalizers.len() {
        return;
    }
    if kept.is_empty() {
        crate::registry::remove_field(&mut crd["metadata"], "finalizers");
    } else {
        crd["metadata"]["finalizers"] = kept.into();
    }
    store_or_remove(state, id, key, crd);
}
