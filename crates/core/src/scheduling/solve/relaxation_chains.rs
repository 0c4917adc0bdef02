//! Groups pods that relax alike, and stores the shapes of their relaxation.

use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::relaxation_steps::{RelaxationSteps, RelaxedConstraints};
use super::requirement_store::number;
use super::selector_index::LabelsIndex;
use super::shape::{PodShape, ShapeContext};
use super::topology::Topology;
use super::topology_groups::{GroupId, GroupIdentity};
use crate::copy_on_write::CopyOnWrite;
use crate::pod::{PodSpec, SpreadConstraint};
use crate::selector::Labels;
use crate::taint::Toleration;

/// The namespace and labels of pods, which selectors of other pods select.
#[derive(Clone, Debug)]
pub(super) struct NamespacedLabels {
    pub(super) namespace: String,
    pub(super) labels: Arc<Labels>,
    /// Direct groups that count such pods.
    counting_groups: Vec<GroupId>,
    /// Inverse groups that keep such pods away.
    excluding_groups: Vec<GroupId>,
    /// How many groups were checked so far.
    checked_group_count: usize,
}

/// The most shapes that a chain keeps. A pod has few steps; one with hundreds makes its shapes anew.
const MAX_KEPT_SHAPES: usize = 64;

/// Pods with the same constraints and labels, which relax alike.
#[derive(Clone, Debug)]
pub(super) struct RelaxationChain {
    pub(super) labels_id: usize,
    pub(super) steps: RelaxationSteps,
    /// Shapes by number of relaxation steps, up to a limit.
    shapes: FxHashMap<usize, Arc<PodShape>>,
    /// The last shape that was made, with its steps. Most of what it has serves the next one.
    last_shape: Option<(usize, Arc<PodShape>)>,
    /// The number of the last request, and how many steps it has reached.
    pub(super) reached: (u32, usize),
    /// The inverse groups of such pods' required anti-affinity.
    pub(super) inverse_groups: Arc<[GroupId]>,
    /// The direct groups of such pods before any relaxation.
    pub(super) initial_groups: Arc<[GroupId]>,
    affinity_groups: AffinityGroups,
    /// By [`RelaxedConstraints::node_filter_key`]: the group of each spread constraint.
    spread_groups: FxHashMap<(usize, bool), Arc<[Option<GroupId>]>>,
    /// By group: the number of steps after which no preference or soft spread constraint has it.
    /// Absent if it is never dropped; none until it is needed.
    group_drops: Option<Arc<FxHashMap<GroupId, usize>>>,
    pub(super) tolerations: Arc<[Toleration]>,
    /// All groups that any shape depends on.
    pub(super) relevant_groups: BTreeSet<GroupId>,
}

/// The groups of the terms of pod affinity and anti-affinity, in the order written.
///
/// Preferred terms have none where preferences are ignored.
#[derive(Clone, Debug, Default)]
pub(super) struct AffinityGroups {
    pub(super) affinity: Arc<[GroupId]>,
    pub(super) preferred_affinity: Arc<[GroupId]>,
    pub(super) anti_affinity: Arc<[GroupId]>,
    pub(super) preferred_anti_affinity: Arc<[GroupId]>,
}

/// All relaxation chains of a solve.
#[derive(Clone, Debug, Default)]
pub(super) struct RelaxationChains<'a> {
    pub(super) all: Vec<RelaxationChain>,
    pub(super) namespaced_labels: Vec<NamespacedLabels>,
    labels_ids: CopyOnWrite<FxHashMap<(String, Arc<Labels>), usize>>,
    labels_index: CopyOnWrite<LabelsIndex>,
    ids: CopyOnWrite<FxHashMap<(ConstraintKey<'a>, usize), usize>>,
    /// The namespaces that affinity terms select, by own namespace and term.
    pub(super) namespaces: FxHashMap<AffinityNamespaces, BTreeSet<String>>,
    /// How many different shapes there are.
    pub(super) shape_count: u32,
}

type AffinityNamespaces = (String, Vec<String>, Option<crate::selector::LabelSelector>);

/// The constraints of a spec, with the spread constraints that replace its own.
#[derive(Clone, Debug)]
struct ConstraintKey<'a>(&'a PodSpec, Option<Vec<SpreadConstraint>>);

impl PartialEq for ConstraintKey<'_> {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.0, other.0);
        a.node_selector == b.node_selector
            && a.node_affinity == b.node_affinity
            && a.preferred_node_affinity == b.preferred_node_affinity
            && a.pod_affinity == b.pod_affinity
            && a.preferred_pod_affinity == b.preferred_pod_affinity
            && a.pod_anti_affinity == b.pod_anti_affinity
            && a.preferred_pod_anti_affinity == b.preferred_pod_anti_affinity
            && a.topology_spread == b.topology_spread
            && a.tolerations == b.tolerations
            && self.1 == other.1
    }
}

impl Eq for ConstraintKey<'_> {}

impl Hash for ConstraintKey<'_> {
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
        spec.topology_spread.hash(state);
        spec.tolerations.hash(state);
    }
}

impl<'a> RelaxationChains<'a> {
    /// Returns the number of a namespace with these labels.
    pub(super) fn intern_labels(&mut self, namespace: &str, labels: Labels) -> usize {
        let key = (namespace.to_owned(), Arc::new(labels));
        if let Some(&labels_id) = self.labels_ids.get(&key) {
            return labels_id;
        }
        let labels_id = self.namespaced_labels.len();
        self.labels_index.insert(number(labels_id), &key.0, &key.1);
        self.namespaced_labels.push(NamespacedLabels {
            namespace: key.0.clone(),
            labels: key.1.clone(),
            counting_groups: Vec::new(),
            excluding_groups: Vec::new(),
            checked_group_count: 0,
        });
        self.labels_ids.insert(key, labels_id);
        labels_id
    }

    /// Returns the direct groups that count pods with these labels.
    ///
    /// Groups that were created since the last call are checked now.
    pub(super) fn counting_groups(
        &mut self,
        labels_id: usize,
        topology: &Topology<'_>,
    ) -> &[GroupId] {
        self.update_matching_groups(labels_id, topology);
        &self.namespaced_labels[labels_id].counting_groups
    }

    /// Returns the inverse groups of the request that keep these pods away, in order.
    fn excluding_groups(&mut self, labels_id: usize, topology: &Topology<'_>) -> Vec<GroupId> {
        self.update_matching_groups(labels_id, topology);
        let groups = self.namespaced_labels[labels_id].excluding_groups.iter().copied();
        groups.filter(|&id| topology.is_in_request(id)).collect()
    }

    fn update_matching_groups(&mut self, labels_id: usize, topology: &Topology<'_>) {
        let entry = &mut self.namespaced_labels[labels_id];
        if entry.checked_group_count < topology.len() {
            for id in topology.groups_selecting(
                &entry.namespace,
                &entry.labels,
                entry.checked_group_count,
            ) {
                let is_inverse = topology.group(id).identity.is_inverse;
                if is_inverse { &mut entry.excluding_groups } else { &mut entry.counting_groups }
                    .push(id);
            }
            entry.checked_group_count = topology.len();
        }
    }

    /// Returns the numbers of all labels that a direct group counts.
    pub(super) fn labels_counted_by(&self, identity: &GroupIdentity) -> Vec<usize> {
        let found =
            self.labels_index.selected_by(identity).into_iter().map(|labels_id| labels_id as usize);
        let counts = |labels_id: &usize| {
            let NamespacedLabels { namespace, labels, .. } = &self.namespaced_labels[*labels_id];
            !identity.is_inverse && identity.selects(namespace, labels)
        };
        found.filter(counts).collect()
    }

    /// Returns the chain of a spec, with its spread constraints replaced if `spread` is given.
    ///
    /// Its groups exist from now on; shapes are made on demand.
    pub(super) fn chain(
        &mut self,
        spec: &'a Arc<PodSpec>,
        spread: Option<Vec<SpreadConstraint>>,
        labels_id: usize,
        context: &mut ShapeContext<'_, '_>,
    ) -> usize {
        let key = (ConstraintKey(spec, spread), labels_id);
        if let Some(&chain) = self.ids.get(&key) {
            return chain;
        }
        let mut solved = spec.clone();
        if let Some(spread) = key.0.1.as_ref().filter(|spread| **spread != spec.topology_spread) {
            Arc::make_mut(&mut solved).topology_spread.clone_from(spread);
        }
        let mut inverse_groups = self.inverse_groups(&spec.pod_anti_affinity, labels_id, context);
        let mut seen = FxHashSet::default();
        inverse_groups.retain(|&id| seen.insert(id));
        let tolerations = solved.tolerations.as_slice().into();
        let steps = RelaxationSteps::new(solved, context.tolerate_prefer_no_schedule);
        let unrelaxed = steps.after(0).expect("no step is always possible");
        let spread_groups = self.find_spread_groups(&steps.spec, &unrelaxed, labels_id, context);
        let affinity_groups = self.affinity_groups(&steps.spec, labels_id, context);
        let initial_groups = owned_groups(&unrelaxed, &spread_groups, &affinity_groups);
        let spread_groups = [(unrelaxed.node_filter_key(), spread_groups)].into_iter().collect();
        let chain = self.all.len();
        self.all.push(RelaxationChain {
            labels_id,
            shapes: FxHashMap::default(),
            last_shape: None,
            reached: (0, 0),
            tolerations,
            inverse_groups: inverse_groups.into(),
            initial_groups: initial_groups.into(),
            affinity_groups,
            spread_groups,
            group_drops: None,
            relevant_groups: BTreeSet::new(),
            steps,
        });
        self.ids.insert(key, chain);
        chain
    }

    /// Returns the shape after `step` relaxations, or none if there are fewer.
    pub(super) fn shape(
        &mut self,
        chain: usize,
        step: usize,
        context: &mut ShapeContext<'_, '_>,
    ) -> Option<Arc<PodShape>> {
        let labels_id = self.all[chain].labels_id;
        if let Some(known) = self.kept_shape(chain, step) {
            // This request may contain other pods, whose anti-affinity keeps these away.
            let others = self.excluding_groups(labels_id, context.topology);
            if known.excluding_groups == others {
                return Some(known);
            }
            let shape = self.with_excluding_groups(&known, labels_id, others, context);
            return Some(self.store_shape(chain, step, shape));
        }
        let steps = self.all[chain].steps.clone();
        let relaxed = steps.after(step)?;
        let owned = self.owned_groups(chain, &relaxed, context);
        let others = self.excluding_groups(labels_id, context.topology);
        let last = self.all[chain].last_shape.clone();
        let last = last.as_ref().map(|(_, shape)| &**shape);
        let shape = self.new_shape(&relaxed, last, owned, context);
        let shape = self.with_excluding_groups(&shape, labels_id, others, context);
        Some(self.store_shape(chain, step, shape))
    }

    /// Returns the shape of a step that this request has reached, if it is kept.
    pub(super) fn kept_shape(&self, chain: usize, step: usize) -> Option<Arc<PodShape>> {
        let RelaxationChain { shapes, last_shape, .. } = &self.all[chain];
        let last = last_shape.as_ref().filter(|(of, _)| *of == step);
        shapes.get(&step).or(last.map(|(_, shape)| shape)).cloned()
    }

    /// Returns whether any shape of a chain was made.
    pub(super) fn has_shapes(&self, chain: usize) -> bool {
        !self.all[chain].shapes.is_empty()
    }

    /// Returns the next step that can succeed after one failed because groups have no domain left.
    ///
    /// With it the group that fails until then. Preferences and soft spread constraints are dropped
    /// one at a time. As long as one of them has a group without a domain, each step fails alike:
    /// required terms and tolerations stay the same. The last step is never skipped, since it
    /// explains the rejection.
    pub(super) fn step_after_failed_groups(
        &mut self,
        chain: usize,
        step: usize,
        failed: &[GroupId],
    ) -> (usize, Option<GroupId>) {
        let chain = &mut self.all[chain];
        let preference_steps = chain.steps.preference_steps();
        if !preference_steps.contains(&step) {
            return (step + 1, failed.first().copied());
        }
        let end = preference_steps.end;
        let drops = chain.group_drops.get_or_insert_with(|| {
            let relaxed = chain.steps.after(step).expect("the step was tried");
            let spread = chain.spread_groups.get(&relaxed.node_filter_key()).cloned();
            let spread = spread.unwrap_or_default();
            Arc::new(group_drops(&chain.steps, &chain.affinity_groups, &spread))
        });
        let drop = |group: &GroupId| drops.get(group).copied().unwrap_or(end);
        let last = failed.iter().copied().max_by_key(drop);
        let next = last.map_or(step + 1, |group| drop(&group).max(step + 1));
        (if step < chain.steps.len() { next.min(chain.steps.len()) } else { next }, last)
    }

    /// Returns the pod's own groups after some steps, and creates those that are new.
    fn owned_groups(
        &mut self,
        chain: usize,
        relaxed: &RelaxedConstraints<'_>,
        context: &mut ShapeContext<'_, '_>,
    ) -> Vec<GroupId> {
        let key = relaxed.node_filter_key();
        let spread = if let Some(known) = self.all[chain].spread_groups.get(&key) {
            known.clone()
        } else {
            let RelaxationChain { labels_id, steps, .. } = &self.all[chain];
            let (labels_id, spec) = (*labels_id, steps.spec.clone());
            let found = self.find_spread_groups(&spec, relaxed, labels_id, context);
            self.all[chain].spread_groups.insert(key, found.clone());
            found
        };
        owned_groups(relaxed, &spread, &self.all[chain].affinity_groups)
    }

    /// Stores the shape of a step.
    fn store_shape(&mut self, chain: usize, step: usize, shape: PodShape) -> Arc<PodShape> {
        let chain = &mut self.all[chain];
        chain.relevant_groups.extend(shape.label_groups.iter().map(|over| over.group));
        chain.relevant_groups.extend(shape.host_groups.iter().map(|over| over.group));
        let shape = Arc::new(shape);
        if chain.shapes.len() < MAX_KEPT_SHAPES || chain.shapes.contains_key(&step) {
            chain.shapes.insert(step, shape.clone());
        }
        chain.last_shape = Some((step, shape.clone()));
        shape
    }
}

/// Returns by group the number of steps after which no constraint has it.
///
/// A group of several constraints stays until the last of them is dropped, and one of a required
/// constraint always.
fn group_drops(
    steps: &RelaxationSteps,
    groups: &AffinityGroups,
    spread: &[Option<GroupId>],
) -> FxHashMap<GroupId, usize> {
    let [affinity, anti_affinity, spread_drops] = steps.drops();
    let affinity = affinity
        .filter_map(|(drop, term)| Some((groups.preferred_affinity.get(term).copied()?, drop)));
    let anti_affinity = anti_affinity.filter_map(|(drop, term)| {
        Some((groups.preferred_anti_affinity.get(term).copied()?, drop))
    });
    let spread_drops =
        spread_drops.filter_map(|(drop, position)| Some((spread.get(position).copied()??, drop)));
    let mut drops: FxHashMap<GroupId, usize> =
        affinity.chain(anti_affinity).chain(spread_drops).collect();
    let required_spread = spread.iter().zip(&steps.spec.topology_spread);
    let required_spread =
        required_spread.filter_map(|(group, constraint)| group.filter(|_| constraint.is_required));
    let required = groups.affinity.iter().chain(groups.anti_affinity.iter()).copied();
    for group in required.chain(required_spread) {
        drops.remove(&group);
    }
    drops
}

/// Returns the groups of the constraints that are left, each once, in the order of the constraints.
fn owned_groups(
    relaxed: &RelaxedConstraints<'_>,
    spread: &[Option<GroupId>],
    affinity: &AffinityGroups,
) -> Vec<GroupId> {
    let at = |groups: &[GroupId], position: usize| groups.get(position).copied();
    let spread = relaxed.spread().into_iter().filter_map(|position| spread[position]);
    let preferred_affinity = relaxed
        .preferred_pod_affinity()
        .filter_map(|position| at(&affinity.preferred_affinity, position));
    let preferred_anti_affinity = relaxed
        .preferred_pod_anti_affinity()
        .filter_map(|position| at(&affinity.preferred_anti_affinity, position));
    let all = spread
        .chain(affinity.affinity.iter().copied())
        .chain(preferred_affinity)
        .chain(affinity.anti_affinity.iter().copied())
        .chain(preferred_anti_affinity);
    let mut seen = FxHashSet::default();
    all.filter(|&id| seen.insert(id)).collect()
}
