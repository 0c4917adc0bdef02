//! The steps by which a pod gives up constraints, one at a time (spec 20 §3.15).
//!
//! ```text
//! required terms ─▶ pod affinity ─▶ pod anti-affinity ─▶ node preferences ─▶ spread ─▶ toleration
//! (first to last,   (preferred terms, the heaviest first; equal weights      (soft     (of taints
//!  the last stays)   in the order written)                                    ones)     PreferNoSchedule)
//! ```
//!
//! All steps are known beforehand, so the constraints after any number of them follow from sorted
//! positions. Nothing is copied per step: a pod with 1,000 preferences has 1,000 steps.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use super::requirement_store::number;
use crate::pod::{PodSpec, SpreadConstraint, WeightedTerm};
use crate::requirement::Requirements;
use crate::taint::Toleration;

/// The constraints of a pod and the steps that relax them.
#[derive(Clone, Debug)]
pub(super) struct RelaxationSteps {
    pub(super) spec: Arc<PodSpec>,
    /// How many required node affinity terms can be dropped.
    required_terms: usize,
    pod_affinity: WeightOrder,
    pod_anti_affinity: WeightOrder,
    node_preferences: WeightOrder,
    /// The positions of the spread constraints that can be dropped, in the order of the steps.
    soft_spread: Arc<[u32]>,
    adds_toleration: bool,
}

/// The positions of preferred terms, heaviest first.
#[derive(Clone, Debug)]
struct WeightOrder(Arc<[u32]>);

/// The constraints that are left after some steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct RelaxedConstraints<'s> {
    steps: &'s RelaxationSteps,
    dropped_required_terms: usize,
    dropped_pod_affinity: usize,
    dropped_pod_anti_affinity: usize,
    dropped_node_preferences: usize,
    dropped_spread: usize,
    has_toleration: bool,
}

/// Identifies the requirements of nodes and the tolerations among the steps of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeRequirementsKey {
    dropped_required_terms: usize,
    dropped_node_preferences: usize,
    has_toleration: bool,
}

impl RelaxationSteps {
    pub(super) fn new(spec: Arc<PodSpec>, tolerate_prefer_no_schedule: bool) -> Self {
        Self {
            required_terms: spec.node_affinity.len().saturating_sub(1),
            pod_affinity: WeightOrder::new(&spec.preferred_pod_affinity),
            pod_anti_affinity: WeightOrder::new(&spec.preferred_pod_anti_affinity),
            node_preferences: WeightOrder::new(&spec.preferred_node_affinity),
            soft_spread: spread_drops(&spec.topology_spread),
            adds_toleration: tolerate_prefer_no_schedule
                && !spec.tolerations.contains(&Toleration::prefer_no_schedule()),
            spec,
        }
    }

    /// Returns the number of steps.
    pub(super) fn len(&self) -> usize {
        self.required_terms
            + self.pod_affinity.len()
            + self.pod_anti_affinity.len()
            + self.node_preferences.len()
            + self.soft_spread.len()
            + usize::from(self.adds_toleration)
    }

    /// Returns the constraints after some steps; none if there are fewer.
    pub(super) fn after(&self, steps: usize) -> Option<RelaxedConstraints<'_>> {
        let mut left = steps;
        let mut take = |available: usize| {
            let taken = left.min(available);
            left -= taken;
            taken
        };
        let constraints = RelaxedConstraints {
            steps: self,
            dropped_required_terms: take(self.required_terms),
            dropped_pod_affinity: take(self.pod_affinity.len()),
            dropped_pod_anti_affinity: take(self.pod_anti_affinity.len()),
            dropped_node_preferences: take(self.node_preferences.len()),
            dropped_spread: take(self.soft_spread.len()),
            has_toleration: take(usize::from(self.adds_toleration)) > 0,
        };
        (left == 0).then_some(constraints)
    }

    /// Returns whether the constraints after these steps can have topology groups that those of
    /// earlier steps do not have.
    ///
    /// The nodes that a spread constraint counts follow from required terms and tolerations.
    pub(super) fn may_add_groups(&self, steps: usize) -> bool {
        steps <= self.required_terms || (self.adds_toleration && steps == self.len())
    }

    /// Returns the steps that drop preferences or soft spread constraints, and nothing else changes.
    ///
    /// After each of them the required terms and tolerations are the same.
    pub(super) fn preference_steps(&self) -> Range<usize> {
        self.required_terms..self.len() + usize::from(!self.adds_toleration)
    }

    /// Returns by preferred term of pod affinity, then of anti-affinity, and by soft spread
    /// constraint the number of steps after which it is dropped, and its position in its list.
    pub(super) fn drops(&self) -> [impl Iterator<Item = (usize, usize)>; 3] {
        let drops = |order: &Arc<[u32]>, first: usize| {
            let order = order.clone();
            (0..order.len()).map(move |rank| (first + rank + 1, order[rank] as usize))
        };
        let anti_affinity = self.required_terms + self.pod_affinity.len();
        let node_preferences = anti_affinity + self.pod_anti_affinity.len();
        let spread = node_preferences + self.node_preferences.len();
        [
            drops(&self.pod_affinity.0, self.required_terms),
            drops(&self.pod_anti_affinity.0, anti_affinity),
            drops(&self.soft_spread, spread),
        ]
    }
}

/// Returns the positions of soft spread constraints in the order in which steps drop them.
///
/// A step drops the first soft constraint; the last one takes its slot.
fn spread_drops(constraints: &[SpreadConstraint]) -> Arc<[u32]> {
    let mut left: Vec<usize> = (0..constraints.len()).collect();
    let mut dropped = Vec::new();
    let mut slot = 0;
    while let Some(&position) = left.get(slot) {
        if constraints[position].is_required {
            slot += 1;
        } else {
            dropped.push(number(left.swap_remove(slot)));
        }
    }
    dropped.into()
}

impl WeightOrder {
    fn new<T>(terms: &[WeightedTerm<T>]) -> Self {
        let mut order: Vec<u32> = (0..terms.len()).map(number).collect();
        order.sort_by_key(|&position| Reverse(terms[position as usize].weight));
        Self(order.into())
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the positions of the terms that are left. The first step sorts a list that was in
    /// the order written.
    fn left(&self, dropped: usize) -> impl Iterator<Item = usize> {
        let is_sorted = dropped > 0;
        let sorted = self.0[dropped..].iter().map(|&position| position as usize);
        let written = 0..if is_sorted { 0 } else { self.len() };
        written.chain(sorted.filter(move |_| is_sorted))
    }
}

impl<'s> RelaxedConstraints<'s> {
    /// The required node affinity terms that are left.
    pub(super) fn required_terms(&self) -> &'s [Requirements] {
        &self.steps.spec.node_affinity[self.dropped_required_terms..]
    }

    /// The preferred node affinity term that is tried: the heaviest, the first of equals.
    pub(super) fn heaviest_node_preference(&self) -> Option<&'s Requirements> {
        let &position = self.steps.node_preferences.0.get(self.dropped_node_preferences)?;
        Some(&self.steps.spec.preferred_node_affinity[position as usize].term)
    }

    /// The positions of the preferred pod affinity terms that are left.
    pub(super) fn preferred_pod_affinity(&self) -> impl Iterator<Item = usize> {
        self.steps.pod_affinity.left(self.dropped_pod_affinity)
    }

    /// The positions of the preferred pod anti-affinity terms that are left.
    pub(super) fn preferred_pod_anti_affinity(&self) -> impl Iterator<Item = usize> {
        self.steps.pod_anti_affinity.left(self.dropped_pod_anti_affinity)
    }

    /// The positions of the spread constraints that are left.
    ///
    /// A step drops the first soft constraint; the last one takes its slot.
    pub(super) fn spread(&self) -> Vec<usize> {
        let constraints = &self.steps.spec.topology_spread;
        let mut left: Vec<usize> = (0..constraints.len()).collect();
        let mut slot = 0;
        for _ in 0..self.dropped_spread {
            while constraints[left[slot]].is_required {
                slot += 1;
            }
            left.swap_remove(slot);
        }
        left
    }

    /// The tolerations, with the one that the last step adds.
    pub(super) fn tolerations(&self) -> Vec<Toleration> {
        let added = self.has_toleration.then(Toleration::prefer_no_schedule);
        self.steps.spec.tolerations.iter().cloned().chain(added).collect()
    }

    pub(super) fn node_selector(&self) -> &'s Requirements {
        &self.steps.spec.node_selector
    }

    /// Identifies the requirements of nodes and the tolerations among all steps.
    pub(super) fn node_requirements_key(&self) -> NodeRequirementsKey {
        NodeRequirementsKey {
            dropped_required_terms: self.dropped_required_terms,
            dropped_node_preferences: self.dropped_node_preferences,
            has_toleration: self.has_toleration,
        }
    }

    /// Identifies the nodes that spread constraints count: they are the same for equal keys.
    pub(super) fn node_filter_key(&self) -> (usize, bool) {
        (self.dropped_required_terms, self.has_toleration)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::scheduling::reference::relax;

    /// A spec in which each constraint differs from the others.
    fn spec(required: usize, weights: &[Vec<i32>; 3], spread: &[bool]) -> PodSpec {
        let term = |position: usize| {
            let mut requirements = Requirements::default();
            requirements
                .add(crate::requirement::Requirement::in_values("key", [position.to_string()]));
            requirements
        };
        let affinity = |position: usize| crate::pod::AffinityTerm {
            topology_key: position.to_string(),
            selector: crate::selector::Selector::Nothing,
            namespaces: Vec::new(),
            namespace_selector: None,
        };
        let weighted = |weights: &[i32]| {
            let terms = weights.iter().enumerate();
            terms
                .map(|(position, &weight)| WeightedTerm { weight, term: affinity(position) })
                .collect()
        };
        PodSpec {
            node_affinity: (0..required).map(term).collect(),
            preferred_pod_affinity: weighted(&weights[0]),
            preferred_pod_anti_affinity: weighted(&weights[1]),
            preferred_node_affinity: (weights[2].iter().enumerate())
                .map(|(position, &weight)| WeightedTerm { weight, term: term(position) })
                .collect(),
            topology_spread: (spread.iter().enumerate())
                .map(|(position, &is_required)| SpreadConstraint {
                    topology_key: position.to_string(),
                    max_skew: 1,
                    is_required,
                    selector: crate::selector::Selector::Nothing,
                    match_label_keys: Vec::new(),
                    min_domains: None,
                    honors_node_affinity: true,
                    honors_node_taints: false,
                })
                .collect(),
            ..PodSpec::default()
        }
    }

    proptest! {
        /// 20/3.15: the steps are those of the reference, which copies and changes the spec.
        #[test]
        fn the_constraints_after_each_step_equal_those_of_the_reference(
            required in 0..4_usize,
            weights in proptest::array::uniform3(proptest::collection::vec(1..4_i32, 0..5)),
            spread in proptest::collection::vec(any::<bool>(), 0..6),
            tolerate in any::<bool>(),
        ) {
            let mut expected = spec(required, &weights, &spread);
            let steps = RelaxationSteps::new(Arc::new(expected.clone()), tolerate);
            for step in 0.. {
                let Some(left) = steps.after(step) else {
                    prop_assert!(!relax(&mut expected, tolerate), "the reference has more than {step} steps");
                    prop_assert_eq!(step, steps.len() + 1);
                    break;
                };
                prop_assert!(step == 0 || relax(&mut expected, tolerate), "the reference has {step} steps");
                let spec = &steps.spec;
                prop_assert_eq!(left.required_terms(), &expected.node_affinity[..]);
                let affinity: Vec<_> = left.preferred_pod_affinity().map(|at| spec.preferred_pod_affinity[at].clone()).collect();
                prop_assert_eq!(affinity, expected.preferred_pod_affinity.clone());
                let anti: Vec<_> = left.preferred_pod_anti_affinity().map(|at| spec.preferred_pod_anti_affinity[at].clone()).collect();
                prop_assert_eq!(anti, expected.preferred_pod_anti_affinity.clone());
                let heaviest = expected.preferred_node_affinity.iter().min_by_key(|term| Reverse(term.weight));
                prop_assert_eq!(left.heaviest_node_preference(), heaviest.map(|term| &term.term));
                let constraints: Vec<_> = left.spread().into_iter().map(|at| spec.topology_spread[at].clone()).collect();
                prop_assert_eq!(constraints, expected.topology_spread.clone());
                prop_assert_eq!(left.tolerations(), expected.tolerations.clone());
            }
        }
    }
}
