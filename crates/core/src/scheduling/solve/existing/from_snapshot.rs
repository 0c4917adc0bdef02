//! Builds existing nodes from the snapshot: remaining resources, expected daemons, ports, volumes.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

use super::super::amounts::ResourceColumns;
use super::super::input::{NodeFacts, SolverInput};
use super::super::requirement_store::{
    RequirementStore, SetId, SplitRequirements, UndefinedLabels,
};
use super::super::templates::{daemon_sets, daemon_tolerates};
use super::ExistingNode;
use crate::id::{NodeId, PodId};
use crate::labels::{HOSTNAME, INSTANCE_TYPE};
use crate::pod::{OwnerKind, Pod, PodSpec};
use crate::resources::{Quantity, Resources};
use crate::snapshot::{Pool, StateNode};
use crate::volume::Attachments;

/// Returns the pods that stay on each node, by node of the snapshot.
pub(super) fn bound(input: &SolverInput<'_>) -> Vec<Vec<PodId>> {
    let mut bound = vec![Vec::new(); input.snapshot.nodes.len()];
    for (index, pod) in input.snapshot.pods.iter().enumerate() {
        let is_requested = input.is_requested[index];
        if let Some(node) = pod.node.filter(|_| !is_requested && !pod.is_terminal()) {
            bound[node.index()].push(PodId::new(index));
        }
    }
    bound
}

impl ExistingNode {
    pub(in super::super) fn new(
        index: usize,
        host: usize,
        bound: &[&Pod],
        input: &SolverInput<'_>,
        columns: &ResourceColumns,
        (daemons, store): (&mut ExpectedDaemons<'_>, &mut RequirementStore<'_>),
    ) -> Self {
        let (node, facts) = (&input.snapshot.nodes[index], &input.nodes[index]);
        let mut available = node.allocatable.clone();
        let mut daemons_bound = Resources::default();
        let mut attached = Attachments::new();
        let mut ports = Vec::new();
        for pod in bound {
            available = available.subtract(&pod.spec.requests);
            if pod.owner == OwnerKind::DaemonSet {
                daemons_bound.add(&pod.spec.requests);
            }
            ports.extend(pod.spec.host_ports.iter().cloned());
            for (driver, claims) in input.snapshot.volumes.attachments(pod).unwrap_or_default() {
                attached.entry(driver).or_default().extend(claims);
            }
        }
        // Expected daemons less the daemons that run already, never below zero.
        let missing = daemons.expected(facts, store).subtract(&daemons_bound);
        let missing = missing.iter().map(|(name, left)| (name, left.max(Quantity::ZERO)));
        let available = available.subtract(&missing.collect());
        let remaining = columns.amounts(&available);
        let attach_limits = attach_limits(node, input);
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
            is_removed: false,
            is_usable: !is_full
                && !columns.is_overdrawn(&available)
                && remaining.iter().all(|&amount| amount >= 0),
            remaining,
            is_under_consolidate_after: is_under_consolidate_after(node, input),
            pods: Vec::new(),
            ports,
            attached,
            attach_limits,
        }
    }
}

/// The daemons of a solve, with the requests expected on each node.
#[derive(Clone, Debug)]
pub(in super::super) struct ExpectedDaemons<'a> {
    all: Vec<(&'a PodSpec, Vec<SplitRequirements>)>,
    /// Whether some daemon requires a hostname, so that nodes alike may differ.
    names_hosts: bool,
    /// By labels and taints of nodes.
    known: FxHashMap<(SetId, u32), Resources>,
}

impl<'a> ExpectedDaemons<'a> {
    pub(in super::super) fn new(input: &SolverInput<'a>, store: &mut RequirementStore<'_>) -> Self {
        let specs = input.snapshot.daemons.iter().map(|daemon| &*daemon.spec);
        let ignores = input.options.ignore_dynamic_resources;
        let mut split = |spec: &'a PodSpec| {
            (
                spec,
                daemon_sets(spec).iter().map(|required| store.split(required)).collect::<Vec<_>>(),
            )
        };
        let specs = specs.filter(|spec| !(spec.requests_dynamic_resources && ignores));
        let all: Vec<_> = specs.map(&mut split).collect();
        let names_hosts = all.iter().flat_map(|(_, sets)| sets).any(|split| split.host.is_some());
        Self { all, names_hosts, known: FxHashMap::default() }
    }

    /// Returns the requests of all daemons of a node.
    fn expected(&mut self, facts: &NodeFacts<'_>, store: &mut RequirementStore<'_>) -> Resources {
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
    daemons: &[(&PodSpec, Vec<SplitRequirements>)],
    facts: &NodeFacts<'_>,
    store: &mut RequirementStore<'_>,
) -> Resources {
    let mut expected = Resources::default();
    for (spec, sets) in daemons.iter().filter(|(spec, _)| daemon_tolerates(spec, facts.taints)) {
        let suits = sets.iter().any(|required| {
            let host_suits = required.host.is_none_or(|host| {
                let label = facts.labels.get(HOSTNAME);
                label.map_or(store.get(host).allows_absence(), |name| store.get(host).has(name))
            });
            host_suits && store.compatible(facts.set, required.set, UndefinedLabels::Rejected)
        });
        if suits {
            expected.add(&spec.requests);
        }
    }
    expected
}

fn is_under_consolidate_after(node: &StateNode, input: &SolverInput<'_>) -> bool {
    let Some(now) = input.options.enforce_consolidate_after else { return false };
    let after = node.pool.as_ref().and_then(|name| {
        input.snapshot.pools.iter().find(|pool: &&Pool| pool.name == *name)?.consolidate_after
    });
    let initialized = node.initialized_at.filter(|_| node.is_managed);
    let since = initialized.map(|at| node.last_pod_event.unwrap_or(at));
    match (after, since) {
        (Some(after), Some(since)) => after.is_positive() && now.duration_since(since) < after,
        _ => false,
    }
}

/// Returns the volume limits of a node.
///
/// Drivers that publish none have the limits of the instance type (spec 45 §11.2).
fn attach_limits(node: &StateNode, input: &SolverInput<'_>) -> BTreeMap<String, u32> {
    let types = node.pool.as_ref().and_then(|pool| input.catalog.pools.get(pool));
    let name = node.labels.get(INSTANCE_TYPE);
    let of_type = types.zip(name).and_then(|(types, name)| types.iter().find(|t| t.name == *name));
    let mut limits = of_type.map(|t| t.volume_limits.clone()).unwrap_or_default();
    for (driver, count) in &node.published_volume_limits {
        match count {
            Some(count) => limits.insert(driver.clone(), *count),
            None => limits.remove(driver),
        };
    }
    limits
}

/// Returns the capacity that the nodes of a pool use of its limits.
pub(in super::super) fn used_by_pool(input: &SolverInput<'_>, pool: &str) -> Resources {
    let mut used = Resources::default();
    for &index in &input.candidates {
        let node = &input.snapshot.nodes[index];
        if node.pool.as_deref() == Some(pool) {
            used.add(&used_by(node));
        }
    }
    used
}

/// Returns the capacity that a node uses of its pool's limits.
pub(in super::super) fn used_by(node: &StateNode) -> Resources {
    let mut used = node.capacity.clone();
    let one = [(crate::resources::NODES, Quantity::from_units(1))];
    used.add(&one.into_iter().collect());
    used
}
