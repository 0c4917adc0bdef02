//! Services and owners of pods, as far as default spread constraints look at them (spec 20 §3.18).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector as WireSelector, ObjectMeta};
use karpenter_core::selector::LabelSelector;
use karpenter_core::snapshot::{Service, WorkloadKey};

use super::{Objects, Reader, selector};

/// All Services by namespace and name.
pub(super) fn services(objects: &Objects) -> Vec<Service> {
    let read = |wire: &k8s_openapi::api::core::v1::Service| Service {
        namespace: wire.metadata.namespace.clone().unwrap_or_default(),
        name: wire.metadata.name.clone().unwrap_or_default(),
        selector: wire.spec.as_ref().and_then(|spec| spec.selector.clone()),
    };
    let mut services: Vec<_> = objects.services.iter().map(read).collect();
    services.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    services
}

/// The selectors of ReplicationControllers, ReplicaSets and StatefulSets.
pub(super) fn selectors(
    objects: &Objects,
    reader: &mut Reader<'_>,
) -> BTreeMap<WorkloadKey, LabelSelector> {
    let mut selectors = BTreeMap::new();
    for wire in &objects.replication_controllers {
        let labels = wire.spec.as_ref().and_then(|spec| spec.selector.clone());
        if let Some(labels) = labels {
            let key = key("", "ReplicationController", &wire.metadata);
            selectors.insert(key, LabelSelector::of_labels(labels));
        }
    }
    let mut insert = |kind, meta, wire: Option<&WireSelector>| match wire.map(selector::parts) {
        None => {}
        Some(Ok(parts)) => {
            selectors.insert(key("apps", kind, meta), parts);
        }
        Some(Err(error)) => reader.refuse(kind, meta, error),
    };
    for wire in &objects.replica_sets {
        insert("ReplicaSet", &wire.metadata, wire.spec.as_ref().map(|spec| &spec.selector));
    }
    for wire in &objects.stateful_sets {
        insert("StatefulSet", &wire.metadata, wire.spec.as_ref().map(|spec| &spec.selector));
    }
    selectors
}

fn key(group: &str, kind: &str, meta: &ObjectMeta) -> WorkloadKey {
    WorkloadKey {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
    }
}
