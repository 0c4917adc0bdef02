//! What the requests of a pod are made from (spec 20 §1.11).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use karpenter_core::pod::requests::{
    ContainerResources, InitContainerResources, PodResources, StatusResources, effective_requests,
    requests_defaulted_from_limits,
};
use karpenter_core::resources::{PODS, Resources};

use super::quantity;
use crate::wire::{Container, ContainerStatus, PodSpec as WireSpec, PodStatus};

/// Returns the effective requests of a pod.
pub(super) fn pod_requests(
    spec: &WireSpec,
    status: Option<&PodStatus>,
    problems: &mut Vec<String>,
) -> Resources {
    read(spec, status, false, problems)
}

/// Returns the effective requests of a pod template. The API server has not merged its limits into
/// its requests yet.
pub(super) fn template_requests(spec: &WireSpec, problems: &mut Vec<String>) -> Resources {
    read(spec, None, true, problems)
}

/// Returns the effective limits of a pod, `pods: 1` included. Resources without a limit are not
/// listed. Problems are dropped: only gauges show limits.
pub(super) fn pod_limits(spec: &WireSpec) -> Resources {
    let limits = |wire: Option<&ResourceRequirements>| {
        let list = wire.and_then(|resources| resources.limits.as_ref());
        quantity::requests(list, "resources.limits", &mut Vec::new())
    };
    let container = |wire: &Container| ContainerResources {
        requests: limits(wire.resources.as_ref()),
        status: None,
    };
    let init_containers = spec.init_containers.iter().flatten().map(|wire| {
        let is_sidecar = wire.restart_policy.as_deref() == Some("Always");
        InitContainerResources { container: container(wire), is_sidecar }
    });
    let mut limits = effective_requests(&PodResources {
        containers: spec.containers.iter().map(container).collect(),
        init_containers: init_containers.collect(),
        pod_level: limits(spec.resources.as_ref()),
        overhead: Resources::default(),
        is_resize_infeasible: false,
    });
    // Overhead comes on top of a limit, and is none by itself.
    let overhead = quantity::requests(spec.overhead.as_ref(), "spec.overhead", &mut Vec::new());
    for (name, amount) in overhead.iter().filter(|(name, _)| *name != PODS) {
        let limit = limits.amount(name);
        if !limit.is_zero() {
            limits.set(name, limit.saturating_add(amount));
        }
    }
    limits
}

fn read(
    spec: &WireSpec,
    status: Option<&PodStatus>,
    is_template: bool,
    problems: &mut Vec<String>,
) -> Resources {
    let running = statuses(status.and_then(|status| status.container_statuses.as_ref()));
    let initial = statuses(status.and_then(|status| status.init_container_statuses.as_ref()));
    let mut container = |wire: &Container, statuses: &Statuses<'_>| ContainerResources {
        requests: container_requests(wire, is_template, problems),
        status: statuses
            .get(wire.name.as_str())
            .and_then(|status| status_resources(status, problems)),
    };
    let containers = spec.containers.iter().map(|wire| container(wire, &running)).collect();
    let init_containers = spec.init_containers.iter().flatten().map(|wire| {
        let is_sidecar = wire.restart_policy.as_deref() == Some("Always");
        InitContainerResources { container: container(wire, &initial), is_sidecar }
    });
    let init_containers = init_containers.collect();
    effective_requests(&PodResources {
        containers,
        init_containers,
        pod_level: requests(spec.resources.as_ref(), "spec.resources.requests", problems),
        overhead: quantity::requests(spec.overhead.as_ref(), "spec.overhead", problems),
        is_resize_infeasible: status.is_some_and(is_resize_infeasible),
    })
}

type Statuses<'a> = BTreeMap<&'a str, &'a ContainerStatus>;

fn statuses(list: Option<&Vec<ContainerStatus>>) -> Statuses<'_> {
    list.into_iter().flatten().map(|status| (status.name.as_str(), status)).collect()
}

fn container_requests(
    wire: &Container,
    is_template: bool,
    problems: &mut Vec<String>,
) -> Resources {
    const REQUESTS: &str = "resources.requests";
    let own = requests(wire.resources.as_ref(), REQUESTS, problems);
    if !is_template {
        return own;
    }
    let limits = wire.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    requests_defaulted_from_limits(&own, &quantity::requests(limits, "resources.limits", problems))
}

fn requests(
    wire: Option<&ResourceRequirements>,
    place: &str,
    problems: &mut Vec<String>,
) -> Resources {
    let list = wire.and_then(|resources| resources.requests.as_ref());
    quantity::requests(list, place, problems)
}

fn status_resources(
    status: &ContainerStatus,
    problems: &mut Vec<String>,
) -> Option<StatusResources> {
    let resources = status.resources.as_ref()?;
    let allocated = status.allocated_resources.as_ref();
    Some(StatusResources {
        requests: requests(Some(resources), "status.resources.requests", problems),
        allocated: quantity::requests(allocated, "status.allocatedResources", problems),
    })
}

pub(super) fn is_resize_infeasible(status: &PodStatus) -> bool {
    status.conditions.iter().flatten().any(|condition| {
        condition.type_ == "PodResizePending" && condition.reason.as_deref() == Some("Infeasible")
    })
}
