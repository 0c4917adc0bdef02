//! One attempt to place a pod in one shape: existing nodes, in-flight NodeClaims, new ones (spec 20
//! §3.7).

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

use super::requirement_store::SetId;
use super::shape::{HostGroup, PodShape};
use super::topology::TopologyNode;
use super::topology_groups::{FeasibleDomains, GroupId};
use super::{PlacementTarget, Solver};
use crate::id::PodId;

/// The data of one attempt, calculated before any candidate is tried.
#[derive(Debug)]
pub(super) struct AttemptView {
    pub(super) shape: Arc<PodShape>,
    /// By group over a label.
    pub(super) feasible: Vec<FeasibleDomains>,
    /// By group over hosts: whether an affinity may start anywhere.
    pub(super) may_start: Vec<bool>,
    /// By requirement set of a NodeClaim: whether it may take the pod. Thousands of NodeClaims
    /// mostly share a handful of sets: this cache took 10,000 diverse pods from 79 to 25 ms.
    pub(super) known: FxHashMap<SetId, bool>,
}

/// Why a candidate rejects the pod, as far as an attempt distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CandidateRejection {
    /// The pod does not fit.
    Unfit,
    /// The pod does not fit in the domain that a topology group picked. It may fit on a candidate
    /// for which the group picks another domain.
    PickedDomainUnfit,
    /// A topology group leaves no domain, whatever the candidate.
    NoDomain,
    /// The pod waits for a reservation: no other pool and no relaxation may be tried.
    Deferred,
}

impl<'a> Solver<'a> {
    /// Tries to place the pod in this shape.
    pub(super) fn attempt(
        &mut self,
        pod: PodId,
        class: usize,
        shape: &Arc<PodShape>,
    ) -> Result<(), CandidateRejection> {
        // Most steps of a long relaxation end here, at the preference that is dropped next.
        let Some(mut view) = self.view_if(shape, FeasibleDomains::has_domain) else {
            return Err(CandidateRejection::NoDomain);
        };
        if self.has_affinity_without_host(&view) {
            return Err(CandidateRejection::NoDomain);
        }
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

    /// Returns the data of an attempt with this shape.
    pub(super) fn view(&mut self, shape: &Arc<PodShape>) -> AttemptView {
        self.view_if(shape, |_| true).expect("groups over labels have domains")
    }

    /// Returns the groups of a shape that leave no domain, whatever the candidate.
    pub(super) fn groups_without_domain(&mut self, shape: &PodShape) -> Vec<GroupId> {
        let mut failed = Vec::new();
        for over in &shape.label_groups {
            let left = self.topology.feasible(over.group, over.selects_pod, over.pod, &self.store);
            if !left.as_ref().is_some_and(FeasibleDomains::has_domain) {
                failed.push(over.group);
            }
        }
        let over_hosts = shape.host_groups.iter();
        let no_host = over_hosts.filter(|over| self.lacks_host(over, over.selects_pod));
        failed.extend(no_host.map(|over| over.group));
        failed
    }

    fn has_affinity_without_host(&self, view: &AttemptView) -> bool {
        let mut over_hosts = view.shape.host_groups.iter().zip(&view.may_start);
        over_hosts.any(|(over, &may_start)| self.lacks_host(over, may_start))
    }

    /// Returns whether a group is an affinity to pods of which no host has any.
    fn lacks_host(&self, over: &HostGroup, may_start: bool) -> bool {
        over.limit.is_none() && !may_start && self.topology.group(over.group).is_unoccupied()
    }

    /// Returns the data of an attempt; none if the domains of a group fail the test.
    fn view_if(
        &mut self,
        shape: &Arc<PodShape>,
        test: impl Fn(&FeasibleDomains) -> bool,
    ) -> Option<AttemptView> {
        let mut feasible = Vec::with_capacity(shape.label_groups.len());
        for over in &shape.label_groups {
            let left = self.topology.feasible(over.group, over.selects_pod, over.pod, &self.store);
            feasible.push(left.filter(&test)?);
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

    /// Returns whether the host groups let the pod go to a host, or to a new one.
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

    /// Counts a placed pod in the groups that select it.
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

    /// Returns the node or NodeClaim of a placed pod, as topology groups see it.
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
