//! Prepares the input of a solve: pools in order, nodes with their sets, requested pods.

use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

use super::requirement_store::{RequirementStore, SetId, number};
use crate::catalog::Catalog;
use crate::id::{NodeId, PodId, PoolId};
use crate::labels::HOSTNAME;
use crate::pod::{Pod, PodSpec};
use crate::requirement::{Requirement, Requirements};
use crate::scheduling::Options;
use crate::selector::Labels;
use crate::snapshot::{Pool, Snapshot};
use crate::taint::Taint;
use crate::weight::order_by_weight;

/// The snapshot, catalog and options of a solve, prepared for the solver.
#[derive(Debug)]
pub(super) struct SolverInput<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) catalog: &'a Catalog,
    pub(super) options: &'a Options,
    /// NodePools in the order they are tried.
    pub(super) pools: Vec<&'a Pool>,
    pub(super) pool_ids: Vec<PoolId>,
    /// All nodes of the snapshot, by id.
    pub(super) nodes: Vec<NodeFacts<'a>>,
    /// Nodes that pods may go to, in the order they are tried.
    pub(super) candidates: Vec<usize>,
    /// By pod: whether the only request contains it, so that it counts as unbound.
    pub(super) is_requested: Vec<bool>,
    /// Whether later requests may contain any pod, so that all their constraints matter.
    pub(super) accepts_any_request: bool,
    /// By pool, in the order they are tried: the number of its taints.
    pub(super) pool_taints: Vec<u32>,
    taint_lists: FxHashMap<&'a [Taint], u32>,
}

/// Whether a solver is made for one request or for many.
#[derive(Clone, Copy)]
pub(super) enum SolveMode<'r> {
    /// One request, for these pods without these nodes.
    SingleRequest { pods: &'r [PodId], excluded_nodes: &'r BTreeSet<NodeId> },
    /// Many requests, each with its own pods and nodes.
    ManyRequests,
}

/// The facts of a node that the solve uses.
#[derive(Debug)]
pub(super) struct NodeFacts<'a> {
    pub(super) name: &'a str,
    pub(super) hostname: String,
    pub(super) labels: &'a Labels,
    /// Labels that some pod may require, without the hostname.
    pub(super) set: SetId,
    pub(super) taints: &'a [Taint],
    pub(super) taints_id: u32,
    /// The facts of the Node object; none without one.
    pub(super) raw: Option<ObjectFacts<'a>>,
}

#[derive(Debug)]
pub(super) struct ObjectFacts<'a> {
    pub(super) labels: &'a Labels,
    pub(super) set: SetId,
    pub(super) taints: &'a [Taint],
    pub(super) taints_id: u32,
}

impl<'a> SolverInput<'a> {
    pub(super) fn new(
        snapshot: &'a Snapshot,
        catalog: &'a Catalog,
        options: &'a Options,
        mode: SolveMode<'_>,
        store: &mut RequirementStore<'_>,
    ) -> Self {
        let mut order: Vec<(PoolId, &Pool)> =
            snapshot.pools.iter().enumerate().map(|(id, pool)| (PoolId::new(id), pool)).collect();
        order_by_weight(&mut order, |(_, pool)| (pool.weight, pool.name.as_str()));
        let mut is_requested = vec![false; snapshot.pods.len()];
        let mut is_gone: Vec<bool> = snapshot.nodes.iter().map(|node| node.is_deleting).collect();
        if let SolveMode::SingleRequest { pods, excluded_nodes } = mode {
            for pod in pods {
                is_requested
                    .get_mut(pod.index())
                    .into_iter()
                    .for_each(|requested| *requested = true);
            }
            for node in excluded_nodes {
                is_gone.get_mut(node.index()).into_iter().for_each(|gone| *gone = true);
            }
        }
        let mut candidates: Vec<usize> =
            (0..snapshot.nodes.len()).filter(|&index| !is_gone[index]).collect();
        candidates.sort_by(|&a, &b| {
            let (a, b) = (&snapshot.nodes[a], &snapshot.nodes[b]);
            b.is_initialized.cmp(&a.is_initialized).then_with(|| a.name.cmp(&b.name))
        });
        let mut input = Self {
            snapshot,
            catalog,
            options,
            pools: order.iter().map(|(_, pool)| *pool).collect(),
            pool_ids: order.iter().map(|(id, _)| *id).collect(),
            nodes: Vec::new(),
            candidates,
            is_requested,
            accepts_any_request: matches!(mode, SolveMode::ManyRequests),
            pool_taints: Vec::new(),
            taint_lists: FxHashMap::default(),
        };
        input.read_nodes(store);
        for pool in input.pools.clone() {
            let taints = input.taints_id(&pool.taints);
            input.pool_taints.push(taints);
        }
        input
    }

    /// Returns the pods that are requested, or may be later, with their ids.
    pub(super) fn requestable_pods(&self) -> impl Iterator<Item = (PodId, &'a Pod)> {
        let is_requestable =
            |(_, is_requested): &(_, &bool)| self.accepts_any_request || **is_requested;
        let pods =
            self.snapshot.pods.iter().enumerate().zip(&self.is_requested).filter(is_requestable);
        pods.map(|((index, pod), _)| (PodId::new(index), &**pod))
    }

    fn read_nodes(&mut self, store: &mut RequirementStore<'_>) {
        let snapshot = self.snapshot;
        let keys = self.label_keys_used_by_constraints();
        for node in &snapshot.nodes {
            let hostname = node.labels.get(HOSTNAME).unwrap_or(&node.name).clone();
            let raw = node.object.as_ref().map(|object| ObjectFacts {
                labels: &object.labels,
                set: self.labels_set(&object.labels, &keys, store),
                taints: &object.taints,
                taints_id: self.taints_id(&object.taints),
            });
            let facts = NodeFacts {
                name: &node.name,
                hostname,
                labels: &node.labels,
                set: self.labels_set(&node.labels, &keys, store),
                taints: &node.taints,
                taints_id: self.taints_id(&node.taints),
                raw,
            };
            self.nodes.push(facts);
        }
    }

    /// Returns the number of a list of taints.
    fn taints_id(&mut self, taints: &'a [Taint]) -> u32 {
        let next = number(self.taint_lists.len());
        *self.taint_lists.entry(taints).or_insert(next)
    }

    /// Returns a node's labels that some pod may require, as a requirement set.
    ///
    /// Nodes that differ only in other labels have the same set.
    fn labels_set(
        &self,
        labels: &Labels,
        keys: &BTreeSet<&str>,
        store: &mut RequirementStore<'_>,
    ) -> SetId {
        let aliases = &self.catalog.aliases;
        let mut set = Requirements::default();
        for (key, value) in labels {
            let key = aliases.normalize_key(key);
            if key != HOSTNAME && keys.contains(key) {
                set.add(Requirement::in_values(key, [aliases.normalize_value(key, value)]));
            }
        }
        store.split(&set).set
    }

    /// Returns the label keys that pods, daemons, volumes or topology groups may require.
    fn label_keys_used_by_constraints(&self) -> BTreeSet<&'a str> {
        let snapshot = self.snapshot;
        let mut keys = BTreeSet::new();
        let mut seen: FxHashSet<*const PodSpec> = FxHashSet::default();
        // Bound pods matter through the anti-affinity that they have against others.
        for pod in &snapshot.pods {
            keys.extend(pod.spec.pod_anti_affinity.iter().map(|term| term.topology_key.as_str()));
        }
        for (_, pod) in self.requestable_pods() {
            if seen.insert(std::sync::Arc::as_ptr(&pod.spec)) {
                keys.extend(keys_of(&pod.spec));
            }
        }
        keys.extend(snapshot.daemons.iter().flat_map(|daemon| keys_of(&daemon.spec)));
        keys.extend(self.options.default_spread.iter().map(|spread| spread.topology_key.as_str()));
        for (_, pod) in self.requestable_pods() {
            keys.extend(pod.volume_claims.iter().flat_map(|claim| self.keys_of_claim(pod, claim)));
        }
        keys
    }

    fn keys_of_claim(&self, pod: &Pod, name: &str) -> impl Iterator<Item = &'a str> {
        let volumes = &self.snapshot.volumes;
        let claim = volumes.claims.get(&(pod.namespace.clone(), name.to_owned()));
        let volume = claim.and_then(|claim| volumes.volumes.get(&claim.volume_name));
        let class = claim.and_then(|claim| volumes.classes.get(claim.storage_class_name()));
        let places = volume.map(|volume| &volume.node_affinity);
        let places = places.into_iter().chain(class.map(|class| &class.allowed_topologies));
        places.flatten().flat_map(Requirements::keys)
    }
}

fn keys_of(spec: &PodSpec) -> impl Iterator<Item = &str> {
    let requirements = std::iter::once(&spec.node_selector)
        .chain(&spec.node_affinity)
        .chain(spec.preferred_node_affinity.iter().map(|preference| &preference.term))
        .flat_map(Requirements::keys);
    let preferred = spec.preferred_pod_affinity.iter().chain(&spec.preferred_pod_anti_affinity);
    let terms = spec
        .pod_affinity
        .iter()
        .chain(&spec.pod_anti_affinity)
        .chain(preferred.map(|preference| &preference.term))
        .map(|term| term.topology_key.as_str());
    let spread = spec.topology_spread.iter().map(|constraint| constraint.topology_key.as_str());
    requirements.chain(terms).chain(spread)
}
