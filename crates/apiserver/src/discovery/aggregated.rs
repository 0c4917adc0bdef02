//! Aggregated discovery: all groups, or the core group, in one document.

use serde_json::{Value, json};

use super::{ApiGroup, ApiGroups, subresource_kind, subresource_verbs, subresources, verbs};
use crate::kinds::Subresource;
use crate::registry::ServedResource;
use crate::subresources::name;

/// Returns the `APIGroupDiscoveryList` for `/api` (`core`) or `/apis`.
pub(super) fn api_group_discovery_list(groups: &ApiGroups<'_>, core: bool) -> Value {
    let items: Vec<Value> = if core {
        groups.get("").map(group).into_iter().collect()
    } else {
        groups.non_core().map(group).collect()
    };
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

fn group(group: &ApiGroup<'_>) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|(version, resources)| {
            let resources: Vec<Value> = resources.iter().map(|served| resource(served)).collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.name.is_empty() { json!({}) } else { json!({"name": group.name}) };
    json!({"metadata": metadata, "versions": versions})
}

fn resource(served: &ServedResource) -> Value {
    let resource = &served.resource;
    let mut shown = json!({
        "resource": &*resource.plural,
        "responseKind": kind(served, None),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": &*resource.singular,
        "verbs": verbs(served),
    });
    if !resource.short_names.is_empty() {
        shown["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        shown["categories"] = json!(resource.categories);
    }
    let subresources: Vec<Value> = subresources(served)
        .into_iter()
        .map(|subresource| {
            json!({
                "subresource": name(subresource),
                "responseKind": kind(served, Some(subresource)),
                "verbs": subresource_verbs(subresource),
            })
        })
        .collect();
    if !subresources.is_empty() {
        shown["subresources"] = subresources.into();
    }
    shown
}

/// Built-in kinds of the resource's own group come without group and version.
fn kind(served: &ServedResource, subresource: Option<Subresource>) -> Value {
    let resource = &served.resource;
    let (group, version, kind) = match subresource.and_then(subresource_kind) {
        Some(other) => other,
        None => (&*resource.group, &*resource.version, &*resource.kind),
    };
    let is_own = *group == *resource.group;
    let (group, version) =
        if is_own && served.custom().is_none() { ("", "") } else { (group, version) };
    json!({"group": group, "version": version, "kind": kind})
}
