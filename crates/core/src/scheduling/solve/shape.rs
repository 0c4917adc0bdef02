//! The constraints of a pod at one step of its relaxation, calculated once for all pods alike.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::input::SolverInput;
use super::relaxation_chains::{AffinityGroups, NamespacedLabels, RelaxationChains};
use super::relaxation_steps::{NodeRequirementsKey, RelaxedConstraints};
use super::requirement_store::{ReqId, RequirementStore, SplitRequirements};
use super::topology::Topology;
use super::topology_groups::{DomainKind, GroupId, GroupIdentity, NodeFilter};
use crate::pod::{AffinityTerm, PodSpec, SpreadConstraint, WeightedTerm};
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
    /// Equal for shapes with the same requirements of nodes and tolerations.
    pub(super) node_requirements_key: NodeRequirementsKey,
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

    /// Returns the shape of a pod after some relaxation steps, without excluding groups.
    ///
    /// Values that the `last` shape has, too, are reused.
    pub(super) fn new_shape(
        &mut self,
        relaxed: &RelaxedConstraints<'_>,
        last: Option<&PodShape>,
        owned: Vec<GroupId>,
        context: &mut ShapeContext<'_, '_>,
    ) -> PodShape {
        let none = (Vec::new(), Vec::new(), Vec::new());
        let (excluding_groups, label_groups, host_groups) = none;
        let key = relaxed.node_requirements_key();
        if let Some(last) = last.filter(|last| last.node_requirements_key == key) {
            let PodShape { number, all, strict, ref tolerations, ref tolerates, .. } = *last;
            let (tolerations, tolerates) = (tolerations.clone(), tolerates.clone());
            return PodShape {
                number,
                node_requirements_key: key,
                all,
                strict,
                tolerations,
                owned,
                excluding_groups,
                label_groups,
                host_groups,
                tolerates,
            };
        }
        let ShapeContext { input, store, .. } = context;
        let strict_plain = strict_requirements(relaxed.node_selector(), relaxed.required_terms());
        let strict = store.split(&strict_plain);
        let all = match (relaxed.heaviest_node_preference(), input.options.preferences) {
            (Some(preferred), PreferencePolicy::Respect) => {
                let mut all = strict_plain;
                all.extend(preferred.iter().cloned());
                store.split(&all)
            }
            _ => strict,
        };
        let tolerations = relaxed.tolerations();
        let tolerates = context
            .template_taints
            .iter()
            .map(|taints| untolerated_taints(taints, &tolerations).is_empty())
            .collect();
        let number = self.shape_count;
        self.shape_count += 1;
        PodShape {
            number,
            node_requirements_key: key,
            all,
            strict,
            tolerations: tolerations.into(),
            owned,
            excluding_groups,
            label_groups,
            host_groups,
            tolerates,
        }
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

    /// Returns the groups of all terms of pod affinity and anti-affinity, and creates new ones.
    pub(super) fn affinity_groups(
        &mut self,
        spec: &PodSpec,
        labels_id: usize,
        context: &mut ShapeContext<'_, '_>,
    ) -> AffinityGroups {
        let respects = context.input.options.preferences == PreferencePolicy::Respect;
        let mut required = |kind, terms: &[AffinityTerm]| -> Arc<[GroupId]> {
            terms.iter().map(|term| self.affinity_group(kind, term, labels_id, context)).collect()
        };
        let (affinity, anti_affinity) = (TopologyKind::Affinity, TopologyKind::AntiAffinity);
        let mut groups = AffinityGroups {
            affinity: required(affinity, &spec.pod_affinity),
            anti_affinity: required(anti_affinity, &spec.pod_anti_affinity),
            ..AffinityGroups::default()
        };
        if respects {
            let mut preferred = |kind, terms: &[WeightedTerm<AffinityTerm>]| -> Arc<[GroupId]> {
                let terms = terms.iter().map(|preference| &preference.term);
                terms.map(|term| self.affinity_group(kind, term, labels_id, context)).collect()
            };
            groups.preferred_affinity = preferred(affinity, &spec.preferred_pod_affinity);
            groups.preferred_anti_affinity =
                preferred(anti_affinity, &spec.preferred_pod_anti_affinity);
        }
        groups
    }

    fn affinity_group(
        &mut self,
        kind: TopologyKind,
        term: &AffinityTerm,
        labels_id: usize,
        context: &mut ShapeContext<'_, '_>,
    ) -> GroupId {
        let identity = self.affinity_identity(kind, term, labels_id, context);
        find_or_create(identity, context)
    }

    /// Returns the group of each spread constraint, and creates those that are new.
    ///
    /// A soft constraint has none where preferences are ignored, nor after it was dropped.
    pub(super) fn find_spread_groups(
        &mut self,
        spec: &PodSpec,
        relaxed: &RelaxedConstraints<'_>,
        labels_id: usize,
        context: &mut ShapeContext<'_, '_>,
    ) -> Arc<[Option<GroupId>]> {
        let respects = context.input.options.preferences == PreferencePolicy::Respect;
        let mut groups = vec![None; spec.topology_spread.len()];
        if groups.is_empty() {
            return groups.into();
        }
        let sets = filter_sets(&spec.node_selector, relaxed.required_terms(), context.store);
        let tolerations: Arc<[Toleration]> = relaxed.tolerations().into();
        for position in relaxed.spread() {
            let constraint = &spec.topology_spread[position];
            if constraint.is_required || respects {
                let filter = NodeFilter {
                    sets: sets.clone(),
                    honors_affinity: constraint.honors_node_affinity,
                    honors_taints: constraint.honors_node_taints,
                    tolerations: tolerations.clone(),
                };
                let identity = self.spread_identity(constraint, filter, labels_id);
                groups[position] = Some(find_or_create(identity, context));
            }
        }
        groups.into()
    }

    fn spread_identity(
        &self,
        constraint: &SpreadConstraint,
        filter: NodeFilter,
        labels_id: usize,
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
        GroupIdentity {
            is_inverse: false,
            kind: TopologyKind::Spread,
            key: constraint.topology_key.clone(),
            namespaces: [namespace.clone()].into(),
            selector,
            max_skew: i64::from(constraint.max_skew),
            min_domains: constraint.min_domains.map(i64::from),
            filter: Some(filter),
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
pub(super) fn strict_requirements(
    node_selector: &Requirements,
    required_terms: &[Requirements],
) -> Requirements {
    let mut requirements = node_selector.clone();
    if let Some(term) = required_terms.first() {
        requirements.extend(term.iter().cloned());
    }
    requirements
}

/// Returns by required term the requirements of nodes that spread constraints count.
fn filter_sets(
    node_selector: &Requirements,
    terms: &[Requirements],
    store: &mut RequirementStore<'_>,
) -> Arc<[SplitRequirements]> {
    if terms.is_empty() {
        return [store.split(node_selector)].into();
    }
    let set = |term: &Requirements| {
        store.split(&strict_requirements(node_selector, std::slice::from_ref(term)))
    };
    terms.iter().map(set).collect()
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
