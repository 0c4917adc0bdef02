//! Reads what a pod over the [bound](constraint_limits) means for other pods.
//!
//! The pod itself is not scheduled. While it runs, it holds its host ports, and its required
//! anti-affinity keeps other pods away. A DaemonSet still adds its requests to the nodes it selects.
//!
//! ```text
//! required constraints ─ over the bound ─▶ anti-affinity and host ports ─ over the bound ─▶ closed node
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Affinity, NodeAffinity, PodAntiAffinity};
use karpenter_api::labels::HOSTNAME;
use karpenter_core::pod::{AffinityTerm, PodSpec};
use karpenter_core::requirement::Aliases;
use karpenter_core::resources::Resources;
use karpenter_core::selector::{LabelSelector, Selector};
use karpenter_core::taint::Toleration;

use super::{constraint_limits, pod_spec};
use crate::wire::{Container, PodSpec as WireSpec};

#[cfg(test)]
mod tests;

/// The problem of a spec that is read without the constraints on its nodes.
pub(super) const NODE_SELECTION_UNREAD: &str =
    "its node selector, node affinity and tolerations are not read";
const NODE_CLOSED: &str = "its required anti-affinity and host ports are over the bound: \
                           no pod is planned onto its node";

/// The most topology keys whose domains are closed for a pod that is not read.
const CLOSED_KEYS_MAX: usize = 100;

/// Reads the constraints of a pod over the bound that matter to other pods.
pub(super) fn read(
    wire: &WireSpec,
    requests: Resources,
    aliases: &Aliases,
    problems: &mut Vec<String>,
) -> PodSpec {
    let mut kept = required_constraints(wire);
    let selects_nodes = is_within_bound(&kept);
    if !selects_nodes {
        problems.push(NODE_SELECTION_UNREAD.to_owned());
        kept = without_node_selection(kept);
    }
    let mut spec = if is_within_bound(&kept) {
        pod_spec::read(&kept, requests, Vec::new(), aliases, problems)
    } else {
        problems.push(NODE_CLOSED.to_owned());
        PodSpec { requests, pod_anti_affinity: repel_all_pods(wire), ..PodSpec::default() }
    };
    if !selects_nodes {
        spec.tolerations = vec![tolerate_everything()];
    }
    spec
}

/// Returns the constraints that must hold, or none if they are over the bound themselves.
pub(super) fn node_selection(wire: &WireSpec) -> Option<WireSpec> {
    let kept = required_constraints(wire);
    is_within_bound(&kept).then_some(kept)
}

fn is_within_bound(wire: &WireSpec) -> bool {
    constraint_limits::excess(wire).is_none()
}

/// Returns a spec without preferences, pod affinity and spread constraints, which bind no other pod.
fn required_constraints(wire: &WireSpec) -> WireSpec {
    let affinity = wire.affinity.as_ref();
    let node = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
    let pods = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let node_affinity = node.map(|node| NodeAffinity {
        required_during_scheduling_ignored_during_execution: node
            .required_during_scheduling_ignored_during_execution
            .clone(),
        ..NodeAffinity::default()
    });
    let pod_anti_affinity = pods.map(|pods| PodAntiAffinity {
        required_during_scheduling_ignored_during_execution: pods
            .required_during_scheduling_ignored_during_execution
            .clone(),
        ..PodAntiAffinity::default()
    });
    let ports = |container: &Container| Container {
        name: container.name.clone(),
        ports: container.ports.clone(),
        ..Container::default()
    };
    WireSpec {
        node_selector: wire.node_selector.clone(),
        affinity: Some(Arc::new(Affinity { node_affinity, pod_affinity: None, pod_anti_affinity })),
        tolerations: wire.tolerations.clone(),
        containers: wire.containers.iter().map(ports).collect(),
        ..WireSpec::default()
    }
}

fn without_node_selection(mut kept: WireSpec) -> WireSpec {
    if let Some(affinity) = &mut kept.affinity {
        Arc::make_mut(affinity).node_affinity = None;
    }
    WireSpec { node_selector: None, tolerations: None, ..kept }
}

/// Returns terms that keep every pod away from the node, and from the domains of the pod's own
/// terms.
fn repel_all_pods(wire: &WireSpec) -> Vec<AffinityTerm> {
    let pods = wire.affinity.as_ref().and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let required =
        pods.and_then(|pods| pods.required_during_scheduling_ignored_during_execution.as_ref());
    let keys: BTreeSet<&str> =
        required.into_iter().flatten().map(|term| term.topology_key.as_str()).collect();
    let keys = keys.into_iter().filter(|key| !key.is_empty() && *key != HOSTNAME);
    let keys = keys.take(CLOSED_KEYS_MAX).chain([HOSTNAME]);
    let repel = |key: &str| AffinityTerm {
        topology_key: key.to_owned(),
        selector: Selector::Matching(LabelSelector::default()),
        namespaces: Vec::new(),
        namespace_selector: Some(LabelSelector::default()),
    };
    keys.map(repel).collect()
}

fn tolerate_everything() -> Toleration {
    Toleration {
        key: String::new(),
        operator: "Exists".to_owned(),
        value: String::new(),
        effect: None,
    }
}
