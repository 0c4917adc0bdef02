//! Starts and rolls back one request: which pods to place, and which nodes to exclude.
//!
//! A solver that is prepared for many requests knows every node and the node of every bound pod. A
//! request removes its pods from their nodes, and excludes nodes; the solver records these changes
//! and [rolls them back](Solver::roll_back) afterwards, so no result depends on earlier requests.
//! Only data that is true for every request stays: numbers of requirement sets and results about
//! them, classes, groups and their first counts.

use std::collections::{BTreeMap, BTreeSet};

use super::Solver;
use super::existing::{ExistingNode, used_by};
use super::relaxation::FailedSteps;
use super::topology_groups::GroupId;
use crate::id::{NodeId, PodId};
use crate::pod::Pod;
use crate::resources::Resources;
use crate::taint::Toleration;

impl<'a> Solver<'a> {
    /// Starts the only request, with the pods that the solver was made for.
    pub(super) fn begin_only_request(&mut self, pods: &[PodId]) {
        self.topology.begin_only_request();
        self.add_requested_pods(pods);
        self.count_effective_zones();
    }

    /// Starts one of many requests.
    pub(super) fn begin_request(
        &mut self,
        pods: &[PodId],
        excluded_nodes: &BTreeSet<NodeId>,
        credits: &BTreeMap<String, u32>,
    ) {
        let removed: Vec<usize> = excluded_nodes
            .iter()
            .map(|node| node.index())
            .filter(|&node| self.existing.position(node).is_some())
            .collect();
        self.existing.begin_request();
        self.remove_nodes(&removed);
        self.topology.begin_request(removed);
        if self.uses_reserved {
            self.reservations.reset(credits);
        }
        self.add_requested_pods(pods);
        self.unbind_requested_pods();
        self.count_effective_zones();
    }

    /// Adds pods to the request, with the groups of their constraints.
    fn add_requested_pods(&mut self, pods: &[PodId]) {
        let request_number = self.topology.request_number();
        for &pod in pods {
            let Some(last_request) = self.last_request.get_mut(pod.index()) else { continue };
            if std::mem::replace(last_request, request_number) == request_number {
                continue;
            }
            self.requested_pods.push(pod);
            let class = self.find_or_create_class(pod) as usize;
            self.classes[class].failure = None;
            self.classes[class].failed_steps = FailedSteps::default();
            let chain = self.classes[class].chain;
            let chain = &mut self.chains.all[chain];
            if chain.reached.0 != request_number {
                chain.reached = (request_number, 0);
                let (inverse_groups, initial_groups) =
                    (chain.inverse_groups.clone(), chain.initial_groups.clone());
                let tolerations = chain.tolerations.clone();
                self.activate_groups(&inverse_groups, &initial_groups, &tolerations);
            }
        }
    }

    /// Adds groups to the request, with owners that have these tolerations.
    pub(super) fn activate_groups(
        &mut self,
        inverse_groups: &[GroupId],
        owned: &[GroupId],
        tolerations: &[Toleration],
    ) {
        let input = self.input.clone();
        for &group in inverse_groups.iter().chain(owned) {
            let is_new = self.topology.activate_group(group, &input, &mut self.store);
            self.topology.add_owner(group, tolerations, &input);
            if is_new && (!self.nodes_losing_pods.is_empty() || self.placed_count > 0) {
                self.apply_earlier_changes(group);
            }
        }
    }

    /// Applies the earlier removals and placements of the request to a new group.
    fn apply_earlier_changes(&mut self, group: GroupId) {
        let input = self.input.clone();
        let identity = self.topology.group(group).identity.clone();
        for labels_id in self.chains.labels_counted_by(&identity) {
            for &node in self.nodes_losing_pods.get(&labels_id).into_iter().flatten() {
                self.topology.remove_bound_pod(group, node, &input, &mut self.store);
            }
            for target in self.placed.get(labels_id).cloned().unwrap_or_default() {
                let topology_node = self.topology_node(target);
                self.topology.record(group, &topology_node, &mut self.store);
            }
        }
    }

    /// Removes the requested pods from their nodes.
    fn unbind_requested_pods(&mut self) {
        let input = self.input.clone();
        let mut nodes = BTreeSet::new();
        for pod in self.requested_pods.clone() {
            let class = self.class_of(pod);
            let pod: &'a Pod = input.snapshot.pod(pod);
            let Some(node) = pod.node else { continue };
            if let Some((groups, labels)) = self.inverse_of_bound(pod) {
                for &group in groups.iter() {
                    self.topology.remove_inverse_pod(group, labels);
                }
            }
            if pod.is_active() {
                let labels_id = self.chains.all[self.classes[class].chain].labels_id;
                self.nodes_losing_pods.entry(labels_id).or_default().push(node.index());
            }
            let position = self.existing.position(node.index());
            if position.is_some_and(|position| !self.existing.nodes[position].is_removed) {
                nodes.insert(node.index());
            }
        }
        for (&labels_id, nodes) in &self.nodes_losing_pods {
            for &group in self.chains.counting_groups(labels_id, &self.topology) {
                if self.topology.is_in_request(group) {
                    for &node in nodes {
                        self.topology.remove_bound_pod(group, node, &input, &mut self.store);
                    }
                }
            }
        }
        for node in nodes {
            self.rebuild_node(node);
        }
    }

    /// Rebuilds a node that stays and loses pods.
    fn rebuild_node(&mut self, node: usize) {
        let Some(position) = self.existing.position(node) else { return };
        let request_number = self.topology.request_number();
        let input = self.input.clone();
        let stays = |pod: &&PodId| self.last_request[pod.index()] != request_number;
        let pods =
            self.existing.bound[node].iter().filter(stays).map(|&pod| input.snapshot.pod(pod));
        let pods: Vec<&Pod> = pods.collect();
        let host = self.existing.nodes[position].host;
        let context = (&mut self.daemons, &mut self.store);
        let node = ExistingNode::new(node, host, &pods, &input, &self.columns, context);
        self.existing.replace(position, node);
    }

    /// Removes nodes, and their capacity from the limits of their pools.
    fn remove_nodes(&mut self, removed: &[usize]) {
        let mut used: BTreeMap<&str, Resources> = BTreeMap::new();
        for &index in removed {
            if let Some(position) = self.existing.position(index) {
                self.existing.remove(position);
            }
            let node = &self.input.snapshot.nodes[index];
            if let Some(pool) = node.pool.as_deref() {
                used.entry(pool).or_default().add(&used_by(node));
            }
        }
        for template in &mut self.templates {
            if let Some(used) = used.get(template.pool.name.as_str()) {
                template.release_capacity(used, &self.columns);
            }
        }
    }

    /// Restores the state before the request.
    pub(super) fn roll_back(&mut self) {
        self.topology.roll_back();
        self.existing.roll_back();
        self.templates.iter_mut().for_each(super::templates::Template::roll_back);
        self.claims.clear();
        self.order.clear();
        self.requested_pods.clear();
        self.nodes_losing_pods.clear();
        for labels_id in self.placed_labels.drain(..) {
            self.placed[labels_id].clear();
        }
        self.placed_count = 0;
        self.rejected.clear();
        self.effective_zones.clear();
    }

    /// Returns whether a bound pod that was just rejected can never be placed.
    ///
    /// Then nothing that its class depends on can change for the better.
    pub(super) fn is_permanently_rejected(&self, pod: PodId) -> bool {
        let class = &self.classes[self.class_of(pod)];
        let has_groups = !self.chains.all[class.chain].relevant_groups.is_empty();
        let may_recover = class.failure.as_ref().is_some_and(|last| last.may_recover);
        let is_bound = self.input.snapshot.pod(pod).node.is_some();
        is_bound && (class.rejection.is_some() || !(has_groups || may_recover))
    }
}
