//! Collects what one disruption pass reads: snapshot, catalog and NodePools.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_api::labels::{INSTANCE_TYPE, NODEPOOL};
use karpenter_api::nodepool::NodePool;
use karpenter_api::requirement::Requirement;
use karpenter_cluster::mirror::SyncProblem;
use karpenter_core::catalog::{Catalog, InstanceType};
use karpenter_core::disruption::{Command, apply_command, move_to_placeholder_nodes};
use karpenter_core::id::NodeId;
use karpenter_core::resources::{NODES, Quantity, Resources};
use karpenter_core::scheduling::demand::is_reschedulable;
use karpenter_core::snapshot::Snapshot;
use karpenter_operator::cloud::CloudErrorClass;
use tracing::error;

use crate::Context;
use crate::objects::label;
use crate::provisioner::decision::empty_catalog;
use crate::state::evaluate_device_selectors;

/// The snapshot, catalog and NodePools of one disruption pass. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Observation {
    pub(crate) snapshot: Arc<Snapshot>,
    /// Pools whose instance types are not known are absent.
    pub(crate) catalog: Arc<Catalog>,
    /// The managed NodePools, by name.
    pub(crate) pools: Arc<BTreeMap<String, Arc<NodePool>>>,
    pub(crate) now: Timestamp,
}

impl Observation {
    /// Collects the snapshot, catalog and NodePools for one disruption pass.
    pub(crate) async fn collect(context: &Context) -> Self {
        let now = context.clock.now();
        let mut snapshot = context.mirror.snapshot(now);
        let named = |name: &String| {
            let pool = context.cache.node_pools.get("", name)?;
            Some((name.clone(), pool))
        };
        let pools: BTreeMap<_, _> = snapshot.managed_pools.keys().filter_map(named).collect();
        let mut catalog = empty_catalog(context);
        for (name, pool) in &pools {
            match context.cloud.instance_types(pool).await {
                Ok(types) if types.is_empty() => {}
                Ok(types) => {
                    catalog.pools.insert(name.clone(), types);
                }
                Err(error) if error.is(CloudErrorClass::UnevaluatedNodePool) => {
                    error!(NodePool = name, "skipping, node overlays are not applied");
                }
                Err(error) => {
                    error!(NodePool = name, error = %error, "failed listing instance types");
                }
            }
        }
        let launching = resources_of_launching_claims(context, &catalog, now);
        if !launching.is_empty() {
            subtract_from_limits(Arc::make_mut(&mut snapshot), &launching);
        }
        evaluate_device_selectors(context, &mut snapshot, &catalog).await;
        Self { snapshot, catalog: Arc::new(catalog), pools: Arc::new(pools), now }
    }

    /// Moves pods placed on unlaunched replacements to placeholder nodes.
    pub(crate) fn exclude_placed_pods(&mut self, pods: &BTreeSet<String>) {
        if !pods.is_empty() {
            move_to_placeholder_nodes(Arc::make_mut(&mut self.snapshot), pods);
        }
    }

    /// Marks these nodes as deleting, if they are still empty. Validation keeps a node that has
    /// received pods: its pods need no other place.
    pub(crate) fn mark_empty_nodes_deleting(&mut self, provider_ids: &BTreeSet<String>) {
        if provider_ids.is_empty() {
            return;
        }
        let pods = self.snapshot.pods.iter().filter(|pod| is_reschedulable(pod));
        let used: BTreeSet<usize> = pods.filter_map(|pod| pod.node).map(NodeId::index).collect();
        let nodes = &mut Arc::make_mut(&mut self.snapshot).nodes;
        let empty = nodes.iter_mut().enumerate().filter(|(at, _)| !used.contains(at));
        for (_, node) in empty.filter(|(_, node)| provider_ids.contains(&node.provider_id)) {
            node.is_deleting = true;
        }
    }

    /// Applies a command to the snapshot, as if it had been carried out.
    pub(crate) fn apply(&mut self, command: &Command) {
        apply_command(Arc::make_mut(&mut self.snapshot), &self.catalog, command);
    }
}

/// Returns the most that unlaunched NodeClaims may use, by pool: their largest instance types. They
/// are not nodes yet, so nothing else counts them.
fn resources_of_launching_claims(
    context: &Context,
    catalog: &Catalog,
    now: Timestamp,
) -> BTreeMap<String, Resources> {
    let mut launching: BTreeMap<String, Resources> = BTreeMap::new();
    let state = context.mirror.sync(now);
    for problem in state.problems.iter().chain(&state.timed_out) {
        let SyncProblem::NotLaunched { name } = problem else { continue };
        let Some(claim) = context.cache.node_claims.get("", name) else { continue };
        let pool = label(&*claim, NODEPOOL);
        let types = catalog.pools.get(pool).map_or(&[][..], |types| types);
        let is_of_types = |one: &&Requirement| one.key == INSTANCE_TYPE && one.operator == "In";
        let of_types = claim.spec.requirements.iter().find(is_of_types);
        let named = of_types.and_then(|one| one.values.as_ref());
        let is_possible = |one: &&InstanceType| named.is_none_or(|names| names.contains(&one.name));
        let possible = types.iter().map(|one| &**one).filter(is_possible);
        let mut largest = Resources::max(possible.map(|one| &*one.capacity));
        largest.set(NODES, Quantity::from_units(1));
        launching.entry(pool.to_owned()).or_default().add(&largest);
    }
    launching
}

/// Subtracts the resources of unlaunched NodeClaims from the NodePools' limits.
fn subtract_from_limits(snapshot: &mut Snapshot, launching: &BTreeMap<String, Resources>) {
    for pool in &mut snapshot.pools {
        if let Some(taken) = launching.get(&pool.name) {
            pool.limits = pool.limits.subtract(taken);
        }
    }
}
