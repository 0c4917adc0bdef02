//! Joins Nodes and NodeClaims into StateNodes by provider id (spec 40 §5.2, §5.4).
//!
//! The key is the provider id, or the name of the Node while it has none. Of two Nodes (or
//! NodeClaims) with the same provider id, the first by name counts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node as WireNode;
use k8s_openapi::api::storage::v1::CSINode;
use karpenter_api::labels::NODEPOOL;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_core::id::NodeId;
use karpenter_core::resources::{NODES, Quantity, Resources};
use karpenter_core::snapshot::StateNode;

use super::MirrorState;
use super::usage::Usage;
use crate::assumptions::Assumptions;
use crate::ingest::Reader;
use crate::ingest::node::{self as ingest, NodeAndClaim};

/// All StateNodes by provider id, with the objects that they consist of.
#[derive(Default)]
pub(super) struct StateNodes {
    nodes_by_name: BTreeMap<String, NodeEntry>,
    claims_by_name: BTreeMap<String, NodeClaimEntry>,
    csi_drivers_by_node: HashMap<String, BTreeMap<String, Option<u32>>>,
    by_provider_id: BTreeMap<String, StateNodeEntry>,
    /// Provider ids of nodes with a deletion mark; expiry checks only these.
    marked_for_deletion: BTreeSet<String>,
    /// The total capacity of each NodePool's nodes.
    pub(super) totals: BTreeMap<String, Resources>,
}

struct NodeEntry {
    wire: Arc<WireNode>,
    /// None while the Node is not tracked.
    provider_id: Option<String>,
}

struct NodeClaimEntry {
    wire: Arc<NodeClaim>,
    /// Empty until the NodeClaim is launched.
    provider_id: String,
    /// When the NodeClaim was first seen without a provider id.
    unlaunched_since: Option<Timestamp>,
}

/// The Node, the NodeClaim and the assumptions of one provider id.
#[derive(Default)]
pub(super) struct StateNodeEntry {
    node_names: BTreeSet<String>,
    claim_names: BTreeSet<String>,
    /// The Node that counts.
    pub(super) node_name: Option<String>,
    /// The NodeClaim that counts.
    pub(super) claim_name: Option<String>,
    pub(super) slot: Option<NodeId>,
    /// Whether it is on its way out, mark or not.
    pub(super) is_deleted: bool,
    pub(super) assumptions: Assumptions,
    contribution: Option<(String, Resources)>,
    pub(super) usage: Option<Arc<Usage>>,
}

impl StateNodes {
    pub(super) fn len(&self) -> usize {
        self.by_provider_id.len()
    }

    pub(super) fn get(&self, id: &str) -> Option<&StateNodeEntry> {
        self.by_provider_id.get(id)
    }

    pub(super) fn get_mut(&mut self, id: &str) -> Option<&mut StateNodeEntry> {
        self.by_provider_id.get_mut(id)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.by_provider_id.keys().map(String::as_str)
    }

    /// Returns the provider id that a Node stands for; none if the Node is unknown, untracked or a
    /// duplicate.
    pub(super) fn id_of_node(&self, name: &str) -> Option<&str> {
        let id = self.nodes_by_name.get(name)?.provider_id.as_deref()?;
        let state_node = self.by_provider_id.get(id)?;
        (state_node.node_name.as_deref() == Some(name)).then_some(id)
    }

    pub(super) fn id_of_claim(&self, name: &str) -> Option<&str> {
        let id = self.claims_by_name.get(name)?.provider_id.as_str();
        let state_node = self.by_provider_id.get(id)?;
        (state_node.claim_name.as_deref() == Some(name)).then_some(id)
    }

    pub(super) fn slot_of_node(&self, name: &str) -> Option<NodeId> {
        self.by_provider_id.get(self.id_of_node(name)?)?.slot
    }

    pub(super) fn node(&self, name: &str) -> Option<&Arc<WireNode>> {
        self.nodes_by_name.get(name).map(|tracked| &tracked.wire)
    }

    pub(super) fn claim(&self, name: &str) -> Option<&Arc<NodeClaim>> {
        self.claims_by_name.get(name).map(|tracked| &tracked.wire)
    }

    /// NodeClaims that are not launched.
    pub(super) fn unlaunched(&self) -> impl Iterator<Item = &str> {
        let is_unlaunched = |claim: &NodeClaimEntry| claim.unlaunched_since.is_some();
        let claims = self.claims_by_name.iter().filter(move |(_, claim)| is_unlaunched(claim));
        claims.map(|(name, _)| name.as_str())
    }

    /// Returns the unlaunched NodeClaims of NodePools, each with the time it was first seen. A
    /// manually created NodeClaim without NodePool may never be launched, so no decision waits for
    /// it.
    pub(super) fn unlaunched_pool_claims(&self) -> impl Iterator<Item = (&str, Timestamp)> {
        let has_pool = |claim: &NodeClaimEntry| {
            let labels = claim.wire.metadata.labels.as_ref();
            labels.is_some_and(|labels| labels.contains_key(NODEPOOL))
        };
        let of_pools = self.claims_by_name.iter().filter(move |(_, claim)| has_pool(claim));
        of_pools.filter_map(|(name, claim)| Some((name.as_str(), claim.unlaunched_since?)))
    }

    /// Returns why a Node is not tracked; none if it is.
    pub(super) fn untracked_reason(&self, name: &str) -> Option<&'static str> {
        match self.nodes_by_name.get(name) {
            None => Some("has not been seen"),
            Some(node) if node.provider_id.is_none() => ingest::untracked_reason(&node.wire),
            Some(_) => None,
        }
    }

    pub(super) fn has_claim(&self, name: &str) -> bool {
        self.claims_by_name.contains_key(name)
    }

    fn detach(
        &mut self,
        id: &str,
        of: fn(&mut StateNodeEntry) -> &mut BTreeSet<String>,
        name: &str,
    ) {
        if let Some(state_node) = self.by_provider_id.get_mut(id) {
            of(state_node).remove(name);
        }
    }

    fn set_contribution(&mut self, id: &str, new: Option<(String, Resources)>) {
        let Some(state_node) = self.by_provider_id.get_mut(id) else { return };
        if state_node.contribution == new {
            return;
        }
        let old = std::mem::replace(&mut state_node.contribution, new.clone());
        if let Some((pool, resources)) = old
            && let Some(total) = self.totals.get_mut(&pool)
        {
            let names: Vec<_> = resources.iter().map(|(name, _)| name.to_owned()).collect();
            for name in names {
                let left = total.amount(&name).saturating_sub(resources.amount(&name));
                total.set(&name, left);
            }
            if total.iter().all(|(_, amount)| amount.is_zero()) {
                self.totals.remove(&pool);
            }
        }
        if let Some((pool, resources)) = new {
            self.totals.entry(pool).or_default().add(&resources);
        }
    }
}

impl MirrorState {
    pub(super) fn set_node(&mut self, name: &str, wire: Option<Arc<WireNode>>, r: &mut Reader<'_>) {
        let state_node = wire.as_ref().and_then(|wire| {
            ingest::untracked_reason(wire)
                .is_none()
                .then(|| ingest::provider_id_or_name(wire).to_owned())
        });
        let before = match wire {
            Some(wire) => {
                let tracked = NodeEntry { wire, provider_id: state_node.clone() };
                self.state_nodes.nodes_by_name.insert(name.to_owned(), tracked)
            }
            None => self.state_nodes.nodes_by_name.remove(name),
        };
        let before = before.and_then(|tracked| tracked.provider_id);
        if let Some(old) = before.filter(|old| Some(old) != state_node.as_ref()) {
            self.state_nodes.detach(&old, |state_node| &mut state_node.node_names, name);
            self.refresh(&old, r);
        }
        if let Some(id) = state_node {
            let state_node = self.state_nodes.by_provider_id.entry(id.clone()).or_default();
            state_node.node_names.insert(name.to_owned());
            self.refresh(&id, r);
        }
    }

    pub(super) fn set_node_claim(
        &mut self,
        name: &str,
        wire: Option<Arc<NodeClaim>>,
        r: &mut Reader<'_>,
    ) {
        let wire = wire.filter(|wire| r.serves(&wire.spec.node_class_ref));
        let before = self.state_nodes.claims_by_name.remove(name);
        let mut state_node = String::new();
        if let Some(wire) = wire {
            ingest::provider_id(&wire).clone_into(&mut state_node);
            let since = before.as_ref().and_then(|before| before.unlaunched_since);
            let unlaunched_since = state_node.is_empty().then(|| since.unwrap_or_else(|| r.now()));
            let claim = NodeClaimEntry { wire, provider_id: state_node.clone(), unlaunched_since };
            self.state_nodes.claims_by_name.insert(name.to_owned(), claim);
        }
        let before = before.map(|before| before.provider_id).filter(|old| !old.is_empty());
        if let Some(old) = before.filter(|old| *old != state_node) {
            self.state_nodes.detach(&old, |state_node| &mut state_node.claim_names, name);
            self.refresh(&old, r);
        }
        if !state_node.is_empty() {
            let tracked = self.state_nodes.by_provider_id.entry(state_node.clone()).or_default();
            tracked.claim_names.insert(name.to_owned());
            self.refresh(&state_node, r);
        }
        self.count_claim(name, r.now());
    }

    pub(super) fn set_csi_node(&mut self, name: &str, wire: Option<&CSINode>, r: &mut Reader<'_>) {
        match wire {
            Some(wire) => {
                let drivers = ingest::published_drivers(wire);
                self.state_nodes.csi_drivers_by_node.insert(name.to_owned(), drivers);
            }
            None => {
                self.state_nodes.csi_drivers_by_node.remove(name);
            }
        }
        if let Some(id) = self.state_nodes.id_of_node(name).map(str::to_owned) {
            self.refresh(&id, r);
        }
    }

    /// Reads the objects of a provider id again and publishes the StateNode.
    fn refresh(&mut self, id: &str, r: &mut Reader<'_>) {
        let Some(state_node) = self.state_nodes.by_provider_id.get_mut(id) else { return };
        let node_name = state_node.node_names.first().cloned();
        let claim_name = state_node.claim_names.first().cloned();
        let old_node = std::mem::replace(&mut state_node.node_name, node_name.clone());
        let old_claim = std::mem::replace(&mut state_node.claim_name, claim_name.clone());
        let lost_part = (old_node.is_some() && node_name.is_none())
            || (old_claim.is_some() && claim_name.is_none());
        if lost_part {
            self.unconsolidated_at = r.now();
        }
        if node_name.is_none() && claim_name.is_none() {
            self.remove_state_node(id);
        } else {
            let node = node_name.as_ref().and_then(|name| self.state_nodes.node(name)).cloned();
            let claim = claim_name.as_ref().and_then(|name| self.state_nodes.claim(name)).cloned();
            let drivers =
                node_name.as_ref().and_then(|name| self.state_nodes.csi_drivers_by_node.get(name));
            let drivers = drivers.cloned().unwrap_or_default();
            let joined = NodeAndClaim { node: node.as_deref(), claim: claim.as_deref() };
            let value = joined.read(drivers, r);
            self.publish_state_node(id, value, r.now());
        }
        for name in [old_node.clone(), node_name.clone()].into_iter().flatten() {
            if old_node != node_name {
                self.republish_pods_on(&name);
            }
        }
        for name in [old_claim, claim_name].into_iter().flatten() {
            self.count_claim(&name, r.now());
        }
    }

    fn remove_state_node(&mut self, id: &str) {
        self.state_nodes.set_contribution(id, None);
        self.state_nodes.marked_for_deletion.remove(id);
        let slot =
            self.state_nodes.by_provider_id.remove(id).and_then(|state_node| state_node.slot);
        let Some(slot) = slot else { return };
        if let Some(moved) = self.view.remove_node(slot)
            && let Some(state_node) = self.state_nodes.by_provider_id.get_mut(&moved)
        {
            state_node.slot = Some(slot);
            state_node.usage = None;
            if let Some(node) = state_node.node_name.clone() {
                self.republish_pods_on(&node);
            }
        }
    }

    /// Publishes a StateNode of its current objects and adds its deletion mark.
    fn publish_state_node(&mut self, id: &str, mut value: StateNode, now: Timestamp) {
        let Some(state_node) = self.state_nodes.by_provider_id.get_mut(id) else { return };
        state_node.is_deleted = value.is_deleting;
        state_node.usage = None;
        value.is_deleting |= state_node.assumptions.is_marked_for_deletion(now);
        let before = state_node.slot.map(|slot| self.view.node(slot));
        let has_changed = before.is_none_or(|before| {
            before.is_initialized != value.is_initialized
                || before.is_deleting != value.is_deleting
                // Upstream ignores this change, and evaluates nodes minutes late that were not
                // consolidatable in its last pass.
                || (!before.disruption_state.is_consolidatable && value.disruption_state.is_consolidatable)
        });
        let contribution = match &value.pool {
            Some(pool) if !value.is_deleting => {
                Some((pool.clone(), with_node_count(&value.capacity)))
            }
            _ => None,
        };
        state_node.slot = Some(self.view.put_node(state_node.slot, id, value));
        self.state_nodes.set_contribution(id, contribution);
        if has_changed {
            self.unconsolidated_at = now;
        }
    }

    /// Marks a node for deletion until this time; none removes the mark.
    pub(super) fn mark_for_deletion(&mut self, id: &str, until: Option<Timestamp>, now: Timestamp) {
        let Some(state_node) = self.state_nodes.by_provider_id.get_mut(id) else { return };
        state_node.assumptions.mark_for_deletion(until);
        match until {
            Some(_) => self.state_nodes.marked_for_deletion.insert(id.to_owned()),
            None => self.state_nodes.marked_for_deletion.remove(id),
        };
        let (Some(slot), is_deleted) = (state_node.slot, state_node.is_deleted) else { return };
        let mut value = StateNode::clone(self.view.node(slot));
        value.is_deleting = is_deleted;
        let claim = state_node.claim_name.clone();
        self.publish_state_node(id, value, now);
        if let Some(claim) = claim {
            if until.is_none() {
                self.node_pools.set_pending_disruption(&claim, false);
            }
            self.count_claim(&claim, now);
        }
    }

    /// Ends what was assumed for a time that is over.
    pub(super) fn expire(&mut self, now: Timestamp) {
        self.expire_protections(now);
        let over = self.state_nodes.marked_for_deletion.iter().filter(|id| {
            let state_node = self.state_nodes.by_provider_id.get(*id);
            state_node.is_none_or(|state_node| state_node.assumptions.is_mark_expired(now))
        });
        let over: Vec<_> = over.cloned().collect();
        for id in over {
            self.mark_for_deletion(&id, None, now);
            self.state_nodes.marked_for_deletion.remove(&id);
        }
    }
}

/// Returns the capacity with the node itself as a resource, which limits may name.
pub(super) fn with_node_count(capacity: &Resources) -> Resources {
    let mut capacity = capacity.clone();
    capacity.set(NODES, Quantity::from_units(1));
    capacity
}
