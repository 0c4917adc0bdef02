//! Applies a command to a snapshot, so that the next decision builds on it.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalog::{Catalog, InstanceType, Offering};
use crate::disruption::{Command, Replacement};
use crate::id::{NodeId, PodId};
use crate::plan::PlannedNodeClaim;
use crate::requirement::Requirement;
use crate::resources::Resources;
use crate::selector::Labels;
use crate::snapshot::{NodeDisruptionState, NodeObject, Snapshot, StateNode};

/// Marks the nodes of a command as deleting and moves their pods.
/// The plan says where. All ids stay as they are; new nodes are added at the end, without free
/// capacity for other pods: nothing may depend on them.
pub fn apply_command(snapshot: &mut Snapshot, catalog: &Catalog, command: &Command) {
    for candidate in &command.candidates {
        snapshot.nodes[candidate.node.index()].is_deleting = true;
    }
    move_pods(snapshot, command, |snapshot, claim, pods, name| {
        planned_node(snapshot, catalog, claim, pods, name)
    });
}

/// Applies a command as if it had finished.
/// The removed nodes are unmanaged, so that they count against no budget, and the replacements are
/// nodes like others. All ids stay as they are.
pub(super) fn complete_command(snapshot: &mut Snapshot, catalog: &Catalog, command: &Command) {
    move_pods(snapshot, command, |snapshot, claim, pods, name| {
        launched_node(snapshot, catalog, claim, pods, name)
    });
    for candidate in &command.candidates {
        remove_node(snapshot, candidate.node);
    }
}

/// Marks a node as deleting and unmanaged.
pub(super) fn remove_node(snapshot: &mut Snapshot, node: NodeId) {
    let node = &mut snapshot.nodes[node.index()];
    node.is_deleting = true;
    node.is_managed = false;
    node.pool = None;
}

/// Moves the pods of a command's nodes to where its plan puts them, some to nodes that are added.
fn move_pods(
    snapshot: &mut Snapshot,
    command: &Command,
    becomes: impl Fn(&Snapshot, &PlannedNodeClaim, &[PodId], String) -> StateNode,
) {
    let gone: Vec<NodeId> = command.candidates.iter().map(|candidate| candidate.node).collect();
    let moves = |snapshot: &Snapshot, pod: PodId| {
        snapshot.pod(pod).node.is_some_and(|node| gone.contains(&node))
    };
    for (node, pods) in &command.plan.existing_nodes {
        for &pod in pods {
            if moves(snapshot, pod) {
                snapshot.pods[pod.index()].node = Some(*node);
            }
        }
    }
    for (number, claim) in command.plan.claims.iter().enumerate() {
        let pods: Vec<PodId> =
            claim.pods.iter().copied().filter(|&pod| moves(snapshot, pod)).collect();
        if pods.is_empty() {
            continue;
        }
        // The replacement may have fewer options than the plan's claim: it has to cost less.
        let launched = command.replacements.get(number).and_then(Replacement::planned);
        let claim = launched.unwrap_or(claim);
        let first = command.candidates.first().map_or("", |candidate| candidate.name.as_str());
        let name = format!("{first}-replacement-{number}");
        add_node(snapshot, becomes(snapshot, claim, &pods, name), &pods);
    }
}

/// Moves pods of deleting nodes to nodes without free capacity.
/// `pods` are `namespace/name`; those of one node stay together. For pods whose new node is about
/// to be launched, so that nothing is known of it yet: they need no other place.
pub fn move_to_placeholder_nodes(snapshot: &mut Snapshot, pods: &BTreeSet<String>) {
    let mut by_node: BTreeMap<NodeId, Vec<PodId>> = BTreeMap::new();
    for id in (0..snapshot.pods.len()).map(PodId::new) {
        let pod = snapshot.pod(id);
        if let Some(node) = pod.node
            && snapshot.node(node).is_deleting
            && pods.contains(&pod.full_name())
        {
            by_node.entry(node).or_default().push(id);
        }
    }
    for (node, pods) in by_node {
        let name = format!("{}-replacement", snapshot.node(node).name);
        let labels = [(crate::labels::HOSTNAME.to_owned(), name.clone())].into_iter().collect();
        add_node(snapshot, full_node(snapshot, &pods, name, labels), &pods);
    }
}

/// Adds a node and moves these pods to it.
fn add_node(snapshot: &mut Snapshot, node: StateNode, pods: &[PodId]) {
    snapshot.nodes.push(node.into());
    let id = NodeId::new(snapshot.nodes.len() - 1);
    for pod in pods {
        snapshot.pods[pod.index()].node = Some(id);
    }
}

/// Returns the node that a NodeClaim becomes, as far as that is certain.
fn planned_node(
    snapshot: &Snapshot,
    catalog: &Catalog,
    claim: &PlannedNodeClaim,
    pods: &[PodId],
    name: String,
) -> StateNode {
    let pool = snapshot.pool(claim.pool);
    let mut labels: Labels = single_value_labels(claim.requirements.iter()).collect();
    labels.extend(pool.labels.clone());
    labels.insert(crate::labels::NODE_POOL.to_owned(), pool.name.clone());
    labels.insert(crate::labels::HOSTNAME.to_owned(), name.clone());
    let capacity = largest_capacity(snapshot, catalog, claim);
    StateNode {
        taints: pool.taints.clone(),
        object: Some(NodeObject { labels: labels.clone(), taints: pool.taints.clone() }),
        pool: Some(pool.name.clone()),
        is_managed: true,
        is_initialized: false,
        capacity,
        disruption_state: NodeDisruptionState {
            node_claim: name.clone(),
            ..NodeDisruptionState::default()
        },
        ..full_node(snapshot, pods, name, labels)
    }
}

/// Returns the initialized node that a NodeClaim most likely becomes.
/// That is the cheapest one it allows.
fn launched_node(
    snapshot: &Snapshot,
    catalog: &Catalog,
    claim: &PlannedNodeClaim,
    pods: &[PodId],
    name: String,
) -> StateNode {
    let mut node = planned_node(snapshot, catalog, claim, pods, name);
    let offered = possible_instance_types(snapshot, catalog, claim)
        .flat_map(|one| one.offerings.iter().map(move |offer| (one, offer)));
    let suits = |offer: &Offering| {
        let (wanted, well_known) = (&claim.requirements, &catalog.well_known);
        offer.is_launchable() && wanted.compatible(&offer.requirements, well_known).is_ok()
    };
    let offered = offered.filter(|(_, offer)| suits(offer));
    let cheapest = offered.min_by(|(_, a), (_, b)| a.price.total_cmp(&b.price));
    if let Some((one, offer)) = cheapest {
        let own = one.requirements.iter().chain(offer.requirements.iter());
        node.labels.extend(single_value_labels(own));
        node.capacity = Resources::clone(&one.capacity);
        node.allocatable = one.allocatable();
    }
    if let Some(object) = &mut node.object {
        object.labels = node.labels.clone();
    }
    node.is_initialized = true;
    node.disruption_state.is_registered = true;
    node.disruption_state.is_ready = true;
    node.disruption_state.is_consolidatable = true;
    node
}

/// Returns the largest capacity that a NodeClaim may get.
/// It counts against the limits of the NodePool.
pub fn largest_capacity(
    snapshot: &Snapshot,
    catalog: &Catalog,
    claim: &PlannedNodeClaim,
) -> Resources {
    Resources::max(possible_instance_types(snapshot, catalog, claim).map(|one| &*one.capacity))
}

/// Returns the instance types that a NodeClaim may become.
fn possible_instance_types<'a>(
    snapshot: &Snapshot,
    catalog: &'a Catalog,
    claim: &'a PlannedNodeClaim,
) -> impl Iterator<Item = &'a InstanceType> {
    let types = catalog.pools.get(&snapshot.pool(claim.pool).name).map_or(&[][..], |types| types);
    claim.instance_types.iter().filter_map(|&at| types.get(at as usize)).map(|one| &**one)
}

/// Returns the labels for which requirements allow only one value.
fn single_value_labels<'a>(
    requirements: impl Iterator<Item = &'a Requirement>,
) -> impl Iterator<Item = (String, String)> {
    let certain = requirements.filter(|one| !one.is_complement() && one.len() == 1);
    certain.filter_map(|one| Some((one.key().to_owned(), one.values().first().cloned()?)))
}

/// Returns an unmanaged node with capacity for exactly these pods.
fn full_node(snapshot: &Snapshot, pods: &[PodId], name: String, labels: Labels) -> StateNode {
    let mut allocatable = Resources::default();
    for &pod in pods {
        allocatable.add(&snapshot.pod(pod).spec.requests);
    }
    StateNode {
        object: Some(NodeObject { labels: labels.clone(), taints: Vec::new() }),
        labels,
        taints: Vec::new(),
        pool: None,
        is_managed: false,
        is_initialized: true,
        is_deleting: false,
        capacity: allocatable.clone(),
        allocatable,
        published_volume_limits: BTreeMap::new(),
        initialized_at: None,
        last_pod_event: None,
        provider_id: format!("replacement:///{name}"),
        disruption_state: NodeDisruptionState::default(),
        name,
    }
}
