//! Allocates devices for the claims of a pod on a candidate, and holds them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::claim_plan::ClaimPlan;
use super::counters::{Amounts, CapacityKey, CounterKey};
use super::devices::CandidateDevices;
use super::matches::SelectorMatches;
use super::pools::Pools;
use super::search::{DeviceSearch, FoundAllocation};
use super::tracker::{CandidateId, ClaimDevices, ClaimHold, Tracker, TypeHold};
use super::types::{
    AttributeBinding, Claim, ClaimAllocation, ClaimKey, ClaimRef, DeviceId, DynamicResourceState,
    DynamicResources, SliceTemplate,
};
use crate::id::NodeId;
use crate::requirement::Requirements;
use crate::resources::Quantity;
use crate::scheduling::Request;

/// The most alternatives and devices that one call of [`Allocator::allocate`] tries.
///
/// Constraints between devices make the search exponential, so it needs an end. Upstream stops
/// after 5 s, which gives other results on other hosts. A step takes a microsecond or less, and
/// claims of the size that the API allows need some hundreds of them for each instance type.
const MAX_STEPS: u64 = 1_000_000;

/// Allocates devices in the course of one solve.
///
/// [`Self::allocate`] changes nothing; [`Self::commit`] holds the devices for the pod.
#[derive(Clone, Debug)]
pub struct Allocator<'a> {
    state: &'a DynamicResourceState,
    well_known: &'a BTreeSet<String>,
    pools: Arc<Pools<'a>>,
    /// Uids of pods that leave their nodes.
    moving_pods: BTreeSet<&'a str>,
    /// Devices that are allocated to claims of the cluster.
    taken: BTreeSet<DeviceId>,
    /// Shares of devices that are allocated to claims of the cluster.
    consumed: Amounts<CapacityKey>,
    tracker: Tracker,
    max_steps: u64,
}

/// A node, or an in-flight NodeClaim, that a pod may go to.
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    /// Its identity. Allocations of the same candidate add up.
    pub id: CandidateId,
    /// The name of the Node object, if there is one.
    pub node_name: Option<&'a str>,
    /// The labels that it has or may have, before the pod's own requirements.
    pub requirements: &'a Requirements,
    /// The instance types that it has or may become, in the order of the solver.
    pub types: Vec<CandidateType<'a>>,
}

/// An instance type that a candidate is or may become.
#[derive(Clone, Copy, Debug)]
pub struct CandidateType<'a> {
    /// The name, unique in the candidate.
    pub name: &'a str,
    /// The slices that it will publish.
    pub templates: &'a [SliceTemplate],
    /// Attributes that are known to be the same.
    pub bindings: &'a [AttributeBinding],
}

impl<'a> CandidateType<'a> {
    /// A type of a NodeClaim that is not launched.
    pub fn in_flight(name: &'a str, resources: &'a DynamicResources) -> Self {
        Self { name, templates: &resources.templates, bindings: &resources.bindings }
    }

    /// The type of a node. An initialised one has published its devices, so templates do not count;
    /// the type may be unknown to the catalog.
    pub fn of_node(
        name: &'a str,
        resources: Option<&'a DynamicResources>,
        is_initialized: bool,
    ) -> Self {
        let bindings = resources.map_or(&[][..], |resources| &resources.bindings);
        let templates = resources.filter(|_| !is_initialized);
        Self { name, templates: templates.map_or(&[][..], |own| &own.templates), bindings }
    }
}

/// Devices for a pod's claims on a candidate, not held yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    /// The labels that the devices require, compatible with the candidate's.
    pub requirements: Requirements,
    /// Positions of the candidate's types that have the devices, ascending.
    pub types: Vec<usize>,
    holds: BTreeMap<String, TypeHold>,
    claims: BTreeMap<ClaimKey, ClaimHold>,
}

impl<'a> Allocator<'a> {
    /// The allocator of a solve, or none if dynamic resources are ignored.
    pub fn for_request(request: &Request<'a>) -> Option<Self> {
        if request.options.ignore_dynamic_resources {
            return None;
        }
        let snapshot = request.snapshot;
        let nodes = snapshot.nodes.iter().enumerate().filter(|(at, node)| {
            let is_gone = node.is_deleting || request.excluded_nodes.contains(&NodeId::new(*at));
            node.object.is_some() && node.is_initialized && !is_gone
        });
        let nodes = nodes.map(|(_, node)| node.name.as_str()).collect();
        let pods = request.pods.iter().filter_map(|id| snapshot.pods.get(id.index()));
        let moving = pods.filter(|pod| pod.node.is_some()).map(|pod| pod.uid.as_str()).collect();
        Some(Self::new(&snapshot.dynamic_resources, &nodes, moving, &request.catalog.well_known))
    }

    /// An allocator for a cluster.
    ///
    /// - `nodes`: names of nodes that stay and are initialised. Slices of other nodes do not count
    ///   (rule 2).
    /// - `moving_pods`: uids of pods that leave their nodes. Devices of claims that only they use
    ///   can be allocated again (rules 3 and 7).
    /// - `well_known`: labels that may be required although no node or NodePool defines them.
    pub fn new(
        state: &'a DynamicResourceState,
        nodes: &BTreeSet<&str>,
        moving_pods: BTreeSet<&'a str>,
        well_known: &'a BTreeSet<String>,
    ) -> Self {
        let counted = state
            .slices
            .iter()
            .filter(|slice| slice.owner_node.as_deref().is_none_or(|owner| nodes.contains(owner)));
        let mut pools = Pools::new(counted.map(|slice| &**slice));
        let (mut taken, mut consumed) = (BTreeSet::new(), Amounts::default());
        let staying = state.claims.values().filter(|claim| !claim.is_moving(&moving_pods));
        for device in staying.filter_map(|claim| claim.allocation.as_ref()).flat_map(|a| &a.devices)
        {
            if device.consumed.is_empty() {
                taken.insert(device.id.clone());
            }
            for (dimension, amount) in &device.consumed {
                let key = CapacityKey { device: device.id.clone(), dimension: dimension.clone() };
                consumed.add(key, *amount);
            }
        }
        let shared: BTreeSet<_> = consumed.iter().map(|(key, _)| &key.device).collect();
        pools.consume_counters(|id| taken.contains(id) || shared.contains(id));
        Self {
            state,
            well_known,
            pools: Arc::new(pools),
            moving_pods,
            taken,
            consumed,
            tracker: Tracker::default(),
            max_steps: MAX_STEPS,
        }
    }

    /// Returns the claims of a pod, each once (rule 1).
    ///
    /// An error rejects the pod for every candidate.
    pub fn resolve(
        &self,
        namespace: &str,
        claims: &[ClaimRef],
    ) -> Result<Vec<&'a ClaimKey>, String> {
        let mut resolved: Vec<&ClaimKey> = Vec::new();
        for claim in claims {
            let key = ClaimKey { namespace: namespace.to_owned(), name: claim.name.clone() };
            let Some((key, _)) = self.state.claims.get_key_value(&key) else {
                return Err(format!("resourceclaim \"{key}\" not found"));
            };
            if !resolved.contains(&key) {
                resolved.push(key);
            }
        }
        Ok(resolved)
    }

    /// Finds devices for all claims on a candidate. The error has no upstream prefix.
    pub fn allocate(
        &self,
        candidate: &Candidate<'_>,
        claims: &[&ClaimKey],
    ) -> Result<Allocation, String> {
        let mut allocation = Allocation {
            requirements: Requirements::default(),
            types: (0..candidate.types.len()).collect(),
            holds: BTreeMap::new(),
            claims: BTreeMap::new(),
        };
        let open = self.claims_to_allocate(candidate, claims, &mut allocation.requirements)?;
        if open.is_empty() {
            return Ok(allocation);
        }
        let mut requirements = candidate.requirements.clone();
        requirements.extend(allocation.requirements.iter().cloned());

        let views = self.pools.seen_by(&requirements, candidate.node_name, self.well_known);
        let devices = CandidateDevices::new(&self.pools, views, candidate);
        let type_count = candidate.types.len();
        let plans = open
            .into_iter()
            .map(|(key, claim)| ClaimPlan::new(self.state, key, claim, &devices, type_count))
            .collect::<Result<Vec<_>, _>>()?;

        let search = DeviceSearch { allocator: self, candidate, devices: &devices, claims: &plans };
        let mut steps = self.max_steps;
        allocation.types.clear();
        for (type_at, candidate_type) in candidate.types.iter().enumerate() {
            if steps == 0 {
                return Err("context deadline exceeded".to_owned());
            }
            if plans.iter().any(|plan| plan.pruned.contains(&type_at)) {
                continue;
            }
            // The requirements of one type bind the next ones too: a NodeClaim cannot require "this
            // type in one zone or that type in another" (rule 11).
            if let Some(found) = search.run(type_at, &requirements, &mut steps) {
                requirements.clone_from(&found.requirements);
                allocation.types.push(type_at);
                allocation.add(candidate.id, candidate_type.name, &plans, found);
            }
        }
        if allocation.types.is_empty() {
            let too_many = plans.iter().find_map(ClaimPlan::too_many_devices);
            let none = || "no instance type can satisfy the allocation".to_owned();
            return Err(too_many.unwrap_or_else(none));
        }
        Ok(allocation)
    }

    /// Returns the claims that need devices.
    ///
    /// Claims that have devices already narrow where the pod can go (rule 7).
    fn claims_to_allocate<'c>(
        &self,
        candidate: &Candidate<'_>,
        claims: &[&'c ClaimKey],
        narrowing: &mut Requirements,
    ) -> Result<Vec<(&'c ClaimKey, &'a Claim)>, String> {
        let mut requirements = candidate.requirements.clone();
        let mut narrow = |by: &Requirements| {
            let fits = requirements.compatible(by, self.well_known).is_ok();
            requirements.extend(by.iter().cloned());
            narrowing.extend(by.iter().cloned());
            fits
        };
        let mut open = Vec::new();
        for key in claims {
            let claim_error = |why: &str| Err(format!("{why} (ResourceClaim={key})"));
            let Some(claim) = self.state.claims.get(*key) else {
                return Err(format!("resourceclaim \"{key}\" not found"));
            };
            let held = self.tracker.claims.get(*key);
            match (&claim.allocation, held) {
                (Some(allocated), _) if !claim.is_moving(&self.moving_pods) => {
                    if !reaches(allocated, candidate) || !narrow(&allocated.requirements) {
                        return claim_error(
                            "in-cluster allocation topology is incompatible with NodeClaim requirements",
                        );
                    }
                }
                (_, Some(held)) if held.is_local => {
                    if held.candidate != candidate.id {
                        return claim_error("claim is bound to a different in-flight NodeClaim");
                    }
                }
                (_, Some(held)) => {
                    if !narrow(&held.requirements()) {
                        return claim_error(
                            "in-memory allocation topology is incompatible with NodeClaim requirements",
                        );
                    }
                }
                (_, None) => open.push((*key, &**claim)),
            }
        }
        Ok(open)
    }

    /// Holds the devices of an allocation.
    ///
    /// Call it for the same candidate, before anything else is committed.
    pub fn commit(&mut self, candidate: CandidateId, allocation: Allocation) {
        if !allocation.claims.is_empty() {
            self.tracker.commit(candidate, allocation.holds, allocation.claims);
        }
    }

    /// Releases the devices of instance types that a candidate will not become.
    pub fn release<'t>(
        &mut self,
        candidate: CandidateId,
        types: impl IntoIterator<Item = &'t str>,
    ) {
        self.tracker.release(candidate, &types.into_iter().collect());
    }

    /// Returns the drivers of the devices that a candidate holds, sorted (rule 14).
    pub fn drivers(&self, candidate: CandidateId) -> Vec<String> {
        let claims = self.tracker.claims.values().filter(|claim| claim.candidate == candidate);
        let devices = claims.flat_map(|claim| claim.by_type.values()).flat_map(|own| &own.devices);
        let drivers: BTreeSet<_> = devices.map(|device| &*device.id.driver).collect();
        drivers.into_iter().map(str::to_owned).collect()
    }

    /// Returns the devices that claims hold in this solve.
    pub fn claims(&self) -> &BTreeMap<ClaimKey, ClaimHold> {
        &self.tracker.claims
    }

    pub(super) fn well_known(&self) -> &BTreeSet<String> {
        self.well_known
    }

    pub(super) fn matches(&self) -> &SelectorMatches {
        &self.state.matches
    }

    pub(super) fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    /// Returns whether a claim of the cluster has the device.
    pub(super) fn is_taken(&self, device: &DeviceId) -> bool {
        self.taken.contains(device)
    }

    /// Returns how much of a capacity claims of the cluster consume.
    pub(super) fn consumed(&self, key: &CapacityKey) -> Quantity {
        self.consumed.get(key)
    }

    /// Returns how much of a counter claims of the cluster leave.
    pub(super) fn available_counter(&self, key: &CounterKey) -> Option<Quantity> {
        self.pools.counters.get(key).copied()
    }

    #[cfg(test)]
    pub(super) fn with_max_steps(self, max_steps: u64) -> Self {
        Self { max_steps, ..self }
    }
}

impl Allocation {
    /// Returns whether there is nothing to hold: the pod's claims have their devices already.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    fn add(
        &mut self,
        id: CandidateId,
        type_name: &str,
        plans: &[ClaimPlan<'_>],
        found: FoundAllocation,
    ) {
        for (plan, devices) in plans.iter().zip(found.chosen) {
            self.requirements.extend(devices.requirements.iter().cloned());
            let claim = self.claims.entry(plan.key.clone()).or_insert_with(|| ClaimHold {
                candidate: id,
                is_local: false,
                by_type: BTreeMap::new(),
            });
            claim.is_local |= devices.is_local;
            let own = ClaimDevices { requirements: devices.requirements, devices: devices.devices };
            claim.by_type.insert(type_name.to_owned(), own);
        }
        self.holds.insert(type_name.to_owned(), found.hold);
    }
}

/// Whether the candidate can be the node that the devices of a claim belong to.
fn reaches(allocated: &ClaimAllocation, candidate: &Candidate<'_>) -> bool {
    allocated.node.as_deref().is_none_or(|node| candidate.node_name == Some(node))
}
