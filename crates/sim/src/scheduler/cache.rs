//! The scheduler's cache: nodes with their pods, and indexes by the requirements of pods.
//!
//! The caller applies each change once ([`SchedulerCache::set_node`], [`SchedulerCache::set_pod`],
//! …) and gets the [`Blockers`] that it may have removed. Placing a pod reads and does not write.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Namespace, Node as WireNode, PersistentVolume, PersistentVolumeClaim,
};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use karpenter_cluster::ingest::conversion;
use karpenter_core::host_port::HostPort;
use karpenter_core::pod::{AffinityTerm, WeightedTerm};
use karpenter_core::selector::Labels;
use karpenter_core::taint::Taint;

use super::amounts::{Amounts, allowed_pods};
use super::fit_error::Blockers;
use super::pod_classes::PodClasses;
use super::pod_info::{PodInfo, PodRequirements};
use super::storage::Storage;
use super::topology::{
    BoundTerm, BoundTerms, Counters, MatchTarget, Matcher, NodeIndex, PodFilter, TermEffect,
    TopologyKeys,
};
use karpenter_operator::watch::ObjectKey;

const HOSTNAME: &str = "kubernetes.io/hostname";

/// What a container without requests counts as when nodes are compared.
const LEAST_CPU_MILLIS: i64 = 100;
const LEAST_MEMORY: i64 = 200 * 1024 * 1024;

/// A node with the pods and resources that are used on it.
#[derive(Debug)]
pub(super) struct NodeInfo {
    pub(super) allocatable: Amounts,
    pub(super) used: Amounts,
    pub(super) allowed_pods: i64,
    pub(super) pod_count: i64,
    /// The cpu of pods for scores; a pod without requests counts a default.
    pub(super) nonzero_cpu_millis: i64,
    pub(super) nonzero_memory: i64,
    pub(super) is_cordoned: bool,
    pub(super) ports: Vec<HostPort>,
    pub(super) name: String,
    pub(super) labels: Labels,
    pub(super) taints: Vec<Taint>,
    /// The pods on the node that mount PersistentVolumeClaims.
    pub(super) pods_with_volume_claims: BTreeSet<ObjectKey>,
}

impl NodeInfo {
    pub(super) fn read(wire: &WireNode) -> Self {
        let spec = wire.spec.as_ref();
        let allocatable = wire.status.as_ref().and_then(|status| status.allocatable.as_ref());
        let allocatable = conversion::resources(allocatable);
        Self {
            allowed_pods: allowed_pods(&allocatable),
            allocatable: Amounts::of(&allocatable),
            used: Amounts::default(),
            pod_count: 0,
            nonzero_cpu_millis: 0,
            nonzero_memory: 0,
            is_cordoned: spec.is_some_and(|spec| spec.unschedulable == Some(true)),
            ports: Vec::new(),
            name: wire.metadata.name.clone().unwrap_or_default(),
            labels: wire.metadata.labels.clone().unwrap_or_default(),
            taints: conversion::taints(spec.and_then(|spec| spec.taints.as_ref())),
            pods_with_volume_claims: BTreeSet::new(),
        }
    }

    pub(super) fn add(&mut self, pod: &PodInfo) {
        let (cpu, memory) = nonzero_requests(&pod.requirements.requests);
        self.used.add(&pod.requirements.requests);
        self.pod_count += 1;
        self.nonzero_cpu_millis = self.nonzero_cpu_millis.saturating_add(cpu);
        self.nonzero_memory = self.nonzero_memory.saturating_add(memory);
        self.ports.extend_from_slice(&pod.requirements.host_ports);
        if !pod.claims.is_empty() {
            self.pods_with_volume_claims.insert(pod.key.clone());
        }
    }

    fn remove(&mut self, pod: &PodInfo) {
        let (cpu, memory) = nonzero_requests(&pod.requirements.requests);
        self.used.subtract(&pod.requirements.requests);
        self.pod_count -= 1;
        self.nonzero_cpu_millis = self.nonzero_cpu_millis.saturating_sub(cpu);
        self.nonzero_memory = self.nonzero_memory.saturating_sub(memory);
        for port in &pod.requirements.host_ports {
            if let Some(at) = self.ports.iter().position(|taken| taken == port) {
                self.ports.swap_remove(at);
            }
        }
        self.pods_with_volume_claims.remove(&pod.key);
    }
}

/// Returns the cpu and memory of a pod for scores, with defaults for zero.
pub(super) fn nonzero_requests(requests: &Amounts) -> (i64, i64) {
    let or = |amount: i64, least: i64| if amount == 0 { least } else { amount };
    (or(requests.cpu_millis, LEAST_CPU_MILLIS), or(requests.memory, LEAST_MEMORY))
}

/// The cluster as the scheduler knows it: nodes, bound pods and volumes.
#[derive(Debug, Default)]
pub struct SchedulerCache {
    pub(super) nodes: Vec<Option<NodeInfo>>,
    by_name: BTreeMap<String, NodeIndex>,
    /// Pods that have a node.
    bound: BTreeMap<ObjectKey, Arc<PodInfo>>,
    /// Bound pods by the name of their node, which need not be known.
    on_node: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// How many bound pods use a claim.
    claim_users: BTreeMap<ObjectKey, usize>,
    namespaces: BTreeMap<String, Labels>,
    pub(super) keys: TopologyKeys,
    pub(super) counters: Counters,
    pub(super) bound_terms: BoundTerms,
    pub(super) classes: PodClasses,
    pub(super) storage: Storage,
    /// Each distinct set of pod requirements once; for lookups only.
    interned_requirements: HashSet<Arc<PodRequirements>>,
    interned_count_after_cleanup: usize,
    /// The node at which the next search begins, so that all get their share.
    pub(super) next_start: NodeIndex,
}

/// A pod that waits for a node, with ids of its classes and counters.
/// The caller returns them with [`SchedulerCache::release`].
#[derive(Debug)]
pub struct PendingPod {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// None if it names its nodes: then there is nothing to share.
    pub(super) class: Option<usize>,
    pub(super) spread: Vec<SpreadUse>,
    /// The counter of pods that all its affinity terms mean, and the keys of the terms.
    pub(super) affinity: Option<(usize, Vec<usize>)>,
    /// Key and counter of each anti-affinity term.
    pub(super) anti_affinity: Vec<(usize, usize)>,
    /// The weight, topology key and counter of each preferred affinity term.
    pub(super) preferred_terms: Vec<(i64, usize, usize)>,
}

/// A spread constraint of a waiting pod.
#[expect(clippy::struct_excessive_bools, reason = "facts of the constraint, each on its own")]
#[derive(Debug)]
pub(super) struct SpreadUse {
    pub(super) key: usize,
    pub(super) counter: usize,
    pub(super) max_skew: i64,
    pub(super) min_domains: usize,
    pub(super) is_required: bool,
    pub(super) is_hostname: bool,
    pub(super) honors_affinity: bool,
    pub(super) honors_taints: bool,
    /// Whether the pod itself would count.
    pub(super) counts_itself: bool,
}

impl SchedulerCache {
    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn node_index(&self, name: &str) -> Option<NodeIndex> {
        self.by_name.get(name).copied()
    }

    /// A pod that has a node.
    pub fn bound(&self, key: &ObjectKey) -> Option<&Arc<PodInfo>> {
        self.bound.get(key)
    }

    /// A node came or has changed.
    pub fn set_node(&mut self, wire: &WireNode) -> Blockers {
        let mut node = NodeInfo::read(wire);
        let name = node.name.clone();
        let Some(at) = self.node_index(&name) else {
            self.add_node(name, node);
            return Blockers::ALL;
        };
        let Some(known) = &mut self.nodes[at] else { return Blockers::NONE };
        let mut helps = Blockers::NONE;
        let grew = node.allowed_pods != known.allowed_pods || node.allocatable != known.allocatable;
        if grew {
            known.allocatable = node.allocatable;
            known.allowed_pods = node.allowed_pods;
            helps |= Blockers::CAPACITY;
        }
        let is_tainted_otherwise =
            known.is_cordoned != node.is_cordoned || known.taints != node.taints;
        let is_labelled_otherwise = known.labels != node.labels;
        if is_tainted_otherwise {
            known.is_cordoned = node.is_cordoned;
            known.taints = std::mem::take(&mut node.taints);
            helps |= Blockers::TAINTS | Blockers::SPREAD;
        }
        if is_labelled_otherwise {
            known.labels = std::mem::take(&mut node.labels);
            helps |= Blockers::LABELS | Blockers::SPREAD | Blockers::PODS | Blockers::VOLUMES;
            self.keys.set_node(at, Some(&known.labels));
        }
        if is_tainted_otherwise || is_labelled_otherwise {
            self.classes.set_node(at, known);
        }
        helps
    }

    fn add_node(&mut self, name: String, node: NodeInfo) {
        let at = self.nodes.iter().position(Option::is_none).unwrap_or(self.nodes.len());
        if at == self.nodes.len() {
            self.nodes.push(None);
        }
        self.keys.set_node(at, Some(&node.labels));
        self.classes.set_node(at, &node);
        self.nodes[at] = Some(node);
        for key in self.on_node.get(&name).cloned().unwrap_or_default() {
            if let Some(pod) = self.bound.get(&key).cloned() {
                self.add_to_node(at, &pod);
            }
        }
        self.by_name.insert(name, at);
    }

    /// A node is gone. Its pods are remembered until they go as well.
    pub fn remove_node(&mut self, name: &str) -> Blockers {
        let Some(at) = self.by_name.remove(name) else { return Blockers::NONE };
        for key in self.on_node.get(name).cloned().unwrap_or_default() {
            if let Some(pod) = self.bound.get(&key).cloned() {
                self.remove_from_node(at, &pod);
            }
        }
        self.nodes[at] = None;
        self.keys.set_node(at, None);
        let nodes = &self.nodes;
        self.keys.tidy(|| labels_of(nodes));
        Blockers::SPREAD
    }

    /// A pod has a node, or something of it has changed. Waiting pods are [`Self::prepare`]d.
    pub fn set_pod(&mut self, mut pod: PodInfo) -> Blockers {
        let Some(node) = pod.node.clone() else { return Blockers::NONE };
        let mut helps = Blockers::SPREAD | Blockers::PODS;
        if let Some(known) = self.bound.get(&pod.key) {
            // The status of a pod changes often, and says nothing about this.
            if is_same(known, &pod) {
                return Blockers::NONE;
            }
            helps |= self.remove_pod(&pod.key.clone());
        }
        pod.requirements = self.intern(pod.requirements);
        for claim in &pod.claims {
            let key = ObjectKey::new(&pod.key.namespace, &claim.name);
            *self.claim_users.entry(key).or_default() += 1;
        }
        let pod = Arc::new(pod);
        self.on_node.entry(node.clone()).or_default().insert(pod.key.clone());
        if let Some(at) = self.node_index(&node) {
            self.add_to_node(at, &pod);
        }
        self.bound.insert(pod.key.clone(), pod);
        helps
    }

    /// A pod that had a node is gone, or has ended.
    pub fn remove_pod(&mut self, key: &ObjectKey) -> Blockers {
        let Some(pod) = self.bound.remove(key) else { return Blockers::NONE };
        for claim in &pod.claims {
            let key = ObjectKey::new(&pod.key.namespace, &claim.name);
            if let Some(users) = self.claim_users.get_mut(&key) {
                *users -= 1;
                if *users == 0 {
                    self.claim_users.remove(&key);
                }
            }
        }
        let node = pod.node.as_deref().unwrap_or_default();
        if let Some(pods) = self.on_node.get_mut(node) {
            pods.remove(key);
            if pods.is_empty() {
                self.on_node.remove(node);
            }
        }
        if let Some(at) = self.node_index(node) {
            self.remove_from_node(at, &pod);
        }
        let volumes = if pod.claims.is_empty() { Blockers::NONE } else { Blockers::VOLUMES };
        Blockers::CAPACITY | Blockers::SPREAD | Blockers::PODS | volumes
    }

    /// A namespace came, has changed or is gone.
    pub fn set_namespace(&mut self, name: &str, wire: Option<&Namespace>) -> Blockers {
        let labels = wire.map(|wire| wire.metadata.labels.clone().unwrap_or_default());
        if self.namespaces.get(name) == labels.as_ref() {
            return Blockers::NONE;
        }
        // Selectors of namespaces mean its pods or no longer do.
        let pods: Vec<_> = self
            .bound
            .range(ObjectKey::new(name, "")..)
            .take_while(|(key, _)| key.namespace == name)
            .filter_map(|(_, pod)| Some((self.node_index(pod.node.as_deref()?)?, Arc::clone(pod))))
            .collect();
        for (at, pod) in &pods {
            self.counters.remove(*at, match_target(pod, &self.namespaces));
        }
        match labels {
            Some(labels) => self.namespaces.insert(name.to_owned(), labels),
            None => self.namespaces.remove(name),
        };
        for (at, pod) in &pods {
            self.counters.add(*at, match_target(pod, &self.namespaces));
        }
        Blockers::PODS
    }

    /// A claim came, has changed or is gone.
    pub fn set_claim(&mut self, key: &ObjectKey, wire: Option<&PersistentVolumeClaim>) -> Blockers {
        volumes(self.storage.set_claim(key, wire))
    }

    /// A volume came, has changed or is gone.
    pub fn set_volume(&mut self, name: &String, wire: Option<&PersistentVolume>) -> Blockers {
        volumes(self.storage.set_volume(name, wire))
    }

    /// A class came, has changed or is gone.
    pub fn set_storage_class(&mut self, name: &String, wire: Option<&StorageClass>) -> Blockers {
        volumes(self.storage.set_class(name, wire))
    }

    /// The drivers of a node came, have changed or are gone.
    pub fn set_csi_node(&mut self, name: &String, wire: Option<&CSINode>) -> Blockers {
        volumes(self.storage.set_limits(name, wire))
    }

    /// Makes a waiting pod ready to be placed.
    pub fn prepare(&mut self, mut pod: PodInfo) -> PendingPod {
        pod.requirements = self.intern(pod.requirements);
        let pod = Arc::new(pod);
        let requirements = &pod.requirements;
        let class = requirements
            .node
            .node_names
            .is_none()
            .then(|| self.classes.take(&requirements.node, &self.nodes));
        let affinity = (!requirements.affinity.is_empty()).then(|| {
            let matchers =
                requirements.affinity.iter().map(|term| self.matcher(term, &pod)).collect();
            let counter = self.counter(PodFilter::all_of(matchers));
            (
                counter,
                requirements.affinity.iter().map(|term| self.key(&term.topology_key)).collect(),
            )
        });
        let anti_affinity =
            requirements.anti_affinity.iter().map(|term| self.term(term, &pod)).collect();
        let signed = |wish: &WeightedTerm<AffinityTerm>, sign: i64| i64::from(wish.weight) * sign;
        let mut preferred_terms = Vec::new();
        for (list, sign) in
            [(&requirements.preferred_affinity, 1), (&requirements.preferred_anti_affinity, -1)]
        {
            for wish in list {
                let (key, counter) = self.term(&wish.term, &pod);
                preferred_terms.push((signed(wish, sign), key, counter));
            }
        }
        let spread = self.spread(&pod);
        PendingPod { pod, class, spread, affinity, anti_affinity, preferred_terms }
    }

    /// Gives back what a waiting pod holds.
    pub fn release(&mut self, pending: &PendingPod) {
        if let Some(class) = pending.class {
            self.classes.release(class);
        }
        let spread = pending.spread.iter().map(|spread| spread.counter);
        let affinity = pending.affinity.iter().map(|(counter, _)| *counter);
        let anti_affinity = pending.anti_affinity.iter().map(|(_, counter)| *counter);
        let preferred_terms = pending.preferred_terms.iter().map(|(_, _, counter)| *counter);
        for counter in spread.chain(affinity).chain(anti_affinity).chain(preferred_terms) {
            self.counters.release(counter);
        }
    }

    fn spread(&mut self, pod: &PodInfo) -> Vec<SpreadUse> {
        let mut spread = Vec::with_capacity(pod.requirements.spread.len());
        for constraint in &pod.requirements.spread {
            let (namespace, labels) = (pod.key.namespace.as_str(), &*pod.labels);
            let keys = &constraint.match_label_keys;
            let matcher = Matcher::of_spread(&constraint.selector, keys, namespace, labels);
            spread.push(SpreadUse {
                key: self.key(&constraint.topology_key),
                counts_itself: matcher.selects(labels),
                counter: self.counter(PodFilter::spread(matcher)),
                max_skew: i64::from(constraint.max_skew),
                min_domains: usize::try_from(constraint.min_domains.unwrap_or(1)).unwrap_or(1),
                is_required: constraint.is_required,
                is_hostname: constraint.topology_key == HOSTNAME,
                honors_affinity: constraint.honors_node_affinity,
                honors_taints: constraint.honors_node_taints,
            });
        }
        spread
    }

    fn term(&mut self, term: &AffinityTerm, pod: &PodInfo) -> (usize, usize) {
        let counted = PodFilter::all_of(vec![self.matcher(term, pod)]);
        (self.key(&term.topology_key), self.counter(counted))
    }

    #[expect(clippy::unused_self, reason = "reads as the others do")]
    fn matcher(&self, term: &AffinityTerm, pod: &PodInfo) -> Matcher {
        Matcher::of_term(term, &pod.key.namespace)
    }

    fn key(&mut self, key: &str) -> usize {
        self.keys.id(key, labels_of(&self.nodes))
    }

    fn counter(&mut self, counted: PodFilter) -> usize {
        let (by_name, namespaces) = (&self.by_name, &self.namespaces);
        let bound = self.bound.values().filter_map(|pod| {
            let at = by_name.get(pod.node.as_deref()?)?;
            Some((*at, match_target(pod, namespaces)))
        });
        self.counters.take(counted, bound)
    }

    fn add_to_node(&mut self, at: NodeIndex, pod: &PodInfo) {
        if let Some(node) = &mut self.nodes[at] {
            node.add(pod);
        }
        self.counters.add(at, match_target(pod, &self.namespaces));
        for term in bound_terms_of(pod) {
            self.key(&term.topology_key);
            self.bound_terms.add(at, term);
        }
    }

    fn remove_from_node(&mut self, at: NodeIndex, pod: &PodInfo) {
        if let Some(node) = &mut self.nodes[at] {
            node.remove(pod);
        }
        self.counters.remove(at, match_target(pod, &self.namespaces));
        for term in bound_terms_of(pod) {
            self.bound_terms.remove(at, &term);
        }
    }

    pub(super) fn match_target<'a>(&'a self, pod: &'a PodInfo) -> MatchTarget<'a> {
        match_target(pod, &self.namespaces)
    }

    /// Whether a bound pod uses a claim of the pod that only one may use.
    pub(super) fn has_claim_in_use(&self, pod: &PodInfo) -> bool {
        pod.claims.iter().filter(|claim| !claim.is_ephemeral).any(|claim| {
            let key = ObjectKey::new(&pod.key.namespace, &claim.name);
            self.claim_users.contains_key(&key) && self.storage.is_for_one_pod(&key)
        })
    }

    /// Returns the shared copy of equal requirements.
    /// Drops copies that no pod uses now and then.
    fn intern(&mut self, requirements: Arc<PodRequirements>) -> Arc<PodRequirements> {
        if let Some(known) = self.interned_requirements.get(&requirements) {
            return Arc::clone(known);
        }
        if self.interned_requirements.len() > 2 * self.interned_count_after_cleanup + 1024 {
            self.interned_requirements.retain(|requirements| Arc::strong_count(requirements) > 1);
            self.interned_count_after_cleanup = self.interned_requirements.len();
        }
        self.interned_requirements.insert(Arc::clone(&requirements));
        requirements
    }
}

fn volumes(has_changed: bool) -> Blockers {
    if has_changed { Blockers::VOLUMES } else { Blockers::NONE }
}

fn is_same(known: &PodInfo, pod: &PodInfo) -> bool {
    known.node == pod.node
        && known.uid == pod.uid
        && known.is_terminating == pod.is_terminating
        && known.labels == pod.labels
        && known.requirements == pod.requirements
}

fn labels_of(nodes: &[Option<NodeInfo>]) -> impl Iterator<Item = (NodeIndex, &Labels)> {
    let nodes = nodes.iter().enumerate();
    nodes.filter_map(|(at, node)| Some((at, &node.as_ref()?.labels)))
}

fn match_target<'a>(pod: &'a PodInfo, namespaces: &'a BTreeMap<String, Labels>) -> MatchTarget<'a> {
    static NONE: Labels = Labels::new();
    MatchTarget {
        namespace: &pod.key.namespace,
        namespace_labels: namespaces.get(&pod.key.namespace).unwrap_or(&NONE),
        labels: &pod.labels,
        is_terminating: pod.is_terminating,
    }
}

/// Returns the (anti-)affinity terms of a bound pod with their effect on others.
fn bound_terms_of(pod: &PodInfo) -> Vec<BoundTerm> {
    let requirements = &pod.requirements;
    let bound_term = |term: &AffinityTerm, effect| BoundTerm {
        effect,
        topology_key: term.topology_key.clone(),
        matcher: Matcher::of_term(term, &pod.key.namespace),
    };
    let weighs = |wish: &WeightedTerm<AffinityTerm>, sign: i64| {
        bound_term(&wish.term, TermEffect::Prefer(i64::from(wish.weight) * sign))
    };
    let forbidding =
        requirements.anti_affinity.iter().map(|term| bound_term(term, TermEffect::Forbid));
    // Those that need each other like each other a little.
    let needing = requirements.affinity.iter().map(|term| bound_term(term, TermEffect::Prefer(1)));
    let liking = requirements.preferred_affinity.iter().map(|wish| weighs(wish, 1));
    let disliking = requirements.preferred_anti_affinity.iter().map(|wish| weighs(wish, -1));
    forbidding.chain(needing).chain(liking).chain(disliking).collect()
}
