//! Pods that relax alike, and the shapes that they take on the way.

use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::groups::{GroupId, Identity};
use super::preferences::relax;
use super::selecting::Labelled;
use super::shape::{Making, Shape};
use super::store::number;
use super::topology::Topology;
use crate::pod::{PodSpec, SpreadConstraint};
use crate::selector::Labels;
use crate::shared::Shared;
use crate::taint::Toleration;

/// Namespace and labels: who a pod is to the selectors of others.
#[derive(Clone, Debug)]
pub(super) struct Who {
    pub(super) namespace: String,
    pub(super) labels: Arc<Labels>,
    /// Direct groups that count such pods.
    counted_by: Vec<GroupId>,
    /// Inverse groups that keep such pods away.
    kept_off_by: Vec<GroupId>,
    /// How many groups were looked at to find them.
    looked_at: usize,
}

/// Pods with the same constraints and labels: they relax alike.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    pub(super) who: usize,
    /// Shapes by number of relaxation steps. Steps that change nothing repeat the shape before.
    pub(super) shapes: Vec<Arc<Shape>>,
    /// How many of them the question has come to, and which question it is.
    pub(super) reached: (u32, usize),
    /// The spec after as many steps as there are shapes; none when there is nothing more to relax.
    next: Option<Arc<PodSpec>>,
    /// Inverse groups that are fed by such pods.
    pub(super) feeds: Arc<[GroupId]>,
    /// Groups of such pods before any relaxation.
    pub(super) first: Arc<[GroupId]>,
    pub(super) tolerations: Arc<[Toleration]>,
    /// All groups that any shape looks at.
    pub(super) watched: BTreeSet<GroupId>,
}

/// All chains of a solve.
#[derive(Clone, Debug, Default)]
pub(super) struct Chains<'a> {
    pub(super) all: Vec<Chain>,
    pub(super) whos: Vec<Who>,
    who_ids: Shared<FxHashMap<(String, Arc<Labels>), usize>>,
    who_index: Shared<Labelled>,
    ids: Shared<FxHashMap<(Rules<'a>, usize), usize>>,
    /// The namespaces that terms are about, by their own namespace and what they say.
    pub(super) namespaces: FxHashMap<AffinityNamespaces, BTreeSet<String>>,
    /// How many different shapes there are.
    pub(super) shape_count: u32,
}

type AffinityNamespaces = (String, Vec<String>, Option<crate::selector::LabelSelector>);

/// A spec by its constraints alone, and the spread constraints that are not its own.
#[derive(Clone, Debug)]
struct Rules<'a>(&'a PodSpec, Option<Vec<SpreadConstraint>>);

impl PartialEq for Rules<'_> {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.0, other.0);
        a.node_selector == b.node_selector
            && a.node_affinity == b.node_affinity
            && a.preferred_node_affinity == b.preferred_node_affinity
            && a.pod_affinity == b.pod_affinity
            && a.preferred_pod_affinity == b.preferred_pod_affinity
            && a.pod_anti_affinity == b.pod_anti_affinity
            && a.preferred_pod_anti_affinity == b.preferred_pod_anti_affinity
            && a.spread == b.spread
            && a.tolerations == b.tolerations
            && self.1 == other.1
    }
}

impl Eq for Rules<'_> {}

impl Hash for Rules<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let spec = self.0;
        self.1.hash(state);
        spec.node_selector.hash(state);
        spec.node_affinity.hash(state);
        spec.preferred_node_affinity.hash(state);
        spec.pod_affinity.hash(state);
        spec.preferred_pod_affinity.hash(state);
        spec.pod_anti_affinity.hash(state);
        spec.preferred_pod_anti_affinity.hash(state);
        spec.spread.hash(state);
        spec.tolerations.hash(state);
    }
}

impl<'a> Chains<'a> {
    /// The number of a namespace with these labels.
    pub(super) fn who(&mut self, namespace: &str, labels: Labels) -> usize {
        let key = (namespace.to_owned(), Arc::new(labels));
        if let Some(&who) = self.who_ids.get(&key) {
            return who;
        }
        let who = self.whos.len();
        self.who_index.insert(number(who), &key.0, &key.1);
        self.whos.push(Who {
            namespace: key.0.clone(),
            labels: key.1.clone(),
            counted_by: Vec::new(),
            kept_off_by: Vec::new(),
            looked_at: 0,
        });
        self.who_ids.insert(key, who);
        who
    }

    /// Direct groups that count the pods of a `who`. Groups that appeared since are looked at now.
    pub(super) fn counted_by(&mut self, who: usize, topology: &Topology<'_>) -> &[GroupId] {
        self.look_at_groups(who, topology);
        &self.whos[who].counted_by
    }

    /// Inverse groups of the question that keep the pods of a `who` away, in order.
    fn kept_off_by(&mut self, who: usize, topology: &Topology<'_>) -> Vec<GroupId> {
        self.look_at_groups(who, topology);
        let groups = self.whos[who].kept_off_by.iter().copied();
        groups.filter(|&id| topology.is_asked(id)).collect()
    }

    fn look_at_groups(&mut self, who: usize, topology: &Topology<'_>) {
        let who = &mut self.whos[who];
        if who.looked_at < topology.len() {
            for id in topology.selecting(&who.namespace, &who.labels, who.looked_at) {
                let is_inverse = topology.group(id).identity.is_inverse;
                if is_inverse { &mut who.kept_off_by } else { &mut who.counted_by }.push(id);
            }
            who.looked_at = topology.len();
        }
    }

    /// Everybody whom a group counts.
    pub(super) fn counted_in(&self, identity: &Identity) -> Vec<usize> {
        let found = self.who_index.selected_by(identity).into_iter().map(|who| who as usize);
        let counts = |who: &usize| {
            let Who { namespace, labels, .. } = &self.whos[*who];
            !identity.is_inverse && identity.selects(namespace, labels)
        };
        found.filter(counts).collect()
    }

    /// The chain of a spec, with its spread constraints replaced if `spread` is given. Its groups
    /// exist from now on; shapes are made when asked for.
    pub(super) fn chain(
        &mut self,
        spec: &'a Arc<PodSpec>,
        spread: Option<Vec<SpreadConstraint>>,
        who: usize,
        making: &mut Making<'_, '_>,
    ) -> usize {
        let key = (Rules(spec, spread), who);
        if let Some(&chain) = self.ids.get(&key) {
            return chain;
        }
        let mut solved = spec.clone();
        if let Some(spread) = key.0.1.as_ref().filter(|spread| **spread != spec.spread) {
            Arc::make_mut(&mut solved).spread.clone_from(spread);
        }
        let mut feeds = self.inverse_groups(&spec.pod_anti_affinity, who, making);
        let mut seen = FxHashSet::default();
        feeds.retain(|&id| seen.insert(id));
        let first = self.groups_of(&solved, who, making);
        let chain = self.all.len();
        self.all.push(Chain {
            who,
            shapes: Vec::new(),
            reached: (0, 0),
            tolerations: solved.tolerations.as_slice().into(),
            next: Some(solved),
            feeds: feeds.into(),
            first: first.into(),
            watched: BTreeSet::new(),
        });
        self.ids.insert(key, chain);
        chain
    }

    /// The shape after so many steps of relaxation, or none if there are fewer. Shapes before it
    /// must have been asked for in the same question.
    pub(super) fn shape(
        &mut self,
        chain: usize,
        step: usize,
        making: &mut Making<'_, '_>,
    ) -> Option<Arc<Shape>> {
        let who = self.all[chain].who;
        if let Some(known) = self.all[chain].shapes.get(step).cloned() {
            // Other pods may be asked for by now, whose anti-affinity keeps these away.
            let others = self.kept_off_by(who, making.topology);
            if known.others == others {
                return Some(known);
            }
            let shape = self.make_again(&known, who, others, making);
            return Some(self.keep(chain, step, shape));
        }
        let spec = self.all[chain].next.take()?;
        let owned = self.groups_of(&spec, who, making);
        let others = self.kept_off_by(who, making.topology);
        let shape = self.make(&spec, who, (owned, others), making);
        let shape = self.keep(chain, step, shape);
        let mut relaxed = PodSpec::clone(&spec);
        if relax(&mut relaxed, making.tolerate_prefer_no_schedule) {
            self.all[chain].next = Some(Arc::new(relaxed));
        }
        Some(shape)
    }

    /// Puts a shape in its place. One that is as the one before becomes that one.
    fn keep(&mut self, chain: usize, step: usize, shape: Shape) -> Arc<Shape> {
        let chain = &mut self.all[chain];
        chain.watched.extend(shape.over_labels.iter().map(|over| over.group));
        chain.watched.extend(shape.over_hosts.iter().map(|over| over.group));
        let before = step.checked_sub(1).map(|before| &chain.shapes[before]);
        let shape = match before {
            Some(before) if before.same_as(&shape) => before.clone(),
            _ => Arc::new(shape),
        };
        if step < chain.shapes.len() {
            chain.shapes[step] = shape.clone();
        } else {
            chain.shapes.push(shape.clone());
        }
        shape
    }
}
