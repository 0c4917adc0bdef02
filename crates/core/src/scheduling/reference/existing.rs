//! Nodes that exist (spec 20 §3.4, §3.8).

use std::collections::BTreeMap;

use super::ask::Ask;
use super::templates;
use super::topology::Topology;
use super::world::{Attachments, World, union};
use crate::host_port::HostPort;
use crate::id::{NodeId, PodId};
use crate::labels::HOSTNAME;
use crate::pod::{Owner, Phase};
use crate::requirement::{Requirement, Requirements};
use crate::resources::{Quantity, Resources};
use crate::snapshot::Node;
use crate::taint::untolerated;

/// A node with what is left of it.
pub(super) struct Existing<'a> {
    pub id: NodeId,
    pub node: &'a Node,
    /// The labels and the hostname: facts, whatever pods come.
    pub requirements: Requirements,
    pub hostname: String,
    pub pods: Vec<PodId>,
    remaining: Resources,
    ports: Vec<HostPort>,
    attachments: Attachments,
    volume_limits: BTreeMap<String, u32>,
    /// Whether it is left alone by pods that could stay where they are.
    is_under_consolidate_after: bool,
}

impl<'a> Existing<'a> {
    pub(super) fn new(world: &World<'a>, id: NodeId) -> Self {
        let node = world.snapshot.node(id);
        let hostname = node.labels.get(HOSTNAME).unwrap_or(&node.name).clone();
        let mut requirements = world.labels(&node.labels);
        requirements.add(Requirement::in_values(HOSTNAME, [hostname.as_str()]));
        let mut attachments = Attachments::new();
        for pod in world.pods_on(id) {
            if let Ok(own) = world.snapshot.volumes.attachments(pod) {
                attachments = union(&attachments, &own);
            }
        }
        Self {
            id,
            node,
            requirements,
            hostname,
            pods: Vec::new(),
            remaining: remaining(world, id),
            ports: world.pods_on(id).flat_map(|pod| pod.spec.host_ports.clone()).collect(),
            attachments,
            volume_limits: volume_limits(world, node),
            is_under_consolidate_after: is_under_consolidate_after(world, node),
        }
    }

    /// Whether the node takes the pod.
    pub(super) fn accepts(
        &self,
        world: &World<'_>,
        topology: &Topology<'_>,
        ask: &Ask<'_>,
    ) -> bool {
        (!self.is_under_consolidate_after || may_always_move(world, ask))
            && untolerated(&self.node.taints, &ask.spec.tolerations).is_empty()
            && self.attaches(&ask.attachments)
            && !self.ports.iter().any(|port| ask.spec.host_ports.iter().any(|p| p.collides(port)))
            && ask.spec.requests.fits_in(&self.remaining)
            && self.suits(topology, ask)
    }

    /// Distinct claims of every driver with this pod, held against the limits.
    fn attaches(&self, attachments: &Attachments) -> bool {
        union(&self.attachments, attachments).iter().all(|(driver, claims)| {
            self.volume_limits.get(driver).is_none_or(|&limit| claims.len() <= limit as usize)
        })
    }

    /// Labels, volumes and topology. Only labels that the node has can be asked for, and what a pod
    /// asks adds none: upstream takes `rack NotIn [a]` for a rack that can be picked from.
    fn suits(&self, topology: &Topology<'_>, ask: &Ask<'_>) -> bool {
        let nothing = std::collections::BTreeSet::new();
        let suits = |asked: &Requirements| self.requirements.compatible(asked, &nothing).is_ok();
        suits(&ask.all)
            && suits(&ask.strict)
            && (ask.alternatives.is_empty() || ask.alternatives.iter().any(suits))
            && topology
                .narrow(ask, &self.requirements, &|_, _| None)
                .is_ok_and(|narrowed| self.requirements.takes_domains(&narrowed, &nothing).is_ok())
    }

    /// Places the pod.
    pub(super) fn add(&mut self, ask: &Ask<'_>) {
        self.pods.push(ask.id);
        self.remaining = self.remaining.subtract(&ask.spec.requests);
        self.ports.extend(ask.spec.host_ports.iter().cloned());
        self.attachments = union(&self.attachments, &ask.attachments);
    }
}

/// Allocatable less bound pods, less daemons that have not come yet.
fn remaining(world: &World<'_>, id: NodeId) -> Resources {
    let node = world.snapshot.node(id);
    let labels = world.labels(&node.labels);
    let nothing = std::collections::BTreeSet::new();
    let daemons: Vec<_> = world
        .snapshot
        .daemons
        .iter()
        .filter(|daemon| {
            templates::runs_on(world, &daemon.spec, &node.taints, |requirements| {
                labels.compatible(requirements, &nothing).is_ok()
            })
        })
        .collect();
    let (mut used, mut used_by_daemons) = (Resources::default(), Resources::default());
    for pod in world.pods_on(id) {
        used.add(&pod.spec.requests);
        if pod.owner == Owner::DaemonSet {
            used_by_daemons.add(&pod.spec.requests);
        }
    }
    let to_come: Resources = templates::requests(&daemons)
        .subtract(&used_by_daemons)
        .iter()
        .map(|(name, quantity)| (name, quantity.max(Quantity::ZERO)))
        .collect();
    node.allocatable.subtract(&used).subtract(&to_come)
}

/// Published counts; the instance type's for drivers that are not published (spec 45 §11.2).
fn volume_limits(world: &World<'_>, node: &Node) -> BTreeMap<String, u32> {
    let mut limits: BTreeMap<_, _> =
        world.type_of(node).map_or_else(BTreeMap::new, |own| own.volume_limits.clone());
    for (driver, published) in &node.published_drivers {
        match published {
            Some(limit) => limits.insert(driver.clone(), *limit),
            None => limits.remove(driver),
        };
    }
    limits
}

fn is_under_consolidate_after(world: &World<'_>, node: &Node) -> bool {
    let pool = world.snapshot.pools.iter().find(|pool| node.pool.as_ref() == Some(&pool.name));
    let (Some(now), Some(after), Some(initialized)) = (
        world.options.enforce_consolidate_after,
        pool.and_then(|pool| pool.consolidate_after),
        node.initialized_at.filter(|_| node.is_managed),
    ) else {
        return false;
    };
    after.is_positive() && now.duration_since(node.last_pod_event.unwrap_or(initialized)) < after
}

/// Pending pods, and pods of nodes that go away anyway.
fn may_always_move(world: &World<'_>, ask: &Ask<'_>) -> bool {
    ask.pod.phase == Phase::Pending
        || ask.pod.node.is_some_and(|node| world.snapshot.node(node).is_deleting)
}
