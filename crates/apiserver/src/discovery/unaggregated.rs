//! Unaggregated discovery: one document per group version.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{ApiGroup, ApiGroups, subresource_kind, subresource_verbs, subresources, verbs};
use crate::kinds::Subresource;
use crate::registry::{ServedResource, api_version};
use crate::subresources::name;

/// `/api`
pub(super) fn core_versions(groups: &ApiGroups<'_>) -> Value {
    let core = groups.get("").map(|group| group.versions.as_slice()).unwrap_or_default();
    let versions: Vec<&str> = core.iter().map(|(version, _)| *version).collect();
    json!({
        "kind": "APIVersions",
        "versions": versions,
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
    })
}

/// `/apis`
pub(super) fn groups(groups: &ApiGroups<'_>) -> Value {
    let groups: Vec<Value> = groups.non_core().map(group).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/{group}`
pub(super) fn group_named(groups: &ApiGroups<'_>, name: &str) -> Option<Value> {
    let found = groups.get(name).filter(|group| !group.name.is_empty())?;
    let mut shown = json!({"kind": "APIGroup", "apiVersion": "v1"});
    if let (Some(shown), Value::Object(group)) = (shown.as_object_mut(), group(found)) {
        shown.extend(group);
    }
    Some(shown)
}

fn group(group: &ApiGroup<'_>) -> Value {
    let version = |(version, _): &(&str, _)| json!({"groupVersion": api_version(group.name, version), "version": version});
    let versions: Vec<Value> = group.versions.iter().map(version).collect();
    json!({"name": group.name, "versions": versions, "preferredVersion": versions.first()})
}

/// `/api/v1`, `/apis/{group}/{version}`
pub(super) fn resources(groups: &ApiGroups<'_>, group: &str, version: &str) -> Option<Value> {
    let found = groups.get(group)?.versions.iter().find(|(name, _)| *name == version)?;
    let mut resources = Vec::new();
    for served in &found.1 {
        resources.push(resource(served));
        resources.extend(subresources(served).into_iter().map(|sub| subresource(served, sub)));
    }
    if group.is_empty() {
        resources.push(json!({
            "name": "bindings", "singularName": "binding", "namespaced": true,
            "kind": "Binding", "verbs": ["create"],
        }));
        resources.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    }
    let mut list = json!({"kind": "APIResourceList"});
    // The oldest version does not say its own.
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    list["groupVersion"] = api_version(group, version).into();
    list["resources"] = resources.into();
    Some(list)
}

/// Returns a hash of the kind, by which clients notice that its stored form changes.
fn storage_version_hash(served: &ServedResource) -> String {
    let text = format!("{}/{}", served.api_version(), served.resource.kind);
    // FNV-1a, for which nothing has to be brought along.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    STANDARD.encode(hash.to_be_bytes())
}

fn resource(served: &ServedResource) -> Value {
    let resource = &served.resource;
    let mut shown = json!({
        "name": &*resource.plural,
        "singularName": &*resource.singular,
        "namespaced": resource.namespaced,
        "kind": &*resource.kind,
        "verbs": verbs(served),
    });
    if !resource.short_names.is_empty() {
        shown["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        shown["categories"] = json!(resource.categories);
    }
    // Reviews are never stored, so they have no stored form.
    if !served.is_review() {
        shown["storageVersionHash"] = storage_version_hash(served).into();
    }
    shown
}

fn subresource(served: &ServedResource, subresource: Subresource) -> Value {
    let resource = &served.resource;
    let mut shown = json!({
        "name": format!("{}/{}", resource.plural, name(subresource)),
        "singularName": "",
        "namespaced": resource.namespaced,
    });
    let kind = match subresource_kind(subresource) {
        Some((group, version, kind)) => {
            if *group != *resource.group {
                shown["group"] = group.into();
                shown["version"] = version.into();
            }
            kind
        }
        None => &resource.kind,
    };
    shown["kind"] = kind.into();
    shown["verbs"] = json!(subresource_verbs(subresource));
    shown
}
