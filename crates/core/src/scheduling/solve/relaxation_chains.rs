//! Groups pods that relax alike, and stores the shapes of their relaxation.

use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::preferences::relax;
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

/// Pods with the same constraints and labels, which relax alike.
#[derive(Clone, Debug)]
pub(super) struct RelaxationChain {
    pub(super) labels_id: usize,
    /// Shapes by number of relaxation steps. Steps that change nothing repeat the shape before.
    pub(super) shapes: Vec<Arc<PodShape>>,
    /// The number of the last request, and how many shapes it has reached.
    pub(super) reached: (u32, usize),
    /// The spec after as many steps as there are shapes; none if no step is left.
    next: Option<Arc<PodSpec>>,
    /// The inverse groups of such pods' required anti-affinity.
    pub(super) inverse_groups: Arc<[GroupId]>,
    /// The direct groups of such pods before any relaxation.
    pub(super) initial_groups: Arc<[GroupId]>,
    pub(super) tolerations: Arc<[Toleration]>,
    /// All groups that any shape depends on.
    pub(super) relevant_groups: BTreeSet<GroupId>,
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
        let initial_groups = self.groups_of(&solved, labels_id, context);
        let chain = self.all.len();
        self.all.push(RelaxationChain {
            labels_id,
            shapes: Vec::new(),
            reached: (0, 0),
            tolerations: solved.tolerations.as_slice().into(),
            next: Some(solved),
            inverse_groups: inverse_groups.into(),
            initial_groups: initial_groups.into(),
            relevant_groups: BTreeSet::new(),
        });
        self.ids.insert(key, chain);
        chain
    }

    /// Returns the shape after `step` relaxations, or none if there are fewer.
    ///
    /// The same request must have used the shapes before it.
    pub(super) fn shape(
        &mut self,
        chain: usize,
        step: usize,
        context: &mut ShapeContext<'_, '_>,
    ) -> Option<Arc<PodShape>> {
        let labels_id = self.all[chain].labels_id;
        if let Some(known) = self.all[chain].shapes.get(step).cloned() {
            // This request may contain other pods, whose anti-affinity keeps these away.
            let others = self.excluding_groups(labels_id, context.topology);
            if known.excluding_groups == others {
                return Some(known);
            }
            let shape = self.with_excluding_groups(&known, labels_id, others, context);
            return Some(self.store_shape(chain, step, shape));
        }
        let spec = self.all[chain].next.take()?;
        let owned = self.groups_of(&spec, labels_id, context);
        let others = self.excluding_groups(labels_id, context.topology);
        let shape = self.new_shape(&spec, labels_id, (owned, others), context);
        let shape = self.store_shape(chain, step, shape);
        let mut relaxed = PodSpec::clone(&spec);
        if relax(&mut relaxed, context.tolerate_prefer_no_schedule) {
            self.all[chain].next = Some(Arc::new(relaxed));
        }
        Some(shape)
    }

    /// Stores the shape of a step.
    ///
    /// If it equals the shape of the step before, the two steps share one.
    fn store_shape(&mut self, chain: usize, step: usize, shape: PodShape) -> Arc<PodShape> {
        let chain = &mut self.all[chain];
        chain.relevant_groups.extend(shape.label_groups.iter().map(|over| over.group));
        chain.relevant_groups.extend(shape.host_groups.iter().map(|over| over.group));
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
