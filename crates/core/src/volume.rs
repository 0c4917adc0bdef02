//! PersistentVolumeClaims of pods: validity, topology and attachment limits (spec 20 §3.17, spec 45
//! §11.2).

use std::collections::{BTreeMap, BTreeSet};

use crate::pod::Pod;
use crate::requirement::Requirements;

mod attachments;
#[cfg(test)]
mod tests;
mod topology;
mod validation;

pub use attachments::Attachments;

/// Claims, volumes and classes of the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Volumes {
    /// PersistentVolumeClaims by namespace and name.
    pub claims: BTreeMap<(String, String), VolumeClaim>,
    /// PersistentVolumes by name.
    pub volumes: BTreeMap<String, PersistentVolume>,
    /// StorageClasses by name.
    pub classes: BTreeMap<String, StorageClass>,
    /// CSI drivers that nodes of this provider never get.
    pub unsupported_drivers: BTreeSet<String>,
    /// Topology keys, normalised, that nodes of this provider never have.
    pub unsupported_topology_keys: BTreeSet<String>,
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VolumeClaim {
    /// The volume that it is bound to; empty while it is not.
    pub volume_name: String,
    /// The storage class; none and empty differ only to its writer.
    pub storage_class: Option<String>,
    /// Whether it has a deletion timestamp.
    pub is_deleting: bool,
    /// Whether its phase is Lost.
    pub is_lost: bool,
    /// Whether annotation `pv.kubernetes.io/bind-completed` is there.
    pub is_bind_completed: bool,
}

/// A PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PersistentVolume {
    /// The CSI driver, translated for in-tree EBS volumes; none for other kinds.
    pub driver: Option<String>,
    /// Whether it is a `local` or `hostPath` volume.
    pub is_local: bool,
    /// Required node affinity: one requirement set per term, in the order written. Terms without
    /// expressions are left out.
    pub node_affinity: Vec<Requirements>,
    /// Whether it has a deletion timestamp.
    pub is_deleting: bool,
}

/// A StorageClass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StorageClass {
    /// The provisioner, in-tree names translated to CSI ones.
    pub provisioner: String,
    /// Whether volumes are bound before pods are scheduled.
    pub binds_immediately: bool,
    /// Where volumes can be made: one of these terms. Empty: anywhere.
    pub allowed_topologies: Vec<Requirements>,
}

impl VolumeClaim {
    /// Returns the storage class; empty if there is none.
    pub(crate) fn storage_class_name(&self) -> &str {
        self.storage_class.as_deref().unwrap_or_default()
    }

    /// Whether it names its volume. It need not be there, or be bound for good.
    fn is_bound(&self) -> bool {
        !self.volume_name.is_empty()
    }
}

// The texts for missing objects are those of upstream's cached reads, which name the kind.
impl Volumes {
    /// A claim of the pod, or why there is none.
    fn claim(&self, pod: &Pod, name: &str) -> Result<&VolumeClaim, String> {
        self.claims.get(&(pod.namespace.clone(), name.to_owned())).ok_or_else(|| {
            format!(
                "getting persistent volume claim, PersistentVolumeClaim {name:?} not found \
                 (PersistentVolumeClaim={name})"
            )
        })
    }

    fn volume(&self, name: &str) -> Result<&PersistentVolume, String> {
        self.volumes.get(name).ok_or_else(|| format!("PersistentVolume {name:?} not found"))
    }

    fn class(&self, name: &str) -> Result<&StorageClass, String> {
        self.classes
            .get(name)
            .ok_or_else(|| format!("StorageClass.storage.k8s.io {name:?} not found"))
    }

    /// The driver that attaches the volume of a claim, if it is one that can be counted. Only a
    /// volume that the claim names and that is gone is an error: without storage class there is
    /// nothing to say.
    fn driver(&self, claim: &VolumeClaim) -> Result<Option<&str>, String> {
        if claim.is_bound() {
            return Ok(self.volume(&claim.volume_name)?.driver.as_deref());
        }
        Ok(self.classes.get(claim.storage_class_name()).map(|class| class.provisioner.as_str()))
    }
}
