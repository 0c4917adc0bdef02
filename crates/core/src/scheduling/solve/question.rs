//! One question: which pods to place, and what of the prepared state is different for it.
//!
//! A solver that is prepared for many questions knows every pod where it is, and every node. A
//! question takes the pods that it asks for off their nodes, and takes nodes away; what that changes
//! is noted and [taken back](Solver::roll_back) afterwards. So an answer never depends on the
//! questions before it. What stays is only what is true in any case: numbers of requirement sets and
//! what is known about them, classes, groups and their first counts.

use std::collections::{BTreeMap, BTreeSet};

use super::Solver;
use super::existing::{ExistingNode, used_by};
use super::groups::GroupId;
use crate::id::{NodeId, PodId};
use crate::pod::Pod;
use crate::resources::Resources;
use crate::taint::Toleration;

impl<'a> Solver<'a> {
    /// Asks for the pods and nodes that the solver was made for.
    pub(super) fn ask_once(&mut self, pods: &[PodId]) {
        self.topology.ask_once();
        self.ask_for(pods);
        self.count_effective_zones();
    }

    /// Asks one of many questions.
    pub(super) fn ask(
        &mut self,
        pods: &[PodId],
        without: &BTreeSet<NodeId>,
        credits: &BTreeMap<String, u32>,
    ) {
        let removed: Vec<usize> = without
            .iter()
            .map(|node| node.index())
            .filter(|&node| self.existing.position(node).is_some())
            .collect();
        self.existing.ask();
        self.remove_nodes(&removed);
        self.topology.ask(removed);
        if self.uses_reserved {
            self.reservations.start(credits);
        }
        self.ask_for(pods);
        self.take_off();
        self.count_effective_zones();
    }

    /// Takes up the pods, and the groups that they bring.
    fn ask_for(&mut self, pods: &[PodId]) {
        let question = self.topology.question();
        for &pod in pods {
            let Some(asked_in) = self.asked_in.get_mut(pod.index()) else { continue };
            if std::mem::replace(asked_in, question) == question {
                continue;
            }
            self.asked.push(pod);
            let class = self.class(pod) as usize;
            self.classes[class].failure = None;
            let chain = self.classes[class].chain;
            let chain = &mut self.chains.all[chain];
            if chain.reached.0 != question {
                chain.reached = (question, 0);
                let (feeds, first) = (chain.feeds.clone(), chain.first.clone());
                let tolerations = chain.tolerations.clone();
                self.take_part(&feeds, &first, &tolerations);
            }
        }
    }

    /// Makes groups part of the question, with owners that have these tolerations.
    pub(super) fn take_part(
        &mut self,
        feeds: &[GroupId],
        owned: &[GroupId],
        tolerations: &[Toleration],
    ) {
        let world = self.world.clone();
        for &group in feeds.iter().chain(owned) {
            let is_new = self.topology.join(group, &world, &mut self.store);
            self.topology.own(group, tolerations, &world);
            if is_new && (!self.leaving.is_empty() || self.placed_count > 0) {
                self.catch_up(group);
            }
        }
    }

    /// Tells a group that appears late who left and who was placed before.
    fn catch_up(&mut self, group: GroupId) {
        let world = self.world.clone();
        let identity = self.topology.group(group).identity.clone();
        for who in self.chains.counted_in(&identity) {
            for &node in self.leaving.get(&who).into_iter().flatten() {
                self.topology.leave(group, node, &world, &mut self.store);
            }
            for target in self.placed.get(who).cloned().unwrap_or_default() {
                let landing = self.landing(target);
                self.topology.record(group, &landing, &mut self.store);
            }
        }
    }

    /// Takes the pods off the nodes that they are on.
    fn take_off(&mut self) {
        let world = self.world.clone();
        let mut nodes = BTreeSet::new();
        for pod in self.asked.clone() {
            let class = self.class_of(pod);
            let pod: &'a Pod = world.snapshot.pod(pod);
            let Some(node) = pod.node else { continue };
            if let Some((groups, labels)) = self.inverse_of_bound(pod) {
                for &group in groups.iter() {
                    self.topology.leave_inverse(group, labels);
                }
            }
            if pod.is_active() {
                let who = self.chains.all[self.classes[class].chain].who;
                self.leaving.entry(who).or_default().push(node.index());
            }
            let position = self.existing.position(node.index());
            if position.is_some_and(|position| !self.existing.nodes[position].is_removed) {
                nodes.insert(node.index());
            }
        }
        for (&who, nodes) in &self.leaving {
            for &group in self.chains.counted_by(who, &self.topology) {
                if self.topology.is_asked(group) {
                    for &node in nodes {
                        self.topology.leave(group, node, &world, &mut self.store);
                    }
                }
            }
        }
        for node in nodes {
            self.empty_node(node);
        }
    }

    /// Makes a node anew that stays and loses pods.
    fn empty_node(&mut self, node: usize) {
        let Some(position) = self.existing.position(node) else { return };
        let question = self.topology.question();
        let world = self.world.clone();
        let stays = |pod: &&PodId| self.asked_in[pod.index()] != question;
        let pods =
            self.existing.bound[node].iter().filter(stays).map(|&pod| world.snapshot.pod(pod));
        let pods: Vec<&Pod> = pods.collect();
        let host = self.existing.nodes[position].host;
        let making = (&mut self.daemons, &mut self.store);
        let node = ExistingNode::new(node, host, &pods, &world, &self.columns, making);
        self.existing.replace(position, node);
    }

    /// Nodes that are gone count no more for the limits of their pools either.
    fn remove_nodes(&mut self, removed: &[usize]) {
        let mut used: BTreeMap<&str, Resources> = BTreeMap::new();
        for &index in removed {
            if let Some(position) = self.existing.position(index) {
                self.existing.remove(position);
            }
            let node = &self.world.snapshot.nodes[index];
            if let Some(pool) = node.pool.as_deref() {
                used.entry(pool).or_default().add(&used_by(node));
            }
        }
        for template in &mut self.templates {
            if let Some(used) = used.get(template.pool.name.as_str()) {
                template.release(used, &self.columns);
            }
        }
    }

    /// Everything as it was before the question.
    pub(super) fn roll_back(&mut self) {
        self.topology.roll_back();
        self.existing.roll_back();
        self.templates.iter_mut().for_each(super::templates::Template::roll_back);
        self.claims.clear();
        self.order.clear();
        self.asked.clear();
        self.leaving.clear();
        for who in self.placed_whos.drain(..) {
            self.placed[who].clear();
        }
        self.placed_count = 0;
        self.refused.clear();
        self.effective_zones.clear();
    }

    /// Whether a pod that runs somewhere, and that was just refused, has no chance any more: nothing
    /// that its class looks at can change for the better.
    pub(super) fn is_refused_for_good(&self, pod: PodId) -> bool {
        let class = &self.classes[self.class_of(pod)];
        let watches = !self.chains.all[class.chain].watched.is_empty();
        let may_heal = class.failure.as_ref().is_some_and(|last| last.may_heal);
        let is_bound = self.world.snapshot.pod(pod).node.is_some();
        is_bound && (class.refusal.is_some() || !(watches || may_heal))
    }
}
