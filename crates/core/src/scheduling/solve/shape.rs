//! The constraints of a pod at one step of its relaxation, calculated once for all pods alike.

use rustc_hash::FxHashSet;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::input::SolverInput;
use super::relaxation_chains::{NamespacedLabels, RelaxationChains};
use super::requirement_store::{ReqId, RequirementStore, SplitRequirements};
use super::topology::Topology;
use super::topology_groups::{DomainKind, GroupId, GroupIdentity, NodeFilter};
use crate::pod::{AffinityTerm, PodSpec, SpreadConstraint};
use crate::rejection::TopologyKind;
use crate::requirement::Requirements;
use crate::scheduling::PreferencePolicy;
use crate::selector::{Condition, Expression, Selector};
use crate::taint::{Toleration, untolerated_taints};

/// The constraints of a pod: everything but resources, ports and volumes.
#[derive(Clone, Debug)]
pub(super) struct PodShape {
    /// Its number. Shapes that differ only in excluding groups may have the same.
    pub(super) number: u32,
    /// Node selector and affinity, preferences included.
    pub(super) all: SplitRequirements,
    /// The same without preferences: topology groups count by these.
    pub(super) strict: SplitRequirements,
    pub(super) tolerations: Arc<[Toleration]>,
    /// The pod's own topology groups, in the order of its constraints.
    pub(super) owned: Vec<GroupId>,
    /// Groups of other pods' anti-affinity that keep it away.
    pub(super) excluding_groups: Vec<GroupId>,
    /// Its own and its excluding groups over labels, with the pod's part in each.
    pub(super) label_groups: Vec<LabelGroup>,
    pub(super) host_groups: Vec<HostGroup>,
    /// By template: whether its taints are tolerated.
    pub(super) tolerates: Vec<bool>,
}

/// A topology group over the values of a label, as a shape uses it.
#[derive(Clone, Debug)]
pub(super) struct LabelGroup {
    pub(super) group: GroupId,
    pub(super) domains: usize,
    pub(super) selects_pod: bool,
    /// The pod's strict requirement on the key.
    pub(super) pod: Option<ReqId>,
}

/// A topology group over hostnames, as a shape uses it.
#[derive(Clone, Debug)]
pub(super) struct HostGroup {
    pub(super) group: GroupId,
    pub(super) selects_pod: bool,
    /// The most pods that a host may have; none for affinity.
    pub(super) limit: Option<i64>,
}

/// The parts of the solver that are needed to make shapes.
pub(super) struct ShapeContext<'s, 'a> {
    pub(super) input: &'s SolverInput<'a>,
    pub(super) store: &'s mut RequirementStore<'a>,
    pub(super) topology: &'s mut Topology<'a>,
    /// Taints by template.
    pub(super) template_taints: &'s [&'a [crate::taint::Taint]],
    pub(super) tolerate_prefer_no_schedule: bool,
}

impl RelaxationChains<'_> {
    /// Returns the inverse group of each term of required anti-affinity.
    pub(super) fn inverse_groups(
        &mut self,
        terms: &[AffinityTerm],
        labels_id: usize,
        context: &mut ShapeContext<'_, '_>,
    ) -> Vec<GroupId> {
        let mut groups = Vec::with_capacity(terms.len());
        for term in terms {
            let identity =
                self.affinity_identity(TopologyKind::AntiAffinity, term, labels_id, context);
            groups.push(find_or_create(GroupIdentity { is_inverse: true, ..identity }, context));
        }
        groups
    }

    pub(super) fn new_shape(
        &mut self,
        spec: &PodSpec,
        labels_id: usize,
        (owned, others): (Vec<GroupId>, Vec<GroupId>),
        context: &mut ShapeContext<'_, '_>,
    ) -> PodShape {
        let ShapeContext { input, store, .. } = context;
        let strict_plain = strict_requirements(spec);
        let strict = store.split(&strict_plain);
        let all = match (heaviest(spec), input.options.preferences) {
            (Some(preferred), PreferencePolicy::Respect) => {
                let mut all = strict_plain;
                all.extend(preferred.iter().cloned());
                store.split(&all)
            }
            _ => strict,
        };
        let tolerates = context
            .template_taints
            .iter()
            .map(|taints| untolerated_taints(taints, &spec.tolerations).is_empty())
            .collect();
        let number = self.shape_count;
        self.shape_count += 1;
        let bare = PodShape {
            number,
            all,
            strict,
            tolerations: spec.tolerations.as_slice().into(),
            owned,
            excluding_groups: Vec::new(),
            label_groups: Vec::new(),
            host_groups: Vec::new(),
            tolerates,
        };
        self.with_excluding_groups(&bare, labels_id, others, context)
    }

    /// Returns the shape with these excluding groups.
    pub(super) fn with_excluding_groups(
        &self,
        shape: &PodShape,
        labels_id: usize,
        excluding_groups: Vec<GroupId>,
        context: &ShapeContext<'_, '_>,
    ) -> PodShape {
        let ShapeContext { store, topology, .. } = context;
        let NamespacedLabels { namespace, labels, .. } = &self.namespaced_labels[labels_id];
        let (mut label_groups, mut host_groups) = (Vec::new(), Vec::new());
        for &id in shape.owned.iter().chain(&excluding_groups) {
            let group = topology.group(id);
            let selects_pod = group.identity.selects(namespace, labels);
            match group.domain_kind {
                DomainKind::Host => {
                    let limit = group.host_limit(selects_pod);
                    host_groups.push(HostGroup { group: id, selects_pod, limit });
                }
                DomainKind::Label(domains) => {
                    let key = topology.domains[domains].key;
                    let pod = store.find(shape.strict.set, key);
                    label_groups.push(LabelGroup { group: id, domains, selects_pod, pod });
                }
            }
        }
        PodShape { excluding_groups, label_groups, host_groups, ..shape.clone() }
    }

    /// Returns the pod's own groups, and creates those that are new.
    pub(super) fn groups_of(
        &mut self,
        spec: &PodSpec,
        labels_id: usize,
        context: &mut ShapeContext<'_, '_>,
    ) -> Vec<GroupId> {
        let respects = context.input.options.preferences == PreferencePolicy::Respect;
        let mut identities = Vec::new();
        for constraint in
            spec.topology_spread.iter().filter(|spread| spread.is_required || respects)
        {
            identities.push(self.spread_identity(spec, constraint, labels_id, context.store));
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
                identities.push(self.affinity_identity(kind, term, labels_id, context));
            }
        }
        let mut groups = Vec::new();
        let mut seen = FxHashSet::default();
        for identity in identities {
            let id = find_or_create(identity, context);
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
        labels_id: usize,
        store: &mut RequirementStore<'_>,
    ) -> GroupIdentity {
        let NamespacedLabels { namespace, labels, .. } = &self.namespaced_labels[labels_id];
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
        GroupIdentity {
            is_inverse: false,
            kind: TopologyKind::Spread,
            key: constraint.topology_key.clone(),
            namespaces: [namespace.clone()].into(),
            selector,
            max_skew: i64::from(constraint.max_skew),
            min_domains: constraint.min_domains.map(i64::from),
            filter: Some(NodeFilter {
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
        labels_id: usize,
        context: &ShapeContext<'_, '_>,
    ) -> GroupIdentity {
        let own = &self.namespaced_labels[labels_id].namespace;
        let key = (own.clone(), term.namespaces.clone(), term.namespace_selector.clone());
        let namespaces = self
            .namespaces
            .entry(key)
            .or_insert_with(|| namespaces(own, term, context.input))
            .clone();
        GroupIdentity {
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

impl PodShape {
    /// Returns whether a step of relaxation left the constraints unchanged.
    pub(super) fn same_as(&self, other: &Self) -> bool {
        self.all == other.all
            && self.strict == other.strict
            && self.owned == other.owned
            && self.tolerations == other.tolerations
    }
}

fn find_or_create(identity: GroupIdentity, context: &mut ShapeContext<'_, '_>) -> GroupId {
    match context.topology.find(&identity) {
        Some(id) => id,
        None => context.topology.create(identity, context.input, context.store),
    }
}

/// Returns the node selector with the first required term (spec 20 §1.7).
pub(super) fn strict_requirements(spec: &PodSpec) -> Requirements {
    let mut requirements = spec.node_selector.clone();
    if let Some(term) = spec.node_affinity.first() {
        requirements.extend(term.iter().cloned());
    }
    requirements
}

/// Returns the preferred term that is tried: the heaviest, the first of equals.
fn heaviest(spec: &PodSpec) -> Option<&Requirements> {
    let heaviest = spec.preferred_node_affinity.iter().min_by_key(|term| Reverse(term.weight))?;
    Some(&heaviest.term)
}

fn filter_sets(spec: &PodSpec, store: &mut RequirementStore<'_>) -> Vec<SplitRequirements> {
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

/// Returns the namespaces that a term selects (spec 20 §4.2).
fn namespaces(own: &str, term: &AffinityTerm, input: &SolverInput<'_>) -> BTreeSet<String> {
    let listed = term.namespaces.iter().cloned();
    match &term.namespace_selector {
        None if term.namespaces.is_empty() => [own.to_owned()].into(),
        None => listed.collect(),
        Some(selector) => {
            let selected = input
                .snapshot
                .namespaces
                .iter()
                .filter(|(_, labels)| selector.matches(labels))
                .map(|(name, _)| name.clone());
            listed.chain(selected).collect()
        }
    }
}
