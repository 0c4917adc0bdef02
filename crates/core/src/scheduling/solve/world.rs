//! The input of a solve, prepared: pools in order, nodes with their sets, the pods in question.

use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

use super::store::{SetId, Store, number};
use crate::catalog::Catalog;
use crate::id::{NodeId, PodId, PoolId};
use crate::labels::HOSTNAME;
use crate::pod::{Pod, PodSpec};
use crate::requirement::{Requirement, Requirements};
use crate::scheduling::Options;
use crate::selector::Labels;
use crate::snapshot::{Pool, Snapshot};
use crate::taint::Taint;
use crate::weight::heaviest_first;

/// The prepared input.
#[derive(Debug)]
pub(super) struct World<'a> {
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
    /// By pod: whether it is known to be asked for, and taken as if it were not where it is.
    pub(super) is_asked: Vec<bool>,
    /// Whether every pod may be asked for later, so that what any of them looks at matters.
    pub(super) is_open: bool,
    /// By pool, in the order they are tried: the number of its taints.
    pub(super) pool_taints: Vec<u32>,
    taint_lists: FxHashMap<&'a [Taint], u32>,
}

/// What a world is made for.
#[derive(Clone, Copy)]
pub(super) enum Purpose<'r> {
    /// One solve that places these pods without these nodes.
    One { pods: &'r [PodId], without: &'r BTreeSet<NodeId> },
    /// Many, each with its own pods and nodes.
    Many,
}

/// What the solve looks at of a node.
#[derive(Debug)]
pub(super) struct NodeFacts<'a> {
    pub(super) name: &'a str,
    pub(super) hostname: String,
    pub(super) labels: &'a Labels,
    /// Labels that some pod may ask about, without the hostname.
    pub(super) set: SetId,
    pub(super) taints: &'a [Taint],
    pub(super) taints_id: u32,
    /// The Node object as it is; none while there is none.
    pub(super) raw: Option<RawFacts<'a>>,
}

#[derive(Debug)]
pub(super) struct RawFacts<'a> {
    pub(super) labels: &'a Labels,
    pub(super) set: SetId,
    pub(super) taints: &'a [Taint],
    pub(super) taints_id: u32,
}

impl<'a> World<'a> {
    pub(super) fn new(
        snapshot: &'a Snapshot,
        catalog: &'a Catalog,
        options: &'a Options,
        purpose: Purpose<'_>,
        store: &mut Store<'_>,
    ) -> Self {
        let mut order: Vec<(PoolId, &Pool)> =
            snapshot.pools.iter().enumerate().map(|(id, pool)| (PoolId::new(id), pool)).collect();
        heaviest_first(&mut order, |(_, pool)| (pool.weight, pool.name.as_str()));
        let mut is_asked = vec![false; snapshot.pods.len()];
        let mut is_gone: Vec<bool> = snapshot.nodes.iter().map(|node| node.is_deleting).collect();
        if let Purpose::One { pods, without } = purpose {
            for pod in pods {
                is_asked.get_mut(pod.index()).into_iter().for_each(|asked| *asked = true);
            }
            for node in without {
                is_gone.get_mut(node.index()).into_iter().for_each(|gone| *gone = true);
            }
        }
        let mut candidates: Vec<usize> =
            (0..snapshot.nodes.len()).filter(|&index| !is_gone[index]).collect();
        candidates.sort_by(|&a, &b| {
            let (a, b) = (&snapshot.nodes[a], &snapshot.nodes[b]);
            b.is_initialized.cmp(&a.is_initialized).then_with(|| a.name.cmp(&b.name))
        });
        let mut world = Self {
            snapshot,
            catalog,
            options,
            pools: order.iter().map(|(_, pool)| *pool).collect(),
            pool_ids: order.iter().map(|(id, _)| *id).collect(),
            nodes: Vec::new(),
            candidates,
            is_asked,
            is_open: matches!(purpose, Purpose::Many),
            pool_taints: Vec::new(),
            taint_lists: FxHashMap::default(),
        };
        world.read_nodes(store);
        for pool in world.pools.clone() {
            let taints = world.taints_id(&pool.taints);
            world.pool_taints.push(taints);
        }
        world
    }

    /// Pods that are asked for, or may be, by position.
    pub(super) fn askable(&self) -> impl Iterator<Item = (PodId, &'a Pod)> {
        let is_askable = |(_, is_asked): &(_, &bool)| self.is_open || **is_asked;
        let pods = self.snapshot.pods.iter().enumerate().zip(&self.is_asked).filter(is_askable);
        pods.map(|((index, pod), _)| (PodId::new(index), &**pod))
    }

    fn read_nodes(&mut self, store: &mut Store<'_>) {
        let snapshot = self.snapshot;
        let keys = self.keys_asked_about();
        for node in &snapshot.nodes {
            let hostname = node.labels.get(HOSTNAME).unwrap_or(&node.name).clone();
            let raw = node.object.as_ref().map(|object| RawFacts {
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

    /// The number of a list of taints.
    fn taints_id(&mut self, taints: &'a [Taint]) -> u32 {
        let next = number(self.taint_lists.len());
        *self.taint_lists.entry(taints).or_insert(next)
    }

    /// A node's labels as requirements, as far as some pod may ask about them: nodes that differ in
    /// their other labels only then have the same set.
    fn labels_set(&self, labels: &Labels, keys: &BTreeSet<&str>, store: &mut Store<'_>) -> SetId {
        let aliases = &self.catalog.aliases;
        let mut set = Requirements::default();
        for (key, value) in labels {
            let key = aliases.key(key);
            if key != HOSTNAME && keys.contains(key) {
                set.add(Requirement::in_values(key, [aliases.value(key, value)]));
            }
        }
        store.split(&set).set
    }

    /// Label keys that pods, daemons, volumes or topology groups may ask a node for.
    fn keys_asked_about(&self) -> BTreeSet<&'a str> {
        let snapshot = self.snapshot;
        let mut keys = BTreeSet::new();
        let mut seen: FxHashSet<*const PodSpec> = FxHashSet::default();
        // Bound pods matter through the anti-affinity that they have against others.
        for pod in &snapshot.pods {
            keys.extend(pod.spec.pod_anti_affinity.iter().map(|term| term.topology_key.as_str()));
        }
        for (_, pod) in self.askable() {
            if seen.insert(std::sync::Arc::as_ptr(&pod.spec)) {
                keys.extend(keys_of(&pod.spec));
            }
        }
        keys.extend(snapshot.daemons.iter().flat_map(|daemon| keys_of(&daemon.spec)));
        keys.extend(self.options.default_spread.iter().map(|spread| spread.topology_key.as_str()));
        for (_, pod) in self.askable() {
            keys.extend(pod.claims.iter().flat_map(|claim| self.keys_of_claim(pod, claim)));
        }
        keys
    }

    fn keys_of_claim(&self, pod: &Pod, name: &str) -> impl Iterator<Item = &'a str> {
        let volumes = &self.snapshot.volumes;
        let claim = volumes.claims.get(&(pod.namespace.clone(), name.to_owned()));
        let volume = claim.and_then(|claim| volumes.volumes.get(&claim.volume_name));
        let class = claim.and_then(|claim| volumes.classes.get(claim.class_name()));
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
    let spread = spec.spread.iter().map(|constraint| constraint.topology_key.as_str());
    requirements.chain(terms).chain(spread)
}
