//! Converts parts of wire objects for readers that need no snapshot: the simulated scheduler,
//! drains.
//!
//! The conversion equals that of [`super::snapshot`]. Unreadable parts are left out without a
//! diagnostic: admission rejects them, and these readers could not act on one.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    NodeSelectorRequirement, PodAffinityTerm, Taint as WireTaint, Toleration as WireToleration,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector as WireSelector;
use karpenter_api::annotations;
use karpenter_core::host_port::HostPort;
use karpenter_core::pod::drain_state::{PodDrainState, is_critical, tolerates_disruption};
use karpenter_core::pod::{OwnerKind, PodSpec};
use karpenter_core::requirement::{Aliases, Requirement};
use karpenter_core::resources::{Quantity, Resources};
use karpenter_core::selector::Selector;
use karpenter_core::taint::{Taint, Toleration};
use karpenter_core::termination::drain::PodToEvict;

use super::{
    pod, pod_spec as spec, quantity as amounts, requests, requirement, selector as labels, taint,
};
use crate::wire::{Container, Pod as WirePod, PodSpec as WireSpec};

/// Returns the requests and constraints of a live pod, without dynamic resources.
pub fn pod_spec(wire: &WirePod, aliases: &Aliases) -> PodSpec {
    let none = WireSpec::default();
    let pod = wire.spec.as_ref().unwrap_or(&none);
    let mut problems = Vec::new();
    let requests = requests::pod_requests(pod, wire.status.as_ref(), &mut problems);
    spec::read(pod, requests, Vec::new(), aliases, &mut problems)
}

/// Returns what a live pod needs on another node after its eviction.
pub fn pod_to_evict(wire: &WirePod) -> PodToEvict {
    let none = WireSpec::default();
    let spec = wire.spec.as_ref().unwrap_or(&none);
    PodToEvict {
        requests: requests::pod_requests(spec, wire.status.as_ref(), &mut Vec::new()),
        is_constrained: is_constrained(spec),
    }
}

/// Whether the pod needs more than free capacity: certain nodes, other pods near or far, volumes or
/// devices.
fn is_constrained(spec: &WireSpec) -> bool {
    let mut spread = spec.topology_spread_constraints.iter().flat_map(|all| all.iter());
    let affinity = spec.affinity.as_deref();
    let nodes = affinity.and_then(|all| all.node_affinity.as_ref());
    let near = affinity.and_then(|all| all.pod_affinity.as_ref());
    let far = affinity.and_then(|all| all.pod_anti_affinity.as_ref());
    let has = |terms: Option<&Vec<PodAffinityTerm>>| terms.is_some_and(|terms| !terms.is_empty());
    spread.any(|one| one.when_unsatisfiable != "ScheduleAnyway")
        || spec.node_selector.as_ref().is_some_and(|selector| !selector.is_empty())
        || nodes
            .is_some_and(|all| all.required_during_scheduling_ignored_during_execution.is_some())
        || has(near.and_then(|all| all.required_during_scheduling_ignored_during_execution.as_ref()))
        || has(far.and_then(|all| all.required_during_scheduling_ignored_during_execution.as_ref()))
        || spec.volumes.as_ref().is_some_and(|volumes| !volumes.is_empty())
        || spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty())
}

/// Returns the facts of a pod that decide when a drain evicts it.
pub fn pod_drain_state(wire: &WirePod) -> PodDrainState {
    let (spec, status) = (wire.spec.as_ref(), wire.status.as_ref());
    let annotations = wire.metadata.annotations.as_ref();
    let class = spec.and_then(|spec| spec.priority_class_name.as_deref());
    PodDrainState {
        phase: pod::phase(wire),
        deletion_timestamp: wire.metadata.deletion_timestamp.as_ref().map(|time| time.0),
        owner: pod::owner(wire),
        tolerates_disruption: tolerates_disruption(&tolerations(
            spec.and_then(|spec| spec.tolerations.as_ref()),
        )),
        do_not_disrupt: annotations.and_then(|all| all.get(annotations::DO_NOT_DISRUPT)).cloned(),
        start_time: status.and_then(|status| status.start_time.as_ref()).map(|time| time.0),
        grace_seconds: spec.and_then(|spec| spec.termination_grace_period_seconds),
        is_critical: class.is_some_and(is_critical),
    }
}

/// Returns whether the pod waits for capacity. This reads only the pod.
pub fn is_provisionable(wire: &WirePod) -> bool {
    pod::wait_state(wire).is_provisionable()
}

/// Returns whether the pod has ended.
pub fn is_terminal(wire: &WirePod) -> bool {
    pod::phase(wire).is_terminal()
}

/// Returns the kind of the pod's owner.
pub fn pod_owner(wire: &WirePod) -> OwnerKind {
    pod::owner(wire)
}

/// The PersistentVolumeClaims of a pod, as names in its namespace.
pub fn volume_claims(wire: &WirePod) -> Vec<String> {
    pod::claims(wire)
}

/// The ports of the node that a container takes.
pub fn host_ports(container: &Container) -> Vec<HostPort> {
    spec::host_ports(container, &mut Vec::new())
}

/// One expression of a node selector; none if it means nothing.
pub fn expression(wire: &NodeSelectorRequirement, aliases: &Aliases) -> Option<Requirement> {
    requirement::expression(wire, aliases, &mut Vec::new())
}

/// The taints of a node.
pub fn taints(wire: Option<&Vec<WireTaint>>) -> Vec<Taint> {
    taint::taints(wire, &mut Vec::new())
}

/// What a pod tolerates.
pub fn tolerations(wire: Option<&Vec<WireToleration>>) -> Vec<Toleration> {
    taint::tolerations(wire, &mut Vec::new())
}

/// What a selector selects; nothing if it is absent or cannot be read.
pub fn selector(wire: Option<&WireSelector>) -> Selector {
    labels::selector(wire, "", &mut Vec::new())
}

/// The resources of a list.
pub fn resources(wire: Option<&BTreeMap<String, WireQuantity>>) -> Resources {
    amounts::resources(wire, "", &mut Vec::new())
}

/// One quantity, if it is one.
pub fn quantity(wire: &WireQuantity) -> Option<Quantity> {
    amounts::read_quantity(wire, "", &mut Vec::new())
}
