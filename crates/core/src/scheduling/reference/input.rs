//! Prepares the input of the reference solver: nodes, pools and their order (spec 20 §2.5, §3.4).

use std::collections::BTreeSet;

use crate::catalog::{Catalog, InstanceType, InstanceTypes};
use crate::id::{NodeId, PodId, PoolId};
use crate::labels::INSTANCE_TYPE;
use crate::pod::Pod;
use crate::requirement::Requirements;
use crate::scheduling::{Options, Request};
use crate::selector::Labels;
use crate::snapshot::{Pool, Snapshot, StateNode};
use crate::taint::TaintEffect;
pub(super) use crate::volume::Attachments;
use crate::weight::order_by_weight;

/// The request, with the data that all parts of the solver need.
pub(super) struct SolverInput<'a> {
    pub snapshot: &'a Snapshot,
    pub catalog: &'a Catalog,
    pub options: &'a Options,
    /// The pods to place, each once, in the order of the request.
    pub pods: Vec<PodId>,
    /// The pods to place, as a set.
    pub batch: BTreeSet<PodId>,
    /// Nodes that may take pods, in the order they are tried.
    pub nodes: Vec<NodeId>,
    /// NodePools in the order they are tried.
    pub pools: Vec<PoolId>,
    /// The most instance types that a NodeClaim lists.
    pub listed_types: usize,
}

impl<'a> SolverInput<'a> {
    pub(super) fn new(request: &Request<'a>, listed_types: usize) -> Self {
        let snapshot = request.snapshot;
        let mut batch = BTreeSet::new();
        let known = request.pods.iter().copied().filter(|pod| pod.index() < snapshot.pods.len());
        let pods = known.filter(|&pod| batch.insert(pod)).collect();
        let mut nodes: Vec<_> = (0..snapshot.nodes.len())
            .map(NodeId::new)
            .filter(|id| !snapshot.node(*id).is_deleting && !request.excluded_nodes.contains(id))
            .collect();
        nodes.sort_by(|&a, &b| {
            let (a, b) = (snapshot.node(a), snapshot.node(b));
            b.is_initialized.cmp(&a.is_initialized).then_with(|| a.name.cmp(&b.name))
        });
        let mut pools: Vec<_> = snapshot.pools.iter().enumerate().collect();
        order_by_weight(&mut pools, |(_, pool)| (pool.weight, &pool.name));
        Self {
            snapshot,
            catalog: request.catalog,
            options: request.options,
            pods,
            batch,
            nodes,
            pools: pools.into_iter().map(|(position, _)| PoolId::new(position)).collect(),
            listed_types,
        }
    }

    pub(super) fn well_known(&self) -> &'a BTreeSet<String> {
        &self.catalog.well_known
    }

    /// Labels as requirements.
    pub(super) fn labels(&self, labels: &Labels) -> Requirements {
        let pairs = labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        Requirements::from_labels(pairs, &self.catalog.aliases)
    }

    /// Returns the instance types of a pool, before its own requirements.
    pub(super) fn types(&self, pool: &Pool) -> &'a [std::sync::Arc<InstanceType>] {
        self.catalog.pools.get(&pool.name).map_or(&[], |types: &InstanceTypes| types)
    }

    /// Returns the instance type of a node, if its pool still offers it.
    pub(super) fn type_of(&self, node: &StateNode) -> Option<&'a InstanceType> {
        let types = self.catalog.pools.get(node.pool.as_ref()?)?;
        let name = node.labels.get(INSTANCE_TYPE)?;
        types.iter().find(|candidate| candidate.name == *name).map(AsRef::as_ref)
    }

    /// Returns the pods that use resources of a node: bound, not terminal, not to be placed.
    pub(super) fn pods_on(&self, node: NodeId) -> impl Iterator<Item = &'a Pod> {
        let pods = self.snapshot.pods.iter().enumerate();
        pods.filter(move |(position, pod)| {
            pod.node == Some(node)
                && !pod.is_terminal()
                && !self.batch.contains(&PodId::new(*position))
        })
        .map(|(_, pod)| &**pod)
    }

    /// Returns whether relaxation may end with tolerating PreferNoSchedule (spec 20 §3.1).
    pub(super) fn tolerates_prefer_no_schedule(&self) -> bool {
        let pools = self.snapshot.pools.iter();
        pools
            .flat_map(|pool| &pool.taints)
            .any(|taint| taint.effect == TaintEffect::PreferNoSchedule)
    }
}

/// Returns the claims of both.
pub(super) fn union(a: &Attachments, b: &Attachments) -> Attachments {
    let mut all = a.clone();
    for (driver, claims) in b {
        all.entry(driver.clone()).or_default().extend(claims.iter().cloned());
    }
    all
}
