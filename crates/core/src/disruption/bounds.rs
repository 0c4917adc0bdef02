//! What cannot succeed, told without placing a pod (spec 30 §14.3 item 5).
//!
//! Every bound is a necessary condition: it leaves out daemons, topology, volumes, ports and
//! preferences, so what it refuses the scheduler would refuse as well. A test compares.
//!
//! ```text
//! forced pods:  no node that stays has room for the pod, even alone: it needs the replacement
//! delete:       no pod is forced
//! replace:      all forced pods fit on one instance type that costs less than the nodes that go
//! together:     all pods fit into what is free elsewhere, and as many of the largest instance type
//!               as may come
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::balanced::Totals;
use super::consolidation::Unconsolidatable;
use super::{Board, Candidate};
use crate::catalog::InstanceType;
use crate::id::{NodeId, PodId};
use crate::pod::PodSpec;
use crate::requirement::{Aliases, Requirements};
use crate::resources::Resources;
use crate::snapshot::{Node, Pool};
use crate::taint::TaintEffect;

/// Nodes with room are remembered up to so many.
const ROOMS: usize = 6;

/// Amounts by column.
type Amounts = SmallVec<[i128; 6]>;

/// The bounds of a world.
pub(super) struct Bounds<'a> {
    board: &'a Board<'a>,
    columns: Vec<&'a str>,
    /// What pods ask for, and which nodes have room, by the address of their spec.
    classes: FxHashMap<usize, Class>,
    /// What is free on nodes that may take pods, by node.
    free: Vec<Option<Amounts>>,
    /// The same of all together, without those that are overdrawn.
    total: Amounts,
    /// What can be launched, cheapest first.
    options: Vec<LaunchOption>,
    /// The most that a launch gives of each.
    largest: Amounts,
}

struct Class {
    requests: Amounts,
    rooms: SmallVec<[NodeId; ROOMS]>,
    /// Whether there are others.
    has_more: bool,
    /// Whether there is an instance type for one alone.
    is_launchable: bool,
}

impl Class {
    /// Whether no node has room but those.
    fn is_forced(&self, gone: &BTreeSet<NodeId>) -> bool {
        !self.has_more && self.rooms.iter().all(|room| gone.contains(room))
    }
}

/// What the pods of candidates ask for.
struct Asked {
    all: Amounts,
    /// The same of those that need a replacement, if any does.
    forced: Option<Amounts>,
    /// Whether one of these fits on none.
    is_hopeless: bool,
}

struct LaunchOption {
    /// No launch costs less.
    price: f64,
    allocatable: Amounts,
}

impl<'a> Bounds<'a> {
    pub(super) fn new(board: &'a Board<'a>) -> Self {
        let columns = columns(board);
        let mut requests: FxHashMap<usize, Amounts> = FxHashMap::default();
        let free: Vec<Option<Amounts>> =
            board.nodes_by_id().map(|id| free(board, id, &columns, &mut requests)).collect();
        let mut total = Amounts::from_elem(0, columns.len());
        for amounts in free.iter().flatten() {
            add(&mut total, amounts.iter().map(|amount| *amount.max(&0)));
        }
        let options = options(board, &columns);
        let mut largest = Amounts::from_elem(0, columns.len());
        for option in &options {
            for (most, amount) in largest.iter_mut().zip(&option.allocatable) {
                *most = (*most).max(*amount);
            }
        }
        let classes = FxHashMap::default();
        let mut bounds = Self { board, columns, classes, free, total, options, largest };
        bounds.find_rooms();
        bounds
    }

    /// Why the candidates cannot go for certain, if so many nodes may come for them.
    pub(super) fn check(
        &self,
        candidates: &[&Candidate],
        most: usize,
        totals: &Totals,
    ) -> Result<(), Unconsolidatable> {
        let asked = self.asked(candidates);
        if asked.is_hopeless && candidates.len() == 1 {
            // What keeps such a pod where it is, the scheduler says best.
            return Ok(());
        }
        let mut room = self.room_without(candidates);
        let count = i128::try_from(most).unwrap_or(i128::MAX);
        add(&mut room, self.largest.iter().map(|amount| amount.saturating_mul(count)));
        if !within(&asked.all, &room) {
            let pods =
                candidates.iter().flat_map(|candidate| &candidate.movable).copied().collect();
            return Err(Unconsolidatable::TooMany { claims: most + 1, pods });
        }
        let Some(forced) = asked.forced.filter(|_| most == 1) else { return Ok(()) };
        let cheapest = self.options.iter().find(|option| within(&forced, &option.allocatable));
        let Some(cheapest) = cheapest else {
            let pods = self.forced(candidates);
            return Err(Unconsolidatable::TooMany { claims: 2, pods });
        };
        let ceiling: f64 = candidates.iter().map(|candidate| candidate.price).sum();
        if cheapest.price >= ceiling {
            return Err(Unconsolidatable::NothingCheaper { pods: self.forced(candidates) });
        }
        if let [candidate] = candidates
            && !totals.may_pass(self.board, candidate, ceiling - cheapest.price)
        {
            let (pool, savings) = (&candidate.pool, ceiling - cheapest.price);
            let score = totals.score(pool, savings, candidate.reschedule_cost);
            return Err(Unconsolidatable::NotWorthIt { scores: vec![score] });
        }
        Ok(())
    }

    /// Whether the candidates may go without a replacement.
    pub(super) fn may_delete(&self, candidates: &[&Candidate]) -> bool {
        let asked = self.asked(candidates);
        asked.forced.is_none() && within(&asked.all, &self.room_without(candidates))
    }

    /// What the pods of candidates ask for.
    fn asked(&self, candidates: &[&Candidate]) -> Asked {
        let gone: BTreeSet<NodeId> = candidates.iter().map(|candidate| candidate.node).collect();
        let mut all = Amounts::from_elem(0, self.columns.len());
        let mut forced: Option<Amounts> = None;
        let mut is_hopeless = false;
        for pod in candidates.iter().flat_map(|candidate| &candidate.movable) {
            let spec = Arc::as_ptr(&self.board.world.snapshot.pod(*pod).spec) as usize;
            let Some(class) = self.classes.get(&spec) else { continue };
            add(&mut all, class.requests.iter().copied());
            if class.is_forced(&gone) {
                is_hopeless |= !class.is_launchable;
                let sum = forced.get_or_insert_with(|| Amounts::from_elem(0, self.columns.len()));
                add(sum, class.requests.iter().copied());
            }
        }
        Asked { all, forced, is_hopeless }
    }

    /// The pods of a candidate that need a replacement. Of several it is not asked.
    fn forced(&self, candidates: &[&Candidate]) -> Vec<PodId> {
        let &[candidate] = candidates else { return Vec::new() };
        let gone = BTreeSet::from([candidate.node]);
        let is_forced = |pod: &PodId| {
            let spec = Arc::as_ptr(&self.board.world.snapshot.pod(*pod).spec) as usize;
            self.classes.get(&spec).is_some_and(|class| class.is_forced(&gone))
        };
        candidate.movable.iter().copied().filter(is_forced).collect()
    }

    /// What is free elsewhere.
    fn room_without(&self, candidates: &[&Candidate]) -> Amounts {
        let mut room = self.total.clone();
        for amounts in candidates.iter().filter_map(|one| self.free[one.node.index()].as_ref()) {
            add(&mut room, amounts.iter().map(|amount| -*amount.max(&0)));
        }
        room
    }

    /// Finds the nodes that have room for each class of pods that may be moved.
    fn find_rooms(&mut self) {
        // The nodes with the most of the first resource are first: the others need not be looked at
        // once there is too little of it.
        let mut targets: Vec<NodeId> = self.board.nodes_by_id().collect();
        targets.retain(|node| self.free[node.index()].is_some());
        let first = |node: NodeId| self.free[node.index()].as_ref().and_then(|free| free.first());
        targets.sort_by(|&a, &b| first(b).cmp(&first(a)).then(a.cmp(&b)));
        let candidates = self.board.nodes_by_id().filter_map(|node| self.board.known(node));
        for pod in candidates.flat_map(|candidate| &candidate.movable) {
            let spec = &self.board.world.snapshot.pod(*pod).spec;
            let key = Arc::as_ptr(spec) as usize;
            if !self.classes.contains_key(&key) {
                let class = self.class(spec, &targets);
                self.classes.insert(key, class);
            }
        }
    }

    fn class(&self, spec: &PodSpec, targets: &[NodeId]) -> Class {
        let world = self.board.world;
        let requests = amounts(&self.columns, &spec.requests);
        let is_launchable = self.options.iter().any(|one| within(&requests, &one.allocatable));
        let mut class = Class { requests, rooms: SmallVec::new(), has_more: false, is_launchable };
        for &target in targets {
            let Some(free) = &self.free[target.index()] else { continue };
            if free.first() < class.requests.first() {
                break;
            }
            let node = world.snapshot.node(target);
            if within(&class.requests, free) && may_hold(node, spec, &world.catalog.aliases) {
                if class.rooms.len() == ROOMS {
                    class.has_more = true;
                    break;
                }
                class.rooms.push(target);
            }
        }
        class
    }
}

/// The resources that pods ask for, cpu first.
fn columns<'a>(board: &Board<'a>) -> Vec<&'a str> {
    let mut specs: FxHashSet<usize> = FxHashSet::default();
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for pod in &board.world.snapshot.pods {
        if specs.insert(Arc::as_ptr(&pod.spec) as usize) {
            names.extend(pod.spec.requests.iter().map(|(name, _)| name));
        }
    }
    names.into_iter().collect()
}

fn amounts(columns: &[&str], resources: &Resources) -> Amounts {
    columns.iter().map(|name| resources.amount(name).nanos()).collect()
}

fn add(sum: &mut Amounts, amounts: impl Iterator<Item = i128>) {
    for (sum, amount) in sum.iter_mut().zip(amounts) {
        *sum = sum.saturating_add(amount);
    }
}

fn within(need: &Amounts, room: &Amounts) -> bool {
    need.iter().zip(room).all(|(need, room)| *need <= 0 || need <= room)
}

/// What is free on a node that may take pods at all.
fn free(
    board: &Board<'_>,
    id: NodeId,
    columns: &[&str],
    requests: &mut FxHashMap<usize, Amounts>,
) -> Option<Amounts> {
    let node = board.world.snapshot.node(id);
    // A place on a node that is not ready does not count.
    if node.is_deleting || !node.is_initialized {
        return None;
    }
    let mut free = amounts(columns, &node.allocatable);
    for pod in board.pods_on(id).filter(|pod| !pod.is_terminal()) {
        let asked = requests
            .entry(Arc::as_ptr(&pod.spec) as usize)
            .or_insert_with(|| amounts(columns, &pod.spec.requests));
        add(&mut free, asked.iter().map(|amount| -amount));
    }
    Some(free)
}

/// Whether nothing that is known for certain keeps the pod from the node.
fn may_hold(node: &Node, spec: &PodSpec, aliases: &Aliases) -> bool {
    let bars = |taint: &&crate::taint::Taint| taint.effect != TaintEffect::PreferNoSchedule;
    let is_tolerated = node
        .taints
        .iter()
        .filter(bars)
        .all(|taint| spec.tolerations.iter().any(|toleration| toleration.tolerates(taint)));
    // A label that is not there may be there under another spelling.
    let suits = |asked: &Requirements| {
        asked.iter().all(|asked| {
            let label = node.labels.get(asked.key());
            label.is_none_or(|value| asked.has(&aliases.value(asked.key(), value)))
        })
    };
    let affinity = &spec.node_affinity;
    is_tolerated
        && suits(&spec.node_selector)
        && (affinity.is_empty() || affinity.iter().any(suits))
}

/// Everything that can be launched, cheapest first.
fn options(board: &Board<'_>, columns: &[&str]) -> Vec<LaunchOption> {
    let catalog = board.world.catalog;
    let mut options = Vec::new();
    for pool in &board.world.snapshot.pools {
        for one in catalog.pools.get(&pool.name).into_iter().flat_map(|types| types.iter()) {
            let Some(price) = least_price(board, pool, one) else { continue };
            for group in one.allocatable_groups() {
                let allocatable = amounts(columns, &group.allocatable);
                options.push(LaunchOption { price, allocatable });
            }
        }
    }
    options.sort_by(|a, b| a.price.total_cmp(&b.price));
    options
}

/// The lowest price of an instance type in a pool, whatever pods narrow the pool to. None if the pool
/// does not want it.
fn least_price(board: &Board<'_>, pool: &Pool, of: &InstanceType) -> Option<f64> {
    of.requirements.intersects(&pool.requirements).ok()?;
    of.cheapest_launch(&pool.requirements, &board.world.catalog.well_known)
}
