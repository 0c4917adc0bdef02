//! Updates the mirror: one setter per kind, with the current object, none if it is deleted.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, PodTemplate, ReplicationController,
    Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use karpenter_api::capacity_buffer::CapacityBuffer;
use karpenter_api::conditions;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use karpenter_core::scheduling::dra::ClaimKey;
use karpenter_core::selector::LabelSelector;
use karpenter_core::snapshot::WorkloadKey;

use super::workloads::set_or_remove;
use super::{Mirror, MirrorState};
use crate::ingest::{disruption_budget, dynamic_resources, pool, volume, workload};
use crate::snapshot_view::PodKey;
use crate::wire::Pod;

fn key(namespace: &str, name: &str) -> (String, String) {
    (namespace.to_owned(), name.to_owned())
}

/// Whether nodes of the NodePool register.
fn is_registration_healthy(pool: &NodePool) -> bool {
    let conditions = pool.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| {
        condition.type_ == conditions::NODE_REGISTRATION_HEALTHY && condition.status == "True"
    })
}

impl MirrorState {
    fn set_selector(&mut self, key: WorkloadKey, selector: Option<LabelSelector>) {
        // Most changes of workloads are of their status.
        if self.view.snapshot().workloads.get(&key) != selector.as_ref() {
            set_or_remove(&mut self.view.snapshot_mut().workloads, key, selector);
        }
    }
}

impl Mirror {
    /// Sets a Pod.
    pub fn set_pod(&self, namespace: &str, name: &str, pod: Option<Arc<Pod>>) {
        let name = PodKey::new(key(namespace, name));
        self.update(|state, reader| state.set_pod(&name, pod, reader));
    }

    /// Sets a Node.
    pub fn set_node(&self, name: &str, node: Option<Arc<Node>>) {
        self.update(|state, reader| state.set_node(name, node, reader));
    }

    /// Sets a NodeClaim. One of another installation is left out.
    pub fn set_node_claim(&self, name: &str, claim: Option<Arc<NodeClaim>>) {
        self.update(|state, reader| state.set_node_claim(name, claim, reader));
    }

    /// Sets a CSINode.
    pub fn set_csi_node(&self, name: &str, csi: Option<&CSINode>) {
        self.update(|state, reader| state.set_csi_node(name, csi, reader));
    }

    /// Sets a NodePool.
    pub fn set_node_pool(&self, name: &str, wire: Option<&NodePool>) {
        self.update(|state, reader| {
            let known = &mut state.workloads;
            let generation = wire.map(|wire| wire.metadata.generation);
            if known.pool_generations.get(name).copied() != generation {
                set_or_remove(&mut known.pool_generations, name.to_owned(), generation);
                state.unconsolidated_at = reader.now();
            }
            if wire.is_some_and(is_registration_healthy) {
                known.healthy_pools.insert(name.to_owned());
            } else {
                known.healthy_pools.remove(name);
            }
            let managed = wire.and_then(|wire| pool::read_managed_pool(wire, reader));
            if state.view.snapshot().managed_pools.get(name) != managed.as_ref() {
                set_or_remove(
                    &mut state.view.snapshot_mut().managed_pools,
                    name.to_owned(),
                    managed,
                );
            }
            let pool = wire.and_then(|wire| pool::read_usable(wire, reader));
            if known.pools.get(name) != pool.as_ref() {
                set_or_remove(&mut known.pools, name.to_owned(), pool);
                state.publish_pools();
            }
        });
    }

    /// Sets a DaemonSet.
    pub fn set_daemon_set(&self, namespace: &str, name: &str, set: Option<Arc<DaemonSet>>) {
        self.update(|state, reader| state.set_daemon_set((namespace, name), set, reader));
    }

    /// Sets a Namespace.
    pub fn set_namespace(&self, name: &str, wire: Option<&Namespace>) {
        let labels = wire.map(|wire| wire.metadata.labels.clone().unwrap_or_default());
        self.state().view.set_namespace(name, labels);
    }

    /// Sets a PersistentVolumeClaim.
    pub fn set_persistent_volume_claim(
        &self,
        namespace: &str,
        name: &str,
        wire: Option<&PersistentVolumeClaim>,
    ) {
        let claim = wire.map(volume::claim);
        set_or_remove(
            &mut self.state().view.snapshot_mut().volumes.claims,
            key(namespace, name),
            claim,
        );
    }

    /// Sets a PersistentVolume.
    pub fn set_persistent_volume(&self, name: &str, wire: Option<&PersistentVolume>) {
        self.update(|state, reader| {
            let volume = wire.map(|wire| volume::volume(wire, reader));
            set_or_remove(&mut state.view.snapshot_mut().volumes.volumes, name.to_owned(), volume);
        });
    }

    /// Sets a StorageClass.
    pub fn set_storage_class(&self, name: &str, wire: Option<&StorageClass>) {
        self.update(|state, reader| {
            let class = wire.map(|wire| volume::class(wire, reader));
            set_or_remove(&mut state.view.snapshot_mut().volumes.classes, name.to_owned(), class);
        });
    }

    /// Sets a PodDisruptionBudget.
    pub fn set_pod_disruption_budget(
        &self,
        namespace: &str,
        name: &str,
        wire: Option<&PodDisruptionBudget>,
    ) {
        self.update(|state, reader| {
            let budget = wire.map(|wire| disruption_budget::budget(wire, reader));
            let (known, key) = (&mut state.workloads.budgets, key(namespace, name));
            // Their status changes with every pod.
            if known.get(&key) != budget.as_ref() {
                set_or_remove(known, key, budget);
                state.publish_budgets();
            }
        });
    }

    /// Sets a Service.
    pub fn set_service(&self, namespace: &str, name: &str, wire: Option<&Service>) {
        let mut state = self.state();
        let service = wire.map(workload::service);
        set_or_remove(&mut state.workloads.services, key(namespace, name), service);
        state.publish_services();
    }

    /// Sets a ReplicationController.
    pub fn set_replication_controller(
        &self,
        namespace: &str,
        name: &str,
        wire: Option<&ReplicationController>,
    ) {
        let key = workload::workload_key(workload::REPLICATION_CONTROLLER, namespace, name);
        let selector = wire.and_then(workload::replication_controller);
        self.state().set_selector(key, selector);
    }

    /// Sets a ReplicaSet.
    pub fn set_replica_set(&self, namespace: &str, name: &str, wire: Option<Arc<ReplicaSet>>) {
        self.update(|state, reader| {
            let workload = workload::workload_key(workload::REPLICA_SET, namespace, name);
            let selector = wire.as_ref().and_then(|wire| workload::replica_set(wire, reader));
            state.set_selector(workload, selector);
            if reader.gates().capacity_buffer {
                set_or_remove(&mut state.workloads.replica_sets, key(namespace, name), wire);
            }
        });
    }

    /// Sets a StatefulSet.
    pub fn set_stateful_set(&self, namespace: &str, name: &str, wire: Option<Arc<StatefulSet>>) {
        self.update(|state, reader| {
            let workload = workload::workload_key(workload::STATEFUL_SET, namespace, name);
            let selector = wire.as_ref().and_then(|wire| workload::stateful_set(wire, reader));
            state.set_selector(workload, selector);
            if reader.gates().capacity_buffer {
                set_or_remove(&mut state.workloads.stateful_sets, key(namespace, name), wire);
            }
        });
    }

    /// Sets a Deployment. Only buffers read Deployments.
    pub fn set_deployment(&self, namespace: &str, name: &str, wire: Option<Arc<Deployment>>) {
        set_or_remove(&mut self.state().workloads.deployments, key(namespace, name), wire);
    }

    /// Sets a PodTemplate. Only buffers read PodTemplates.
    pub fn set_pod_template(&self, namespace: &str, name: &str, wire: Option<Arc<PodTemplate>>) {
        set_or_remove(&mut self.state().workloads.pod_templates, key(namespace, name), wire);
    }

    /// Sets a CapacityBuffer.
    pub fn set_capacity_buffer(
        &self,
        namespace: &str,
        name: &str,
        wire: Option<Arc<CapacityBuffer>>,
    ) {
        set_or_remove(&mut self.state().workloads.buffers, key(namespace, name), wire);
    }

    /// Sets a ResourceClaim.
    pub fn set_resource_claim(&self, namespace: &str, name: &str, wire: Option<&ResourceClaim>) {
        self.update(|state, reader| {
            let claim = wire.map(|wire| Arc::new(dynamic_resources::resource_claim(wire, reader)));
            let (namespace, name) = key(namespace, name);
            set_or_remove(
                &mut state.view.snapshot_mut().dynamic_resources.claims,
                ClaimKey { namespace, name },
                claim,
            );
        });
    }

    /// Sets a ResourceSlice.
    pub fn set_resource_slice(&self, name: &str, wire: Option<&ResourceSlice>) {
        self.update(|state, reader| {
            let shapes = &mut state.workloads.shapes;
            let slice = wire.map(|wire| dynamic_resources::resource_slice(wire, shapes, reader));
            set_or_remove(&mut state.workloads.slices, name.to_owned(), slice.map(Arc::new));
            state.publish_slices();
        });
    }

    /// Sets a DeviceClass.
    pub fn set_device_class(&self, name: &str, wire: Option<&DeviceClass>) {
        let class = wire.map(|wire| Arc::new(dynamic_resources::device_class(wire)));
        set_or_remove(
            &mut self.state().view.snapshot_mut().dynamic_resources.classes,
            name.to_owned(),
            class,
        );
    }
}
