//! The kinds that snapshots hold as they are, and buffers with what they point to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::PodTemplate;
use karpenter_api::capacity_buffer::CapacityBuffer;
use karpenter_core::scheduling::dra::{DeviceShape, Slice};
use karpenter_core::snapshot::{PodDisruptionBudget, Pool, Service};

use super::MirrorState;
use crate::ingest::{Reader, buffer};

type Key = (String, String);

/// What lists are made of, by namespace and name, and what buffers need.
#[derive(Default)]
pub(super) struct Workloads {
    pub(super) pools: BTreeMap<String, Pool>,
    /// The generation of every pool, also of those that cannot be used.
    pub(super) pool_generations: BTreeMap<String, Option<i64>>,
    /// NodePools whose nodes register.
    pub(super) healthy_pools: BTreeSet<String>,
    pub(super) budgets: BTreeMap<Key, PodDisruptionBudget>,
    pub(super) services: BTreeMap<Key, Service>,
    pub(super) slices: BTreeMap<String, Arc<Slice>>,
    pub(super) shapes: BTreeSet<Arc<DeviceShape>>,
    pub(super) buffers: BTreeMap<Key, Arc<CapacityBuffer>>,
    pub(super) pod_templates: BTreeMap<Key, Arc<PodTemplate>>,
    pub(super) deployments: BTreeMap<Key, Arc<Deployment>>,
    pub(super) replica_sets: BTreeMap<Key, Arc<ReplicaSet>>,
    pub(super) stateful_sets: BTreeMap<Key, Arc<StatefulSet>>,
}

/// Sets an entry of a map, or removes it if the value is none.
pub(super) fn set_or_remove<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}

impl MirrorState {
    /// Makes the virtual pods of all buffers. They are made of the time of the snapshot, so this
    /// is done for each one while there are buffers.
    pub(super) fn publish_buffers(&mut self, r: &mut Reader<'_>) {
        if self.workloads.buffers.is_empty() || !r.gates().capacity_buffer {
            return self.view.set_virtual_pods(Vec::new());
        }
        let mut templates = buffer::Templates::default();
        let known = &self.workloads;
        known.pod_templates.values().for_each(|wire| templates.pod_template(wire));
        known.deployments.values().for_each(|wire| templates.deployment(wire));
        known.stateful_sets.values().for_each(|wire| templates.stateful_set(wire));
        known.replica_sets.values().for_each(|wire| templates.replica_set(wire));
        let buffers = known.buffers.values().map(|buffer| &**buffer);
        let pods = buffer::pods(buffers, &templates, r);
        self.view.set_virtual_pods(pods);
    }

    pub(super) fn publish_pools(&mut self) {
        let pools: Vec<_> = self.workloads.pools.values().cloned().collect();
        self.view.snapshot_mut().pools = pools;
    }

    pub(super) fn publish_budgets(&mut self) {
        let budgets: Vec<_> = self.workloads.budgets.values().cloned().collect();
        self.view.snapshot_mut().disruption_budgets = budgets.into();
    }

    pub(super) fn publish_services(&mut self) {
        let services: Vec<_> = self.workloads.services.values().cloned().collect();
        self.view.snapshot_mut().services = services.into();
    }

    pub(super) fn publish_slices(&mut self) {
        let slices: Vec<_> = self.workloads.slices.values().cloned().collect();
        self.view.snapshot_mut().dynamic_resources.slices = slices;
        self.workloads.shapes.retain(|shape| Arc::strong_count(shape) > 1);
    }
}
