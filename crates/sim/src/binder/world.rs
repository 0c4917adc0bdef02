//! The cluster as the scheduler knows it: nodes with what is on them, and indexes by what pods ask.
//!
//! Every change is told once ([`World::set_node`], [`World::set_pod`], …) and answers which
//! [`Blockers`] it may have removed. Placing a pod reads and does not write.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Namespace, Node as WireNode, PersistentVolume, PersistentVolumeClaim,
};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use karpenter_cluster::ingest::parts;
use karpenter_core::host_port::HostPort;
use karpenter_core::pod::{AffinityTerm, Weighted};
use karpenter_core::selector::Labels;
use karpenter_core::taint::Taint;

use super::amounts::{Amounts, allowed_pods};
use super::ask::{Ask, Pod};
use super::classes::Classes;
use super::storage::Storage;
use super::topology::{Counted, Counters, Group, Groups, Keys, Matcher, NodeAt, Pull, Seen};
use super::unfit::Blockers;
use karpenter_operator::watch::ObjectKey;

const HOSTNAME: &str = "kubernetes.io/hostname";

/// What a container without requests counts as when nodes are compared.
const LEAST_CPU_MILLIS: i64 = 100;
const LEAST_MEMORY: i64 = 200 * 1024 * 1024;

/// A node and what is on it.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) allocatable: Amounts,
    pub(super) used: Amounts,
    pub(super) allowed_pods: i64,
    pub(super) pod_count: i64,
    /// What pods use, with something for those that ask for nothing.
    pub(super) weight_cpu_millis: i64,
    pub(super) weight_memory: i64,
    pub(super) is_cordoned: bool,
    pub(super) ports: Vec<HostPort>,
    pub(super) name: String,
    pub(super) labels: Labels,
    pub(super) taints: Vec<Taint>,
    /// Pods that mount claims.
    pub(super) mounting: BTreeSet<ObjectKey>,
}

impl Node {
    pub(super) fn read(wire: &WireNode) -> Self {
        let spec = wire.spec.as_ref();
        let allocatable = wire.status.as_ref().and_then(|status| status.allocatable.as_ref());
        let allocatable = parts::resources(allocatable);
        Self {
            allowed_pods: allowed_pods(&allocatable),
            allocatable: Amounts::of(&allocatable),
            used: Amounts::default(),
            pod_count: 0,
            weight_cpu_millis: 0,
            weight_memory: 0,
            is_cordoned: spec.is_some_and(|spec| spec.unschedulable == Some(true)),
            ports: Vec::new(),
            name: wire.metadata.name.clone().unwrap_or_default(),
            labels: wire.metadata.labels.clone().unwrap_or_default(),
            taints: parts::taints(spec.and_then(|spec| spec.taints.as_ref())),
            mounting: BTreeSet::new(),
        }
    }

    pub(super) fn add(&mut self, pod: &Pod) {
        let (cpu, memory) = weight(&pod.ask.requests);
        self.used.add(&pod.ask.requests);
        self.pod_count += 1;
        self.weight_cpu_millis = self.weight_cpu_millis.saturating_add(cpu);
        self.weight_memory = self.weight_memory.saturating_add(memory);
        self.ports.extend_from_slice(&pod.ask.host_ports);
        if !pod.claims.is_empty() {
            self.mounting.insert(pod.key.clone());
        }
    }

    fn remove(&mut self, pod: &Pod) {
        let (cpu, memory) = weight(&pod.ask.requests);
        self.used.subtract(&pod.ask.requests);
        self.pod_count -= 1;
        self.weight_cpu_millis = self.weight_cpu_millis.saturating_sub(cpu);
        self.weight_memory = self.weight_memory.saturating_sub(memory);
        for port in &pod.ask.host_ports {
            if let Some(at) = self.ports.iter().position(|taken| taken == port) {
                self.ports.swap_remove(at);
            }
        }
        self.mounting.remove(&pod.key);
    }
}

/// Cpu and memory of a pod for comparing nodes.
pub(super) fn weight(requests: &Amounts) -> (i64, i64) {
    let or = |amount: i64, least: i64| if amount == 0 { least } else { amount };
    (or(requests.cpu_millis, LEAST_CPU_MILLIS), or(requests.memory, LEAST_MEMORY))
}

/// The cluster.
#[derive(Debug, Default)]
pub struct World {
    pub(super) nodes: Vec<Option<Node>>,
    by_name: BTreeMap<String, NodeAt>,
    /// Pods that have a node.
    bound: BTreeMap<ObjectKey, Arc<Pod>>,
    /// The same by the name of their node, which need not be known.
    on_node: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// How many bound pods use a claim.
    claim_users: BTreeMap<ObjectKey, usize>,
    namespaces: BTreeMap<String, Labels>,
    pub(super) keys: Keys,
    pub(super) counters: Counters,
    pub(super) groups: Groups,
    pub(super) classes: Classes,
    pub(super) storage: Storage,
    /// Equal asks once; for lookups only.
    asks: HashSet<Arc<Ask>>,
    asks_kept: usize,
    /// Where the search for a node begins, so that all get their share.
    pub(super) start: NodeAt,
}

/// A pod that waits for a node, with handles on what it is compared with. To be given back with
/// [`World::release`].
#[derive(Debug)]
pub struct Pending {
    /// The pod.
    pub pod: Arc<Pod>,
    /// None if it names its nodes: then there is nothing to share.
    pub(super) class: Option<usize>,
    pub(super) spread: Vec<SpreadUse>,
    /// The counter of pods that all its affinity terms mean, and the keys of the terms.
    pub(super) affinity: Option<(usize, Vec<usize>)>,
    /// Key and counter of each anti-affinity term.
    pub(super) anti_affinity: Vec<(usize, usize)>,
    /// Weight, key and counter of each preferred term.
    pub(super) wishes: Vec<(i64, usize, usize)>,
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

impl World {
    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn node_at(&self, name: &str) -> Option<NodeAt> {
        self.by_name.get(name).copied()
    }

    /// A pod that has a node.
    pub fn bound(&self, key: &ObjectKey) -> Option<&Arc<Pod>> {
        self.bound.get(key)
    }

    /// A node came or has changed.
    pub fn set_node(&mut self, wire: &WireNode) -> Blockers {
        let mut node = Node::read(wire);
        let name = node.name.clone();
        let Some(at) = self.node_at(&name) else {
            self.add_node(name, node);
            return Blockers::ALL;
        };
        let Some(known) = &mut self.nodes[at] else { return Blockers::NONE };
        let mut helps = Blockers::NONE;
        let grew = node.allowed_pods != known.allowed_pods || node.allocatable != known.allocatable;
        if grew {
            known.allocatable = node.allocatable;
            known.allowed_pods = node.allowed_pods;
            helps |= Blockers::ROOM;
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

    fn add_node(&mut self, name: String, node: Node) {
        let at = self.nodes.iter().position(Option::is_none).unwrap_or(self.nodes.len());
        if at == self.nodes.len() {
            self.nodes.push(None);
        }
        self.keys.set_node(at, Some(&node.labels));
        self.classes.set_node(at, &node);
        self.nodes[at] = Some(node);
        for key in self.on_node.get(&name).cloned().unwrap_or_default() {
            if let Some(pod) = self.bound.get(&key).cloned() {
                self.put_on(at, &pod);
            }
        }
        self.by_name.insert(name, at);
    }

    /// A node is gone. Its pods are remembered until they go as well.
    pub fn remove_node(&mut self, name: &str) -> Blockers {
        let Some(at) = self.by_name.remove(name) else { return Blockers::NONE };
        for key in self.on_node.get(name).cloned().unwrap_or_default() {
            if let Some(pod) = self.bound.get(&key).cloned() {
                self.take_off(at, &pod);
            }
        }
        self.nodes[at] = None;
        self.keys.set_node(at, None);
        let nodes = &self.nodes;
        self.keys.tidy(|| labels_of(nodes));
        Blockers::SPREAD
    }

    /// A pod has a node, or something of it has changed. Waiting pods are [`Self::prepare`]d.
    pub fn set_pod(&mut self, mut pod: Pod) -> Blockers {
        let Some(node) = pod.node.clone() else { return Blockers::NONE };
        let mut helps = Blockers::SPREAD | Blockers::PODS;
        if let Some(known) = self.bound.get(&pod.key) {
            // The status of a pod changes often, and says nothing about this.
            if is_same(known, &pod) {
                return Blockers::NONE;
            }
            helps |= self.remove_pod(&pod.key.clone());
        }
        pod.ask = self.share(pod.ask);
        for claim in &pod.claims {
            let key = ObjectKey::new(&pod.key.namespace, &claim.name);
            *self.claim_users.entry(key).or_default() += 1;
        }
        let pod = Arc::new(pod);
        self.on_node.entry(node.clone()).or_default().insert(pod.key.clone());
        if let Some(at) = self.node_at(&node) {
            self.put_on(at, &pod);
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
        if let Some(at) = self.node_at(node) {
            self.take_off(at, &pod);
        }
        let volumes = if pod.claims.is_empty() { Blockers::NONE } else { Blockers::VOLUMES };
        Blockers::ROOM | Blockers::SPREAD | Blockers::PODS | volumes
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
            .filter_map(|(_, pod)| Some((self.node_at(pod.node.as_deref()?)?, Arc::clone(pod))))
            .collect();
        for (at, pod) in &pods {
            self.counters.remove(*at, seen(pod, &self.namespaces));
        }
        match labels {
            Some(labels) => self.namespaces.insert(name.to_owned(), labels),
            None => self.namespaces.remove(name),
        };
        for (at, pod) in &pods {
            self.counters.add(*at, seen(pod, &self.namespaces));
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
    pub fn prepare(&mut self, mut pod: Pod) -> Pending {
        pod.ask = self.share(pod.ask);
        let pod = Arc::new(pod);
        let ask = &pod.ask;
        let class = ask.nodes.named.is_none().then(|| self.classes.take(&ask.nodes, &self.nodes));
        let affinity = (!ask.affinity.is_empty()).then(|| {
            let matchers = ask.affinity.iter().map(|term| self.matcher(term, &pod)).collect();
            let counter = self.counter(Counted::all_of(matchers));
            (counter, ask.affinity.iter().map(|term| self.key(&term.topology_key)).collect())
        });
        let anti_affinity = ask.anti_affinity.iter().map(|term| self.term(term, &pod)).collect();
        let signed = |wish: &Weighted<AffinityTerm>, sign: i64| i64::from(wish.weight) * sign;
        let mut wishes = Vec::new();
        for (list, sign) in [(&ask.preferred_affinity, 1), (&ask.preferred_anti_affinity, -1)] {
            for wish in list {
                let (key, counter) = self.term(&wish.term, &pod);
                wishes.push((signed(wish, sign), key, counter));
            }
        }
        let spread = self.spread(&pod);
        Pending { pod, class, spread, affinity, anti_affinity, wishes }
    }

    /// Gives back what a waiting pod holds.
    pub fn release(&mut self, pending: &Pending) {
        if let Some(class) = pending.class {
            self.classes.release(class);
        }
        let spread = pending.spread.iter().map(|spread| spread.counter);
        let affinity = pending.affinity.iter().map(|(counter, _)| *counter);
        let anti_affinity = pending.anti_affinity.iter().map(|(_, counter)| *counter);
        let wishes = pending.wishes.iter().map(|(_, _, counter)| *counter);
        for counter in spread.chain(affinity).chain(anti_affinity).chain(wishes) {
            self.counters.release(counter);
        }
    }

    fn spread(&mut self, pod: &Pod) -> Vec<SpreadUse> {
        let mut spread = Vec::with_capacity(pod.ask.spread.len());
        for constraint in &pod.ask.spread {
            let (namespace, labels) = (pod.key.namespace.as_str(), &*pod.labels);
            let keys = &constraint.match_label_keys;
            let matcher = Matcher::of_spread(&constraint.selector, keys, namespace, labels);
            spread.push(SpreadUse {
                key: self.key(&constraint.topology_key),
                counts_itself: matcher.selects(labels),
                counter: self.counter(Counted::spread(matcher)),
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

    fn term(&mut self, term: &AffinityTerm, pod: &Pod) -> (usize, usize) {
        let counted = Counted::all_of(vec![self.matcher(term, pod)]);
        (self.key(&term.topology_key), self.counter(counted))
    }

    #[expect(clippy::unused_self, reason = "reads as the others do")]
    fn matcher(&self, term: &AffinityTerm, pod: &Pod) -> Matcher {
        Matcher::of_term(term, &pod.key.namespace)
    }

    fn key(&mut self, key: &str) -> usize {
        self.keys.id(key, labels_of(&self.nodes))
    }

    fn counter(&mut self, counted: Counted) -> usize {
        let (by_name, namespaces) = (&self.by_name, &self.namespaces);
        let bound = self.bound.values().filter_map(|pod| {
            let at = by_name.get(pod.node.as_deref()?)?;
            Some((*at, seen(pod, namespaces)))
        });
        self.counters.take(counted, bound)
    }

    fn put_on(&mut self, at: NodeAt, pod: &Pod) {
        if let Some(node) = &mut self.nodes[at] {
            node.add(pod);
        }
        self.counters.add(at, seen(pod, &self.namespaces));
        for group in groups(pod) {
            self.key(&group.topology_key);
            self.groups.add(at, group);
        }
    }

    fn take_off(&mut self, at: NodeAt, pod: &Pod) {
        if let Some(node) = &mut self.nodes[at] {
            node.remove(pod);
        }
        self.counters.remove(at, seen(pod, &self.namespaces));
        for group in groups(pod) {
            self.groups.remove(at, &group);
        }
    }

    pub(super) fn seen<'a>(&'a self, pod: &'a Pod) -> Seen<'a> {
        seen(pod, &self.namespaces)
    }

    /// Whether a bound pod uses a claim of the pod that only one may use.
    pub(super) fn has_claim_in_use(&self, pod: &Pod) -> bool {
        pod.claims.iter().filter(|claim| !claim.is_ephemeral).any(|claim| {
            let key = ObjectKey::new(&pod.key.namespace, &claim.name);
            self.claim_users.contains_key(&key) && self.storage.is_for_one_pod(&key)
        })
    }

    /// The shared copy of an ask. Those that nobody has any more are dropped now and then.
    fn share(&mut self, ask: Arc<Ask>) -> Arc<Ask> {
        if let Some(known) = self.asks.get(&ask) {
            return Arc::clone(known);
        }
        if self.asks.len() > 2 * self.asks_kept + 1024 {
            self.asks.retain(|ask| Arc::strong_count(ask) > 1);
            self.asks_kept = self.asks.len();
        }
        self.asks.insert(Arc::clone(&ask));
        ask
    }
}

fn volumes(has_changed: bool) -> Blockers {
    if has_changed { Blockers::VOLUMES } else { Blockers::NONE }
}

fn is_same(known: &Pod, pod: &Pod) -> bool {
    known.node == pod.node
        && known.uid == pod.uid
        && known.is_terminating == pod.is_terminating
        && known.labels == pod.labels
        && known.ask == pod.ask
}

fn labels_of(nodes: &[Option<Node>]) -> impl Iterator<Item = (NodeAt, &Labels)> {
    let nodes = nodes.iter().enumerate();
    nodes.filter_map(|(at, node)| Some((at, &node.as_ref()?.labels)))
}

fn seen<'a>(pod: &'a Pod, namespaces: &'a BTreeMap<String, Labels>) -> Seen<'a> {
    static NONE: Labels = Labels::new();
    Seen {
        namespace: &pod.key.namespace,
        namespace_labels: namespaces.get(&pod.key.namespace).unwrap_or(&NONE),
        labels: &pod.labels,
        is_terminating: pod.is_terminating,
    }
}

/// What the terms of a bound pod do to others.
fn groups(pod: &Pod) -> Vec<Group> {
    let ask = &pod.ask;
    let group = |term: &AffinityTerm, pull| Group {
        pull,
        topology_key: term.topology_key.clone(),
        matcher: Matcher::of_term(term, &pod.key.namespace),
    };
    let weighs = |wish: &Weighted<AffinityTerm>, sign: i64| {
        group(&wish.term, Pull::Weighs(i64::from(wish.weight) * sign))
    };
    let forbidding = ask.anti_affinity.iter().map(|term| group(term, Pull::Forbids));
    // Those that need each other like each other a little.
    let needing = ask.affinity.iter().map(|term| group(term, Pull::Weighs(1)));
    let liking = ask.preferred_affinity.iter().map(|wish| weighs(wish, 1));
    let disliking = ask.preferred_anti_affinity.iter().map(|wish| weighs(wish, -1));
    forbidding.chain(needing).chain(liking).chain(disliking).collect()
}
