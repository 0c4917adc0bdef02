//! Reads the objects of dynamic resource allocation: requests, claims and devices (spec 20 §3.19).

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::resource::v1::{
    AllocationResult, DeviceClass as WireClass, ResourceClaim, ResourceClaimConsumerReference,
};
use karpenter_core::requirement::{Aliases, Requirements};
use karpenter_core::scheduling::dra::{
    AllocatedDevice, Claim, ClaimAllocation, ClaimKey, ClaimRef, Consumer, DeviceClass, DeviceId,
    DynamicResourceState,
};

use super::{Objects, Reader, quantity, requirement, text};
use crate::wire::{PodSpec as WireSpec, PodStatus};

mod request;
mod slice;

pub(crate) use slice::read_slice as resource_slice;

/// Whether the pod or one of its containers requests devices.
pub(super) fn requests_devices(spec: &WireSpec) -> bool {
    let lists_claims = spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty());
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    lists_claims
        || containers.into_iter().any(|container| {
            let claims = container.resources.as_ref().and_then(|r| r.claims.as_ref());
            claims.is_some_and(|claims| !claims.is_empty())
        })
}

/// The claims of a pod by their names: as written, or as they were generated from a template. A
/// template without a generated claim has nothing to allocate.
pub(super) fn claims(spec: &WireSpec, status: Option<&PodStatus>) -> Vec<ClaimRef> {
    let generated = |name: &str| {
        let statuses = status?.resource_claim_statuses.as_ref()?;
        statuses.iter().find(|status| status.name == name)?.resource_claim_name.clone()
    };
    let claims = spec.resource_claims.iter().flatten().filter_map(|claim| {
        let name = claim.resource_claim_name.clone().or_else(|| generated(&claim.name))?;
        Some(ClaimRef { name })
    });
    claims.collect()
}

/// Returns the devices, claims and classes of the cluster. The device selector evaluator fills in
/// later which devices their selectors match.
pub(super) fn read(objects: &Objects, reader: &mut Reader<'_>) -> DynamicResourceState {
    let classes = objects
        .device_classes
        .iter()
        .map(|wire| (text(wire.metadata.name.as_ref()).to_owned(), Arc::new(device_class(wire))));
    let classes = classes.collect();
    let mut claims = BTreeMap::new();
    for wire in &objects.resource_claims {
        let key = ClaimKey {
            namespace: text(wire.metadata.namespace.as_ref()).to_owned(),
            name: text(wire.metadata.name.as_ref()).to_owned(),
        };
        claims.insert(key, Arc::new(resource_claim(wire, reader)));
    }
    let slices = slice::read(objects, reader);
    DynamicResourceState { slices, claims, classes, matches: Arc::default() }
}

/// One DeviceClass.
pub(crate) fn device_class(wire: &WireClass) -> DeviceClass {
    DeviceClass { selectors: request::selectors(wire.spec.selectors.as_ref()) }
}

/// One ResourceClaim.
pub(crate) fn resource_claim(wire: &ResourceClaim, reader: &mut Reader<'_>) -> Claim {
    let mut problems = Vec::new();
    let claim = claim(wire, reader.aliases, &mut problems);
    reader.report_problems("ResourceClaim", &wire.metadata, &problems);
    claim
}

fn claim(wire: &ResourceClaim, aliases: &Aliases, problems: &mut Vec<String>) -> Claim {
    let devices = wire.spec.devices.as_ref();
    let requests = devices.and_then(|devices| devices.requests.as_ref());
    let constraints = devices.and_then(|devices| devices.constraints.as_ref());
    let status = wire.status.as_ref();
    let allocation = status.and_then(|status| status.allocation.as_ref());
    let users = status.and_then(|status| status.reserved_for.as_ref());
    let requests = requests.into_iter().flatten();
    Claim {
        requests: requests.map(|wire| request::read(wire, problems)).collect(),
        constraints: constraints.into_iter().flatten().map(request::constraint).collect(),
        allocation: allocation.map(|wire| allocated(wire, aliases, problems)),
        reserved_for: users.into_iter().flatten().map(consumer).collect(),
    }
}

fn consumer(wire: &ResourceClaimConsumerReference) -> Consumer {
    if wire.resource == "pods" && text(wire.api_group.as_ref()).is_empty() {
        Consumer::Pod(wire.uid.clone())
    } else {
        Consumer::Other
    }
}

fn allocated(
    wire: &AllocationResult,
    aliases: &Aliases,
    problems: &mut Vec<String>,
) -> ClaimAllocation {
    let terms = wire.node_selector.iter().flat_map(|selector| &selector.node_selector_terms);
    let mut requirements = Requirements::default();
    let mut node = None;
    for term in terms {
        requirements.extend(requirement::term(term, aliases, problems).iter().cloned());
        let names = term.match_fields.iter().flatten().filter(|f| f.key == "metadata.name");
        node = node.or(names.flat_map(|field| field.values.iter().flatten()).next().cloned());
    }
    let results = wire.devices.iter().flat_map(|devices| devices.results.iter().flatten());
    let mut devices = Vec::new();
    for device in results {
        let id = DeviceId {
            driver: device.driver.as_str().into(),
            pool: device.pool.as_str().into(),
            device: device.device.as_str().into(),
        };
        let consumed = device.consumed_capacity.as_ref();
        let consumed =
            quantity::quantity_map(consumed, "status.allocation.consumedCapacity", problems);
        devices.push(AllocatedDevice { id, consumed });
    }
    ClaimAllocation { requirements, node, devices }
}
