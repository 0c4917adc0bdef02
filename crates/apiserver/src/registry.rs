//! The registry of the resources that the API serves.

mod served_resource;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

pub(crate) use self::served_resource::ServedResource;
use crate::kinds;
use crate::store::ResourceId;

/// The group, version and plural of a resource.
type ResourceKey = (Box<str>, Box<str>, Box<str>);

/// All resources.
#[derive(Debug, Clone)]
pub(crate) struct Registry {
    served: BTreeMap<ResourceKey, Arc<ServedResource>>,
}

impl Registry {
    /// The built-in kinds.
    pub(crate) fn new() -> Self {
        let mut registry = Self { served: BTreeMap::new() };
        for resource in kinds::built_in_resources().1 {
            registry.add(ServedResource::from_built_in(resource));
        }
        registry
    }

    pub(crate) fn add(&mut self, served: ServedResource) {
        let resource = &served.resource;
        let key = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
        self.served.insert(key, Arc::new(served));
    }

    /// Forgets every version of a custom resource.
    pub(crate) fn remove(&mut self, id: &ResourceId) {
        self.served.retain(|_, served| served.id != *id || served.custom().is_none());
    }

    pub(crate) fn get(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Option<Arc<ServedResource>> {
        self.served.get(&(group.into(), version.into(), plural.into())).cloned()
    }

    /// Whether any built-in kind is of the group.
    pub(crate) fn is_built_in_group(&self, group: &str) -> bool {
        let of = |served: &Arc<ServedResource>| {
            *served.resource.group == *group && served.custom().is_none()
        };
        self.served.values().any(of)
    }

    /// Any version of the resource: objects are the same in all of them.
    pub(crate) fn any_version(&self, id: &ResourceId) -> Option<&Arc<ServedResource>> {
        self.served.values().find(|served| served.id == *id)
    }

    pub(crate) fn by_kind(
        &self,
        group: &str,
        version: &str,
        kind: &str,
    ) -> Option<&Arc<ServedResource>> {
        self.served.values().find(|served| {
            let resource = &served.resource;
            (&*resource.group, &*resource.version, &*resource.kind) == (group, version, kind)
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<ServedResource>> {
        self.served.values()
    }
}

pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

pub(crate) fn remove_field(object: &mut Value, field: &str) {
    if let Some(object) = object.as_object_mut() {
        object.shift_remove(field);
    }
}

/// Sets `field` of `to` as in `from`, or removes it if `from` lacks it.
pub(crate) fn copy_field(to: &mut Value, from: &Value, field: &str) {
    match from.get(field) {
        Some(value) => to[field] = value.clone(),
        None => remove_field(to, field),
    }
}

pub(crate) fn copy_managed_fields(to: &mut Value, from: &Value) {
    copy_field(&mut to["metadata"], &from["metadata"], "managedFields");
}

/// Restores everything that a resize may not change: all but resources of containers.
pub(crate) fn prepare_for_resize(new: &mut Value, old: &Value) {
    let mut kept = old.clone();
    for list in ["containers", "initContainers"] {
        let wanted = new["spec"][list].as_array().cloned().unwrap_or_default();
        for container in kept["spec"][list].as_array_mut().into_iter().flatten() {
            let same = wanted.iter().find(|other| other["name"] == container["name"]);
            for field in ["resources", "resizePolicy"] {
                same.inspect(|same| copy_field(container, same, field));
            }
        }
    }
    copy_managed_fields(&mut kept, new);
    *new = kept;
    let generation = old["metadata"]["generation"].as_i64().unwrap_or_default();
    let changed = new["spec"] != old["spec"];
    new["metadata"]["generation"] = (generation + i64::from(changed)).into();
}
