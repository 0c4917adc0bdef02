//! CustomResourceDefinitions: which names they get, what is served, and the end of their objects.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::admission::CustomKind;
use crate::api::State;
use crate::kinds::{Kind, Resource, Subresource};
use crate::registry::Served;
use crate::shape::custom;
use crate::store::{Key, ResourceId, Stored};
use crate::upkeep::{current, delete, write};
use crate::verbs::options::{DeleteOptions, Propagation};

/// Keeps a definition until its objects are gone.
const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

fn is_definition(id: &ResourceId) -> bool {
    &*id.plural == "customresourcedefinitions" && &*id.group == "apiextensions.k8s.io"
}

pub(super) fn stored(state: &mut State, id: &ResourceId, key: &Key) {
    if !is_definition(id) {
        return;
    }
    let Some(mut crd) = current(state, id, key) else {
        return;
    };
    if crd["metadata"].get("deletionTimestamp").is_some() {
        return end(state, id, key, &crd);
    }
    serve(state, &crd);
    let before = crd.clone();
    complete_status(&mut crd, &state.now());
    add_finalizer(&mut crd);
    if crd != before {
        write(state, id, key, crd);
    }
}

/// The last object of a definition that is ending may have gone.
pub(super) fn removed(state: &mut State, id: &ResourceId, key: &Key, stored: &Stored) {
    let crds = ResourceId::new("apiextensions.k8s.io", "customresourcedefinitions");
    if is_definition(id) {
        let crd = stored.value();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (group, plural) = (text(&crd["spec"]["group"]), text(&crd["spec"]["names"]["plural"]));
        state.registry.remove(&ResourceId::new(&group, &plural));
    } else if state.registry.any_version(id).is_some_and(|served| served.custom().is_some()) {
        let definition = Key::new("", &format!("{}.{}", id.plural, id.group));
        if let Some(crd) = current(state, &crds, &definition)
            && crd["metadata"].get("deletionTimestamp").is_some()
        {
            end(state, &crds, &definition, &crd);
        }
    }
    let _ = key;
}

/// Serves every version that says so.
fn serve(state: &mut State, crd: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&crd["spec"]["group"]), text(&crd["spec"]["names"]["plural"]));
    let id = ResourceId::new(&group, &plural);
    if state.registry.any_version(&id).is_none() {
        state.store.begin(&id);
    }
    state.registry.remove(&id);
    for served in kinds_of(crd) {
        state.registry.add(served);
    }
}

/// The kind in every version that is served.
pub(crate) fn kinds_of(crd: &Value) -> Vec<Served> {
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    versions
        .filter(|version| version["served"] == true)
        .filter_map(|version| kind_of(crd, version))
        .collect()
}

fn kind_of(crd: &Value, version: &Value) -> Option<Served> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names = &crd["spec"]["names"];
    let name = text(&version["name"]);
    let kind = CustomKind::from_crd_version(crd, &name).ok()?;
    let (types, shape) = custom::types_of(&version["schema"]["openAPIV3Schema"]);
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
        shape,
        rules: Kind::Custom(Arc::new(kind)),
    };
    let mut served = Served::custom_kind(resource, types);
    served.schema = version["schema"]["openAPIV3Schema"].clone();
    served.columns = version["additionalPrinterColumns"].as_array().cloned().unwrap_or_default();
    let selectable = version["selectableFields"].as_array().into_iter().flatten();
    served.selectable = selectable
        .map(|field| text(&field["jsonPath"]).trim_start_matches('.').to_owned())
        .collect();
    served.scale = version["subresources"]["scale"].clone();
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

/// Deletes the objects of a definition that is ending; lets it go when there are none.
fn end(state: &mut State, id: &ResourceId, key: &Key, crd: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&crd["spec"]["group"]), text(&crd["spec"]["names"]["plural"]));
    let resource = ResourceId::new(&group, &plural);
    let options =
        DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
    let keys: Vec<Key> =
        state.store.table(&resource).range("", None).map(|(key, _)| key.clone()).collect();
    for key in keys {
        let is_ending = current(state, &resource, &key)
            .is_none_or(|object| object["metadata"].get("deletionTimestamp").is_some());
        if !is_ending {
            delete(state, &resource, &key, &options);
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
        crate::registry::remove(&mut crd["metadata"], "finalizers");
    } else {
        crd["metadata"]["finalizers"] = kept.into();
    }
    write(state, id, key, crd);
}
