//! The cache of the API: one informer per kind, shared by all controllers.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, PodTemplate, ReplicationController,
    Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use karpenter_api::capacity_buffer::CapacityBuffer;
use karpenter_api::node_class_ref::NodeClassRef;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodeoverlay::NodeOverlay;
use karpenter_api::nodepool::NodePool;
use karpenter_cluster::wire::Pod;
use karpenter_operator::clock::Clock;
use karpenter_operator::harness::tasks::Tasks;
use karpenter_operator::options::{Gate, Options};
use karpenter_operator::provider::{NodeClass, NodeClassInformer, ProviderFacts, SharedInformers};
use karpenter_operator::watch::{Index, Informer, InformerHandle};
use kube::{Api, Client, Resource};

/// The objects of the cluster, by kind. Kinds of a gate or an option that is off are not watched,
/// and their informers stay empty. Clones share it.
#[derive(Clone, Debug)]
pub struct Cache {
    pub pods: Informer<Pod>,
    pub nodes: Informer<Node>,
    pub node_claims: Informer<NodeClaim>,
    pub node_pools: Informer<NodePool>,
    pub daemon_sets: Informer<DaemonSet>,
    pub deployments: Informer<Deployment>,
    pub replica_sets: Informer<ReplicaSet>,
    pub stateful_sets: Informer<StatefulSet>,
    pub replication_controllers: Informer<ReplicationController>,
    /// With default spread constraints: the Services of a pod are part of their selector. Upstream's
    /// ClusterRole does not allow to list Services (spec 55 §7.2).
    pub services: Informer<Service>,
    pub namespaces: Informer<Namespace>,
    pub pod_disruption_budgets: Informer<PodDisruptionBudget>,
    pub persistent_volume_claims: Informer<PersistentVolumeClaim>,
    pub persistent_volumes: Informer<PersistentVolume>,
    pub storage_classes: Informer<StorageClass>,
    pub csi_nodes: Informer<CSINode>,
    pub volume_attachments: Informer<VolumeAttachment>,
    /// With the gate NodeOverlay.
    pub node_overlays: Informer<NodeOverlay>,
    /// With the gate CapacityBuffer.
    pub capacity_buffers: Informer<CapacityBuffer>,
    /// With the gate CapacityBuffer.
    pub pod_templates: Informer<PodTemplate>,
    /// Unless DRA requests are ignored, and where the API has them (Kubernetes 1.34).
    pub resource_claims: Informer<ResourceClaim>,
    /// The same.
    pub resource_slices: Informer<ResourceSlice>,
    /// The same.
    pub device_classes: Informer<DeviceClass>,
    /// Each kind of node class that the provider serves.
    pub node_classes: Vec<NodeClassInformer>,
    /// Pods by `spec.nodeName`.
    pub pods_by_node: Index<Pod>,
    /// Nodes by `spec.providerID`.
    pub nodes_by_provider_id: Index<Node>,
    /// NodeClaims by `status.providerID`.
    pub node_claims_by_provider_id: Index<NodeClaim>,
    /// VolumeAttachments by `spec.nodeName`.
    pub volume_attachments_by_node: Index<VolumeAttachment>,
    informers: Vec<InformerHandle>,
}

impl Cache {
    /// Creates a cache that is empty until it is [started](Self::start).
    pub fn new(
        client: &Client,
        clock: &Arc<dyn Clock>,
        provider: &ProviderFacts,
        options: &Options,
    ) -> Self {
        let mut kinds = InformerFactory { client, clock, informers: Vec::new() };
        let gates = &options.feature_gates;
        let overlays = gates.is_enabled(Gate::NodeOverlay);
        let buffers = gates.is_enabled(Gate::CapacityBuffer);
        let devices = !options.ignore_dra_requests;
        let has_default_spread = !options.default_spread.is_empty();
        let pods = kinds.informer("pods", trim_nothing);
        let nodes = kinds.informer("nodes", trim_node);
        let node_claims = kinds.informer("nodeclaims", trim_nothing);
        let volume_attachments = kinds.informer("volumeattachments", trim_nothing);
        let node_classes: Vec<_> =
            provider.node_classes.iter().map(|kind| kind.informer(client, clock)).collect();
        kinds.informers.extend(node_classes.iter().map(NodeClassInformer::handle));
        Self {
            pods_by_node: Index::new(&pods, |pod: &Pod| pod.spec.as_ref()?.node_name.as_deref()),
            nodes_by_provider_id: Index::new(&nodes, |node: &Node| {
                node.spec.as_ref()?.provider_id.as_deref()
            }),
            node_claims_by_provider_id: Index::new(&node_claims, |claim: &NodeClaim| {
                claim.status.as_ref()?.provider_id.as_deref()
            }),
            volume_attachments_by_node: Index::new(
                &volume_attachments,
                |attachment: &VolumeAttachment| Some(&attachment.spec.node_name),
            ),
            pods,
            nodes,
            node_claims,
            volume_attachments,
            node_pools: kinds.informer("nodepools", trim_nothing),
            daemon_sets: kinds.informer("daemonsets", trim_nothing),
            deployments: kinds.informer_if(buffers, "deployments"),
            replica_sets: kinds.informer("replicasets", trim_nothing),
            stateful_sets: kinds.informer("statefulsets", trim_nothing),
            replication_controllers: kinds.informer("replicationcontrollers", trim_nothing),
            services: kinds.informer_if(has_default_spread, "services"),
            namespaces: kinds.informer("namespaces", trim_nothing),
            pod_disruption_budgets: kinds.informer("poddisruptionbudgets", trim_nothing),
            persistent_volume_claims: kinds.informer("persistentvolumeclaims", trim_nothing),
            persistent_volumes: kinds.informer("persistentvolumes", trim_nothing),
            storage_classes: kinds.informer("storageclasses", trim_nothing),
            csi_nodes: kinds.informer("csinodes", trim_nothing),
            node_overlays: kinds.informer_if(overlays, "nodeoverlays"),
            capacity_buffers: kinds.informer_if(buffers, "capacitybuffers"),
            pod_templates: kinds.informer_if(buffers, "podtemplates"),
            resource_claims: kinds.informer_where_served(devices, "resourceclaims"),
            resource_slices: kinds.informer_where_served(devices, "resourceslices"),
            device_classes: kinds.informer_where_served(devices, "deviceclasses"),
            node_classes,
            informers: kinds.informers,
        }
    }

    /// Adds informers of the provider, which count for "synced" and "stale" like all others.
    pub fn add_informers(&mut self, informers: Vec<InformerHandle>) {
        self.informers.extend(informers);
    }

    /// Returns the informers that a provider shares with the controllers.
    pub fn shared_informers(&self) -> SharedInformers {
        SharedInformers {
            nodes: self.nodes.clone(),
            node_claims: self.node_claims.clone(),
            node_pools: self.node_pools.clone(),
            node_classes: self.node_classes.clone(),
        }
    }

    /// Starts to list and watch all kinds, each in its own task.
    pub fn start(&self, tasks: &Tasks) {
        self.informers.iter().for_each(|informer| informer.start(tasks));
    }

    /// Returns the kinds that have not been listed yet, with the last error. Empty when the cache
    /// has synced.
    pub fn unsynced_kinds(&self) -> Vec<(&'static str, Option<String>)> {
        let missing = self.informers.iter().filter(|informer| !informer.is_synced());
        missing.map(|informer| (informer.kind(), informer.last_error())).collect()
    }

    /// Returns the stale kinds, with the last error. Their lists or watches have failed for long.
    pub fn stale_kinds(&self, now: Timestamp) -> Vec<(&'static str, Option<String>)> {
        let stale = self.informers.iter().filter(|informer| informer.is_stale(now));
        stale.map(|informer| (informer.kind(), informer.last_error())).collect()
    }

    /// Waits until every kind has been listed once.
    pub async fn wait_for_sync(&self, clock: &Arc<dyn Clock>) {
        // Lists come in within milliseconds of each other, so polling is enough.
        while !self.unsynced_kinds().is_empty() {
            clock.sleep(SYNC_POLL_INTERVAL).await;
        }
    }

    /// Returns the node class of a reference. None if the provider does not serve its kind, or it
    /// does not exist.
    pub fn node_class(&self, reference: &NodeClassRef) -> Option<NodeClass> {
        let mut informers = self.node_classes.iter();
        let informer = informers.find(|informer| informer.kind().is_kind_of(reference))?;
        informer.get(&reference.name)
    }
}

/// How often to check whether all kinds have been listed.
const SYNC_POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(50);

/// Creates informers and collects their handles.
struct InformerFactory<'a> {
    client: &'a Client,
    clock: &'a Arc<dyn Clock>,
    informers: Vec<InformerHandle>,
}

impl InformerFactory<'_> {
    fn informer<K>(&mut self, kind: &'static str, trim: fn(&mut K)) -> Informer<K>
    where
        K: Resource<DynamicType = ()> + WatchableKind,
    {
        let informer =
            Informer::shared(Api::all(self.client.clone()), self.clock).with_transform(trim);
        self.register(kind, &informer);
        informer
    }

    fn informer_if<K>(&mut self, is_watched: bool, kind: &'static str) -> Informer<K>
    where
        K: Resource<DynamicType = ()> + WatchableKind,
    {
        if is_watched {
            return self.informer(kind, trim_nothing);
        }
        Informer::shared(Api::all(self.client.clone()), self.clock)
    }

    /// Returns an informer for a kind that the API server may not serve. If it does not, the
    /// informer stays empty.
    fn informer_where_served<K>(&mut self, is_watched: bool, kind: &'static str) -> Informer<K>
    where
        K: Resource<DynamicType = ()> + WatchableKind,
    {
        let informer = Informer::shared(Api::all(self.client.clone()), self.clock).allow_unserved();
        if is_watched {
            self.register(kind, &informer);
        }
        informer
    }

    fn register<K: Resource + WatchableKind>(
        &mut self,
        kind: &'static str,
        informer: &Informer<K>,
    ) {
        self.informers.push(InformerHandle::new(kind, informer));
    }
}

/// What a kind must implement to be watched by an informer.
trait WatchableKind:
    Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + Sync + 'static
{
}

impl<K> WatchableKind for K where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + Sync + 'static
{
}

fn trim_nothing<K>(_: &mut K) {}

/// Leaves out the list of images, which is most of a node.
fn trim_node(node: &mut Node) {
    if let Some(status) = &mut node.status {
        status.images = None;
        status.volumes_attached = None;
        status.volumes_in_use = None;
    }
}
