//! The kinds of dynamic resource allocation: DeviceClass, ResourceClaim and ResourceSlice.

use serde_json::Value;

use super::built_in_kind::{BASE_KIND, BuiltInKind, GenerationPolicy, StatusPolicy};
use super::json_access::text;
use super::{AdmissionContext, validation};
use crate::status::StatusError;

pub(super) static DEVICE_CLASS: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.resource.v1.DeviceClass",
    generation_policy: GenerationPolicy::OnSpecChange,
    ..BASE_KIND
};

pub(super) static RESOURCE_CLAIM: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.resource.v1.ResourceClaim",
    status_policy: StatusPolicy::Subresource,
    validate: validation::validate_resource_claim,
    validate_update: validation::validate_resource_claim_update,
    ..BASE_KIND
};

pub(super) static RESOURCE_CLAIM_TEMPLATE: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.resource.v1.ResourceClaimTemplate",
    validate: validation::validate_resource_claim_template,
    validate_update: validation::validate_resource_claim_template_update,
    ..BASE_KIND
};

pub(super) static RESOURCE_SLICE: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.resource.v1.ResourceSlice",
    generation_policy: GenerationPolicy::OnSpecChange,
    admit_create: |slice, context| {
        set_taint_times(slice, context);
        Ok(())
    },
    admit_update: |slice, _, context| -> Result<(), StatusError> {
        set_taint_times(slice, context);
        Ok(())
    },
    validate: validation::validate_resource_slice,
    validate_update: validation::validate_resource_slice_update,
    selectable_fields: |slice| {
        vec![
            ("spec.nodeName", text(slice, "/spec/nodeName").to_owned()),
            ("spec.driver", text(slice, "/spec/driver").to_owned()),
        ]
    },
    ..BASE_KIND
};

/// Sets the start time of device taints that have none.
fn set_taint_times(slice: &mut Value, context: AdmissionContext<'_>) {
    let now = super::storage::timestamp_now(context);
    let devices = slice.pointer_mut("/spec/devices").and_then(Value::as_array_mut);
    for device in devices.into_iter().flatten() {
        let taints = device.get_mut("taints").and_then(Value::as_array_mut);
        for taint in taints.into_iter().flatten().filter_map(Value::as_object_mut) {
            super::json_access::set_default(taint, "timeAdded", now.clone());
        }
    }
}
