//! What a pod asks for at one step of its relaxation, worked out once for all pods alike.

use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use super::groups::{Filter, GroupId, Identity, Place};
use super::preferences::relax;
use super::store::{ReqId, Split, Store};
use super::topology::Topology;
use super::world::World;
use crate::pod::{AffinityTerm, PodSpec, SpreadConstraint};
use crate::reason::TopologyKind;
use crate::requirement::Requirements;
use crate::scheduling::PreferencePolicy;
use crate::selector::{Condition, Expression, Labels, Selector};
use crate::taint::{Toleration, untolerated};

/// The constraints of a pod, everything but its size, ports and volumes.
#[derive(Debug)]
pub(super) struct Shape {
    /// Node selector and affinity, preferences included.
    pub(super) all: Split,
    /// The same without preferences: what topology counting goes by.
    pub(super) strict: Split,
    pub(super) tolerations: Rc<[Toleration]>,
    /// The pod's own topology groups, in the order of its constraints.
    pub(super) owned: Vec<GroupId>,
    /// Its own groups and those of others that keep it away, with what the solve asks them.
    pub(super) over_labels: Vec<OverLabel>,
    pub(super) over_hosts: Vec<OverHost>,
    /// By template: whether its taints are tolerated.
    pub(super) tolerates: Vec<bool>,
    /// The same for the taints of existing nodes, by their number, as far as asked.
    pub(super) tolerates_nodes: RefCell<FxHashMap<u32, bool>>,
}

/// A group over the values of a label.
#[derive(Debug)]
pub(super) struct OverLabel {
    pub(super) group: GroupId,
    pub(super) domains: usize,
    pub(super) selects_pod: bool,
    /// What the pod's strict requirements say about the key.
    pub(super) pod: Option<ReqId>,
}

/// A group over hostnames.
#[derive(Debug)]
pub(super) struct OverHost {
    pub(super) group: GroupId,
    pub(super) selects_pod: bool,
    /// The most pods that a host may have; none for affinity.
    pub(super) limit: Option<i64>,
}

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
    ids: FxHashMap<(Rules<'a>, usize), usize>,
    namespaces: FxHashMap<AffinityNamespaces, BTreeSet<String>>,
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

/// What making shapes needs of the solve.
pub(super) struct Making<'s, 'a> {
    pub(super) world: &'s World<'a>,
    pub(super) store: &'s mut Store<'a>,
    pub(super) topology: &'s mut Topology<'a>,
    /// Taints by template.
    pub(super) template_taints: &'s [&'a [crate::taint::Taint]],
    pub(super) tolerate_prefer_no_schedule: bool,
}

impl<'a> Chains<'a> {
    /// The number of a namespace with these labels.
    pub(super) fn who(&mut self, namespace: &str, labels: Labels) -> usize {
        let key = (namespace.to_owned(), labels);
        if let Some(&who) = self.who_ids.get(&key) {
            return who;
        }
        let who = self.whos.len();
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
        for id in topology.ids().skip(who.looked_at) {
            let identity = &topology.group(id).identity;
            if !identity.is_inverse && identity.selects(&who.namespace, &who.labels) {
                who.counted_by.push(id);
            }
        }
        who.looked_at = topology.len();
        &who.counted_by
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

    /// The groups by which required anti-affinity keeps other pods away.
    pub(super) fn inverse_groups(
        &mut self,
        terms: &[AffinityTerm],
        tolerations: &[Toleration],
        who: usize,
        making: &mut Making<'_, '_>,
    ) -> Vec<GroupId> {
        let mut groups = Vec::new();
        for term in terms {
            let identity = self.affinity_identity(TopologyKind::AntiAffinity, term, who, making);
            let id = find_or_create(Identity { is_inverse: true, ..identity }, making);
            making.topology.own(id, tolerations, making.world);
            if !groups.contains(&id) {
                groups.push(id);
            }
        }
        groups
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

    fn make(&mut self, spec: &PodSpec, who: usize, making: &mut Making<'_, '_>) -> Shape {
        let owned = self.groups_of(spec, who, making);
        let Making { world, store, topology, .. } = making;
        let strict_plain = strict_requirements(spec);
        let strict = store.split(&strict_plain);
        let all = match (heaviest(spec), world.options.preferences) {
            (Some(preferred), PreferencePolicy::Respect) => {
                let mut all = strict_plain;
                all.extend(preferred.iter().cloned());
                store.split(&all)
            }
            _ => strict,
        };
        let Who { namespace, labels, .. } = &self.whos[who];
        let inverse = topology.ids().filter(|&id| {
            let identity = &topology.group(id).identity;
            identity.is_inverse && identity.selects(namespace, labels)
        });
        let mut over_labels = Vec::new();
        let mut over_hosts = Vec::new();
        for id in owned.iter().copied().chain(inverse) {
            let group = topology.group(id);
            let selects_pod = group.identity.selects(namespace, labels);
            match group.place {
                Place::Host => {
                    let limit = group.host_limit(selects_pod);
                    over_hosts.push(OverHost { group: id, selects_pod, limit });
                }
                Place::Label(domains) => {
                    let key = topology.domains[domains].key;
                    let pod = store.find(strict.set, key);
                    over_labels.push(OverLabel { group: id, domains, selects_pod, pod });
                }
            }
        }
        let tolerates = making
            .template_taints
            .iter()
            .map(|taints| untolerated(taints, &spec.tolerations).is_empty())
            .collect();
        let tolerations = spec.tolerations.clone().into();
        let tolerates_nodes = RefCell::default();
        Shape {
            all,
            strict,
            tolerations,
            owned,
            over_labels,
            over_hosts,
            tolerates,
            tolerates_nodes,
        }
    }

    /// The pod's own groups, found or made.
    fn groups_of(
        &mut self,
        spec: &PodSpec,
        who: usize,
        making: &mut Making<'_, '_>,
    ) -> Vec<GroupId> {
        let respects = making.world.options.preferences == PreferencePolicy::Respect;
        let mut identities = Vec::new();
        for constraint in spec.spread.iter().filter(|spread| spread.is_required || respects) {
            identities.push(self.spread_identity(spec, constraint, who, making.store));
        }
        let kinds = [
            (TopologyKind::Affinity, &spec.pod_affinity, &spec.preferred_pod_affinity),
            (
                TopologyKind::AntiAffinity,
                &spec.pod_anti_affinity,
                &spec.preferred_pod_anti_affinity,
            ),
        ];
        for (kind, required, preferred) in kinds {
            let preferred =
                preferred.iter().filter(|_| respects).map(|preference| &preference.term);
            for term in required.iter().chain(preferred) {
                identities.push(self.affinity_identity(kind, term, who, making));
            }
        }
        let mut groups = Vec::new();
        for identity in identities {
            let id = find_or_create(identity, making);
            making.topology.own(id, &spec.tolerations, making.world);
            if !groups.contains(&id) {
                groups.push(id);
            }
        }
        groups
    }

    fn spread_identity(
        &self,
        spec: &PodSpec,
        constraint: &SpreadConstraint,
        who: usize,
        store: &mut Store<'_>,
    ) -> Identity {
        let Who { namespace, labels, .. } = &self.whos[who];
        let mut selector = constraint.selector.clone();
        if let Selector::Matching(selector) = &mut selector {
            for key in &constraint.match_label_keys {
                if let Some(value) = labels.get(key) {
                    let condition = Condition::In([value.clone()].into());
                    selector.expressions.insert(Expression { key: key.clone(), condition });
                }
            }
        }
        let sets = filter_sets(spec, store);
        Identity {
            is_inverse: false,
            kind: TopologyKind::Spread,
            key: constraint.topology_key.clone(),
            namespaces: [namespace.clone()].into(),
            selector,
            max_skew: i64::from(constraint.max_skew),
            min_domains: constraint.min_domains.map(i64::from),
            filter: Some(Filter {
                sets,
                honors_affinity: constraint.honors_node_affinity,
                honors_taints: constraint.honors_node_taints,
                tolerations: spec.tolerations.clone(),
            }),
        }
    }

    fn affinity_identity(
        &mut self,
        kind: TopologyKind,
        term: &AffinityTerm,
        who: usize,
        making: &Making<'_, '_>,
    ) -> Identity {
        let own = &self.whos[who].namespace;
        let key = (own.clone(), term.namespaces.clone(), term.namespace_selector.clone());
        let namespaces = self
            .namespaces
            .entry(key)
            .or_insert_with(|| namespaces(own, term, making.world))
            .clone();
        Identity {
            is_inverse: false,
            kind,
            key: term.topology_key.clone(),
            namespaces,
            selector: term.selector.clone(),
            max_skew: i64::from(i32::MAX),
            min_domains: None,
            filter: None,
        }
    }
}

impl Shape {
    /// Whether another step of relaxation left everything as it is.
    fn same_as(&self, other: &Self) -> bool {
        self.all == other.all
            && self.strict == other.strict
            && self.owned == other.owned
            && self.tolerations == other.tolerations
    }
}

fn find_or_create(identity: Identity, making: &mut Making<'_, '_>) -> GroupId {
    match making.topology.find(&identity) {
        Some(id) => id,
        None => making.topology.create(identity, making.world, making.store),
    }
}

/// Node selector and the first required term (spec 20 §1.7).
pub(super) fn strict_requirements(spec: &PodSpec) -> Requirements {
    let mut requirements = spec.node_selector.clone();
    if let Some(term) = spec.node_affinity.first() {
        requirements.extend(term.iter().cloned());
    }
    requirements
}

/// The preferred term that is tried: the heaviest, the first of equals.
fn heaviest(spec: &PodSpec) -> Option<&Requirements> {
    let heaviest = spec.preferred_node_affinity.iter().min_by_key(|term| Reverse(term.weight))?;
    Some(&heaviest.term)
}

fn filter_sets(spec: &PodSpec, store: &mut Store<'_>) -> Vec<Split> {
    if spec.node_affinity.is_empty() {
        return vec![store.split(&spec.node_selector)];
    }
    spec.node_affinity
        .iter()
        .map(|term| {
            let mut set = spec.node_selector.clone();
            set.extend(term.iter().cloned());
            store.split(&set)
        })
        .collect()
}

/// The namespaces that a term is about (spec 20 §4.2).
fn namespaces(own: &str, term: &AffinityTerm, world: &World<'_>) -> BTreeSet<String> {
    let listed = term.namespaces.iter().cloned();
    match &term.namespace_selector {
        None if term.namespaces.is_empty() => [own.to_owned()].into(),
        None => listed.collect(),
        Some(selector) => {
            let selected = world
                .snapshot
                .namespaces
                .iter()
                .filter(|(_, labels)| selector.matches(labels))
                .map(|(name, _)| name.clone());
            listed.chain(selected).collect()
        }
    }
}
