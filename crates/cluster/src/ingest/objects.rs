//! The objects of a cluster, and what a file of them leaves out.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, PodCondition, PodTemplate,
    ReplicationController, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::resource::v1::{
    DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice,
};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use karpenter_api::capacity_buffer::CapacityBuffer;
use karpenter_api::node_class_ref::NodeClassRef;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodeoverlay::NodeOverlay;
use karpenter_api::nodepool::NodePool;

use super::text;
use crate::wire::Pod;

/// Every object that decisions read, by kind.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    pub pods: Vec<Pod>,
    pub nodes: Vec<Node>,
    pub node_claims: Vec<NodeClaim>,
    pub node_pools: Vec<NodePool>,
    pub node_overlays: Vec<NodeOverlay>,
    pub capacity_buffers: Vec<CapacityBuffer>,
    pub daemon_sets: Vec<DaemonSet>,
    pub deployments: Vec<Deployment>,
    pub replica_sets: Vec<ReplicaSet>,
    pub stateful_sets: Vec<StatefulSet>,
    pub replication_controllers: Vec<ReplicationController>,
    pub pod_templates: Vec<PodTemplate>,
    pub services: Vec<Service>,
    pub namespaces: Vec<Namespace>,
    pub pod_disruption_budgets: Vec<PodDisruptionBudget>,
    pub persistent_volume_claims: Vec<PersistentVolumeClaim>,
    pub persistent_volumes: Vec<PersistentVolume>,
    pub storage_classes: Vec<StorageClass>,
    pub csi_nodes: Vec<CSINode>,
    pub resource_claims: Vec<ResourceClaim>,
    pub resource_claim_templates: Vec<ResourceClaimTemplate>,
    pub resource_slices: Vec<ResourceSlice>,
    pub device_classes: Vec<DeviceClass>,
}

/// The creation time of objects in a file that set none.
const DEFAULT_CREATION_SECONDS: i64 = 1_700_000_000;

impl Objects {
    /// Fills in defaults that a cluster would have set and a manifest file omits:
    ///
    /// * the namespace `default`, for kinds that live in one;
    /// * a uid made of kind, namespace and name, and a time of creation;
    /// * the default node class, for pools and claims that name no NodeClass;
    /// * the verdict Unschedulable, for pods without a node and without any condition.
    ///
    /// That NodePools count as ready is a [setting](super::Settings::assume_pools_ready).
    pub fn fill_defaults(&mut self, default_class: &NodeClassRef) {
        self.fill_all_metadata();
        for pool in &mut self.node_pools {
            fill_node_class(&mut pool.spec.template.spec.node_class_ref, default_class);
        }
        for claim in &mut self.node_claims {
            fill_node_class(&mut claim.spec.node_class_ref, default_class);
        }
        self.pods.iter_mut().for_each(mark_unschedulable);
    }

    fn fill_all_metadata(&mut self) {
        macro_rules! complete {
            ($namespaced:literal: $($list:ident $kind:literal),+ $(,)?) => {$(
                for object in &mut self.$list {
                    fill_metadata(&mut object.metadata, $kind, $namespaced);
                }
            )+};
        }
        complete!(true:
            pods "Pod", capacity_buffers "CapacityBuffer", daemon_sets "DaemonSet",
            deployments "Deployment", replica_sets "ReplicaSet", stateful_sets "StatefulSet",
            replication_controllers "ReplicationController", pod_templates "PodTemplate",
            services "Service", pod_disruption_budgets "PodDisruptionBudget",
            persistent_volume_claims "PersistentVolumeClaim", resource_claims "ResourceClaim",
            resource_claim_templates "ResourceClaimTemplate",
        );
        complete!(false:
            nodes "Node", node_claims "NodeClaim", node_pools "NodePool",
            node_overlays "NodeOverlay", namespaces "Namespace",
            persistent_volumes "PersistentVolume", storage_classes "StorageClass",
            csi_nodes "CSINode", resource_slices "ResourceSlice", device_classes "DeviceClass",
        );
    }
}

fn fill_metadata(meta: &mut ObjectMeta, kind: &str, is_namespaced: bool) {
    if is_namespaced && text(meta.namespace.as_ref()).is_empty() {
        meta.namespace = Some("default".to_owned());
    }
    if text(meta.uid.as_ref()).is_empty() {
        let (namespace, name) = (text(meta.namespace.as_ref()), text(meta.name.as_ref()));
        meta.uid = Some(format!("{kind}/{namespace}/{name}"));
    }
    if meta.creation_timestamp.is_none() {
        meta.creation_timestamp = Timestamp::from_second(DEFAULT_CREATION_SECONDS).ok().map(Time);
    }
}

fn fill_node_class(class: &mut NodeClassRef, default_class: &NodeClassRef) {
    if *class == NodeClassRef::default() {
        class.clone_from(default_class);
    }
}

/// Marks an unbound pod as unschedulable, unless it has conditions or a scheduling gate.
fn mark_unschedulable(pod: &mut Pod) {
    let is_bound = pod.spec.as_ref().is_some_and(|s| !text(s.node_name.as_ref()).is_empty());
    let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref());
    let is_gated = gates.is_some_and(|gates| !gates.is_empty());
    let status = pod.status.get_or_insert_default();
    if is_bound || is_gated || status.conditions.as_ref().is_some_and(|all| !all.is_empty()) {
        return;
    }
    status.phase = Some("Pending".to_owned());
    status.conditions = Some(vec![PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: Some("Unschedulable".to_owned()),
        ..PodCondition::default()
    }]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::PodSpec;
    use k8s_openapi::api::core::v1::PodSchedulingGate;

    #[test]
    fn gated_and_bound_pods_are_not_marked_unschedulable() {
        let gate = PodSchedulingGate { name: "wait".to_owned() };
        let free = PodSpec::default();
        let gated = PodSpec { scheduling_gates: Some(vec![gate]), ..PodSpec::default() };
        let bound = PodSpec { node_name: Some("a".to_owned()), ..PodSpec::default() };
        for (case, spec, expected) in
            [("free", free, true), ("gated", gated, false), ("bound", bound, false)]
        {
            let mut pod = Pod { spec: Some(spec), ..Pod::default() };
            mark_unschedulable(&mut pod);
            let conditions = pod.status.and_then(|status| status.conditions);
            assert_eq!(conditions.is_some_and(|all| !all.is_empty()), expected, "{case}");
        }
    }
}
