//! Reads the Services and pod owners that default spread constraints use (spec 20 §3.18).

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector as WireSelector, ObjectMeta};
use karpenter_core::selector::LabelSelector;
use karpenter_core::snapshot::{Service, WorkloadKey};

use super::{Objects, Reader, selector, text};

/// All Services by namespace and name.
pub(super) fn services(objects: &Objects) -> Vec<Service> {
    let mut services: Vec<_> = objects.services.iter().map(service).collect();
    services.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    services
}

/// One Service.
pub(crate) fn service(wire: &k8s_openapi::api::core::v1::Service) -> Service {
    Service {
        namespace: wire.metadata.namespace.clone().unwrap_or_default(),
        name: wire.metadata.name.clone().unwrap_or_default(),
        selector: wire.spec.as_ref().and_then(|spec| spec.selector.clone()),
    }
}

/// The selectors of ReplicationControllers, ReplicaSets and StatefulSets.
pub(super) fn selectors(
    objects: &Objects,
    reader: &mut Reader<'_>,
) -> BTreeMap<WorkloadKey, LabelSelector> {
    let mut selectors = BTreeMap::new();
    for wire in &objects.replication_controllers {
        let selector = replication_controller(wire);
        selectors.extend(selector.map(|it| (key(REPLICATION_CONTROLLER, &wire.metadata), it)));
    }
    for wire in &objects.replica_sets {
        let selector = replica_set(wire, reader);
        selectors.extend(selector.map(|it| (key(REPLICA_SET, &wire.metadata), it)));
    }
    for wire in &objects.stateful_sets {
        let selector = stateful_set(wire, reader);
        selectors.extend(selector.map(|it| (key(STATEFUL_SET, &wire.metadata), it)));
    }
    selectors
}

/// Group and kind.
pub(crate) const REPLICATION_CONTROLLER: (&str, &str) = ("", "ReplicationController");
pub(crate) const REPLICA_SET: (&str, &str) = ("apps", "ReplicaSet");
pub(crate) const STATEFUL_SET: (&str, &str) = ("apps", "StatefulSet");

/// The selector of a ReplicationController, if it has one.
pub(crate) fn replication_controller(wire: &ReplicationController) -> Option<LabelSelector> {
    wire.spec.as_ref().and_then(|spec| spec.selector.clone()).map(LabelSelector::from_labels)
}

/// The selector of a ReplicaSet, if it can be read.
pub(crate) fn replica_set(wire: &ReplicaSet, reader: &mut Reader<'_>) -> Option<LabelSelector> {
    let selector = wire.spec.as_ref().map(|spec| &spec.selector);
    read_selector(REPLICA_SET.1, &wire.metadata, selector, reader)
}

/// The selector of a StatefulSet, if it can be read.
pub(crate) fn stateful_set(wire: &StatefulSet, reader: &mut Reader<'_>) -> Option<LabelSelector> {
    let selector = wire.spec.as_ref().map(|spec| &spec.selector);
    read_selector(STATEFUL_SET.1, &wire.metadata, selector, reader)
}

fn read_selector(
    kind: &'static str,
    meta: &ObjectMeta,
    wire: Option<&WireSelector>,
    reader: &mut Reader<'_>,
) -> Option<LabelSelector> {
    match selector::label_selector(wire?) {
        Ok(parts) => Some(parts),
        Err(error) => {
            reader.reject(kind, meta, error);
            None
        }
    }
}

fn key((group, kind): (&str, &str), meta: &ObjectMeta) -> WorkloadKey {
    workload_key((group, kind), text(meta.namespace.as_ref()), text(meta.name.as_ref()))
}

/// The key of a workload.
pub(crate) fn workload_key(
    (group, kind): (&str, &str),
    namespace: &str,
    name: &str,
) -> WorkloadKey {
    let [group, kind, namespace, name] = [group, kind, namespace, name].map(str::to_owned);
    WorkloadKey { group, kind, namespace, name }
}
