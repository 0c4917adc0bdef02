//! The candidate index: every node of a pass with its candidate or its rejection.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::do_not_disrupt::blocks_node;
use super::failed_consolidation::FailedConsolidations;
use super::pdb::{EvictionBlocker, PdbIndex};
use super::simulation::SimulationOptions;
use super::{Candidate, DisruptionClass, PassContext, Rejection, SearchMode, cost};
use crate::catalog::{CAPACITY_TYPE, InstanceType};
use crate::id::{NodeId, PodId};
use crate::labels::{INSTANCE_TYPE, NODE_POOL, ZONE};
use crate::pod::Pod;
use crate::scheduling::demand::is_reschedulable;
use crate::snapshot::StateNode;

/// Every node of a pass with its candidate or its rejection.
#[derive(Debug)]
pub struct CandidateIndex<'a> {
    pub(super) context: &'a PassContext<'a>,
    /// By node.
    entries: Vec<NodeEntry>,
    /// All nodes, sorted by name.
    by_name: Vec<NodeId>,
    pods: PodsByNode,
    /// The scheduler options for each kind of simulation.
    pub(super) simulation_options: SimulationOptions,
    /// The workloads that consolidation skips after failures.
    pub(super) failed_consolidations: FailedConsolidations<'a>,
}

#[derive(Debug)]
struct NodeEntry {
    /// The rejection now, by rows 1 to 9.
    rejection: Option<Rejection>,
    /// The rejection at the end of the validation delay.
    rejection_after_delay: Option<Rejection>,
    /// The candidate, rejected or not.
    /// None if the node is not managed, or its NodePool or the pool's instance types are unknown.
    candidate: Option<Candidate>,
}

/// Pods by node, in the order of the snapshot.
#[derive(Debug)]
struct PodsByNode {
    offsets: Vec<u32>,
    pods: Vec<PodId>,
}

impl PodsByNode {
    fn new(context: &PassContext<'_>) -> Self {
        let nodes = context.snapshot.nodes.len();
        let mut starts = vec![0_u32; nodes + 1];
        let bound = || {
            let pods = context.snapshot.pods.iter().enumerate();
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
        Self { offsets: starts, pods }
    }

    fn pods_on(&self, node: NodeId) -> &[PodId] {
        let (start, end) = (self.offsets[node.index()], self.offsets[node.index() + 1]);
        &self.pods[start as usize..end as usize]
    }
}

impl<'a> CandidateIndex<'a> {
    /// Evaluates every node of the pass.
    pub fn new(context: &'a PassContext<'a>) -> Self {
        let mut limits = PdbIndex::new(context.snapshot);
        let mut types = InstanceTypesByPool::default();
        let pods = PodsByNode::new(context);
        let delayed =
            context.now.saturating_add(context.validation_delay).unwrap_or(Timestamp::MAX);
        let ids = || (0..context.snapshot.nodes.len()).map(NodeId::new);
        let entries = ids().map(|id| {
            let node = context.snapshot.node(id);
            let (rejection, rejection_after_delay) =
                (rejection(context, node, context.now), rejection(context, node, delayed));
            let is_ours = node.is_managed && node.object.is_some();
            let candidate = is_ours
                .then(|| build_candidate(context, id, pods.pods_on(id), &mut limits, &mut types))
                .flatten();
            NodeEntry { rejection, rejection_after_delay, candidate }
        });
        let entries = entries.collect();
        let mut by_name: Vec<NodeId> = ids().collect();
        by_name.sort_by(|&a, &b| context.snapshot.node(a).name.cmp(&context.snapshot.node(b).name));
        let simulation_options = SimulationOptions::new(context);
        let failed_consolidations = match context.settings.search {
            SearchMode::Upstream => FailedConsolidations::default(),
            SearchMode::Best | SearchMode::Deep => {
                FailedConsolidations::from_snapshot(context.snapshot, context.now)
                    .retain_active(context.now)
            }
        };
        Self { context, entries, by_name, pods, simulation_options, failed_consolidations }
    }

    /// The nodes by name.
    pub fn nodes(&self) -> &[NodeId] {
        &self.by_name
    }

    /// The nodes in the order of the snapshot.
    pub(super) fn nodes_by_id(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.entries.len()).map(NodeId::new)
    }

    /// Returns the pods that are bound to a node.
    pub fn pods_on(&self, node: NodeId) -> impl Iterator<Item = &'a Pod> + '_ {
        let snapshot = self.context.snapshot;
        self.pods.pods_on(node).iter().map(move |&pod| snapshot.pod(pod))
    }

    /// Returns a node as a candidate of a class of methods, or its rejection.
    pub fn candidate(&self, node: NodeId, class: DisruptionClass) -> Result<&Candidate, Rejection> {
        let entry = &self.entries[node.index()];
        if class == DisruptionClass::Repair {
            return self.repair_candidate(node);
        }
        let is_rested = class == DisruptionClass::Graceful;
        let rejection = if is_rested { &entry.rejection_after_delay } else { &entry.rejection };
        if let Some(rejection) = rejection {
            return Err(rejection.clone());
        }
        let Some(candidate) = &entry.candidate else { return Err(self.pool_not_found(node)) };
        let is_bounded = candidate.termination_grace_period.is_some();
        match &candidate.blocker {
            Some(blocker) if class == DisruptionClass::Graceful || !is_bounded => {
                Err(blocker.clone())
            }
            _ => Ok(candidate),
        }
    }

    /// Repair has rules of its own (spec 45 §5.2): an annotation on the node does not count, nor do
    /// pods, and a node that never became ready is a candidate, too.
    fn repair_candidate(&self, node: NodeId) -> Result<&Candidate, Rejection> {
        let entry = &self.entries[node.index()];
        let own = self.context.snapshot.node(node);
        if own.is_managed && own.pool.is_none() && entry.rejection != Some(Rejection::InQueue) {
            return Err(Rejection::RepairWithoutPool);
        }
        match &entry.rejection {
            None | Some(Rejection::DoNotDisrupt | Rejection::NotInitialized) => {}
            Some(rejection) => return Err(rejection.clone()),
        }
        entry.candidate.as_ref().ok_or_else(|| self.pool_not_found(node))
    }

    fn pool_not_found(&self, node: NodeId) -> Rejection {
        let pool = self.context.snapshot.node(node).pool.clone().unwrap_or_default();
        Rejection::PoolNotFound { pool }
    }

    /// All candidates of a class of methods, by name.
    pub fn candidates(&self, class: DisruptionClass) -> Vec<&Candidate> {
        let found = self.by_name.iter().map(|&node| self.candidate(node, class));
        found.filter_map(Result::ok).collect()
    }

    /// Returns the candidate of a managed node, whether rejected or not.
    pub(super) fn unchecked_candidate(&self, node: NodeId) -> Option<&Candidate> {
        self.entries[node.index()].candidate.as_ref()
    }
}

/// The first of rows 1 to 9 that holds at a time, but for the pool itself (spec 45 §9.1).
fn rejection(context: &PassContext<'_>, node: &StateNode, time: Timestamp) -> Option<Rejection> {
    let standing = &node.disruption_state;
    Some(if context.queued.contains(&node.provider_id) {
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
    } else if context.nominated.get(&node.provider_id).is_some_and(|&until| until > time) {
        Rejection::Nominated
    } else if blocks_node(standing.do_not_disrupt.as_deref()) {
        Rejection::DoNotDisrupt
    } else if node.labels.get(NODE_POOL).is_none_or(String::is_empty) {
        Rejection::NoPoolLabel
    } else {
        return None;
    })
}

/// The instance types of each NodePool, by name.
type InstanceTypesByPool<'a> = BTreeMap<&'a str, BTreeMap<&'a str, &'a Arc<InstanceType>>>;

fn build_candidate<'a>(
    context: &PassContext<'a>,
    id: NodeId,
    pods: &[PodId],
    limits: &mut PdbIndex<'a>,
    known: &mut InstanceTypesByPool<'a>,
) -> Option<Candidate> {
    let node = context.snapshot.node(id);
    let pool = node.pool.as_deref()?;
    let managed = context.snapshot.managed_pools.get(pool)?;
    let (pool, types) = context.catalog.pools.get_key_value(pool)?;
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
    let all = || pods.iter().map(|&pod| context.snapshot.pod(pod));
    let reschedulable = |pod: &PodId| is_reschedulable(context.snapshot.pod(*pod));
    let reschedulable: Vec<PodId> = pods.iter().copied().filter(reschedulable).collect();
    let mut is_movable = |pod: &PodId| {
        let pod = context.snapshot.pod(*pod);
        (!pod.is_active() || !pod.do_not_disrupt) && !limits.is_never_evictable(pod)
    };
    let movable = reschedulable.iter().copied().filter(&mut is_movable).collect();
    Some(Candidate {
        node: id,
        name: node.name.clone(),
        node_claim: node.disruption_state.node_claim.clone(),
        provider_id: node.provider_id.clone(),
        pool: pool.clone(),
        is_static: managed.replicas.is_some(),
        price: price.unwrap_or(0.0),
        zone,
        capacity_type,
        reservation_id: context.catalog.reservation_id_label.as_deref().and_then(label),
        disruption_cost: cost::disruption_cost(all(), &node.disruption_state, context.now),
        reschedule_cost: cost::reschedule_cost(
            reschedulable.iter().map(|&pod| context.snapshot.pod(pod)),
        ),
        instance_type,
        instance_type_label,
        blocker: pod_rejection(context, pods, limits),
        pods: reschedulable,
        movable,
        is_initialized: node.is_initialized,
        is_consolidatable: node.disruption_state.is_consolidatable,
        drifted_at: node.disruption_state.drifted_at,
        termination_grace_period: node.disruption_state.termination_grace_period,
    })
}

/// Returns the rejection for the first pod, by name, that blocks (rows 11 to 13).
fn pod_rejection<'a>(
    context: &PassContext<'a>,
    pods: &[PodId],
    limits: &mut PdbIndex<'a>,
) -> Option<Rejection> {
    let all = || pods.iter().map(|&pod| context.snapshot.pod(pod));
    let first = |held: &mut dyn Iterator<Item = &'a Pod>| {
        held.min_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)))
    };
    if let Some(pod) = first(&mut all().filter(|pod| pod.is_active() && pod.do_not_disrupt)) {
        return Some(Rejection::PodDoNotDisrupt { pod: pod.full_name() });
    }
    if let Some(pod) =
        first(&mut all().filter(|pod| pod.has_unparsed_constraints && is_reschedulable(pod)))
    {
        return Some(Rejection::UnparsedPodConstraints { pod: pod.full_name() });
    }
    let pod = first(&mut all().filter(|&pod| limits.eviction_blocker(pod).is_some()))?;
    let name = |budget: &crate::snapshot::PodDisruptionBudget| {
        format!("{}/{}", budget.namespace, budget.name)
    };
    Some(match limits.eviction_blocker(pod)? {
        EvictionBlocker::MultiplePdbs(budgets) => {
            let budgets = budgets.into_iter().map(name).collect();
            Rejection::MultiplePdbs { pod: pod.full_name(), budgets }
        }
        EvictionBlocker::PdbExhausted(budget) => {
            Rejection::PdbExhausted { pod: pod.full_name(), budget: name(budget) }
        }
    })
}
