//! What a pod asks for at one step of its relaxation, worked out once for all pods alike.

use rustc_hash::FxHashSet;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::chains::{Chains, Who};
use super::groups::{Filter, GroupId, Identity, Place};
use super::store::{ReqId, Split, Store};
use super::topology::Topology;
use super::world::World;
use crate::pod::{AffinityTerm, PodSpec, SpreadConstraint};
use crate::reason::TopologyKind;
use crate::requirement::Requirements;
use crate::scheduling::PreferencePolicy;
use crate::selector::{Condition, Expression, Selector};
use crate::taint::{Toleration, untolerated};

/// The constraints of a pod, everything but its size, ports and volumes.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// Its number. Shapes that differ in groups of others alone may have the same.
    pub(super) number: u32,
    /// Node selector and affinity, preferences included.
    pub(super) all: Split,
    /// The same without preferences: what topology counting goes by.
    pub(super) strict: Split,
    pub(super) tolerations: Arc<[Toleration]>,
    /// The pod's own topology groups, in the order of its constraints.
    pub(super) owned: Vec<GroupId>,
    /// Groups of others that keep it away.
    pub(super) others: Vec<GroupId>,
    /// Its own groups and those of others that keep it away, with what the solve asks them.
    pub(super) over_labels: Vec<OverLabel>,
    pub(super) over_hosts: Vec<OverHost>,
    /// By template: whether its taints are tolerated.
    pub(super) tolerates: Vec<bool>,
}

/// A group over the values of a label.
#[derive(Clone, Debug)]
pub(super) struct OverLabel {
    pub(super) group: GroupId,
    pub(super) domains: usize,
    pub(super) selects_pod: bool,
    /// What the pod's strict requirements say about the key.
    pub(super) pod: Option<ReqId>,
}

/// A group over hostnames.
#[derive(Clone, Debug)]
pub(super) struct OverHost {
    pub(super) group: GroupId,
    pub(super) selects_pod: bool,
    /// The most pods that a host may have; none for affinity.
    pub(super) limit: Option<i64>,
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

impl Chains<'_> {
    /// By term of required anti-affinity, the group by which it keeps other pods away.
    pub(super) fn inverse_groups(
        &mut self,
        terms: &[AffinityTerm],
        who: usize,
        making: &mut Making<'_, '_>,
    ) -> Vec<GroupId> {
        let mut groups = Vec::with_capacity(terms.len());
        for term in terms {
            let identity = self.affinity_identity(TopologyKind::AntiAffinity, term, who, making);
            groups.push(find_or_create(Identity { is_inverse: true, ..identity }, making));
        }
        groups
    }

    pub(super) fn make(
        &mut self,
        spec: &PodSpec,
        who: usize,
        (owned, others): (Vec<GroupId>, Vec<GroupId>),
        making: &mut Making<'_, '_>,
    ) -> Shape {
        let Making { world, store, .. } = making;
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
        let tolerates = making
            .template_taints
            .iter()
            .map(|taints| untolerated(taints, &spec.tolerations).is_empty())
            .collect();
        let number = self.shape_count;
        self.shape_count += 1;
        let bare = Shape {
            number,
            all,
            strict,
            tolerations: spec.tolerations.as_slice().into(),
            owned,
            others: Vec::new(),
            over_labels: Vec::new(),
            over_hosts: Vec::new(),
            tolerates,
        };
        self.make_again(&bare, who, others, making)
    }

    /// The shape with these groups of others that keep it away.
    pub(super) fn make_again(
        &self,
        shape: &Shape,
        who: usize,
        others: Vec<GroupId>,
        making: &Making<'_, '_>,
    ) -> Shape {
        let Making { store, topology, .. } = making;
        let Who { namespace, labels, .. } = &self.whos[who];
        let (mut over_labels, mut over_hosts) = (Vec::new(), Vec::new());
        for &id in shape.owned.iter().chain(&others) {
            let group = topology.group(id);
            let selects_pod = group.identity.selects(namespace, labels);
            match group.place {
                Place::Host => {
                    let limit = group.host_limit(selects_pod);
                    over_hosts.push(OverHost { group: id, selects_pod, limit });
                }
                Place::Label(domains) => {
                    let key = topology.domains[domains].key;
                    let pod = store.find(shape.strict.set, key);
                    over_labels.push(OverLabel { group: id, domains, selects_pod, pod });
                }
            }
        }
        Shape { others, over_labels, over_hosts, ..shape.clone() }
    }

    /// The pod's own groups, found or made.
    pub(super) fn groups_of(
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
        let mut seen = FxHashSet::default();
        for identity in identities {
            let id = find_or_create(identity, making);
            if seen.insert(id) {
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
    pub(super) fn same_as(&self, other: &Self) -> bool {
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
