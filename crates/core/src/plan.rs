//! What a solve decided.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::id::{NodeId, PodId, PoolId};
use crate::rejection::{Explanation, PodRejection};
use crate::requirement::Requirements;
use crate::resources::Resources;

/// Where each pod goes, and why some go nowhere.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// NodeClaims to create, in the order they were opened.
    pub claims: Vec<PlannedNodeClaim>,
    /// Existing nodes that receive pods, in the order tried; pods in the order placed.
    pub existing_nodes: Vec<(NodeId, Vec<PodId>)>,
    /// Pods that the solve could not place, by id.
    ///
    /// Pods that were never tried, because the fuel was used up, are not here.
    pub rejected: BTreeMap<PodId, Arc<PodRejection>>,
    /// Trees of refusals for the pods that were named in the options.
    pub explanations: BTreeMap<PodId, Explanation>,
    /// NodePools whose own requirements leave no instance type, in the order of trial.
    pub unusable_pools: Vec<UnusablePool>,
    /// Pending pods by the zone that their constraints leave them (spec 20 §4.9): a zone,
    /// `flexible` or `none`.
    pub effective_zones: BTreeMap<String, usize>,
    /// Whether the solve ended early because its fuel was used up.
    pub was_cut_short: bool,
}

impl Plan {
    /// Returns the pods on existing nodes and NodeClaims.
    pub fn placed_pods(&self) -> impl Iterator<Item = PodId> {
        let on_nodes = self.existing_nodes.iter().flat_map(|(_, pods)| pods);
        let on_claims = self.claims.iter().flat_map(|claim| &claim.pods);
        on_nodes.chain(on_claims).copied()
    }
}

/// A NodeClaim that the plan creates.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedNodeClaim {
    /// Its NodePool.
    pub pool: PoolId,
    /// The pods that it is for, in the order placed.
    pub pods: Vec<PodId>,
    /// Positions in the pool's list of the catalog, cheapest first (ties by name), at most 600.
    pub instance_types: Arc<[u32]>,
    /// The final requirements (spec 20 §3.24), without the hostname. `karpenter.sh/registered` and
    /// `karpenter.sh/initialized` are among them, as in the solve; writing the NodeClaim leaves
    /// them out.
    pub requirements: Arc<Requirements>,
    /// Requests of its pods and the least daemon overhead.
    pub requests: Resources,
    /// The reservations that it holds, by id, sorted.
    pub reservations: Vec<String>,
    /// Whether minValues were lowered for it.
    pub min_values_relaxed: bool,
    /// The lowest hourly price of its compatible, available offerings, if it has any.
    pub lowest_price: Option<f64>,
    /// Drivers whose devices were allocated for it, sorted.
    pub dynamic_drivers: Vec<String>,
}

/// A NodePool that can launch nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusablePool {
    /// The pool.
    pub pool: PoolId,
    /// Whether the NodePool is unusable because of minValues.
    pub misses_min_values: bool,
}
