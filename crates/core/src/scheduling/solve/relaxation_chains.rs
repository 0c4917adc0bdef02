//! Pods that relax alike, and the shapes that they take on the way.

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

/// Namespace and labels: who a pod is to the selectors of others.
#[derive(Clone, Debug)]
pub(super) struct NamespacedLabels {
    pub(super) namespace: String,
    pub(super) labels: Arc<Labels>,
    /// Direct groups that count such pods.
    counting_groups: Vec<GroupId>,
    /// Inverse groups that keep such pods away.
    excluding_groups: Vec<GroupId>,
    /// How many groups were looked at to find them.
    checked_group_count: usize,
}

/// Pods with the same constraints and labels: they relax alike.
#[derive(Clone, Debug)]
pub(super) struct RelaxationChain {
    pub(super) labels_id: usize,
    /// Shapes by number of relaxation steps. Steps that change nothing repeat the shape before.
    pub(super) shapes: Vec<Arc<PodShape>>,
    /// How many of them the question has come to, and which question it is.
    pub(super) reached: (u32, usize),
    /// The spec after as many steps as there are shapes; none when there is nothing more to relax.
    next: Option<Arc<PodSpec>>,
    /// Inverse groups that are fed by such pods.
    pub(super) inverse_groups: Arc<[GroupId]>,
    /// Groups of such pods before any relaxation.
    pub(super) initial_groups: Arc<[GroupId]>,
    pub(super) tolerations: Arc<[Toleration]>,
    /// All groups that any shape looks at.
    pub(super) relevant_groups: BTreeSet<GroupId>,
}

/// All chains of a solve.
#[derive(Clone, Debug, Default)]
pub(super) struct RelaxationChains<'a> {
    pub(super) all: Vec<RelaxationChain>,
    pub(super) namespaced_labels: Vec<NamespacedLabels>,
    labels_ids: CopyOnWrite<FxHashMap<(String, Arc<Labels>), usize>>,
    labels_index: CopyOnWrite<LabelsIndex>,
    ids: CopyOnWrite<FxHashMap<(ConstraintKey<'a>, usize), usize>>,
    /// The namespaces that terms are about, by their own namespace and what they say.
    pub(super) namespaces: FxHashMap<AffinityNamespaces, BTreeSet<String>>,
    /// How many different shapes there are.
    pub(super) shape_count: u32,
}

type AffinityNamespaces = (String, Vec<String>, Option<crate::selector::LabelSelector>);

/// A spec by its constraints alone, and the spread constraints that are not its own.
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
    /// The number of a namespace with these labels.
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

    /// Direct groups that count the pods of a `who`. Groups that appeared since are looked at now.
    pub(super) fn counting_groups(
        &mut self,
        labels_id: usize,
        topology: &Topology<'_>,
    ) -> &[GroupId] {
        self.update_matching_groups(labels_id, topology);
        &self.namespaced_labels[labels_id].counting_groups
    }

    /// Inverse groups of the question that keep the pods of a `who` away, in order.
    fn excluding_groups(&mut self, labels_id: usize, topology: &Topology<'_>) -> Vec<GroupId> {
        self.update_matching_groups(labels_id, topology);
        let groups = self.namespaced_labels[labels_id].excluding_groups.iter().copied();
        groups.filter(|&id| topology.is_in_request(id)).collect()
    }

    fn update_matching_groups(&mut self, labels_id: usize, topology: &Topology<'_>) {
        let labels_id = &mut self.namespaced_labels[labels_id];
        if labels_id.checked_group_count < topology.len() {
            for id in topology.groups_selecting(
                &labels_id.namespace,
                &labels_id.labels,
                labels_id.checked_group_count,
            ) {
                let is_inverse = topology.group(id).identity.is_inverse;
                if is_inverse {
                    &mut labels_id.excluding_groups
                } else {
                    &mut labels_id.counting_groups
                }
                .push(id);
            }
            labels_id.checked_group_count = topology.len();
        }
    }

    /// Everybody whom a group counts.
    pub(super) fn labels_counted_by(&self, identity: &GroupIdentity) -> Vec<usize> {
        let found =
            self.labels_index.selected_by(identity).into_iter().map(|labels_id| labels_id as usize);
        let counts = |labels_id: &usize| {
            let NamespacedLabels { namespace, labels, .. } = &self.namespaced_labels[*labels_id];
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
        let mut feeds = self.inverse_groups(&spec.pod_anti_affinity, labels_id, context);
        let mut seen = FxHashSet::default();
        feeds.retain(|&id| seen.insert(id));
        let first = self.groups_of(&solved, labels_id, context);
        let chain = self.all.len();
        self.all.push(RelaxationChain {
            labels_id,
            shapes: Vec::new(),
            reached: (0, 0),
            tolerations: solved.tolerations.as_slice().into(),
            next: Some(solved),
            inverse_groups: feeds.into(),
            initial_groups: first.into(),
            relevant_groups: BTreeSet::new(),
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
        context: &mut ShapeContext<'_, '_>,
    ) -> Option<Arc<PodShape>> {
        let labels_id = self.all[chain].labels_id;
        if let Some(known) = self.all[chain].shapes.get(step).cloned() {
            // Other pods may be asked for by now, whose anti-affinity keeps these away.
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

    /// Puts a shape in its place. One that is as the one before becomes that one.
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
