//! Every node of a cluster, looked at once: what it costs, and why it is no candidate.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::do_not_disrupt::blocks_node;
use super::pdb::{Hold, Limits};
use super::relapse::Relapses;
use super::simulate::QuestionOptions;
use super::{Candidate, Class, Rejection, Search, World, cost};
use crate::catalog::{CAPACITY_TYPE, InstanceType};
use crate::id::{NodeId, PodId};
use crate::labels::{INSTANCE_TYPE, NODE_POOL, ZONE};
use crate::pod::Pod;
use crate::scheduling::demand::is_reschedulable;
use crate::snapshot::Node;

/// Every node of a cluster, looked at once.
#[derive(Debug)]
pub struct Board<'a> {
    pub(super) world: &'a World<'a>,
    /// By node.
    entries: Vec<Entry>,
    /// Nodes by name.
    order: Vec<NodeId>,
    pods: PodsByNode,
    /// What the scheduler is told.
    pub(super) options: QuestionOptions,
    /// The workloads that consolidation leaves alone.
    pub(super) relapses: Relapses<'a>,
}

#[derive(Debug)]
struct Entry {
    /// Rows 1 to 9.
    rejection: Option<Rejection>,
    /// The same when what is found has rested.
    rested: Option<Rejection>,
    /// What is known of it; none if its NodePool or that pool's types are not known.
    candidate: Option<Candidate>,
}

/// Pods by node, in the order of the snapshot.
#[derive(Debug)]
struct PodsByNode {
    starts: Vec<u32>,
    pods: Vec<PodId>,
}

impl PodsByNode {
    fn new(world: &World<'_>) -> Self {
        let nodes = world.snapshot.nodes.len();
        let mut starts = vec![0_u32; nodes + 1];
        let bound = || {
            let pods = world.snapshot.pods.iter().enumerate();
            pods.filter_map(|(id, pod)| Some((PodId::new(id), pod.node?.index())))
                .filter(|&(_, node)| node < nodes)
        };
        for (_, node) in bound() {
            starts[node + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut pods = vec![PodId(0); starts[nodes] as usize];
        for (pod, node) in bound() {
            pods[next[node] as usize] = pod;
            next[node] += 1;
        }
        Self { starts, pods }
    }

    fn on(&self, node: NodeId) -> &[PodId] {
        let (start, end) = (self.starts[node.index()], self.starts[node.index() + 1]);
        &self.pods[start as usize..end as usize]
    }
}

impl<'a> Board<'a> {
    /// Looks at every node.
    pub fn new(world: &'a World<'a>) -> Self {
        let mut limits = Limits::new(world.snapshot);
        let mut types = Types::default();
        let pods = PodsByNode::new(world);
        let rested = world.now.saturating_add(world.rest).unwrap_or(Timestamp::MAX);
        let ids = || (0..world.snapshot.nodes.len()).map(NodeId::new);
        let entries = ids().map(|id| {
            let node = world.snapshot.node(id);
            let (rejection, rested) =
                (rejection(world, node, world.now), rejection(world, node, rested));
            let is_ours = node.is_managed && node.object.is_some();
            let candidate = is_ours
                .then(|| candidate(world, id, pods.on(id), &mut limits, &mut types))
                .flatten();
            Entry { rejection, rested, candidate }
        });
        let entries = entries.collect();
        let mut order: Vec<NodeId> = ids().collect();
        order.sort_by(|&a, &b| world.snapshot.node(a).name.cmp(&world.snapshot.node(b).name));
        let options = QuestionOptions::new(world);
        let relapses = match world.settings.search {
            Search::Upstream => Relapses::default(),
            Search::Best | Search::Deep => {
                Relapses::of(world.snapshot, world.now).active(world.now)
            }
        };
        Self { world, entries, order, pods, options, relapses }
    }

    /// The nodes by name.
    pub fn nodes(&self) -> &[NodeId] {
        &self.order
    }

    /// The nodes in the order of the snapshot.
    pub(super) fn nodes_by_id(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.entries.len()).map(NodeId::new)
    }

    /// The pods that are bound to a node.
    pub fn pods_on(&self, node: NodeId) -> impl Iterator<Item = &'a Pod> + '_ {
        let snapshot = self.world.snapshot;
        self.pods.on(node).iter().map(move |&pod| snapshot.pod(pod))
    }

    /// The node as a candidate of a class of methods, or why it is none.
    pub fn candidate(&self, node: NodeId, class: Class) -> Result<&Candidate, Rejection> {
        let entry = &self.entries[node.index()];
        if class == Class::Repair {
            return self.repair_candidate(node);
        }
        let is_rested = class == Class::Graceful;
        let rejection = if is_rested { &entry.rested } else { &entry.rejection };
        if let Some(rejection) = rejection {
            return Err(rejection.clone());
        }
        let Some(candidate) = &entry.candidate else { return Err(self.no_pool(node)) };
        let is_bounded = candidate.termination_grace_period.is_some();
        match &candidate.blocker {
            Some(blocker) if class == Class::Graceful || !is_bounded => Err(blocker.clone()),
            _ => Ok(candidate),
        }
    }

    /// Repair has rules of its own (spec 45 §5.2): an annotation on the node does not count, nor do
    /// pods, and a node that never became ready is a candidate, too.
    fn repair_candidate(&self, node: NodeId) -> Result<&Candidate, Rejection> {
        let entry = &self.entries[node.index()];
        let own = self.world.snapshot.node(node);
        if own.is_managed && own.pool.is_none() && entry.rejection != Some(Rejection::InQueue) {
            return Err(Rejection::RepairWithoutPool);
        }
        match &entry.rejection {
            None | Some(Rejection::DoNotDisrupt | Rejection::NotInitialized) => {}
            Some(rejection) => return Err(rejection.clone()),
        }
        entry.candidate.as_ref().ok_or_else(|| self.no_pool(node))
    }

    fn no_pool(&self, node: NodeId) -> Rejection {
        let pool = self.world.snapshot.node(node).pool.clone().unwrap_or_default();
        Rejection::PoolNotFound { pool }
    }

    /// All candidates of a class of methods, by name.
    pub fn candidates(&self, class: Class) -> Vec<&Candidate> {
        let found = self.order.iter().map(|&node| self.candidate(node, class));
        found.filter_map(Result::ok).collect()
    }

    /// What is known of a node that is ours, candidate or not.
    pub(super) fn known(&self, node: NodeId) -> Option<&Candidate> {
        self.entries[node.index()].candidate.as_ref()
    }
}

/// The first of rows 1 to 9 that holds at a time, but for the pool itself (spec 45 §9.1).
fn rejection(world: &World<'_>, node: &Node, time: Timestamp) -> Option<Rejection> {
    let standing = &node.standing;
    Some(if world.queued.contains(&node.provider_id) {
        Rejection::InQueue
    } else if !node.is_managed {
        Rejection::NotManaged
    } else if node.object.is_none() {
        Rejection::NoNode
    } else if standing.is_rebooting {
        Rejection::Rebooting
    } else if node.is_deleting || standing.is_instance_terminating {
        Rejection::Deleting
    } else if !standing.is_registered {
        Rejection::NotRegistered
    } else if !node.is_initialized {
        Rejection::NotInitialized
    } else if world.nominated.get(&node.provider_id).is_some_and(|&until| until > time) {
        Rejection::Nominated
    } else if blocks_node(standing.do_not_disrupt.as_deref()) {
        Rejection::DoNotDisrupt
    } else if node.labels.get(NODE_POOL).is_none_or(String::is_empty) {
        Rejection::NoPoolLabel
    } else {
        return None;
    })
}

/// Instance types of pools by name.
type Types<'a> = BTreeMap<&'a str, BTreeMap<&'a str, &'a Arc<InstanceType>>>;

fn candidate<'a>(
    world: &World<'a>,
    id: NodeId,
    pods: &[PodId],
    limits: &mut Limits<'a>,
    known: &mut Types<'a>,
) -> Option<Candidate> {
    let node = world.snapshot.node(id);
    let pool = node.pool.as_deref()?;
    let managed = world.snapshot.managed_pools.get(pool)?;
    let (pool, types) = world.catalog.pools.get_key_value(pool)?;
    if types.is_empty() {
        return None;
    }
    let types = known
        .entry(pool)
        .or_insert_with(|| types.iter().map(|one| (one.name.as_str(), one)).collect());
    let label = |key: &str| node.labels.get(key).cloned();
    let instance_type_label = label(INSTANCE_TYPE).unwrap_or_default();
    let instance_type = types.get(instance_type_label.as_str()).map(|&one| Arc::clone(one));
    let (zone, capacity_type) = (label(ZONE), label(CAPACITY_TYPE));
    let price = cost::price(instance_type.as_deref(), zone.as_deref(), capacity_type.as_deref());
    let all = || pods.iter().map(|&pod| world.snapshot.pod(pod));
    let reschedulable = |pod: &PodId| is_reschedulable(world.snapshot.pod(*pod));
    let reschedulable: Vec<PodId> = pods.iter().copied().filter(reschedulable).collect();
    let mut is_movable = |pod: &PodId| {
        let pod = world.snapshot.pod(*pod);
        (!pod.is_active() || !pod.do_not_disrupt) && !limits.is_held_for_good(pod)
    };
    let movable = reschedulable.iter().copied().filter(&mut is_movable).collect();
    Some(Candidate {
        node: id,
        name: node.name.clone(),
        node_claim: node.standing.node_claim.clone(),
        provider_id: node.provider_id.clone(),
        pool: pool.clone(),
        is_static: managed.replicas.is_some(),
        price: price.unwrap_or(0.0),
        zone,
        capacity_type,
        reservation_id: world.catalog.reservation_id_label.as_deref().and_then(label),
        disruption_cost: cost::disruption_cost(all(), &node.standing, world.now),
        reschedule_cost: cost::reschedule_cost(
            reschedulable.iter().map(|&pod| world.snapshot.pod(pod)),
        ),
        instance_type,
        instance_type_label,
        blocker: blocker(world, pods, limits),
        pods: reschedulable,
        movable,
        is_initialized: node.is_initialized,
        is_consolidatable: node.standing.is_consolidatable,
        drifted_at: node.standing.drifted_at,
        termination_grace_period: node.standing.termination_grace_period,
    })
}

/// Rows 11 to 13: the first pod, by name, that must not be moved now.
fn blocker<'a>(world: &World<'a>, pods: &[PodId], limits: &mut Limits<'a>) -> Option<Rejection> {
    let all = || pods.iter().map(|&pod| world.snapshot.pod(pod));
    let first = |held: &mut dyn Iterator<Item = &'a Pod>| {
        held.min_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)))
    };
    if let Some(pod) = first(&mut all().filter(|pod| pod.is_active() && pod.do_not_disrupt)) {
        return Some(Rejection::PodDoNotDisrupt { pod: pod.full_name() });
    }
    if let Some(pod) = first(&mut all().filter(|pod| pod.is_unread && is_reschedulable(pod))) {
        return Some(Rejection::PodUnread { pod: pod.full_name() });
    }
    let pod = first(&mut all().filter(|&pod| limits.hold(pod).is_some()))?;
    let name = |budget: &crate::snapshot::PodDisruptionBudget| {
        format!("{}/{}", budget.namespace, budget.name)
    };
    Some(match limits.hold(pod)? {
        Hold::Several(budgets) => {
            let budgets = budgets.into_iter().map(name).collect();
            Rejection::SeveralBudgets { pod: pod.full_name(), budgets }
        }
        Hold::Exhausted(budget) => {
            Rejection::BudgetExhausted { pod: pod.full_name(), budget: name(budget) }
        }
    })
}
