//! Devices of dynamic resource allocation, all of one driver and of the class `gpu`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::scheduling::dra::{
    Claim, ClaimKey, Count, Device, DeviceQuery, DeviceRequest, DeviceRequestKind, DeviceShape,
    DynamicResources, SliceTemplate,
};

/// The driver of all devices.
pub const DEVICE_DRIVER: &str = "gpu.example.com";

/// Devices of these names, all alike.
pub fn devices(names: &[&str]) -> Vec<Device> {
    let shape = Arc::new(DeviceShape { driver: DEVICE_DRIVER.into(), ..DeviceShape::default() });
    let device =
        |name: &&str| Device { name: (*name).into(), shape: shape.clone(), consumes: Vec::new() };
    names.iter().map(device).collect()
}

/// Returns the dynamic resources of an instance type with these devices.
pub fn published_devices(names: &[&str]) -> DynamicResources {
    let template = SliceTemplate {
        driver: DEVICE_DRIVER.into(),
        pool: "local".into(),
        devices: devices(names),
        counters: Vec::new(),
    };
    DynamicResources { templates: vec![template], bindings: Vec::new() }
}

/// Returns an unallocated ResourceClaim for one device.
pub fn one_device_claim() -> Claim {
    let query = DeviceQuery {
        name: String::new(),
        class: "gpu".to_owned(),
        selectors: Vec::new(),
        count: Count::Exact(1),
        capacity: BTreeMap::new(),
    };
    let request = DeviceRequest { name: "gpu".to_owned(), kind: DeviceRequestKind::Exactly(query) };
    Claim { requests: vec![request], ..Claim::default() }
}

/// The key of a ResourceClaim in the namespace `default`.
pub fn claim_key(name: &str) -> ClaimKey {
    ClaimKey { namespace: "default".to_owned(), name: name.to_owned() }
}
