//! PersistentVolumeClaims, PersistentVolumes and StorageClasses (spec 20 §3.17).

use k8s_openapi::api::core::v1::{
    PersistentVolume as WireVolume, PersistentVolumeClaim, TopologySelectorTerm,
};
use k8s_openapi::api::storage::v1::StorageClass as WireClass;
use karpenter_core::requirement::{Aliases, Requirement, Requirements};
use karpenter_core::volume::{PersistentVolume, StorageClass, VolumeClaim, Volumes};

use super::{Objects, Reader, requirement, text};

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const EBS: &str = "ebs.csi.aws.com";

/// The CSI drivers that took over from provisioners in Kubernetes itself.
const IN_TREE: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", EBS),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
];

/// All claims, volumes and classes by name.
pub(super) fn read(objects: &Objects, reader: &mut Reader<'_>) -> Volumes {
    let claims = objects.persistent_volume_claims.iter().map(|wire| {
        let meta = &wire.metadata;
        let key = (text(meta.namespace.as_ref()).to_owned(), text(meta.name.as_ref()).to_owned());
        (key, claim(wire))
    });
    let mut volumes = Volumes { claims: claims.collect(), ..Volumes::default() };
    for wire in &objects.persistent_volumes {
        let name = wire.metadata.name.clone().unwrap_or_default();
        volumes.volumes.insert(name, volume(wire, reader));
    }
    for wire in &objects.storage_classes {
        let name = wire.metadata.name.clone().unwrap_or_default();
        volumes.classes.insert(name, class(wire, reader));
    }
    volumes
}

/// One claim.
pub(crate) fn claim(wire: &PersistentVolumeClaim) -> VolumeClaim {
    let spec = wire.spec.as_ref();
    let annotations = wire.metadata.annotations.as_ref();
    let phase = wire.status.as_ref().and_then(|status| status.phase.as_ref());
    VolumeClaim {
        volume_name: spec.and_then(|spec| spec.volume_name.clone()).unwrap_or_default(),
        storage_class: spec.and_then(|spec| spec.storage_class_name.clone()),
        is_deleting: wire.metadata.deletion_timestamp.is_some(),
        is_lost: text(phase) == "Lost",
        is_bind_completed: annotations.is_some_and(|all| all.contains_key(BIND_COMPLETED)),
    }
}

/// One volume.
pub(crate) fn volume(wire: &WireVolume, reader: &mut Reader<'_>) -> PersistentVolume {
    let mut problems = Vec::new();
    let spec = wire.spec.as_ref();
    let affinity = spec.and_then(|spec| spec.node_affinity.as_ref()?.required.as_ref());
    let terms = affinity.into_iter().flat_map(|required| &required.node_selector_terms);
    let terms = terms.filter(|term| term.match_expressions.as_ref().is_some_and(|e| !e.is_empty()));
    let node_affinity =
        terms.map(|term| requirement::term(term, reader.aliases, &mut problems)).collect();
    reader.report_problems("PersistentVolume", &wire.metadata, &problems);
    let driver = spec.and_then(|spec| match (&spec.csi, &spec.aws_elastic_block_store) {
        (Some(csi), _) => Some(csi.driver.clone()),
        (None, Some(_)) => Some(EBS.to_owned()),
        (None, None) => None,
    });
    PersistentVolume {
        driver: driver.filter(|driver| !driver.is_empty()),
        is_local: spec.is_some_and(|spec| spec.local.is_some() || spec.host_path.is_some()),
        node_affinity,
        is_deleting: wire.metadata.deletion_timestamp.is_some(),
    }
}

/// One class.
pub(crate) fn class(wire: &WireClass, reader: &Reader<'_>) -> StorageClass {
    let translated = IN_TREE.iter().find(|(in_tree, _)| *in_tree == wire.provisioner);
    let terms = wire.allowed_topologies.iter().flatten().map(|term| topology(term, reader.aliases));
    StorageClass {
        provisioner: translated.map_or(wire.provisioner.as_str(), |(_, csi)| csi).to_owned(),
        // The API server stores the default; a missing mode does not mean immediate binding.
        binds_immediately: text(wire.volume_binding_mode.as_ref()) == "Immediate",
        allowed_topologies: terms.filter(|term| !term.is_empty()).collect(),
    }
}

fn topology(wire: &TopologySelectorTerm, aliases: &Aliases) -> Requirements {
    let expressions = wire.match_label_expressions.iter().flatten().map(|expression| {
        let key = aliases.normalize_key(&expression.key);
        let values = expression.values.iter().map(|value| aliases.normalize_value(key, value));
        Requirement::in_values(key, values)
    });
    expressions.collect()
}
