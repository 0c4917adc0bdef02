//! Whether the claims of a pod let it run at all (spec 20 §3.17.1).

use super::{VolumeClaim, Volumes};
use crate::pod::Pod;
use crate::requirement::Requirements;

impl Volumes {
    /// Why the pod cannot run, by the first of its claims that is not ready for it.
    pub fn validate(&self, pod: &Pod) -> Result<(), String> {
        for name in &pod.volume_claims {
            let claim = self.claim(pod, name)?;
            let full_name = format!("{}/{name}", pod.namespace);
            validate_state(claim, &full_name)?;
            if claim.is_bound() {
                self.validate_bound(claim, name, &full_name)?;
            } else {
                self.validate_unbound(claim, &full_name)?;
            }
            self.validate_driver(claim, &full_name)?;
        }
        Ok(())
    }

    /// A claim that names its volume. Class and binding mode do not matter any more.
    fn validate_bound(
        &self,
        claim: &VolumeClaim,
        name: &str,
        full_name: &str,
    ) -> Result<(), String> {
        let VolumeClaim { volume_name, .. } = claim;
        let volume = self.volume(volume_name).and_then(|volume| {
            if volume.is_deleting {
                Err("persistentvolume is being deleted".to_owned())
            } else {
                Ok(())
            }
        });
        volume.map_err(|error| {
            let class = claim.storage_class_name();
            format!(
                "failed to validate pvc, {error} (PersistentVolume={volume_name}, \
                 PersistentVolumeClaim={full_name}, StorageClass={class})"
            )
        })?;
        if claim.is_bind_completed {
            return Ok(());
        }
        // The claim's name alone is upstream's.
        Err(format!(
            "pvc is considered unbound because it does not contain annotation \
             (PersistentVolume={volume_name}, PersistentVolumeClaim={name}, \
             annotation=pv.kubernetes.io/bind-completed)"
        ))
    }

    /// A claim whose volume is made when a pod needs it.
    fn validate_unbound(&self, claim: &VolumeClaim, full_name: &str) -> Result<(), String> {
        let class_name = claim.storage_class_name();
        let place = format!("PersistentVolumeClaim={full_name}, StorageClass={class_name}");
        if class_name.is_empty() {
            return Err(format!("unbound pvc must define a storage class ({place})"));
        }
        let class = self.class(class_name).map_err(|error| {
            format!("failed to validate pvc, failed to get storage class, {error} ({place})")
        })?;
        if class.binds_immediately {
            return Err(format!(
                "failed to validate pvc, pvc with immediate volume binding mode must be bound \
                 ({place})"
            ));
        }
        let mut keys = class.allowed_topologies.iter().flat_map(Requirements::keys);
        match keys.find(|&key| self.unsupported_topology_keys.contains(key)) {
            None => Ok(()),
            Some(key) => Err(format!(
                "failed to validate pvc, storage class uses unsupported topology key \
                 ({place}, TopologyKey={key})"
            )),
        }
    }

    fn validate_driver(&self, claim: &VolumeClaim, full_name: &str) -> Result<(), String> {
        let class = claim.storage_class_name();
        let driver = self.driver(claim).map_err(|error| {
            format!(
                "failed to validate pvc, {error} \
                 (PersistentVolumeClaim={full_name}, StorageClass={class})"
            )
        })?;
        match driver.filter(|&driver| self.unsupported_drivers.contains(driver)) {
            None => Ok(()),
            Some(driver) => Err(format!(
                "failed to validate pvc, provisioner is not supported \
                 (PersistentVolumeClaim={full_name}, Provisioner={driver}, StorageClass={class})"
            )),
        }
    }
}

/// What kube-scheduler refuses as well, whatever the claim is bound to.
fn validate_state(claim: &VolumeClaim, full_name: &str) -> Result<(), String> {
    if claim.is_deleting {
        return Err(format!(
            "persistentvolumeclaim is being deleted (PersistentVolumeClaim={full_name})"
        ));
    }
    if claim.is_lost {
        return Err(format!(
            "persistentvolumeclaim bound to non-existent persistentvolume \
             (PersistentVolume={}, PersistentVolumeClaim={full_name})",
            claim.volume_name
        ));
    }
    Ok(())
}
