//! Nodes that exist, and what they can still take (spec 20 §3.4, §3.8).

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::BTreeMap;

use super::amounts::{Amounts, Columns, subtract, widen, within};
use super::store::{SetId, Split, Store, Undefined, number};
use super::templates::{daemon_sets, daemon_tolerates};
use super::world::{NodeFacts, World};
use crate::host_port::HostPort;
use crate::id::{NodeId, PodId};
use crate::labels::{HOSTNAME, INSTANCE_TYPE};
use crate::pod::{Owner, Pod, PodSpec};
use crate::resources::{Quantity, Resources};
use crate::scheduling::sizes::Sizes;
use crate::snapshot::{Node, Pool};
use crate::volume::Attachments;

/// The nodes of a solve in the order they are tried.
#[derive(Debug, Default)]
pub(super) struct Existing {
    pub(super) nodes: Vec<ExistingNode>,
    /// How many neighbours share one bound of what is left.
    block: usize,
    /// For each block at least what each of its nodes has left. Pods come largest
    /// first, so most blocks are known to be too full for all pods to come.
    bounds: Vec<Amounts>,
    /// By block: a node of each kind that it has. Where none suits, no node need be looked at.
    kinds: Vec<SmallVec<[usize; 4]>>,
}

#[derive(Debug)]
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
        store: &mut Store<'_>,
    ) -> Self {
        let mut bound: Vec<Vec<&Pod>> = vec![Vec::new(); world.snapshot.nodes.len()];
        for (pod, is_asked) in world.snapshot.pods.iter().zip(&world.is_asked) {
            if let Some(node) = pod.node.filter(|_| !is_asked && !pod.is_terminal()) {
                bound[node.index()].push(pod);
            }
        }
        let mut nodes: Vec<ExistingNode> = Vec::with_capacity(world.candidates.len());
        let mut daemons = Daemons::new(world, store);
        for &index in &world.candidates {
            let (host, pods) = (hosts[index], &bound[index]);
            let making = (&mut daemons, &mut *store);
            nodes.push(ExistingNode::new(index, host, pods, world, columns, making));
        }
        let mut existing =
            Self { nodes, block: sizes.nodes_per_block, bounds: Vec::new(), kinds: Vec::new() };
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

    /// The first node that has room for `need`, is of a kind that suits, and passes `test`.
    pub(super) fn first<T>(
        &mut self,
        need: &Amounts,
        tester: &mut T,
        suits: impl Fn(&mut T, &ExistingNode) -> bool,
        test: impl Fn(&mut T, &ExistingNode) -> bool,
    ) -> Option<usize> {
        for block in 0..self.bounds.len() {
            let mut first_of_kinds = self.kinds[block].iter().map(|&node| &self.nodes[node]);
            if !within(need, &self.bounds[block]) || !first_of_kinds.any(|node| suits(tester, node))
            {
                continue;
            }
            for index in self.block(block) {
                let node = &self.nodes[index];
                if node.fits(need) && suits(tester, node) && test(tester, node) {
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
        (daemons, store): (&mut Daemons<'_>, &mut Store<'_>),
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
        // Daemons that are to come, less those that are there, never below zero.
        let missing = daemons.expected(facts, store).subtract(&daemons_bound);
        let missing = missing.iter().map(|(name, left)| (name, left.max(Quantity::ZERO)));
        let available = available.subtract(&missing.collect());
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
            kind: 0,
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

/// The daemons of a solve, and what those of a node request.
struct Daemons<'a> {
    all: Vec<(&'a PodSpec, Vec<Split>)>,
    /// Whether some daemon asks for a hostname, so that nodes alike may differ.
    names_hosts: bool,
    /// By labels and taints of nodes.
    known: FxHashMap<(SetId, u32), Resources>,
}

impl<'a> Daemons<'a> {
    fn new(world: &World<'a>, store: &mut Store<'_>) -> Self {
        let specs = world.snapshot.daemons.iter().map(|daemon| &*daemon.spec);
        let ignores = world.options.ignore_dynamic_resources;
        let mut split = |spec: &'a PodSpec| {
            (spec, daemon_sets(spec).iter().map(|asked| store.split(asked)).collect::<Vec<_>>())
        };
        let specs = specs.filter(|spec| !(spec.asks_dynamic_resources && ignores));
        let all: Vec<_> = specs.map(&mut split).collect();
        let names_hosts = all.iter().flat_map(|(_, sets)| sets).any(|split| split.host.is_some());
        Self { all, names_hosts, known: FxHashMap::default() }
    }

    /// What the daemons of a node request together.
    fn expected(&mut self, facts: &NodeFacts<'_>, store: &mut Store<'_>) -> Resources {
        let kind = (facts.set, facts.taints_id);
        if let Some(known) = self.known.get(&kind).filter(|_| !self.names_hosts) {
            return known.clone();
        }
        let expected = expected_daemons(&self.all, facts, store);
        self.known.insert(kind, expected.clone());
        expected
    }
}

fn expected_daemons(
    daemons: &[(&PodSpec, Vec<Split>)],
    facts: &NodeFacts<'_>,
    store: &mut Store<'_>,
) -> Resources {
    let mut expected = Resources::default();
    for (spec, sets) in daemons.iter().filter(|(spec, _)| daemon_tolerates(spec, facts.taints)) {
        let suits = sets.iter().any(|asked| {
            let host_suits = asked.host.is_none_or(|host| {
                let label = facts.labels.get(HOSTNAME);
                label.map_or(store.get(host).allows_absence(), |name| store.get(host).has(name))
            });
            host_suits && store.compatible(facts.set, asked.set, Undefined::Refused)
        });
        if suits {
            expected.add(&spec.requests);
        }
    }
    expected
}

fn waits(node: &Node, world: &World<'_>) -> bool {
    let Some(now) = world.options.enforce_consolidate_after else { return false };
    let after = node.pool.as_ref().and_then(|name| {
        world.snapshot.pools.iter().find(|pool: &&Pool| pool.name == *name)?.consolidate_after
    });
    let initialized = node.initialized_at.filter(|_| node.is_managed);
    let since = initialized.map(|at| node.last_pod_event.unwrap_or(at));
    match (after, since) {
        (Some(after), Some(since)) => after.is_positive() && now.duration_since(since) < after,
        _ => false,
    }
}

/// Published limits, and for other drivers those of the node's instance type (spec 45 §11.2).
fn attach_limits(node: &Node, world: &World<'_>) -> BTreeMap<String, u32> {
    let types = node.pool.as_ref().and_then(|pool| world.catalog.pools.get(pool));
    let name = node.labels.get(INSTANCE_TYPE);
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
