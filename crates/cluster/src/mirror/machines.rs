//! Nodes and NodeClaims, joined by the machine behind them (spec 40 §5.2, §5.4).
//!
//! A machine is known by its provider id, or by the name of its Node while nobody knows the id. Of
//! two Nodes (or NodeClaims) that name one machine, the first by name counts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node as WireNode;
use k8s_openapi::api::storage::v1::CSINode;
use karpenter_api::labels::NODEPOOL;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_core::id::NodeId;
use karpenter_core::resources::{NODES, Quantity, Resources};
use karpenter_core::snapshot::Node;

use super::State;
use super::usage::Usage;
use crate::assume::Assumed;
use crate::ingest::Reader;
use crate::ingest::node::{self as ingest, Joined};

/// All machines, and the objects that they are made of.
#[derive(Default)]
pub(super) struct Machines {
    nodes: BTreeMap<String, TrackedNode>,
    claims: BTreeMap<String, TrackedClaim>,
    drivers: HashMap<String, BTreeMap<String, Option<u32>>>,
    by_id: BTreeMap<String, Machine>,
    /// Machines with a mark, to look for those that are over.
    marked: BTreeSet<String>,
    /// What the machines of each pool have together.
    pub(super) totals: BTreeMap<String, Resources>,
}

struct TrackedNode {
    wire: Arc<WireNode>,
    /// None while the Node is waited for.
    machine: Option<String>,
}

struct TrackedClaim {
    wire: Arc<NodeClaim>,
    /// Empty until it is launched.
    machine: String,
    /// Since when it has been seen without a machine.
    unlaunched_since: Option<Timestamp>,
}

/// One machine.
#[derive(Default)]
pub(super) struct Machine {
    nodes: BTreeSet<String>,
    claims: BTreeSet<String>,
    /// The Node that counts.
    pub(super) node_name: Option<String>,
    /// The NodeClaim that counts.
    pub(super) claim_name: Option<String>,
    pub(super) slot: Option<NodeId>,
    /// Whether it is on its way out, mark or not.
    pub(super) is_deleted: bool,
    pub(super) assumed: Assumed,
    contribution: Option<(String, Resources)>,
    pub(super) usage: Option<Arc<Usage>>,
}

impl Machines {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn get(&self, id: &str) -> Option<&Machine> {
        self.by_id.get(id)
    }

    pub(super) fn get_mut(&mut self, id: &str) -> Option<&mut Machine> {
        self.by_id.get_mut(id)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.by_id.keys().map(String::as_str)
    }

    /// The machine that a Node stands for; none if it is not known, waited for, or a second one.
    pub(super) fn id_of_node(&self, name: &str) -> Option<&str> {
        let id = self.nodes.get(name)?.machine.as_deref()?;
        let machine = self.by_id.get(id)?;
        (machine.node_name.as_deref() == Some(name)).then_some(id)
    }

    pub(super) fn id_of_claim(&self, name: &str) -> Option<&str> {
        let id = self.claims.get(name)?.machine.as_str();
        let machine = self.by_id.get(id)?;
        (machine.claim_name.as_deref() == Some(name)).then_some(id)
    }

    pub(super) fn slot_of_node(&self, name: &str) -> Option<NodeId> {
        self.by_id.get(self.id_of_node(name)?)?.slot
    }

    pub(super) fn node(&self, name: &str) -> Option<&Arc<WireNode>> {
        self.nodes.get(name).map(|tracked| &tracked.wire)
    }

    pub(super) fn claim(&self, name: &str) -> Option<&Arc<NodeClaim>> {
        self.claims.get(name).map(|tracked| &tracked.wire)
    }

    /// NodeClaims that are not launched.
    pub(super) fn unlaunched(&self) -> impl Iterator<Item = &str> {
        let is_unlaunched = |claim: &TrackedClaim| claim.unlaunched_since.is_some();
        let claims = self.claims.iter().filter(move |(_, claim)| is_unlaunched(claim));
        claims.map(|(name, _)| name.as_str())
    }

    /// Those of pools among them, and since when that is known. One that somebody made by hand may
    /// never be launched, and nobody counts on it.
    pub(super) fn awaited(&self) -> impl Iterator<Item = (&str, Timestamp)> {
        let has_pool = |claim: &TrackedClaim| {
            let labels = claim.wire.metadata.labels.as_ref();
            labels.is_some_and(|labels| labels.contains_key(NODEPOOL))
        };
        let of_pools = self.claims.iter().filter(move |(_, claim)| has_pool(claim));
        of_pools.filter_map(|(name, claim)| Some((name.as_str(), claim.unlaunched_since?)))
    }

    /// Whether a Node is tracked, and why not.
    pub(super) fn untracked_node(&self, name: &str) -> Option<&'static str> {
        match self.nodes.get(name) {
            None => Some("has not been seen"),
            Some(node) if node.machine.is_none() => ingest::ignored(&node.wire),
            Some(_) => None,
        }
    }

    pub(super) fn knows_claim(&self, name: &str) -> bool {
        self.claims.contains_key(name)
    }

    fn release(&mut self, id: &str, of: fn(&mut Machine) -> &mut BTreeSet<String>, name: &str) {
        if let Some(machine) = self.by_id.get_mut(id) {
            of(machine).remove(name);
        }
    }

    fn contribute(&mut self, id: &str, new: Option<(String, Resources)>) {
        let Some(machine) = self.by_id.get_mut(id) else { return };
        if machine.contribution == new {
            return;
        }
        let old = std::mem::replace(&mut machine.contribution, new.clone());
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

impl State {
    pub(super) fn set_node(&mut self, name: &str, wire: Option<Arc<WireNode>>, r: &mut Reader<'_>) {
        let machine = wire.as_ref().and_then(|wire| {
            ingest::ignored(wire).is_none().then(|| ingest::machine(wire).to_owned())
        });
        let before = match wire {
            Some(wire) => {
                let tracked = TrackedNode { wire, machine: machine.clone() };
                self.machines.nodes.insert(name.to_owned(), tracked)
            }
            None => self.machines.nodes.remove(name),
        };
        let before = before.and_then(|tracked| tracked.machine);
        if let Some(old) = before.filter(|old| Some(old) != machine.as_ref()) {
            self.machines.release(&old, |machine| &mut machine.nodes, name);
            self.refresh(&old, r);
        }
        if let Some(id) = machine {
            let machine = self.machines.by_id.entry(id.clone()).or_default();
            machine.nodes.insert(name.to_owned());
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
        let before = self.machines.claims.remove(name);
        let mut machine = String::new();
        if let Some(wire) = wire {
            ingest::provider_id(&wire).clone_into(&mut machine);
            let since = before.as_ref().and_then(|before| before.unlaunched_since);
            let unlaunched_since = machine.is_empty().then(|| since.unwrap_or_else(|| r.now()));
            let claim = TrackedClaim { wire, machine: machine.clone(), unlaunched_since };
            self.machines.claims.insert(name.to_owned(), claim);
        }
        let before = before.map(|before| before.machine).filter(|old| !old.is_empty());
        if let Some(old) = before.filter(|old| *old != machine) {
            self.machines.release(&old, |machine| &mut machine.claims, name);
            self.refresh(&old, r);
        }
        if !machine.is_empty() {
            let tracked = self.machines.by_id.entry(machine.clone()).or_default();
            tracked.claims.insert(name.to_owned());
            self.refresh(&machine, r);
        }
        self.count_claim(name, r.now());
    }

    pub(super) fn set_csi_node(&mut self, name: &str, wire: Option<&CSINode>, r: &mut Reader<'_>) {
        match wire {
            Some(wire) => {
                let drivers = ingest::published_drivers(wire);
                self.machines.drivers.insert(name.to_owned(), drivers);
            }
            None => {
                self.machines.drivers.remove(name);
            }
        }
        if let Some(id) = self.machines.id_of_node(name).map(str::to_owned) {
            self.refresh(&id, r);
        }
    }

    /// Reads the objects of a machine again and publishes what they make.
    fn refresh(&mut self, id: &str, r: &mut Reader<'_>) {
        let Some(machine) = self.machines.by_id.get_mut(id) else { return };
        let node_name = machine.nodes.first().cloned();
        let claim_name = machine.claims.first().cloned();
        let old_node = std::mem::replace(&mut machine.node_name, node_name.clone());
        let old_claim = std::mem::replace(&mut machine.claim_name, claim_name.clone());
        let lost_part = (old_node.is_some() && node_name.is_none())
            || (old_claim.is_some() && claim_name.is_none());
        if lost_part {
            self.unconsolidated = r.now();
        }
        if node_name.is_none() && claim_name.is_none() {
            self.remove_machine(id);
        } else {
            let node = node_name.as_ref().and_then(|name| self.machines.node(name)).cloned();
            let claim = claim_name.as_ref().and_then(|name| self.machines.claim(name)).cloned();
            let drivers = node_name.as_ref().and_then(|name| self.machines.drivers.get(name));
            let drivers = drivers.cloned().unwrap_or_default();
            let joined = Joined { node: node.as_deref(), claim: claim.as_deref() };
            let value = joined.read(drivers, r);
            self.publish_machine(id, value, r.now());
        }
        for name in [old_node.clone(), node_name.clone()].into_iter().flatten() {
            if old_node != node_name {
                self.place_pods_of(&name);
            }
        }
        for name in [old_claim, claim_name].into_iter().flatten() {
            self.count_claim(&name, r.now());
        }
    }

    fn remove_machine(&mut self, id: &str) {
        self.machines.contribute(id, None);
        self.machines.marked.remove(id);
        let slot = self.machines.by_id.remove(id).and_then(|machine| machine.slot);
        let Some(slot) = slot else { return };
        if let Some(moved) = self.view.take_node(slot)
            && let Some(machine) = self.machines.by_id.get_mut(&moved)
        {
            machine.slot = Some(slot);
            machine.usage = None;
            if let Some(node) = machine.node_name.clone() {
                self.place_pods_of(&node);
            }
        }
    }

    /// Publishes a machine as its objects are, but for the mark.
    fn publish_machine(&mut self, id: &str, mut value: Node, now: Timestamp) {
        let Some(machine) = self.machines.by_id.get_mut(id) else { return };
        machine.is_deleted = value.is_deleting;
        machine.usage = None;
        value.is_deleting |= machine.assumed.is_marked(now);
        let before = machine.slot.map(|slot| self.view.node(slot));
        let has_changed = before.is_none_or(|before| {
            before.is_initialized != value.is_initialized
                || before.is_deleting != value.is_deleting
                // Upstream does not count that, and comes minutes late to who was not
                // consolidatable in its last look.
                || (!before.standing.is_consolidatable && value.standing.is_consolidatable)
        });
        let contribution = match &value.pool {
            Some(pool) if !value.is_deleting => Some((pool.clone(), with_nodes(&value.capacity))),
            _ => None,
        };
        machine.slot = Some(self.view.put_node(machine.slot, id, value));
        self.machines.contribute(id, contribution);
        if has_changed {
            self.unconsolidated = now;
        }
    }

    /// Marks a machine as going away until then, or not any more.
    pub(super) fn mark(&mut self, id: &str, until: Option<Timestamp>, now: Timestamp) {
        let Some(machine) = self.machines.by_id.get_mut(id) else { return };
        machine.assumed.mark(until);
        match until {
            Some(_) => self.machines.marked.insert(id.to_owned()),
            None => self.machines.marked.remove(id),
        };
        let (Some(slot), is_deleted) = (machine.slot, machine.is_deleted) else { return };
        let mut value = Node::clone(self.view.node(slot));
        value.is_deleting = is_deleted;
        let claim = machine.claim_name.clone();
        self.publish_machine(id, value, now);
        if let Some(claim) = claim {
            if until.is_none() {
                self.node_pools.set_pending(&claim, false);
            }
            self.count_claim(&claim, now);
        }
    }

    /// Ends what was assumed for a time that is over.
    pub(super) fn expire(&mut self, now: Timestamp) {
        self.expire_protections(now);
        let over = self.machines.marked.iter().filter(|id| {
            let machine = self.machines.by_id.get(*id);
            machine.is_none_or(|machine| machine.assumed.is_mark_over(now))
        });
        let over: Vec<_> = over.cloned().collect();
        for id in over {
            self.mark(&id, None, now);
            self.machines.marked.remove(&id);
        }
    }
}

/// Capacity with the machine itself as a resource, which limits may be about.
pub(super) fn with_nodes(capacity: &Resources) -> Resources {
    let mut capacity = capacity.clone();
    capacity.set(NODES, Quantity::from_units(1));
    capacity
}
