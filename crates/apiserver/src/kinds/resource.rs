//! Devices: classes, claims and slices.

use serde_json::Value;

use super::access::text;
use super::built_in::{BASE, BuiltIn, Generation, Status};
use super::{Around, checks};
use crate::status::Failure;

pub(super) static DEVICE_CLASS: BuiltIn =
    BuiltIn { model: "io.k8s.api.resource.v1.DeviceClass", generation: Generation::Spec, ..BASE };

pub(super) static CLAIM: BuiltIn = BuiltIn {
    model: "io.k8s.api.resource.v1.ResourceClaim",
    status: Status::Own,
    validate: checks::resource_claim,
    validate_update: checks::resource_claim_update,
    ..BASE
};

pub(super) static CLAIM_TEMPLATE: BuiltIn = BuiltIn {
    model: "io.k8s.api.resource.v1.ResourceClaimTemplate",
    validate: checks::resource_claim_template,
    validate_update: checks::resource_claim_template_update,
    ..BASE
};

pub(super) static SLICE: BuiltIn = BuiltIn {
    model: "io.k8s.api.resource.v1.ResourceSlice",
    generation: Generation::Spec,
    admit_create: |slice, around| {
        add_taint_times(slice, around);
        Ok(())
    },
    admit_update: |slice, _, around| -> Result<(), Failure> {
        add_taint_times(slice, around);
        Ok(())
    },
    validate: checks::resource_slice,
    validate_update: checks::resource_slice_update,
    fields: |slice| {
        vec![
            ("spec.nodeName", text(slice, "/spec/nodeName").to_owned()),
            ("spec.driver", text(slice, "/spec/driver").to_owned()),
        ]
    },
    ..BASE
};

/// A taint of a device begins when it is written, unless it says otherwise.
fn add_taint_times(slice: &mut Value, around: Around<'_>) {
    let now = super::storage::now(around);
    let devices = slice.pointer_mut("/spec/devices").and_then(Value::as_array_mut);
    for device in devices.into_iter().flatten() {
        let taints = device.get_mut("taints").and_then(Value::as_array_mut);
        for taint in taints.into_iter().flatten().filter_map(Value::as_object_mut) {
            super::access::fill(taint, "timeAdded", now.clone());
        }
    }
}
