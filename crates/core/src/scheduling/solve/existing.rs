//! Nodes that exist, and what they can still take (spec 20 §3.4, §3.8).

mod making;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::amounts::{Amounts, Columns, subtract, widen, within};
use super::store::{SetId, Store, number};
use super::world::World;
use crate::host_port::HostPort;
use crate::id::{NodeId, PodId};
use crate::scheduling::sizes::Sizes;
use crate::volume::Attachments;
use making::bound;
pub(super) use making::{Daemons, used_by, used_by_pool};

/// The nodes of a solve in the order they are tried.
#[derive(Clone, Debug, Default)]
pub(super) struct Existing {
    pub(super) nodes: Vec<ExistingNode>,
    /// By node of the snapshot: its position here.
    positions: Arc<[Option<u32>]>,
    /// By node of the snapshot: the pods that stay on it. Not kept for a single question.
    pub(super) bound: Arc<[Vec<PodId>]>,
    /// Nodes that took pods, each once.
    taking: Vec<usize>,
    /// What the question changed, so that it can be taken back; none while changes are for good.
    changes: Option<Vec<Change>>,
    /// How many neighbours share one bound of what is left.
    block: usize,
    /// For each block at least what each of its nodes has left. Pods come largest
    /// first, so most blocks are known to be too full for all pods to come.
    bounds: Vec<Amounts>,
    /// By block: a node of each kind that it has. Where none suits, no node need be looked at.
    kinds: Vec<SmallVec<[usize; 4]>>,
    /// Where to begin for who asked before: nodes before are too full for it or of a kind that it
    /// cannot go to, and nodes only fill up while a question is answered. A pass of consolidation over
    /// 2,000 half-empty nodes spent 72 % of its 4.2 s looking for the first node; it takes 0.6 s now.
    starts: FxHashMap<Asker, usize>,
}

/// Who asks for a node: a class of pods, in one of its shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asker {
    pub(super) class: usize,
    pub(super) shape: u32,
}

/// What those who ask for a node think of one that has room.
pub(super) trait Judge {
    /// Whether nodes of this kind may ever take the pod: labels and taints, which stay as they are.
    fn may_suit(&mut self, node: &ExistingNode) -> bool;
    /// Whether nodes of this kind may take it now. Implies the former.
    fn suits(&mut self, node: &ExistingNode) -> bool;
    /// Whether this node of a kind that suits takes it.
    fn takes(&mut self, node: &ExistingNode) -> bool;
}

#[derive(Clone, Debug)]
enum Change {
    /// A node took its first pod: what it had before.
    Took { position: usize, remaining: Amounts, ports: usize, attached: Option<Attachments> },
    /// A node is gone.
    Removed(usize),
    /// A node became another.
    Became(usize, Box<ExistingNode>),
    /// A block got another bound.
    Bounded(usize, Amounts),
}

#[derive(Clone, Debug)]
pub(super) struct ExistingNode {
    pub(super) id: NodeId,
    pub(super) set: SetId,
    pub(super) host: usize,
    pub(super) taints_id: u32,
    /// The same number for nodes with the same labels, as far as somebody asks, and taints.
    pub(super) kind: u32,
    pub(super) remaining: Amounts,
    /// Whether it can take pods at all: something that no pod asks for may be overdrawn.
    is_usable: bool,
    /// Whether the question takes it as gone.
    pub(super) is_removed: bool,
    /// Whether its consolidateAfter keeps pods off that can stay where they are.
    pub(super) waits: bool,
    pub(super) pods: Vec<PodId>,
    pub(super) ports: Vec<HostPort>,
    pub(super) attached: Attachments,
    /// Volumes that a driver can attach; a driver that is absent is unlimited.
    attach_limits: BTreeMap<String, u32>,
}

impl Existing {
    pub(super) fn new(
        world: &World<'_>,
        sizes: Sizes,
        columns: &Columns,
        hosts: &[usize],
        (daemons, store): (&mut Daemons<'_>, &mut Store<'_>),
    ) -> Self {
        let bound = bound(world);
        let mut nodes: Vec<ExistingNode> = Vec::with_capacity(world.candidates.len());
        let mut positions = vec![None; world.snapshot.nodes.len()];
        for &index in &world.candidates {
            let pods = bound[index].iter().map(|&pod| world.snapshot.pod(pod));
            let (host, pods) = (hosts[index], pods.collect::<Vec<_>>());
            let making = (&mut *daemons, &mut *store);
            positions[index] = Some(number(nodes.len()));
            nodes.push(ExistingNode::new(index, host, &pods, world, columns, making));
        }
        let mut existing = Self {
            nodes,
            positions: positions.into(),
            bound: if world.is_open { bound.into() } else { [].into() },
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

    /// The first node that has room for `need`, is of a kind that suits, and takes the pod.
    pub(super) fn first(
        &mut self,
        need: &Amounts,
        asker: Asker,
        judge: &mut impl Judge,
    ) -> Option<usize> {
        let start = self.starts.get(&asker).copied().unwrap_or(0);
        let mut seen = Seen { until: start, is_whole: true };
        let found = self.first_from(start, need, judge, &mut seen);
        if seen.until > start {
            self.starts.insert(asker, seen.until);
        }
        found
    }

    fn first_from(
        &mut self,
        start: usize,
        need: &Amounts,
        judge: &mut impl Judge,
        seen: &mut Seen,
    ) -> Option<usize> {
        for block in start / self.block..self.bounds.len() {
            let nodes = self.block(block);
            let mut kinds = self.kinds[block].iter().map(|&node| &self.nodes[node]);
            if !within(need, &self.bounds[block]) {
                seen.pass(nodes.end);
                continue;
            }
            if !kinds.clone().any(|node| judge.suits(node)) {
                if kinds.any(|node| judge.may_suit(node)) {
                    seen.is_whole = false;
                }
                seen.pass(nodes.end);
                continue;
            }
            for index in nodes.start.max(start)..nodes.end {
                let node = &self.nodes[index];
                if node.fits(need) && judge.may_suit(node) {
                    seen.is_whole = false;
                    if judge.suits(node) && judge.takes(node) {
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

    /// Puts a pod on a node that was found to take it.
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
            self.taking.push(position);
        }
        if let Some(changes) = &mut self.changes {
            changes.push(Change::Took {
                position,
                remaining: node.remaining.clone(),
                ports: node.ports.len(),
                attached: (!volumes.is_empty()).then(|| node.attached.clone()),
            });
        }
        node.take(pod, need, ports, volumes);
    }

    /// Nodes that took pods, in the order they are tried.
    pub(super) fn taking(&mut self) -> impl Iterator<Item = (NodeId, Vec<PodId>)> {
        self.taking.sort_unstable();
        let Self { taking, nodes, .. } = self;
        taking.iter().map(|&position| {
            let node = &mut nodes[position];
            (node.id, std::mem::take(&mut node.pods))
        })
    }

    /// The position of a node of the snapshot.
    pub(super) fn position(&self, node: usize) -> Option<usize> {
        self.positions.get(node).copied().flatten().map(|position| position as usize)
    }

    /// Starts a question: what follows can be [rolled back](Self::roll_back).
    pub(super) fn ask(&mut self) {
        self.changes = Some(Vec::new());
        self.starts.clear();
    }

    /// Takes a node away.
    pub(super) fn remove(&mut self, position: usize) {
        self.nodes[position].is_removed = true;
        self.note(Change::Removed(position));
    }

    /// Puts a node with other pods in the place of one.
    pub(super) fn replace(&mut self, position: usize, mut node: ExistingNode) {
        node.kind = self.nodes[position].kind;
        let block = position / self.block;
        let mut bound = self.bounds[block].clone();
        if node.is_usable {
            widen(&mut bound, &node.remaining);
        }
        let before = std::mem::replace(&mut self.nodes[position], node);
        self.note(Change::Became(position, Box::new(before)));
        self.set_bound(block, bound);
    }

    /// Everything as it was before the question.
    pub(super) fn roll_back(&mut self) {
        for position in self.taking.drain(..) {
            self.nodes[position].pods.clear();
        }
        for change in self.changes.take().into_iter().flatten().rev() {
            match change {
                Change::Took { position, remaining, ports, attached } => {
                    let node = &mut self.nodes[position];
                    node.remaining = remaining;
                    node.ports.truncate(ports);
                    if let Some(attached) = attached {
                        node.attached = attached;
                    }
                }
                Change::Removed(position) => self.nodes[position].is_removed = false,
                Change::Became(position, before) => self.nodes[position] = *before,
                Change::Bounded(block, before) => self.bounds[block] = before,
            }
        }
    }
}

/// How far nodes are known not to take a pod for good.
struct Seen {
    until: usize,
    is_whole: bool,
}

impl Seen {
    fn pass(&mut self, end: usize) {
        if self.is_whole {
            self.until = end;
        }
    }
}

impl ExistingNode {
    fn fits(&self, need: &Amounts) -> bool {
        self.is_usable && !self.is_removed && within(need, &self.remaining)
    }

    /// Whether the volumes of a pod can be attached as well.
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
