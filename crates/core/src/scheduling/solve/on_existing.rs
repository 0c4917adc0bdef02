//! Existing nodes as candidates (spec 20 §3.8).

use super::attempt::View;
use super::existing::ExistingNode;
use super::store::{Split, Store, Undefined};
use super::{Solver, Target};
use crate::id::PodId;
use crate::taint::untolerated;

impl Solver<'_> {
    pub(super) fn place_on_existing(&mut self, pod: PodId, class_id: usize, view: &View) -> bool {
        if self.existing.nodes.is_empty() {
            return false;
        }
        // Taken out for the search, since the test needs the rest of the solver.
        let mut existing = std::mem::take(&mut self.existing);
        let need = self.classes[class_id].requests.clone();
        let asks_devices = !self.classes[class_id].devices.is_empty();
        let mut devices = None;
        let found = existing.first(&need, |node| {
            if !self.node_takes(node, class_id, view) {
                return false;
            }
            if asks_devices {
                devices = self.devices_on_node(node, class_id);
            }
            !asks_devices || devices.is_some()
        });
        self.existing = existing;
        let Some(index) = found else { return false };
        if let Some(devices) = devices {
            self.hold_on_node(index, devices);
        }
        let class = &self.classes[class_id];
        let node = &mut self.existing.nodes[index];
        node.take(pod, &class.requests, class.ports, &class.attachments);
        self.record(class_id, Target::Node(index));
        true
    }

    fn node_takes(&mut self, node: &ExistingNode, class: usize, view: &View) -> bool {
        if !self.hosts_allow(view, node.host) || !self.tolerates_node(node, view) {
            return false;
        }
        let class = &self.classes[class];
        if node.waits && !class.is_exempt {
            return false;
        }
        if !class.attachments.is_empty() && !node.can_attach(&class.attachments) {
            return false;
        }
        if class.ports.iter().any(|port| node.ports.iter().any(|taken| port.collides(taken))) {
            return false;
        }
        let store = &mut self.store;
        let suits = |split: Split, store: &mut Store<'_>| {
            let hostname = self.topology.host_name(node.host);
            split.host.is_none_or(|host| store.get(host).has(hostname))
                && store.compatible(node.set, split.set, Undefined::Refused)
        };
        if !suits(view.shape.all, store) || !suits(view.shape.strict, store) {
            return false;
        }
        // Labels of a node are facts: no alternative and no topology changes them, so that one
        // alternative suits is all there is to know.
        let alternatives = &class.alternatives;
        if !alternatives.is_empty() && !alternatives.iter().any(|&split| suits(split, store)) {
            return false;
        }
        view.shape.over_labels.iter().zip(&view.feasible).all(|(over, feasible)| {
            let domain = self.node_domains.entry((over.domains, node.set)).or_insert_with(|| {
                let domains = &mut self.topology.domains[over.domains];
                let value = store.find(node.set, domains.key)?;
                Some(domains.number(store.get(value).values().first()?))
            });
            domain.is_some_and(|domain| {
                let may_start = feasible.bootstrap.as_ref();
                feasible.domains.has(domain) || may_start.is_some_and(|start| start.has(domain))
            })
        })
    }

    fn tolerates_node(&self, node: &ExistingNode, view: &View) -> bool {
        let taints = self.world.nodes[node.id.index()].taints;
        if taints.is_empty() {
            return true;
        }
        let mut known = view.shape.tolerates_nodes.borrow_mut();
        *known
            .entry(node.taints_id)
            .or_insert_with(|| untolerated(taints, &view.shape.tolerations).is_empty())
    }
}
