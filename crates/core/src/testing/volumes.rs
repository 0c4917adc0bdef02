//! PersistentVolumeClaims, volumes and classes.

use super::labels::{label_key, requirement};
use crate::requirement::{Operator, Requirement, Requirements};
use crate::volume::{PersistentVolume, StorageClass, VolumeClaim};

/// Returns a claim that is bound to a volume, or unbound without a name.
///
/// An unbound claim waits for its class.
pub fn volume_claim(volume: &str, class: &str) -> VolumeClaim {
    VolumeClaim {
        volume_name: volume.to_owned(),
        storage_class: (!class.is_empty()).then(|| class.to_owned()),
        is_deleting: false,
        is_lost: false,
        is_bind_completed: !volume.is_empty(),
    }
}

/// Returns a volume of a driver that these zones can reach.
///
/// Without zones, the volume can be reached from everywhere.
pub fn persistent_volume(driver: &str, zones: &[&str]) -> PersistentVolume {
    let term = Requirements::from_iter([requirement("zone", Operator::In, zones)]);
    PersistentVolume {
        driver: Some(driver.to_owned()),
        is_local: false,
        node_affinity: if zones.is_empty() { Vec::new() } else { vec![term] },
        is_deleting: false,
    }
}

/// A volume on the disk of a node.
pub fn local_volume(hostname: &str) -> PersistentVolume {
    let term = Requirements::from_iter([Requirement::in_values(label_key("hostname"), [hostname])]);
    PersistentVolume { driver: None, is_local: true, node_affinity: vec![term], is_deleting: false }
}

/// A class of a driver that waits for the first consumer, in any zone.
pub fn storage_class(driver: &str) -> StorageClass {
    StorageClass {
        provisioner: driver.to_owned(),
        binds_immediately: false,
        allowed_topologies: Vec::new(),
    }
}

/// Returns a storage class whose volumes are in these zones only.
pub fn zonal_storage_class(driver: &str, zones: &[&str]) -> StorageClass {
    let term = Requirements::from_iter([requirement("zone", Operator::In, zones)]);
    StorageClass { allowed_topologies: vec![term], ..storage_class(driver) }
}
