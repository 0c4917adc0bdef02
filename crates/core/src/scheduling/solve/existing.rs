//! Existing nodes and their remaining resources (spec 20 §3.4, §3.8).

mod from_snapshot;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::amounts::{Amounts, ResourceColumns, fits_within, subtract, widen};
use super::input::SolverInput;
use super::requirement_store::{RequirementStore, SetId, number};
use crate::host_port::HostPort;
use crate::id::{NodeId, PodId};
use crate::scheduling::list_sizes::ListSizes;
use crate::volume::Attachments;
use from_snapshot::bound;
pub(super) use from_snapshot::{ExpectedDaemons, used_by, used_by_pool};

/// The existing nodes of a solve, in the order they are tried.
#[derive(Clone, Debug, Default)]
pub(super) struct ExistingNodes {
    pub(super) nodes: Vec<ExistingNode>,
    /// By node of the snapshot: its position here.
    positions: Arc<[Option<u32>]>,
    /// By node of the snapshot: the pods that stay on it. Not kept for a single request.
    pub(super) bound: Arc<[Vec<PodId>]>,
    /// Nodes that took pods, each once.
    nodes_with_new_pods: Vec<usize>,
    /// The changes of the request, to roll them back; none if changes are permanent.
    changes: Option<Vec<Change>>,
    /// How many neighbouring nodes share one bound of their remaining resources.
    block: usize,
    /// By block: an upper bound of the remaining resources of each node. Pods come largest first,
    /// so most blocks are known to be too full for all further pods.
    bounds: Vec<Amounts>,
    /// By block: a node of each kind in it. If none suits, the block is skipped.
    kinds: Vec<SmallVec<[usize; 4]>>,
    /// By class and shape: the first node to try. Nodes before it are too full or of a kind that
    /// cannot take the pod, and nodes only fill up during a request. A pass of consolidation over
    /// 2,000 half-empty nodes spent 72 % of its 4.2 s searching the first node; it takes 0.6 s now.
    starts: FxHashMap<SearchKey, usize>,
}

/// The class and shape of the pods that search for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SearchKey {
    pub(super) class: usize,
    pub(super) shape: u32,
}

/// Decides which existing nodes can take a pod.
pub(super) trait NodePredicate {
    /// Returns whether labels and taints, which do not change, let this kind take the pod.
    fn may_ever_fit_kind(&mut self, node: &ExistingNode) -> bool;
    /// Returns whether nodes of this kind may take the pod now.
    ///
    /// Implies [`Self::may_ever_fit_kind`].
    fn fits_kind(&mut self, node: &ExistingNode) -> bool;
    /// Returns whether this node, of a kind that fits, takes the pod.
    fn fits_node(&mut self, node: &ExistingNode) -> bool;
}

/// A change that a request made.
#[derive(Clone, Debug)]
enum Change {
    /// A node took a pod: its state before.
    PodAdded { position: usize, remaining: Amounts, ports: usize, attached: Option<Attachments> },
    /// A node was removed.
    Removed(usize),
    /// A node was replaced: the node before.
    NodeReplaced(usize, Box<ExistingNode>),
    /// The bound of a block changed: the bound before.
    Bounded(usize, Amounts),
}

/// An existing node with its remaining resources.
#[derive(Clone, Debug)]
pub(super) struct ExistingNode {
    pub(super) id: NodeId,
    pub(super) set: SetId,
    pub(super) host: usize,
    pub(super) taints_id: u32,
    /// The same number for nodes with the same taints and the same labels that pods can require.
    pub(super) kind: u32,
    pub(super) remaining: Amounts,
    /// Whether it can take pods at all: a resource that no pod requests may be below zero.
    is_usable: bool,
    /// Whether the request excludes it.
    pub(super) is_removed: bool,
    /// Whether consolidateAfter keeps pods away that could stay on their nodes.
    pub(super) is_under_consolidate_after: bool,
    pub(super) pods: Vec<PodId>,
    pub(super) ports: Vec<HostPort>,
    pub(super) attached: Attachments,
    /// Volumes that a driver can attach; a driver that is absent is unlimited.
    attach_limits: BTreeMap<String, u32>,
}

impl ExistingNodes {
    pub(super) fn new(
        input: &SolverInput<'_>,
        sizes: ListSizes,
        columns: &ResourceColumns,
        hosts: &[usize],
        (daemons, store): (&mut ExpectedDaemons<'_>, &mut RequirementStore<'_>),
    ) -> Self {
        let bound = bound(input);
        let mut nodes: Vec<ExistingNode> = Vec::with_capacity(input.candidates.len());
        let mut positions = vec![None; input.snapshot.nodes.len()];
        for &index in &input.candidates {
            let pods = bound[index].iter().map(|&pod| input.snapshot.pod(pod));
            let (host, pods) = (hosts[index], pods.collect::<Vec<_>>());
            let context = (&mut *daemons, &mut *store);
            positions[index] = Some(number(nodes.len()));
            nodes.push(ExistingNode::new(index, host, &pods, input, columns, context));
        }
        let mut existing = Self {
            nodes,
            positions: positions.into(),
            bound: if input.accepts_any_request { bound.into() } else { [].into() },
            block: sizes.nodes_per_block,
            ..Self::default()
        };
        existing.number_kinds();
        for block in 0..existing.nodes.len().div_ceil(existing.block) {
            let bound = existing.exact_bound(block, columns.len());
            existing.bounds.push(bound);
            let mut kinds: SmallVec<[usize; 4]> = existing.block(block).collect();
            kinds.sort_by_key(|&node| existing.nodes[node].kind);
            kinds.dedup_by_key(|node| existing.nodes[*node].kind);
            existing.kinds.push(kinds);
        }
        existing
    }

    fn number_kinds(&mut self) {
        let mut kinds: FxHashMap<(SetId, u32), u32> = FxHashMap::default();
        for node in &mut self.nodes {
            let next = number(kinds.len());
            node.kind = *kinds.entry((node.set, node.taints_id)).or_insert(next);
        }
    }

    fn block(&self, block: usize) -> std::ops::Range<usize> {
        block * self.block..((block + 1) * self.block).min(self.nodes.len())
    }

    fn exact_bound(&self, block: usize, columns: usize) -> Amounts {
        let mut bound = Amounts::from_elem(i128::MIN, columns);
        for node in self.nodes[self.block(block)].iter().filter(|node| node.is_usable) {
            widen(&mut bound, &node.remaining);
        }
        bound
    }

    /// Returns the first node with `need` left that takes the pod.
    pub(super) fn first(
        &mut self,
        need: &Amounts,
        key: SearchKey,
        predicate: &mut impl NodePredicate,
    ) -> Option<usize> {
        let start = self.starts.get(&key).copied().unwrap_or(0);
        let mut seen = ExhaustedPrefix { until: start, is_complete: true };
        let found = self.first_from(start, need, predicate, &mut seen);
        if seen.until > start {
            self.starts.insert(key, seen.until);
        }
        found
    }

    fn first_from(
        &mut self,
        start: usize,
        need: &Amounts,
        predicate: &mut impl NodePredicate,
        seen: &mut ExhaustedPrefix,
    ) -> Option<usize> {
        for block in start / self.block..self.bounds.len() {
            let nodes = self.block(block);
            let mut kinds = self.kinds[block].iter().map(|&node| &self.nodes[node]);
            if !fits_within(need, &self.bounds[block]) {
                seen.pass(nodes.end);
                continue;
            }
            if !kinds.clone().any(|node| predicate.fits_kind(node)) {
                if kinds.any(|node| predicate.may_ever_fit_kind(node)) {
                    seen.is_complete = false;
                }
                seen.pass(nodes.end);
                continue;
            }
            for index in nodes.start.max(start)..nodes.end {
                let node = &self.nodes[index];
                if node.fits(need) && predicate.may_ever_fit_kind(node) {
                    seen.is_complete = false;
                    if predicate.fits_kind(node) && predicate.fits_node(node) {
                        return Some(index);
                    }
                }
                seen.pass(index + 1);
            }
            let bound = self.exact_bound(block, need.len());
            self.set_bound(block, bound);
        }
        None
    }

    fn set_bound(&mut self, block: usize, bound: Amounts) {
        let before = std::mem::replace(&mut self.bounds[block], bound);
        if self.bounds[block] != before {
            self.note(Change::Bounded(block, before));
        }
    }

    fn note(&mut self, change: Change) {
        if let Some(changes) = &mut self.changes {
            changes.push(change);
        }
    }

    /// Adds a pod to a node that fits it.
    pub(super) fn take(
        &mut self,
        position: usize,
        pod: PodId,
        need: &Amounts,
        ports: &[HostPort],
        volumes: &Attachments,
    ) {
        let node = &mut self.nodes[position];
        if node.pods.is_empty() {
            self.nodes_with_new_pods.push(position);
        }
        if let Some(changes) = &mut self.changes {
            changes.push(Change::PodAdded {
                position,
                remaining: node.remaining.clone(),
                ports: node.ports.len(),
                attached: (!volumes.is_empty()).then(|| node.attached.clone()),
            });
        }
        node.take(pod, need, ports, volumes);
    }

    /// Takes out the placed pods by node, in the order nodes are tried.
    pub(super) fn drain_placements(&mut self) -> impl Iterator<Item = (NodeId, Vec<PodId>)> {
        self.nodes_with_new_pods.sort_unstable();
        let Self { nodes_with_new_pods, nodes, .. } = self;
        nodes_with_new_pods.iter().map(|&position| {
            let node = &mut nodes[position];
            (node.id, std::mem::take(&mut node.pods))
        })
    }

    /// The position of a node of the snapshot.
    pub(super) fn position(&self, node: usize) -> Option<usize> {
        self.positions.get(node).copied().flatten().map(|position| position as usize)
    }

    /// Starts a request.
    ///
    /// Later changes can be [rolled back](Self::roll_back).
    pub(super) fn begin_request(&mut self) {
        self.changes = Some(Vec::new());
        self.starts.clear();
    }

    /// Removes a node.
    pub(super) fn remove(&mut self, position: usize) {
        self.nodes[position].is_removed = true;
        self.note(Change::Removed(position));
    }

    /// Replaces a node by one with other pods.
    pub(super) fn replace(&mut self, position: usize, mut node: ExistingNode) {
        node.kind = self.nodes[position].kind;
        let block = position / self.block;
        let mut bound = self.bounds[block].clone();
        if node.is_usable {
            widen(&mut bound, &node.remaining);
        }
        let before = std::mem::replace(&mut self.nodes[position], node);
        self.note(Change::NodeReplaced(position, Box::new(before)));
        self.set_bound(block, bound);
    }

    /// Restores the state before the request.
    pub(super) fn roll_back(&mut self) {
        for position in self.nodes_with_new_pods.drain(..) {
            self.nodes[position].pods.clear();
        }
        for change in self.changes.take().into_iter().flatten().rev() {
            match change {
                Change::PodAdded { position, remaining, ports, attached } => {
                    let node = &mut self.nodes[position];
                    node.remaining = remaining;
                    node.ports.truncate(ports);
                    if let Some(attached) = attached {
                        node.attached = attached;
                    }
                }
                Change::Removed(position) => self.nodes[position].is_removed = false,
                Change::NodeReplaced(position, before) => self.nodes[position] = *before,
                Change::Bounded(block, before) => self.bounds[block] = before,
            }
        }
    }
}

/// The leading nodes that cannot take a pod for the rest of the request.
struct ExhaustedPrefix {
    until: usize,
    is_complete: bool,
}

impl ExhaustedPrefix {
    fn pass(&mut self, end: usize) {
        if self.is_complete {
            self.until = end;
        }
    }
}

impl ExistingNode {
    fn fits(&self, need: &Amounts) -> bool {
        self.is_usable && !self.is_removed && fits_within(need, &self.remaining)
    }

    /// Returns whether the volumes of a pod can be attached as well.
    pub(super) fn can_attach(&self, volumes: &Attachments) -> bool {
        volumes.iter().all(|(driver, claims)| {
            let Some(&limit) = self.attach_limits.get(driver) else { return true };
            let own = self.attached.get(driver);
            let new = claims.iter().filter(|&claim| own.is_none_or(|own| !own.contains(claim)));
            own.map_or(0, std::collections::BTreeSet::len) + new.count() <= limit as usize
        })
    }

    fn take(&mut self, pod: PodId, need: &Amounts, ports: &[HostPort], volumes: &Attachments) {
        self.pods.push(pod);
        subtract(&mut self.remaining, need);
        self.ports.extend_from_slice(ports);
        for (driver, claims) in volumes {
            self.attached.entry(driver.clone()).or_default().extend(claims.iter().cloned());
        }
    }
}
