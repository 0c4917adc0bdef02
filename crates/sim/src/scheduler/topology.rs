//! Counts pods in topology domains: indexes of domains, nodes and matching pods.
//!
//! Counts are kept per node, for each selector that some waiting pod counts by ([`Counters`]) and
//! for each term that some bound pod has ([`BoundTerms`]); a pod that is bound or deleted changes
//! one number in those that match it. Sums per domain are made when a pod is placed, in one pass
//! over the nodes, because which nodes count depends on the pod.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_core::pod::AffinityTerm;
use karpenter_core::selector::{Condition, Expression, LabelSelector, Labels, Selector};

/// The index of a node in all lists by node.
/// Indexes of deleted nodes are reused.
pub(super) type NodeIndex = usize;

/// A node has no label of the key.
pub(super) const NO_DOMAIN: u32 = u32::MAX;

/// Counters that no pod waits for are kept up to this number: the next replica may want them.
const SPARE_COUNTERS: usize = 256;

/// The values of one topology key.
#[derive(Debug, Default)]
pub(super) struct Domains {
    ids: BTreeMap<String, u32>,
    /// The domain of each node.
    pub(super) by_node: Vec<u32>,
}

impl Domains {
    /// How many values there are, including some that no node has any more.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    fn set(&mut self, at: NodeIndex, value: Option<&String>) {
        grow(&mut self.by_node, at, NO_DOMAIN);
        self.by_node[at] = value.map_or(NO_DOMAIN, |value| self.id(value));
    }

    fn id(&mut self, value: &String) -> u32 {
        if let Some(&id) = self.ids.get(value) {
            return id;
        }
        let id = u32::try_from(self.ids.len()).unwrap_or(NO_DOMAIN);
        self.ids.insert(value.clone(), id);
        id
    }
}

/// The topology keys that pods use, with the domain of each node.
#[derive(Debug, Default)]
pub(super) struct TopologyKeys {
    ids: BTreeMap<String, usize>,
    domains: Vec<Domains>,
}

impl TopologyKeys {
    /// The id of a key, which is made known if it is not.
    pub(super) fn id<'a>(
        &mut self,
        key: &str,
        nodes: impl Iterator<Item = (NodeIndex, &'a Labels)>,
    ) -> usize {
        if let Some(&id) = self.ids.get(key) {
            return id;
        }
        let mut domains = Domains::default();
        for (at, labels) in nodes {
            domains.set(at, labels.get(key));
        }
        self.domains.push(domains);
        self.ids.insert(key.to_owned(), self.domains.len() - 1);
        self.domains.len() - 1
    }

    pub(super) fn domains(&self, id: usize) -> &Domains {
        &self.domains[id]
    }

    /// The id of a key that a pod uses.
    pub(super) fn known(&self, key: &str) -> Option<usize> {
        self.ids.get(key).copied()
    }

    pub(super) fn set_node(&mut self, at: NodeIndex, labels: Option<&Labels>) {
        for (key, &id) in &self.ids {
            self.domains[id].set(at, labels.and_then(|labels| labels.get(key)));
        }
    }

    /// Forgets the values that no node has any more, if they are many: names of hosts pile up.
    pub(super) fn tidy<'a, I>(&mut self, nodes: impl Fn() -> I)
    where
        I: Iterator<Item = (NodeIndex, &'a Labels)>,
    {
        for (key, &id) in &self.ids {
            let domains = &mut self.domains[id];
            if domains.len() > 2 * domains.by_node.len() + 64 {
                *domains = Domains::default();
                for (at, labels) in nodes() {
                    domains.set(at, labels.get(key));
                }
            }
        }
    }
}

/// Which pods are meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Matcher {
    namespaces: BTreeSet<String>,
    namespace_selector: Option<LabelSelector>,
    selector: Selector,
}

impl Matcher {
    /// The pods of a term that a pod of the namespace has.
    pub(super) fn of_term(term: &AffinityTerm, namespace: &str) -> Self {
        let mut namespaces: BTreeSet<String> = term.namespaces.iter().cloned().collect();
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.insert(namespace.to_owned());
        }
        Self {
            namespaces,
            namespace_selector: term.namespace_selector.clone(),
            selector: term.selector.clone(),
        }
    }

    /// The pods of a spread constraint: those of the selector with, for the listed keys, the same
    /// labels as the pod itself.
    pub(super) fn of_spread(
        selector: &Selector,
        match_label_keys: &[String],
        namespace: &str,
        labels: &Labels,
    ) -> Self {
        let mut selector = selector.clone();
        if let Selector::Matching(parts) = &mut selector {
            let same = match_label_keys.iter().filter_map(|key| Some((key, labels.get(key)?)));
            parts.expressions.extend(same.map(|(key, value)| Expression {
                key: key.clone(),
                condition: Condition::In([value.clone()].into()),
            }));
        }
        let namespaces = [namespace.to_owned()].into();
        Self { namespaces, namespace_selector: None, selector }
    }

    pub(super) fn selects(&self, labels: &Labels) -> bool {
        self.selector.matches(labels)
    }

    /// Whether it has no condition at all.
    fn is_open(&self) -> bool {
        matches!(&self.selector, Selector::Matching(parts) if *parts == LabelSelector::default())
    }

    pub(super) fn matches(&self, pod: MatchTarget<'_>) -> bool {
        self.has_namespace(pod) && self.selector.matches(pod.labels)
    }

    fn has_namespace(&self, pod: MatchTarget<'_>) -> bool {
        self.namespaces.contains(pod.namespace)
            || self
                .namespace_selector
                .as_ref()
                .is_some_and(|selector| selector.matches(pod.namespace_labels))
    }
}

/// A pod with the fields that matchers read.
#[derive(Clone, Copy, Debug)]
pub(super) struct MatchTarget<'a> {
    pub(super) namespace: &'a str,
    pub(super) namespace_labels: &'a Labels,
    pub(super) labels: &'a Labels,
    pub(super) is_terminating: bool,
}

/// How often something is on which node.
#[derive(Debug, Default)]
pub(super) struct NodeCounts {
    pub(super) by_node: Vec<u32>,
    total: u64,
}

impl NodeCounts {
    pub(super) fn at(&self, at: NodeIndex) -> u32 {
        self.by_node.get(at).copied().unwrap_or(0)
    }

    fn add(&mut self, at: NodeIndex) {
        grow(&mut self.by_node, at, 0);
        self.by_node[at] += 1;
        self.total += 1;
    }

    fn remove(&mut self, at: NodeIndex) {
        if let Some(count) = self.by_node.get_mut(at).filter(|count| **count > 0) {
            *count -= 1;
            self.total -= 1;
        }
    }

    pub(super) fn is_zero(&self) -> bool {
        self.total == 0
    }
}

/// Selects the pods that a counter counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PodFilter {
    /// A pod counts if all of them mean it; at least one.
    matchers: Vec<Matcher>,
    /// Whether pods that terminate count.
    terminating_too: bool,
}

impl PodFilter {
    /// Pods that all matchers mean.
    pub(super) fn all_of(matchers: Vec<Matcher>) -> Self {
        Self { matchers, terminating_too: true }
    }

    /// Pods that a spread constraint means.
    pub(super) fn spread(matcher: Matcher) -> Self {
        Self { matchers: vec![matcher], terminating_too: false }
    }

    pub(super) fn matches(&self, pod: MatchTarget<'_>) -> bool {
        // A spread constraint with an empty selector counts no pod, by the scheduler's book.
        let counts_here = || !pod.is_terminating && !self.matchers.iter().any(Matcher::is_open);
        (self.terminating_too || counts_here())
            && self.matchers.iter().all(|matcher| matcher.matches(pod))
    }
}

/// The pods per node that match each filter of the waiting pods.
#[derive(Debug, Default)]
pub(super) struct Counters {
    ids: BTreeMap<PodFilter, usize>,
    slots: Vec<Option<Counter>>,
    index: Index,
    spare: usize,
}

#[derive(Debug)]
struct Counter {
    filter: PodFilter,
    counts: NodeCounts,
    users: usize,
}

impl Counters {
    /// Takes a counter, which is filled from the bound pods if it is new.
    pub(super) fn take<'a>(
        &mut self,
        filter: PodFilter,
        bound: impl Iterator<Item = (NodeIndex, MatchTarget<'a>)>,
    ) -> usize {
        if let Some(&id) = self.ids.get(&filter) {
            if let Some(counter) = &mut self.slots[id] {
                self.spare -= usize::from(counter.users == 0);
                counter.users += 1;
            }
            return id;
        }
        let mut counts = NodeCounts::default();
        for (at, pod) in bound {
            if filter.matches(pod) {
                counts.add(at);
            }
        }
        let id = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        grow_with(&mut self.slots, id);
        self.index.insert(id, &filter.matchers[0]);
        self.ids.insert(filter.clone(), id);
        self.slots[id] = Some(Counter { filter, counts, users: 1 });
        id
    }

    /// Gives a counter back. Unused ones are dropped when there are too many.
    pub(super) fn release(&mut self, id: usize) {
        let Some(counter) = &mut self.slots[id] else { return };
        counter.users -= 1;
        self.spare += usize::from(counter.users == 0);
        if self.spare > SPARE_COUNTERS {
            for id in 0..self.slots.len() {
                let counter = self.slots[id].take_if(|counter| counter.users == 0);
                if let Some(counter) = counter {
                    self.index.remove(id, &counter.filter.matchers[0]);
                    self.ids.remove(&counter.filter);
                }
            }
            self.spare = 0;
        }
    }

    pub(super) fn counts(&self, id: usize) -> &NodeCounts {
        static NONE: NodeCounts = NodeCounts { by_node: Vec::new(), total: 0 };
        self.slots.get(id).and_then(Option::as_ref).map_or(&NONE, |counter| &counter.counts)
    }

    pub(super) fn filter(&self, id: usize) -> Option<&PodFilter> {
        self.slots.get(id).and_then(Option::as_ref).map(|counter| &counter.filter)
    }

    pub(super) fn add(&mut self, at: NodeIndex, pod: MatchTarget<'_>) {
        self.change(at, pod, NodeCounts::add);
    }

    pub(super) fn remove(&mut self, at: NodeIndex, pod: MatchTarget<'_>) {
        self.change(at, pod, NodeCounts::remove);
    }

    fn change(
        &mut self,
        at: NodeIndex,
        pod: MatchTarget<'_>,
        change: fn(&mut NodeCounts, NodeIndex),
    ) {
        for id in self.index.of(pod.namespace) {
            if let Some(counter) = &mut self.slots[id]
                && counter.filter.matches(pod)
            {
                change(&mut counter.counts, at);
            }
        }
    }
}

/// The effect of a bound pod's term on pending pods that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TermEffect {
    /// Forbids them the domain.
    Forbid,
    /// Prefers the domain for them with this weight, or avoids it if negative.
    Prefer(i64),
}

/// An affinity or anti-affinity term that bound pods have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BoundTerm {
    pub(super) effect: TermEffect,
    pub(super) topology_key: String,
    pub(super) matcher: Matcher,
}

/// The terms of all bound pods, with the number of those pods per node.
#[derive(Debug, Default)]
pub(super) struct BoundTerms {
    ids: BTreeMap<BoundTerm, usize>,
    slots: Vec<Option<(BoundTerm, NodeCounts)>>,
    index: Index,
}

impl BoundTerms {
    pub(super) fn add(&mut self, at: NodeIndex, term: BoundTerm) {
        let id = self.id(term);
        if let Some((_, counts)) = &mut self.slots[id] {
            counts.add(at);
        }
    }

    fn id(&mut self, term: BoundTerm) -> usize {
        if let Some(&id) = self.ids.get(&term) {
            return id;
        }
        let id = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        grow_with(&mut self.slots, id);
        self.index.insert(id, &term.matcher);
        self.ids.insert(term.clone(), id);
        self.slots[id] = Some((term, NodeCounts::default()));
        id
    }

    pub(super) fn remove(&mut self, at: NodeIndex, term: &BoundTerm) {
        let Some(&id) = self.ids.get(term) else { return };
        if let Some((_, counts)) = &mut self.slots[id] {
            counts.remove(at);
        }
        if self.slots[id].take_if(|(_, counts)| counts.is_zero()).is_some() {
            self.ids.remove(term);
            self.index.remove(id, &term.matcher);
        }
    }

    /// Returns the terms that match a pod, with their counts per node.
    pub(super) fn matching<'a>(
        &'a self,
        pod: MatchTarget<'a>,
    ) -> impl Iterator<Item = (&'a BoundTerm, &'a NodeCounts)> {
        let slots = self.index.of(pod.namespace).into_iter();
        let slots = slots.filter_map(|id| self.slots[id].as_ref());
        slots
            .filter(move |(term, _)| term.matcher.matches(pod))
            .map(|(term, counts)| (term, counts))
    }
}

/// The matchers that may match pods of a namespace.
#[derive(Debug, Default)]
struct Index {
    by_namespace: BTreeMap<String, BTreeSet<usize>>,
    /// Those that select namespaces by label.
    wide: BTreeSet<usize>,
}

impl Index {
    fn insert(&mut self, id: usize, matcher: &Matcher) {
        if matcher.namespace_selector.is_some() {
            self.wide.insert(id);
            return;
        }
        for namespace in &matcher.namespaces {
            self.by_namespace.entry(namespace.clone()).or_default().insert(id);
        }
    }

    fn remove(&mut self, id: usize, matcher: &Matcher) {
        self.wide.remove(&id);
        for namespace in &matcher.namespaces {
            if let Some(ids) = self.by_namespace.get_mut(namespace) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.by_namespace.remove(namespace);
                }
            }
        }
    }

    fn of(&self, namespace: &str) -> Vec<usize> {
        let own = self.by_namespace.get(namespace).into_iter().flatten();
        own.chain(&self.wide).copied().collect()
    }
}

fn grow<T: Clone>(list: &mut Vec<T>, at: usize, default: T) {
    if list.len() <= at {
        list.resize(at + 1, default);
    }
}

fn grow_with<T>(list: &mut Vec<Option<T>>, at: usize) {
    if list.len() <= at {
        list.resize_with(at + 1, || None);
    }
}
