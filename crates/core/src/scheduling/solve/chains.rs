//! Pods that relax alike, and the shapes that they take on the way.

use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use super::groups::{GroupId, Identity};
use super::preferences::relax;
use super::selecting::Labelled;
use super::shape::{Making, Shape};
use super::store::number;
use super::topology::Topology;
use crate::pod::{PodSpec, SpreadConstraint};
use crate::selector::Labels;

/// Namespace and labels: who a pod is to the selectors of others.
#[derive(Debug)]
pub(super) struct Who {
    pub(super) namespace: String,
    pub(super) labels: Rc<Labels>,
    /// Direct groups that count such pods, and how many groups were looked at to find them.
    counted_by: Vec<GroupId>,
    looked_at: usize,
}

/// Pods with the same constraints and labels: they relax alike.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) who: usize,
    /// Shapes by number of relaxation steps. Steps that change nothing repeat the shape before.
    pub(super) shapes: Vec<Rc<Shape>>,
    /// The spec after as many steps as there are shapes; none when there is nothing more to relax.
    next: Option<PodSpec>,
    /// Inverse groups that are fed by such pods.
    pub(super) feeds: Vec<GroupId>,
    /// All groups that any shape looks at.
    pub(super) watched: BTreeSet<GroupId>,
}

/// All chains of a solve.
#[derive(Debug, Default)]
pub(super) struct Chains<'a> {
    pub(super) all: Vec<Chain>,
    pub(super) whos: Vec<Who>,
    who_ids: FxHashMap<(String, Labels), usize>,
    who_index: Labelled,
    ids: FxHashMap<(Rules<'a>, usize), usize>,
    /// The namespaces that terms are about, by their own namespace and what they say.
    pub(super) namespaces: FxHashMap<AffinityNamespaces, BTreeSet<String>>,
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
        let key = (namespace.to_owned(), labels);
        if let Some(&who) = self.who_ids.get(&key) {
            return who;
        }
        let who = self.whos.len();
        self.who_index.insert(number(who), &key.0, &key.1);
        self.whos.push(Who {
            namespace: key.0.clone(),
            labels: Rc::new(key.1.clone()),
            counted_by: Vec::new(),
            looked_at: 0,
        });
        self.who_ids.insert(key, who);
        who
    }

    /// Direct groups that count the pods of a `who`. Groups that appeared since are looked at now.
    pub(super) fn counted_by(&mut self, who: usize, topology: &Topology<'_>) -> &[GroupId] {
        let who = &mut self.whos[who];
        if who.looked_at < topology.len() {
            let new = topology.selecting(&who.namespace, &who.labels, who.looked_at);
            who.counted_by.extend(new.filter(|&id| !topology.group(id).identity.is_inverse));
            who.looked_at = topology.len();
        }
        &who.counted_by
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
    /// exist from now on, so that the counts of all groups start together; shapes are made when
    /// asked for.
    pub(super) fn chain(
        &mut self,
        spec: &'a PodSpec,
        spread: Option<Vec<SpreadConstraint>>,
        who: usize,
        making: &mut Making<'_, '_>,
    ) -> usize {
        let key = (Rules(spec, spread), who);
        if let Some(&chain) = self.ids.get(&key) {
            return chain;
        }
        let mut solved = spec.clone();
        if let Some(spread) = &key.0.1 {
            solved.spread.clone_from(spread);
        }
        let feeds = self.inverse_groups(&spec.pod_anti_affinity, &spec.tolerations, who, making);
        self.groups_of(&solved, who, making);
        let chain = self.all.len();
        self.all.push(Chain {
            who,
            shapes: Vec::new(),
            next: Some(solved),
            feeds,
            watched: BTreeSet::new(),
        });
        self.ids.insert(key, chain);
        chain
    }

    /// The shape after so many steps of relaxation, or none if there are fewer.
    pub(super) fn shape(
        &mut self,
        chain: usize,
        step: usize,
        making: &mut Making<'_, '_>,
    ) -> Option<Rc<Shape>> {
        while self.all[chain].shapes.len() <= step {
            let spec = self.all[chain].next.take()?;
            let who = self.all[chain].who;
            // A new toleration opens new domains to the groups against others as well (Q9).
            self.inverse_groups(&spec.pod_anti_affinity, &spec.tolerations, who, making);
            let shape = self.make(&spec, who, making);
            let chain = &mut self.all[chain];
            chain.watched.extend(shape.over_labels.iter().map(|over| over.group));
            chain.watched.extend(shape.over_hosts.iter().map(|over| over.group));
            let shape = match chain.shapes.last() {
                Some(last) if last.same_as(&shape) => last.clone(),
                _ => Rc::new(shape),
            };
            chain.shapes.push(shape);
            let mut relaxed = spec;
            if relax(&mut relaxed, making.tolerate_prefer_no_schedule) {
                chain.next = Some(relaxed);
            }
        }
        Some(self.all[chain].shapes[step].clone())
    }
}
