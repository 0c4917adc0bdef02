//! Allocates devices to the ResourceClaims of pods: dynamic resource allocation (spec 20 §3.19).
//!
//! The claims of a pod request devices. Drivers publish devices in slices, for a node, for some
//! nodes or for all; future nodes will publish the slices of their instance type's templates. This
//! module finds devices for the claims of a pod on one candidate, and tracks the devices that pods
//! placed earlier in the solve hold.
//!
//! | File | Owns |
//! |---|---|
//! | `types` | slices, claims, classes and templates as plain values |
//! | `matches` | which devices a selector matches, evaluated by the caller |
//! | `allocator` | the entry: allocates devices for the claims of a pod |
//! | `claim_plan` | a claim with its requests, limits and errors |
//! | `pools`, `devices` | the devices that a candidate can use, in order |
//! | `search`, `available_devices`, `constraints`, `counters`, `capacity` | searches one type |
//! | `tracker` | the devices held, by candidate and type |
//!
//! # How the solver uses it
//!
//! One [`Allocator`] for a solve; none while requests are ignored, and then pods that
//! [request devices](crate::pod::PodSpec::requests_dynamic_resources) are rejected.
//!
//! ```text
//! let mut allocator = Allocator::for_request(request);
//!
//! // once for a pod with claims, before any candidate (PodRejection::DynamicResources on error)
//! let claims = allocator.resolve(&pod.namespace, &pod.spec.resource_claims)?;
//!
//! // existing node, after topology of a volume alternative (spec 20 §3.8); the result narrows
//! // nothing, since the labels of a node do not change
//! let candidate = Candidate {
//!     id: CandidateId::Node(node_id),
//!     node_name: node.object.as_ref().map(|_| node.name.as_str()),
//!     requirements: &node_requirements,              // before this pod
//!     types: vec![CandidateType::of_node(type_label, catalog_type, node.is_initialized)],
//! };
//! // "allocating dynamic resources, {e}"
//! let allocation = allocator.allocate(&candidate, &claims)?;
//!
//! // in-flight NodeClaim, step 3b of spec 20 §3.9
//! let candidate = Candidate {
//!     id: CandidateId::InFlight(claim_number),
//!     node_name: None,
//!     requirements: &claim.requirements,             // before this pod
//!     types: claim
//!         .types
//!         .iter()
//!         .map(|t| CandidateType::in_flight(&t.name, &t.dynamic_resources))
//!         .collect(),
//! };
//! // "allocating dynamic resources, {e}"
//! let allocation = allocator.allocate(&candidate, &claims)?;
//! // "incompatible dynamic resource requirements, {e}"
//! requirements.compatible(&allocation.requirements, well_known)?;
//! requirements.extend(allocation.requirements.iter().cloned());
//! // step 3e: of the types that pass the filter keep those at allocation.types; none →
//! // "no instance type satisfies both scheduling and dynamic resource requirements"
//!
//! // add, in both cases
//! allocator.commit(candidate.id, allocation);
//! // then, for a NodeClaim, the names of candidate.types that it does not have any more
//! allocator.release(candidate.id, dropped);
//!
//! // when the plan is written
//! planned.dynamic_drivers = allocator.drivers(CandidateId::InFlight(claim_number));
//! ```
//!
//! A new NodeClaim needs its number before the first `allocate`; the number of a dropped NodeClaim
//! may be used again, as long as nothing was committed for it. `release` is also right, and frees
//! devices sooner, when a later pod without claims narrows the types.

mod allocator;
mod available_devices;
mod capacity;
mod claim_plan;
mod constraints;
mod counters;
mod devices;
mod matches;
mod pools;
mod search;
#[cfg(test)]
mod tests;
mod tracker;
mod types;

pub use allocator::{Allocation, Allocator, Candidate, CandidateType};
pub use matches::{SelectorError, SelectorMatches};
pub use tracker::{CandidateId, ChosenDevice, ClaimDevices, ClaimHold};
pub use types::{
    AllocatedDevice, Attribute, AttributeBinding, Claim, ClaimAllocation, ClaimKey, ClaimRef,
    Constraint, ConstraintRule, Consumer, Count, CounterSet, Device, DeviceCapacity, DeviceClass,
    DeviceId, DeviceQuery, DeviceRequest, DeviceRequestKind, DeviceSelector, DeviceShape,
    DynamicResourceState, DynamicResources, NodeAccess, RequestPolicy, ShareRange, Slice,
    SliceTemplate,
};
