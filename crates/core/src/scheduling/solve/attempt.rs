//! One attempt to place a pod in one shape: existing nodes, in-flight NodeClaims, new ones (spec 20
//! §3.7).

use rustc_hash::FxHashMap;
use std::rc::Rc;

use super::groups::Feasible;
use super::shape::{OverHost, Shape};
use super::store::SetId;
use super::topology::Landing;
use super::{Solver, Target};
use crate::id::PodId;

/// What an attempt knows before it looks at candidates.
pub(super) struct View {
    pub(super) shape: Rc<Shape>,
    /// By group over a label.
    pub(super) feasible: Vec<Feasible>,
    /// By group over hosts: whether an affinity may start anywhere.
    pub(super) may_start: Vec<bool>,
    /// Requirement sets of NodeClaims that were asked already: whether they leave the pod a chance.
    /// Thousands of NodeClaims mostly share a handful of sets, so this is one look for most: it
    /// took 10,000 diverse pods from 79 to 25 ms.
    pub(super) known: FxHashMap<SetId, bool>,
}

/// Why a candidate does not take the pod, as far as an attempt needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum No {
    /// It does not fit.
    Unfit,
    /// It does not fit in the domain that a topology group picked. A candidate for which the group
    /// picks another one may.
    Unlucky,
    /// It waits for a reservation: no other pool and no relaxation may be tried.
    Deferred,
}

impl<'a> Solver<'a> {
    /// Tries to place the pod as it is in this shape.
    pub(super) fn attempt(
        &mut self,
        pod: PodId,
        class: usize,
        shape: &Rc<Shape>,
    ) -> Result<(), No> {
        let mut view = self.view(shape);
        if !view.is_feasible() {
            return Err(No::Unfit);
        }
        if self.place_on_existing(pod, class, &view) || self.place_in_flight(pod, class, &mut view)
        {
            return Ok(());
        }
        match self.place_on_new(pod, class, &view) {
            Err(No::Unfit) if !shape.over_labels.is_empty() => Err(No::Unlucky),
            result => result,
        }
    }

    pub(super) fn view(&mut self, shape: &Rc<Shape>) -> View {
        let feasible = shape
            .over_labels
            .iter()
            .filter_map(|over| {
                self.topology.feasible(over.group, over.selects_pod, over.pod, &self.store)
            })
            .collect();
        let may_start = shape
            .over_hosts
            .iter()
            .map(|over| {
                let pod = shape.strict.host.map(|host| self.store.get(host));
                over.limit.is_none()
                    && over.selects_pod
                    && self.topology.host_bootstrap(over.group, pod)
            })
            .collect();
        View { shape: shape.clone(), feasible, may_start, known: FxHashMap::default() }
    }

    /// Whether the groups over hosts let the pod go to one.
    pub(super) fn hosts_allow(&self, view: &View, host: usize) -> bool {
        view.shape.over_hosts.iter().zip(&view.may_start).all(|(over, &may_start)| {
            let OverHost { group, limit, .. } = *over;
            let count = self.topology.group(group).count(host);
            match limit {
                Some(limit) => i64::from(count) <= limit,
                None => count > 0 || may_start,
            }
        })
    }

    /// Counts a placed pod in the groups that care.
    pub(super) fn record(&mut self, class: usize, target: Target) {
        self.placed.push((class, target));
        let chain = self.classes[class].chain;
        let who = self.chains.all[chain].who;
        let groups = self.chains.counted_by(who, &self.topology).to_vec();
        let landing = self.landing(target);
        for group in groups {
            self.topology.record(group, &landing, &mut self.store);
        }
        for group in self.chains.all[chain].feeds.clone() {
            self.topology.record(group, &landing, &mut self.store);
        }
    }

    /// Where a pod landed, as groups see it.
    pub(super) fn landing(&self, target: Target) -> Landing<'a> {
        match target {
            Target::Node(index) => {
                let node = &self.existing.nodes[index];
                let taints = self.world.nodes[node.id.index()].taints;
                Landing { set: node.set, host: node.host, taints: (taints, node.taints_id) }
            }
            Target::Claim(index) => {
                let claim = &self.claims[index];
                let template = &self.templates[claim.template];
                let taints = (template.pool.taints.as_slice(), template.taints_id);
                Landing { set: claim.set, host: claim.host, taints }
            }
        }
    }
}

impl View {
    /// Whether every group leaves some domain at all.
    fn is_feasible(&self) -> bool {
        self.feasible.iter().all(|feasible| {
            !feasible.domains.is_empty()
                || feasible.bootstrap.as_ref().is_some_and(|start| !start.is_empty())
        })
    }
}
