//! Nodes that exist, and what they can still take (spec 20 §3.4, §3.8).

use std::collections::BTreeMap;

use super::amounts::{Amounts, Columns, add, subtract, widen, within};
use super::store::{SetId, Store, Undefined};
use super::templates::{daemon_sets, daemon_tolerates};
use super::world::World;
use crate::host_port::HostPort;
use crate::id::{NodeId, PodId};
use crate::pod::{Owner, Pod};
use crate::resources::{Quantity, Resources};
use crate::snapshot::{Node, Pool};
use crate::volume::Attachments;

/// How many neighbours share one bound of what is left.
const BLOCK: usize = 32;

/// The nodes of a solve in the order they are tried.
#[derive(Debug, Default)]
pub(super) struct Existing {
    pub(super) nodes: Vec<ExistingNode>,
    /// For each run of [`BLOCK`] nodes at least what each of them has left. Pods come largest
    /// first, so most runs are known to be too full for all pods to come.
    bounds: Vec<Amounts>,
}

#[derive(Debug)]
pub(super) struct ExistingNode {
    pub(super) id: NodeId,
    pub(super) set: SetId,
    pub(super) host: usize,
    pub(super) taints_id: u32,
    pub(super) remaining: Amounts,
    /// Whether it can take pods at all: something that no pod asks for may be overdrawn.
    is_usable: bool,
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
        columns: &Columns,
        hosts: &[usize],
        store: &mut Store<'_>,
    ) -> Self {
        let mut bound: Vec<Vec<&Pod>> = vec![Vec::new(); world.snapshot.nodes.len()];
        for (pod, is_asked) in world.snapshot.pods.iter().zip(&world.is_asked) {
            if let Some(node) = pod.node.filter(|_| !is_asked && !pod.is_terminal()) {
                bound[node.index()].push(pod);
            }
        }
        let mut nodes: Vec<ExistingNode> = Vec::with_capacity(world.candidates.len());
        for &index in &world.candidates {
            let pods = &bound[index];
            nodes.push(ExistingNode::new(index, hosts[index], pods, world, columns, store));
        }
        let mut existing = Self { nodes, bounds: Vec::new() };
        for block in 0..existing.nodes.len().div_ceil(BLOCK) {
            let bound = existing.exact_bound(block, columns.len());
            existing.bounds.push(bound);
        }
        existing
    }

    fn block(&self, block: usize) -> std::ops::Range<usize> {
        block * BLOCK..((block + 1) * BLOCK).min(self.nodes.len())
    }

    fn exact_bound(&self, block: usize, columns: usize) -> Amounts {
        let mut bound = Amounts::from_elem(i128::MIN, columns);
        for node in self.nodes[self.block(block)].iter().filter(|node| node.is_usable) {
            widen(&mut bound, &node.remaining);
        }
        bound
    }

    /// The first node that has room for `need` and passes `test`.
    pub(super) fn first(
        &mut self,
        need: &Amounts,
        mut test: impl FnMut(&ExistingNode) -> bool,
    ) -> Option<usize> {
        for block in 0..self.bounds.len() {
            if !within(need, &self.bounds[block]) {
                continue;
            }
            for index in self.block(block) {
                let node = &self.nodes[index];
                if node.fits(need) && test(node) {
                    return Some(index);
                }
            }
            self.bounds[block] = self.exact_bound(block, need.len());
        }
        None
    }
}

impl ExistingNode {
    fn new(
        index: usize,
        host: usize,
        bound: &[&Pod],
        world: &World<'_>,
        columns: &Columns,
        store: &mut Store<'_>,
    ) -> Self {
        let (node, facts) = (&world.snapshot.nodes[index], &world.nodes[index]);
        let mut available = node.allocatable.clone();
        let mut daemons_bound = Resources::default();
        let mut attached = Attachments::new();
        let mut ports = Vec::new();
        for pod in bound {
            available = available.subtract(&pod.spec.requests);
            if pod.owner == Owner::DaemonSet {
                daemons_bound.add(&pod.spec.requests);
            }
            ports.extend(pod.spec.host_ports.iter().cloned());
            for (driver, claims) in world.snapshot.volumes.attachments(pod).unwrap_or_default() {
                attached.entry(driver).or_default().extend(claims);
            }
        }
        let daemons = remaining_daemons(index, &daemons_bound, world, store);
        let available = available.subtract(&daemons);
        let remaining = columns.amounts(&available);
        let attach_limits = attach_limits(node, world);
        // Upstream checks all drivers for every pod: a node beyond a limit takes no pod at all.
        let is_full = attached.iter().any(|(driver, claims)| {
            attach_limits.get(driver).is_some_and(|&limit| claims.len() > limit as usize)
        });
        Self {
            id: NodeId::new(index),
            set: facts.set,
            host,
            taints_id: facts.taints_id,
            is_usable: !is_full
                && !columns.is_overdrawn(&available)
                && remaining.iter().all(|&amount| amount >= 0),
            remaining,
            waits: waits(node, world),
            pods: Vec::new(),
            ports,
            attached,
            attach_limits,
        }
    }

    fn fits(&self, need: &Amounts) -> bool {
        self.is_usable && within(need, &self.remaining)
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

    /// Takes a pod.
    pub(super) fn take(
        &mut self,
        pod: PodId,
        need: &Amounts,
        ports: &[HostPort],
        volumes: &Attachments,
    ) {
        self.pods.push(pod);
        subtract(&mut self.remaining, need);
        self.ports.extend_from_slice(ports);
        for (driver, claims) in volumes {
            self.attached.entry(driver.clone()).or_default().extend(claims.iter().cloned());
        }
    }
}

/// Requests of daemons that are to come, less those that are there, never below zero.
fn remaining_daemons(
    index: usize,
    bound: &Resources,
    world: &World<'_>,
    store: &mut Store<'_>,
) -> Resources {
    let facts = &world.nodes[index];
    let mut expected = Resources::default();
    for daemon in &world.snapshot.daemons {
        let spec = &daemon.spec;
        let is_ignored = spec.asks_dynamic_resources && world.options.ignore_dynamic_resources;
        if is_ignored || !daemon_tolerates(spec, facts.taints) {
            continue;
        }
        let suits = daemon_sets(spec).iter().any(|requirements| {
            let asked = store.split(requirements);
            let host_suits = asked.host.is_none_or(|host| store.get(host).has(&facts.hostname));
            host_suits && store.compatible(facts.set, asked.set, Undefined::Refused)
        });
        if suits {
            expected.add(&spec.requests);
        }
    }
    let left = expected.subtract(bound);
    left.iter().map(|(name, quantity)| (name, quantity.max(Quantity::ZERO))).collect()
}

fn waits(node: &Node, world: &World<'_>) -> bool {
    let Some(now) = world.options.enforce_consolidate_after else { return false };
    let after = node.pool.as_ref().and_then(|name| {
        world.snapshot.pools.iter().find(|pool: &&Pool| pool.name == *name)?.consolidate_after
    });
    let since = node.initialized_at.map(|at| node.last_pod_event.unwrap_or(at));
    match (after, since) {
        (Some(after), Some(since)) => after.is_positive() && now.duration_since(since) < after,
        _ => false,
    }
}

/// Published limits, and for other drivers those of the node's instance type (spec 45 §11.2).
fn attach_limits(node: &Node, world: &World<'_>) -> BTreeMap<String, u32> {
    let types = node.pool.as_ref().and_then(|pool| world.catalog.pools.get(pool));
    let name = node.labels.get("node.kubernetes.io/instance-type");
    let of_type = types.zip(name).and_then(|(types, name)| types.iter().find(|t| t.name == *name));
    let mut limits = of_type.map(|t| t.volume_limits.clone()).unwrap_or_default();
    for (driver, count) in &node.published_drivers {
        match count {
            Some(count) => limits.insert(driver.clone(), *count),
            None => limits.remove(driver),
        };
    }
    limits
}

/// Capacity that the nodes of a pool use up, for its limits.
pub(super) fn used_by_pool(world: &World<'_>, pool: &str) -> Resources {
    let mut used = Resources::default();
    for &index in &world.candidates {
        let node = &world.snapshot.nodes[index];
        if node.pool.as_deref() == Some(pool) {
            used.add(&node.capacity);
            let one: Resources =
                [(crate::resources::NODES, Quantity::from_units(1))].into_iter().collect();
            used.add(&one);
        }
    }
    used
}

/// The sum of two amounts.
pub(super) fn sum(a: &Amounts, b: &Amounts) -> Amounts {
    let mut sum = a.clone();
    add(&mut sum, b);
    sum
}
