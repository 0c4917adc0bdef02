//! Caches parsed pod specs, so that the spec of many replicas is parsed once.
//!
//! Pods with equal labels mostly come from one template. The cache compares the wire fields that
//! parsing reads; for 100,000 pods of 100 templates that took a fifth of the time of parsing all.
//!
//! Invariant: parsing reads no field that [`is_replica`] does not compare. A property test parses
//! pods together and one by one and compares.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{NodeAffinity, NodeSelectorTerm};
use karpenter_core::pod::{PodProblem, PodSpec};
use karpenter_core::resources::Resources;
use karpenter_core::selector::Labels;

use super::interner::Interner;
use super::requests;
use crate::wire::{Container, ContainerStatus, Pod as WirePod, PodSpec as WireSpec, PodStatus};

/// The most parsed pods that are kept per set of labels: the two templates of a rollout, and some
/// more. Pods of a file often have no labels at all.
const MAX_PODS_PER_LABELS: usize = 4;

/// The parsed values that a pod shares with its replicas.
#[derive(Clone, Debug)]
pub(super) struct ParsedPod {
    pub(super) spec: Arc<PodSpec>,
    pub(super) limits: Arc<Resources>,
    pub(super) problem: Option<PodProblem>,
    /// Parts of the spec that could not be parsed.
    pub(super) parse_errors: Vec<String>,
    /// Parts of the required node affinity that could not be parsed. For pending pods the pod
    /// validation reports them in its own words.
    pub(super) affinity_errors: Vec<String>,
}

/// A cache of parsed pods by labels; it borrows or owns the wire pods.
pub(crate) struct ParsedPods<P> {
    by_labels: HashMap<Arc<Labels>, VecDeque<(P, ParsedPod)>>,
    specs: Interner<PodSpec>,
    /// The number of label sets at which the next sweep runs.
    sweep_threshold: usize,
}

/// The least number of label sets at which a sweep runs.
const MIN_SWEEP_THRESHOLD: usize = 1024;

impl<P> Default for ParsedPods<P> {
    fn default() -> Self {
        Self {
            by_labels: HashMap::new(),
            specs: Interner::default(),
            sweep_threshold: MIN_SWEEP_THRESHOLD,
        }
    }
}

impl<P: Borrow<WirePod>> ParsedPods<P> {
    /// Returns the labels of a pod and its parsed values; calls `read` on a cache miss.
    pub(super) fn get_or_parse(
        &mut self,
        object: P,
        read: impl FnOnce(&mut Interner<PodSpec>) -> ParsedPod,
    ) -> (Arc<Labels>, ParsedPod) {
        let wire = object.borrow();
        let none = Labels::new();
        let labels = wire.metadata.labels.as_ref().unwrap_or(&none);
        let shared = match self.by_labels.get_key_value(labels) {
            Some((shared, known)) => {
                if let Some((_, read)) =
                    known.iter().find(|(known, _)| is_replica(known.borrow(), wire))
                {
                    return (Arc::clone(shared), read.clone());
                }
                Arc::clone(shared)
            }
            None => Arc::new(labels.clone()),
        };
        let read = read(&mut self.specs);
        let known = self.by_labels.entry(Arc::clone(&shared)).or_default();
        known.truncate(MAX_PODS_PER_LABELS - 1);
        known.push_front((object, read.clone()));
        (shared, read)
    }

    /// Drops entries that no pod uses, once the cache has doubled since the last sweep. Only
    /// long-lived readers need it.
    pub(crate) fn sweep(&mut self) {
        if self.by_labels.len() < self.sweep_threshold {
            return;
        }
        self.by_labels.retain(|labels, _| Arc::strong_count(labels) > 1);
        self.specs.sweep();
        self.sweep_threshold = (2 * self.by_labels.len()).max(MIN_SWEEP_THRESHOLD);
    }
}

/// Whether two pods are equal in all fields that parsing reads.
fn is_replica(a: &WirePod, b: &WirePod) -> bool {
    let specs = match (&a.spec, &b.spec) {
        (Some(a), Some(b)) => is_same_spec(a, b),
        (None, None) => true,
        _ => false,
    };
    let empty = PodStatus::default();
    let (a, b) = (a.status.as_ref().unwrap_or(&empty), b.status.as_ref().unwrap_or(&empty));
    specs && is_same_status(a, b)
}

fn is_same_spec(a: &WireSpec, b: &WireSpec) -> bool {
    let (init_a, init_b) = (&a.init_containers, &b.init_containers);
    is_same_list(Some(&a.containers), Some(&b.containers), is_same_container)
        && is_same_list(init_a.as_ref(), init_b.as_ref(), is_same_container)
        && a.resources == b.resources
        && a.overhead == b.overhead
        && a.node_selector == b.node_selector
        && a.tolerations == b.tolerations
        && a.topology_spread_constraints == b.topology_spread_constraints
        && a.resource_claims == b.resource_claims
        && is_same_affinity(a, b)
}

fn is_same_container(a: &Container, b: &Container) -> bool {
    a.name == b.name
        && a.resources == b.resources
        && a.ports == b.ports
        && a.restart_policy == b.restart_policy
}

fn is_same_affinity(a: &WireSpec, b: &WireSpec) -> bool {
    match (&a.affinity, &b.affinity) {
        (None, None) => true,
        (Some(a), Some(b)) if Arc::ptr_eq(a, b) => true,
        (Some(a), Some(b)) => {
            let is_same_node = match (&a.node_affinity, &b.node_affinity) {
                (None, None) => true,
                (Some(a), Some(b)) => is_same_node_affinity(a, b),
                _ => false,
            };
            is_same_node
                && a.pod_affinity == b.pod_affinity
                && a.pod_anti_affinity == b.pod_anti_affinity
        }
        _ => false,
    }
}

fn is_same_node_affinity(a: &NodeAffinity, b: &NodeAffinity) -> bool {
    let required_a = a.required_during_scheduling_ignored_during_execution.as_ref();
    let required_b = b.required_during_scheduling_ignored_during_execution.as_ref();
    let terms_a = required_a.map(|required| &required.node_selector_terms);
    let terms_b = required_b.map(|required| &required.node_selector_terms);
    is_same_list(terms_a, terms_b, is_same_term)
        && a.preferred_during_scheduling_ignored_during_execution
            == b.preferred_during_scheduling_ignored_during_execution
}

/// Of `matchFields` it only matters whether they are there: they pin every pod of a DaemonSet to
/// another node.
fn is_same_term(a: &NodeSelectorTerm, b: &NodeSelectorTerm) -> bool {
    a.match_expressions == b.match_expressions
        && a.match_fields.is_some() == b.match_fields.is_some()
}

fn is_same_status(a: &PodStatus, b: &PodStatus) -> bool {
    let (running_a, running_b) = (&a.container_statuses, &b.container_statuses);
    let (init_a, init_b) = (&a.init_container_statuses, &b.init_container_statuses);
    is_same_list(running_a.as_ref(), running_b.as_ref(), is_same_container_status)
        && is_same_list(init_a.as_ref(), init_b.as_ref(), is_same_container_status)
        && a.resource_claim_statuses == b.resource_claim_statuses
        && requests::is_resize_infeasible(a) == requests::is_resize_infeasible(b)
}

fn is_same_container_status(a: &ContainerStatus, b: &ContainerStatus) -> bool {
    a.name == b.name && a.resources == b.resources && a.allocated_resources == b.allocated_resources
}

/// Treats an absent list as an empty one, as parsing does.
fn is_same_list<T>(a: Option<&Vec<T>>, b: Option<&Vec<T>>, is_same: fn(&T, &T) -> bool) -> bool {
    let (a, b) = (a.map_or(&[][..], Vec::as_slice), b.map_or(&[][..], Vec::as_slice));
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
}
