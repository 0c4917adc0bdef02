//! Places pods on existing nodes (spec 20 §3.8).

use rustc_hash::FxHashMap;

use super::attempt::AttemptView;
use super::devices::DeviceAllocation;
use super::existing::{ExistingNode, NodePredicate, SearchKey};
use super::requirement_store::{RequirementStore, SplitRequirements, UndefinedLabels};
use super::{PlacementTarget, PodClass, Solver};
use crate::id::PodId;
use crate::taint::untolerated_taints;

/// The search for an existing node that takes a pod.
struct NodeSearch<'s, 'a> {
    solver: &'s mut Solver<'a>,
    view: &'s AttemptView,
    class: usize,
    /// By kind of node: whether labels, taints and topology suit. The domains that topology groups
    /// allow do not change during one attempt.
    suits: FxHashMap<u32, bool>,
    /// The devices found on the node that was checked last.
    devices: Option<DeviceAllocation>,
}

impl Solver<'_> {
    pub(super) fn place_on_existing(
        &mut self,
        pod: PodId,
        class: usize,
        view: &AttemptView,
    ) -> bool {
        if self.existing.nodes.is_empty() {
            return false;
        }
        // Taken out for the search, which needs the rest of the solver.
        let mut existing = std::mem::take(&mut self.existing);
        let need = self.classes[class].requests.clone();
        let suits = FxHashMap::default();
        let mut search = NodeSearch { solver: self, view, class, suits, devices: None };
        let found =
            existing.first(&need, SearchKey { class, shape: view.shape.number }, &mut search);
        let devices = search.devices;
        self.existing = existing;
        let Some(index) = found else { return false };
        if let Some(devices) = devices {
            self.hold_on_node(index, devices);
        }
        let PodClass { requests, ports, attachments, .. } = &self.classes[class];
        self.existing.take(index, pod, requests, ports, attachments);
        self.record(class, PlacementTarget::Node(index));
        true
    }
}

impl NodePredicate for NodeSearch<'_, '_> {
    fn may_ever_fit_kind(&mut self, node: &ExistingNode) -> bool {
        self.has_labels(node)
    }

    fn fits_kind(&mut self, node: &ExistingNode) -> bool {
        if let Some(&known) = self.suits.get(&node.kind) {
            return known;
        }
        let answer = self.has_labels(node) && self.has_domains(node);
        self.suits.insert(node.kind, answer);
        answer
    }

    fn fits_node(&mut self, node: &ExistingNode) -> bool {
        let solver = &mut *self.solver;
        if !solver.hosts_allow(self.view, Some(node.host)) {
            return false;
        }
        let class = &solver.classes[self.class];
        if node.is_under_consolidate_after && !class.is_exempt {
            return false;
        }
        if !class.attachments.is_empty() && !node.can_attach(&class.attachments) {
            return false;
        }
        if class.ports.iter().any(|port| node.ports.iter().any(|taken| port.conflicts_with(taken)))
        {
            return false;
        }
        let hostname = solver.topology.host_name(node.host);
        let is_host = |split: SplitRequirements, store: &RequirementStore<'_>| {
            split.host.is_none_or(|host| store.get(host).has(hostname))
        };
        let shape = &self.view.shape;
        if !is_host(shape.all, &solver.store) || !is_host(shape.strict, &solver.store) {
            return false;
        }
        // No volume topology changes the labels of a node, so one that suits is enough.
        let store = &mut solver.store;
        let mut is_there = |&split: &SplitRequirements| {
            is_host(split, store)
                && store.compatible(node.set, split.set, UndefinedLabels::Rejected)
        };
        if !class.volume_topologies.is_empty() && !class.volume_topologies.iter().any(&mut is_there)
        {
            return false;
        }
        if !class.devices.is_empty() {
            self.devices = solver.devices_on_node(node, self.class);
            return self.devices.is_some();
        }
        true
    }
}

impl NodeSearch<'_, '_> {
    /// Returns whether labels and taints suit.
    ///
    /// The result is the same for all pods of a shape.
    fn has_labels(&mut self, node: &ExistingNode) -> bool {
        let shape = &self.view.shape;
        let Solver { suits_nodes, store, input, .. } = &mut *self.solver;
        let shape_number = shape.number as usize;
        if suits_nodes.len() <= shape_number {
            suits_nodes.resize_with(shape_number + 1, FxHashMap::default);
        }
        *suits_nodes[shape_number].entry(node.kind).or_insert_with(|| {
            let taints = input.nodes[node.id.index()].taints;
            let required = [shape.all.set, shape.strict.set];
            untolerated_taints(taints, &shape.tolerations).is_empty()
                && required
                    .iter()
                    .all(|&set| store.compatible(node.set, set, UndefinedLabels::Rejected))
        })
    }

    fn has_domains(&mut self, node: &ExistingNode) -> bool {
        let Solver { store, topology, node_domains, .. } = &mut *self.solver;
        self.view.shape.label_groups.iter().zip(&self.view.feasible).all(|(over, feasible)| {
            let domain = node_domains.entry((over.domains, node.set)).or_insert_with(|| {
                let domains = &mut topology.domains[over.domains];
                let value = store.find(node.set, domains.key)?;
                Some(domains.number(store.get(value).values().first()?))
            });
            domain.is_some_and(|domain| {
                let may_start = feasible.bootstrap.as_ref();
                feasible.domains.contains(domain)
                    || may_start.is_some_and(|start| start.contains(domain))
            })
        })
    }
}
