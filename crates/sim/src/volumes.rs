//! Provisions and binds volumes for claims whose pod has a node, as the PersistentVolume controller
//! and a CSI driver do.
//!
//! Left out: claims that are bound before a pod uses them, and the deletion of volumes whose claim
//! is gone.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
    ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec,
    PersistentVolumeSpec, VolumeNodeAffinity,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use crate::scheduler::{BIND_COMPLETED, SELECTED_NODE};
use karpenter_operator::watch::ObjectKey;

const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Provisions volumes for claims and binds them.
#[derive(Clone)]
pub struct VolumeProvisioner {
    client: Client,
}

impl std::fmt::Debug for VolumeProvisioner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VolumeProvisioner").finish_non_exhaustive()
    }
}

impl VolumeProvisioner {
    /// One that writes through this client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Creates a volume for a claim, in the zone of the node, and binds both. Steps that are done
    /// already are not repeated.
    pub async fn provision(
        &self,
        key: &ObjectKey,
        node: Option<&Node>,
        node_name: &str,
    ) -> Result<(PersistentVolumeClaim, PersistentVolume), kube::Error> {
        let claims: Api<PersistentVolumeClaim> =
            Api::namespaced(self.client.clone(), &key.namespace);
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let claim = claims.get(&key.name).await?;
        if let Some(name) = volume_name(&claim) {
            let volume = volumes.get(&name).await?;
            return Ok((claim, volume));
        }
        let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.clone());
        let classes: Api<StorageClass> = Api::all(self.client.clone());
        let class = classes.get(&class.unwrap_or_default()).await?;
        let annotations =
            json!({ SELECTED_NODE: node_name, STORAGE_PROVISIONER: class.provisioner });
        let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
        let claim = claims.patch(&key.name, &PatchParams::default(), &patch).await?;
        let volume = volume_for(&claim, &class, node);
        let volume = match volumes.create(&PostParams::default(), &volume).await {
            // Made when the binding failed last time.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                volumes.get(&ObjectKey::of(&volume).name).await?
            }
            result => result?,
        };
        self.complete(&claim, volume).await
    }

    /// Binds a claim to a volume that is there.
    pub async fn bind(
        &self,
        key: &ObjectKey,
        volume: &str,
    ) -> Result<(PersistentVolumeClaim, PersistentVolume), kube::Error> {
        let claims: Api<PersistentVolumeClaim> =
            Api::namespaced(self.client.clone(), &key.namespace);
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let claim = claims.get(&key.name).await?;
        let known = volumes.get(volume).await?;
        // Fails if another claim has taken it in the meantime.
        let patch = Patch::Merge(json!({
            "metadata": {
                "resourceVersion": known.metadata.resource_version,
                "annotations": { BOUND_BY_CONTROLLER: "yes" },
            },
            "spec": { "claimRef": claim_ref(&claim) },
        }));
        let volume = volumes.patch(volume, &PatchParams::default(), &patch).await?;
        self.complete(&claim, volume).await
    }

    /// Makes the claim and the phases follow the volume.
    async fn complete(
        &self,
        claim: &PersistentVolumeClaim,
        volume: PersistentVolume,
    ) -> Result<(PersistentVolumeClaim, PersistentVolume), kube::Error> {
        let ObjectKey { namespace, name } = ObjectKey::of(claim);
        let volume_name = ObjectKey::of(&volume).name;
        let params = PatchParams::default();
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let bound = Patch::Merge(json!({ "status": { "phase": "Bound" } }));
        let volume =
            volumes.patch_status(&volume_name, &params, &bound).await.or_else(|error| {
                // Gone again: the claim is bound all the same, and the next sync reports it.
                if is_not_found(&error) { Ok(volume) } else { Err(error) }
            })?;
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &namespace);
        let patch = Patch::Merge(json!({
            "metadata": { "annotations": { BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes" } },
            "spec": { "volumeName": volume_name },
        }));
        claims.patch(&name, &params, &patch).await?;
        let spec = volume.spec.as_ref();
        let status = Patch::Merge(json!({
            "status": {
                "phase": "Bound",
                "accessModes": spec.and_then(|spec| spec.access_modes.as_ref()),
                "capacity": spec.and_then(|spec| spec.capacity.as_ref()),
            },
        }));
        let claim = claims.patch_status(&name, &params, &status).await?;
        Ok((claim, volume))
    }
}

fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

fn volume_name(claim: &PersistentVolumeClaim) -> Option<String> {
    claim.spec.as_ref()?.volume_name.clone().filter(|name| !name.is_empty())
}

/// The volume that a driver makes for a claim.
fn volume_for(
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    node: Option<&Node>,
) -> PersistentVolume {
    let name = format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default());
    let empty = PersistentVolumeClaimSpec::default();
    let spec = claim.spec.as_ref().unwrap_or(&empty);
    let requests = spec.resources.as_ref().and_then(|resources| resources.requests.clone());
    let provisioner = class.provisioner.clone();
    PersistentVolume {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            annotations: Some(BTreeMap::from([(PROVISIONED_BY.to_owned(), provisioner.clone())])),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            capacity: requests,
            access_modes: spec.access_modes.clone(),
            claim_ref: Some(claim_ref(claim)),
            csi: Some(CSIPersistentVolumeSource {
                driver: provisioner,
                volume_handle: name,
                ..CSIPersistentVolumeSource::default()
            }),
            mount_options: class.mount_options.clone(),
            node_affinity: node.and_then(zone).map(in_zone),
            persistent_volume_reclaim_policy: class
                .reclaim_policy
                .clone()
                .or_else(|| Some("Delete".to_owned())),
            storage_class_name: class.metadata.name.clone(),
            volume_mode: spec.volume_mode.clone(),
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }
}

fn zone(node: &Node) -> Option<String> {
    node.metadata.labels.as_ref()?.get(ZONE).cloned()
}

fn in_zone(zone: String) -> VolumeNodeAffinity {
    let expression = NodeSelectorRequirement {
        key: ZONE.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![zone]),
    };
    let term = NodeSelectorTerm { match_expressions: Some(vec![expression]), ..Default::default() };
    VolumeNodeAffinity { required: Some(NodeSelector { node_selector_terms: vec![term] }) }
}

fn claim_ref(claim: &PersistentVolumeClaim) -> ObjectReference {
    let meta = &claim.metadata;
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        ..ObjectReference::default()
    }
}
