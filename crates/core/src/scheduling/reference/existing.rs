//! Nodes that exist (spec 20 §3.4, §3.8).

use std::collections::BTreeMap;

use super::input::{Attachments, SolverInput, union};
use super::relaxable_pod::RelaxablePod;
use super::templates;
use super::topology::Topology;
use crate::host_port::HostPort;
use crate::id::{NodeId, PodId};
use crate::labels::HOSTNAME;
use crate::pod::{OwnerKind, Phase};
use crate::requirement::{Requirement, Requirements};
use crate::resources::{Quantity, Resources};
use crate::snapshot::StateNode;
use crate::taint::untolerated_taints;

/// An existing node with its remaining resources.
pub(super) struct ExistingNode<'a> {
    pub id: NodeId,
    pub node: &'a StateNode,
    /// The labels and the hostname. Pods do not change them.
    pub requirements: Requirements,
    pub hostname: String,
    pub pods: Vec<PodId>,
    remaining: Resources,
    ports: Vec<HostPort>,
    attachments: Attachments,
    volume_limits: BTreeMap<String, u32>,
    /// Whether consolidateAfter keeps pods away that could stay on their nodes.
    is_under_consolidate_after: bool,
}

impl<'a> ExistingNode<'a> {
    pub(super) fn new(input: &SolverInput<'a>, id: NodeId) -> Self {
        let node = input.snapshot.node(id);
        let hostname = node.labels.get(HOSTNAME).unwrap_or(&node.name).clone();
        let mut requirements = input.labels(&node.labels);
        requirements.add(Requirement::in_values(HOSTNAME, [hostname.as_str()]));
        let mut attachments = Attachments::new();
        for pod in input.pods_on(id) {
            if let Ok(own) = input.snapshot.volumes.attachments(pod) {
                attachments = union(&attachments, &own);
            }
        }
        Self {
            id,
            node,
            requirements,
            hostname,
            pods: Vec::new(),
            remaining: remaining(input, id),
            ports: input.pods_on(id).flat_map(|pod| pod.spec.host_ports.clone()).collect(),
            attachments,
            volume_limits: volume_limits(input, node),
            is_under_consolidate_after: is_under_consolidate_after(input, node),
        }
    }

    /// Returns whether the node takes the pod.
    pub(super) fn accepts(
        &self,
        input: &SolverInput<'_>,
        topology: &Topology<'_>,
        relaxable: &RelaxablePod<'_>,
    ) -> bool {
        (!self.is_under_consolidate_after || may_always_move(input, relaxable))
            && untolerated_taints(&self.node.taints, &relaxable.spec.tolerations).is_empty()
            && self.attaches(&relaxable.attachments)
            && !self
                .ports
                .iter()
                .any(|port| relaxable.spec.host_ports.iter().any(|p| p.conflicts_with(port)))
            && relaxable.spec.requests.fits_in(&self.remaining)
            && self.suits(topology, relaxable)
    }

    /// Returns whether the node can attach the pod's volumes within its limits.
    fn attaches(&self, attachments: &Attachments) -> bool {
        union(&self.attachments, attachments).iter().all(|(driver, claims)| {
            self.volume_limits.get(driver).is_none_or(|&limit| claims.len() <= limit as usize)
        })
    }

    /// Returns whether labels, volumes and topology allow the pod.
    ///
    /// A pod can only require labels that the node has, and its requirements add none: upstream
    /// takes `rack NotIn [a]` for a rack that can be picked from.
    fn suits(&self, topology: &Topology<'_>, relaxable: &RelaxablePod<'_>) -> bool {
        let nothing = std::collections::BTreeSet::new();
        let suits =
            |required: &Requirements| self.requirements.compatible(required, &nothing).is_ok();
        suits(&relaxable.all)
            && suits(&relaxable.strict)
            && (relaxable.volume_topologies.is_empty()
                || relaxable.volume_topologies.iter().any(suits))
            && topology.narrow(relaxable, &self.requirements, &|_, _| None).is_ok_and(|narrowed| {
                self.requirements.compatible_with_domains(&narrowed, &nothing).is_ok()
            })
    }

    /// Adds the pod.
    pub(super) fn add(&mut self, relaxable: &RelaxablePod<'_>) {
        self.pods.push(relaxable.id);
        self.remaining = self.remaining.subtract(&relaxable.spec.requests);
        self.ports.extend(relaxable.spec.host_ports.iter().cloned());
        self.attachments = union(&self.attachments, &relaxable.attachments);
    }
}

/// Returns allocatable less bound pods and less daemons that are still to come.
fn remaining(input: &SolverInput<'_>, id: NodeId) -> Resources {
    let node = input.snapshot.node(id);
    let labels = input.labels(&node.labels);
    let nothing = std::collections::BTreeSet::new();
    let daemons: Vec<_> = input
        .snapshot
        .daemons
        .iter()
        .filter(|daemon| {
            templates::runs_on(input, &daemon.spec, &node.taints, |requirements| {
                labels.compatible(requirements, &nothing).is_ok()
            })
        })
        .collect();
    let (mut used, mut used_by_daemons) = (Resources::default(), Resources::default());
    for pod in input.pods_on(id) {
        used.add(&pod.spec.requests);
        if pod.owner == OwnerKind::DaemonSet {
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

/// Returns the published volume limits of a node.
///
/// Drivers that publish none have the limits of the instance type (spec 45 §11.2).
fn volume_limits(input: &SolverInput<'_>, node: &StateNode) -> BTreeMap<String, u32> {
    let mut limits: BTreeMap<_, _> =
        input.type_of(node).map_or_else(BTreeMap::new, |own| own.volume_limits.clone());
    for (driver, published) in &node.published_volume_limits {
        match published {
            Some(limit) => limits.insert(driver.clone(), *limit),
            None => limits.remove(driver),
        };
    }
    limits
}

fn is_under_consolidate_after(input: &SolverInput<'_>, node: &StateNode) -> bool {
    let pool = input.snapshot.pools.iter().find(|pool| node.pool.as_ref() == Some(&pool.name));
    let (Some(now), Some(after), Some(initialized)) = (
        input.options.enforce_consolidate_after,
        pool.and_then(|pool| pool.consolidate_after),
        node.initialized_at.filter(|_| node.is_managed),
    ) else {
        return false;
    };
    after.is_positive() && now.duration_since(node.last_pod_event.unwrap_or(initialized)) < after
}

/// Returns whether the pod is pending or its node is being deleted.
fn may_always_move(input: &SolverInput<'_>, relaxable: &RelaxablePod<'_>) -> bool {
    relaxable.pod.phase == Phase::Pending
        || relaxable.pod.node.is_some_and(|node| input.snapshot.node(node).is_deleting)
}
