//! A cluster as if a command had been carried out, so that the next decision builds on it.

use std::collections::BTreeMap;

use crate::catalog::Catalog;
use crate::disruption::Command;
use crate::id::{NodeId, PodId};
use crate::plan::PlannedClaim;
use crate::resources::Resources;
use crate::selector::Labels;
use crate::snapshot::{Node, NodeObject, NodeStanding, Snapshot};

/// Marks the nodes of a command as gone and moves their pods to where the plan puts them. All ids stay
/// as they are; nodes that are to come are added at the end, without any room for other pods: nothing
/// may depend on them.
pub fn apply(snapshot: &mut Snapshot, catalog: &Catalog, command: &Command) {
    for candidate in &command.candidates {
        snapshot.nodes[candidate.node.index()].is_deleting = true;
    }
    let gone: Vec<NodeId> = command.candidates.iter().map(|candidate| candidate.node).collect();
    let moves = |snapshot: &Snapshot, pod: PodId| {
        snapshot.pod(pod).node.is_some_and(|node| gone.contains(&node))
    };
    for (node, pods) in &command.plan.existing {
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
        let first = command.candidates.first().map_or("", |candidate| candidate.name.as_str());
        let name = format!("{first}-replacement-{number}");
        let node = to_come(snapshot, catalog, claim, &pods, name);
        snapshot.nodes.push(node.into());
        let id = NodeId::new(snapshot.nodes.len() - 1);
        for pod in pods {
            snapshot.pods[pod.index()].node = Some(id);
        }
    }
}

/// The node that a NodeClaim becomes, as far as that is certain.
fn to_come(
    snapshot: &Snapshot,
    catalog: &Catalog,
    claim: &PlannedClaim,
    pods: &[PodId],
    name: String,
) -> Node {
    let pool = snapshot.pool(claim.pool);
    let certain = claim.requirements.iter().filter(|one| !one.is_complement() && one.len() == 1);
    let certain =
        certain.filter_map(|one| Some((one.key().to_owned(), one.values().first().cloned()?)));
    let mut labels: Labels = certain.collect();
    labels.extend(pool.labels.clone());
    labels.insert(crate::labels::NODE_POOL.to_owned(), pool.name.clone());
    labels.insert(crate::labels::HOSTNAME.to_owned(), name.clone());
    let types = catalog.pools.get(&pool.name);
    let first = claim.instance_types.first().zip(types);
    let capacity = first.map(|(&at, types)| types[at as usize].capacity.clone());
    let mut full = Resources::default();
    for &pod in pods {
        full.add(&snapshot.pod(pod).spec.requests);
    }
    Node {
        labels: labels.clone(),
        taints: pool.taints.clone(),
        object: Some(NodeObject { labels, taints: pool.taints.clone() }),
        pool: Some(pool.name.clone()),
        is_managed: true,
        is_initialized: false,
        is_deleting: false,
        capacity: capacity.unwrap_or_default(),
        allocatable: full,
        published_drivers: BTreeMap::new(),
        initialized_at: None,
        last_pod_event: None,
        provider_id: format!("replacement:///{name}"),
        standing: NodeStanding { node_claim: name.clone(), ..NodeStanding::default() },
        name,
    }
}
