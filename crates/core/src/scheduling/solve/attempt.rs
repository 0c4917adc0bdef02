//! One attempt to place a pod in one shape: existing nodes, in-flight NodeClaims, new ones (spec 20
//! §3.7).

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

use super::requirement_store::SetId;
use super::shape::{HostGroup, PodShape};
use super::topology::TopologyNode;
use super::topology_groups::FeasibleDomains;
use super::{PlacementTarget, Solver};
use crate::id::PodId;

/// What an attempt knows before it looks at candidates.
pub(super) struct AttemptView {
    pub(super) shape: Arc<PodShape>,
    /// By group over a label.
    pub(super) feasible: Vec<FeasibleDomains>,
    /// By group over hosts: whether an affinity may start anywhere.
    pub(super) may_start: Vec<bool>,
    /// Requirement sets of NodeClaims that were asked already: whether they leave the pod a chance.
    /// Thousands of NodeClaims mostly share a handful of sets, so this is one look for most: it
    /// took 10,000 diverse pods from 79 to 25 ms.
    pub(super) known: FxHashMap<SetId, bool>,
}

/// Why a candidate does not take the pod, as far as an attempt needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CandidateRejection {
    /// It does not fit.
    Unfit,
    /// It does not fit in the domain that a topology group picked. A candidate for which the group
    /// picks another one may.
    PickedDomainUnfit,
    /// It waits for a reservation: no other pool and no relaxation may be tried.
    Deferred,
}

impl<'a> Solver<'a> {
    /// Tries to place the pod as it is in this shape.
    pub(super) fn attempt(
        &mut self,
        pod: PodId,
        class: usize,
        shape: &Arc<PodShape>,
    ) -> Result<(), CandidateRejection> {
        // Most steps of a long relaxation end here, at the preference that is given up next.
        let Some(mut view) = self.view_if(shape, FeasibleDomains::has_domain) else {
            return Err(CandidateRejection::Unfit);
        };
        if self.place_on_existing(pod, class, &view) || self.place_in_flight(pod, class, &mut view)
        {
            return Ok(());
        }
        match self.place_on_new(pod, class, &view) {
            Err(CandidateRejection::Unfit) if !shape.label_groups.is_empty() => {
                Err(CandidateRejection::PickedDomainUnfit)
            }
            result => result,
        }
    }

    /// What an attempt goes by.
    pub(super) fn view(&mut self, shape: &Arc<PodShape>) -> AttemptView {
        self.view_if(shape, |_| true).expect("groups over labels have domains")
    }

    /// The same, unless the domains that a group leaves do not pass the test.
    fn view_if(
        &mut self,
        shape: &Arc<PodShape>,
        test: impl Fn(&FeasibleDomains) -> bool,
    ) -> Option<AttemptView> {
        let mut feasible = Vec::with_capacity(shape.label_groups.len());
        for over in &shape.label_groups {
            let left = self.topology.feasible(over.group, over.selects_pod, over.pod, &self.store);
            match left.filter(&test) {
                Some(left) => feasible.push(left),
                None => return None,
            }
        }
        let may_start = shape
            .host_groups
            .iter()
            .map(|over| {
                let pod = shape.strict.host.map(|host| self.store.get(host));
                over.limit.is_none()
                    && over.selects_pod
                    && self.topology.host_bootstrap(over.group, pod)
            })
            .collect();
        Some(AttemptView { shape: shape.clone(), feasible, may_start, known: FxHashMap::default() })
    }

    /// Whether the groups over hosts let the pod go to one, or to a new one.
    pub(super) fn hosts_allow(&self, view: &AttemptView, host: Option<usize>) -> bool {
        view.shape.host_groups.iter().zip(&view.may_start).all(|(over, &may_start)| {
            let HostGroup { group, limit, .. } = *over;
            let count = host.map_or(0, |host| self.topology.group(group).count(host));
            match limit {
                Some(limit) => i64::from(count) <= limit,
                None => count > 0 || may_start,
            }
        })
    }

    /// Counts a placed pod in the groups that care.
    pub(super) fn record(&mut self, class: usize, target: PlacementTarget) {
        let chain = self.classes[class].chain;
        let labels_id = self.chains.all[chain].labels_id;
        if self.placed.len() <= labels_id {
            self.placed.resize_with(labels_id + 1, Vec::new);
        }
        if self.placed[labels_id].is_empty() {
            self.placed_labels.push(labels_id);
        }
        self.placed[labels_id].push(target);
        self.placed_count += 1;
        let counting = self.chains.counting_groups(labels_id, &self.topology).iter().copied();
        let counting: SmallVec<[_; 8]> =
            counting.filter(|&id| self.topology.is_in_request(id)).collect();
        let topology_node = self.topology_node(target);
        for group in counting {
            self.topology.record(group, &topology_node, &mut self.store);
        }
        for &group in self.chains.all[chain].inverse_groups.clone().iter() {
            self.topology.record(group, &topology_node, &mut self.store);
        }
    }

    /// Where a pod landed, as groups see it.
    pub(super) fn topology_node(&self, target: PlacementTarget) -> TopologyNode<'a> {
        match target {
            PlacementTarget::Node(index) => {
                let node = &self.existing.nodes[index];
                let taints = self.input.nodes[node.id.index()].taints;
                TopologyNode {
                    set: node.set,
                    hostname: Some(node.host),
                    taints: (taints, node.taints_id),
                }
            }
            PlacementTarget::Claim(index) => {
                let claim = &self.claims[index];
                let template = &self.templates[claim.template];
                let taints = (template.pool.taints.as_slice(), template.taints_id);
                TopologyNode { set: claim.set, hostname: Some(claim.host), taints }
            }
        }
    }
}
