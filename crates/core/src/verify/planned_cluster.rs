//! The cluster as a plan leaves it: nodes and NodeClaims with their pods.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Level;
use super::violation::{Target, Violation};
use crate::catalog::InstanceType;
use crate::id::{NodeId, PodId};
use crate::plan::{Plan, PlannedNodeClaim};
use crate::pod::{Pod, PodSpec};
use crate::requirement::{Requirement, Requirements};
use crate::scheduling::Request;
use crate::selector::Labels;
use crate::snapshot::{Pool, Snapshot, StateNode};
use crate::taint::{Taint, TaintEffect, Toleration};

pub(super) use crate::labels::HOSTNAME;

/// A node or NodeClaim with its pods as the plan leaves them.
pub(super) struct PlannedNode<'a> {
    pub target: Target,
    pub kind: PlannedNodeKind<'a>,
    /// Pods that the plan places on it.
    pub placed: Vec<&'a Pod>,
    /// Pods that are bound to it and stay.
    pub bound: Vec<&'a Pod>,
    /// The labels of a node with its hostname, as requirements; calculated on first use.
    pub node_labels: OnceCell<Requirements>,
}

pub(super) enum PlannedNodeKind<'a> {
    Node {
        node: &'a StateNode,
        /// Whether it takes part: not gone, not going.
        is_active: bool,
    },
    Claim {
        claim: &'a PlannedNodeClaim,
        pool: &'a Pool,
        position: usize,
        /// The instance types of the NodePool, to which the NodeClaim has positions.
        list: &'a [Arc<InstanceType>],
    },
}

/// The topology domains of a pod: the possible values of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TopologyDomains {
    /// The label is not there.
    None,
    /// One of these values.
    OneOf(BTreeSet<String>),
    /// Any value that the requirement allows.
    AllowedBy(Requirement),
}

impl TopologyDomains {
    fn single(value: &str) -> Self {
        Self::OneOf(BTreeSet::from([value.to_owned()]))
    }

    /// Returns the domain if there can be only one.
    pub(super) fn single_value(&self) -> Option<&str> {
        match self {
            Self::OneOf(values) if values.len() == 1 => values.first().map(String::as_str),
            _ => None,
        }
    }

    pub(super) fn may_contain(&self, value: &str) -> bool {
        match self {
            Self::None => false,
            Self::OneOf(values) => values.contains(value),
            Self::AllowedBy(requirement) => requirement.has(value),
        }
    }

    pub(super) fn may_overlap(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, _) | (_, Self::None) => false,
            (Self::OneOf(values), any) | (any, Self::OneOf(values)) => {
                values.iter().any(|value| any.may_contain(value))
            }
            (Self::AllowedBy(a), Self::AllowedBy(b)) => a.has_intersection(b),
        }
    }
}

impl<'a> PlannedNode<'a> {
    pub(super) fn taints(&self) -> &'a [Taint] {
        match &self.kind {
            PlannedNodeKind::Node { node, .. } => &node.taints,
            PlannedNodeKind::Claim { pool, .. } => &pool.taints,
        }
    }

    /// The domains in which a pod that is placed here may end up.
    pub(super) fn domains(&self, key: &str) -> TopologyDomains {
        match &self.kind {
            PlannedNodeKind::Node { node, .. } => node
                .labels
                .get(key)
                .map_or(TopologyDomains::None, |value| TopologyDomains::single(value)),
            PlannedNodeKind::Claim { position, .. } if key == HOSTNAME => {
                // No node can have this name.
                TopologyDomains::single(&format!("nodeclaim/{position}"))
            }
            PlannedNodeKind::Claim { claim, .. } => match claim.requirements.get(key) {
                Some(requirement) if requirement.is_complement() => {
                    TopologyDomains::AllowedBy(requirement.clone())
                }
                Some(requirement) if requirement.values().is_empty() => TopologyDomains::None,
                Some(requirement) => TopologyDomains::OneOf(requirement.values().clone()),
                None => TopologyDomains::AllowedBy(Requirement::exists(key)),
            },
        }
    }

    /// The domain of a pod that is bound here.
    pub(super) fn bound_domains(&self, key: &str) -> TopologyDomains {
        let PlannedNodeKind::Node { node, .. } = &self.kind else { return TopologyDomains::None };
        let label = node.object.as_ref().and_then(|object| object.labels.get(key));
        label.map_or(TopologyDomains::None, |value| TopologyDomains::single(value))
    }

    /// Returns the domains, or the node's name in place of a missing hostname.
    pub(super) fn with_node_name_fallback(
        &self,
        domains: TopologyDomains,
        key: &str,
    ) -> TopologyDomains {
        match (&self.kind, domains) {
            (PlannedNodeKind::Node { node, .. }, TopologyDomains::None) if key == HOSTNAME => {
                TopologyDomains::single(&node.name)
            }
            (_, domains) => domains,
        }
    }
}

/// The pods of a snapshot by their node.
///
/// For callers that check several plans on one snapshot.
#[derive(Clone, Debug, Default)]
pub struct PodsByNode(Vec<Vec<PodId>>);

impl PodsByNode {
    /// Collects the pods that are on nodes.
    pub fn new(snapshot: &Snapshot) -> Self {
        let mut by_node = vec![Vec::new(); snapshot.nodes.len()];
        for (position, pod) in snapshot.pods.iter().enumerate() {
            if let Some(pods) = pod.node.and_then(|node| by_node.get_mut(node.index())) {
                pods.push(PodId::new(position));
            }
        }
        Self(by_node)
    }

    /// Adds pods that have moved to a node. They stay listed for the node that they have left.
    pub fn add(&mut self, node: NodeId, moved: impl IntoIterator<Item = PodId>) {
        if node.index() >= self.0.len() {
            self.0.resize(node.index() + 1, Vec::new());
        }
        self.0[node.index()].extend(moved);
    }

    fn on(&self, node: NodeId) -> impl Iterator<Item = PodId> {
        self.0.get(node.index()).into_iter().flatten().copied()
    }
}

/// Returns the pods that stay on these nodes.
///
/// A requested pod is placed as if it were unbound.
fn bound_pods<'a>(
    request: &Request<'a>,
    nodes: &[NodeId],
    pods_by_node: Option<&PodsByNode>,
) -> BTreeMap<NodeId, Vec<&'a Pod>> {
    let snapshot = request.snapshot;
    let mut bound: BTreeMap<NodeId, Vec<&Pod>> = BTreeMap::new();
    if nodes.is_empty() {
        return bound;
    }
    let mut is_requested = vec![false; snapshot.pods.len()];
    for pod in request.pods {
        if let Some(is_requested) = is_requested.get_mut(pod.index()) {
            *is_requested = true;
        }
    }
    let mut add = |node: NodeId, id: PodId| {
        let pod = snapshot.pod(id);
        if !pod.is_terminal() && !is_requested[id.index()] {
            bound.entry(node).or_default().push(pod);
        }
    };
    if let Some(by_node) = pods_by_node {
        for &node in nodes {
            by_node.on(node).for_each(|pod| add(node, pod));
        }
        return bound;
    }
    let mut is_target = vec![false; snapshot.nodes.len()];
    for node in nodes {
        is_target[node.index()] = true;
    }
    for (position, pod) in snapshot.pods.iter().enumerate() {
        if let Some(node) = pod.node
            && is_target.get(node.index()).is_some_and(|is_target| *is_target)
        {
            add(node, PodId::new(position));
        }
    }
    bound
}

/// The request, with its nodes and NodeClaims as the plan leaves them.
pub(super) struct PlannedCluster<'a> {
    pub request: Request<'a>,
    /// Nodes in the order of the snapshot, then NodeClaims in the order of the plan.
    ///
    /// With [`Level::Essential`] only nodes that receive pods are among them.
    pub nodes: Vec<PlannedNode<'a>>,
}

impl<'a> PlannedCluster<'a> {
    /// Joins the snapshot and the plan. All ids must be known.
    ///
    /// [`Level::Essential`] needs only the nodes that receive pods.
    pub(super) fn new(
        request: &Request<'a>,
        plan: &'a Plan,
        level: Level,
        pods_by_node: Option<&PodsByNode>,
    ) -> Self {
        let snapshot = request.snapshot;
        let mut placed: BTreeMap<NodeId, Vec<&Pod>> = BTreeMap::new();
        for (node, pods) in &plan.existing_nodes {
            placed.entry(*node).or_default().extend(pods.iter().map(|&pod| snapshot.pod(pod)));
        }
        let ids: Vec<NodeId> = match level {
            Level::Essential => placed.keys().copied().collect(),
            Level::Complete => (0..snapshot.nodes.len()).map(NodeId::new).collect(),
        };
        let mut bound = bound_pods(request, &ids, pods_by_node);
        let nodes = ids.into_iter().map(|id| {
            let node = snapshot.node(id);
            let is_active = !node.is_deleting && !request.excluded_nodes.contains(&id);
            PlannedNode {
                target: Target::Node(node.name.clone()),
                kind: PlannedNodeKind::Node { node, is_active },
                placed: placed.remove(&id).unwrap_or_default(),
                bound: bound.remove(&id).unwrap_or_default(),
                node_labels: OnceCell::new(),
            }
        });
        let claims = plan.claims.iter().enumerate().map(|(position, claim)| {
            let pool = snapshot.pool(claim.pool);
            let list = request.catalog.pools.get(&pool.name).map_or(&[][..], |list| list);
            PlannedNode {
                target: Target::Claim(position),
                kind: PlannedNodeKind::Claim { claim, pool, position, list },
                placed: claim.pods.iter().map(|&pod| snapshot.pod(pod)).collect(),
                bound: Vec::new(),
                node_labels: OnceCell::new(),
            }
        });
        Self { request: *request, nodes: nodes.chain(claims).collect() }
    }

    /// The places that receive pods, and all NodeClaims.
    pub(super) fn targets(&self) -> impl Iterator<Item = &PlannedNode<'a>> {
        let is_target = |place: &&PlannedNode<'_>| {
            !place.placed.is_empty() || matches!(place.kind, PlannedNodeKind::Claim { .. })
        };
        self.nodes.iter().filter(is_target)
    }

    /// Converts labels to requirements.
    pub(super) fn label_requirements(&self, labels: &Labels) -> Requirements {
        let pairs = labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        Requirements::from_labels(pairs, &self.request.catalog.aliases)
    }

    /// Returns the active pods that stay on their node, with the node.
    pub(super) fn active_bound_pods(&self) -> impl Iterator<Item = (&PlannedNode<'a>, &'a Pod)> {
        self.nodes.iter().flat_map(|place| {
            place.bound.iter().filter(|pod| pod.is_active()).map(move |&pod| (place, pod))
        })
    }

    /// Returns the pods that the plan places, with their nodes.
    pub(super) fn placed_pods(&self) -> impl Iterator<Item = (&PlannedNode<'a>, &'a Pod)> {
        self.nodes.iter().flat_map(|place| place.placed.iter().map(move |&pod| (place, pod)))
    }
}

/// Returns the instance types of a NodeClaim.
pub(super) fn types_of<'a>(
    claim: &'a PlannedNodeClaim,
    list: &'a [Arc<InstanceType>],
) -> impl Iterator<Item = &'a Arc<InstanceType>> {
    claim.instance_types.iter().map(|&at| &list[at as usize])
}

/// Returns a violation for each unknown id in the plan.
pub(super) fn check_ids(request: &Request<'_>, plan: &Plan) -> Vec<Violation> {
    let mut found = Vec::new();
    // NodeClaims share lists of instance types: each is checked once for a NodePool.
    let mut known_lists = BTreeSet::new();
    for (node, _) in &plan.existing_nodes {
        if node.index() >= request.snapshot.nodes.len() {
            found.push(Violation::UnknownNode(*node));
        }
    }
    for (position, claim) in plan.claims.iter().enumerate() {
        let Some(pool) = request.snapshot.pools.get(claim.pool.index()) else {
            found.push(Violation::UnknownPool(claim.pool));
            continue;
        };
        if known_lists.contains(&(claim.pool, claim.instance_types.as_ptr())) {
            continue;
        }
        let known = request.catalog.pools.get(&pool.name).map_or(0, |list| list.len());
        if claim.instance_types.iter().all(|&own| (own as usize) < known) {
            known_lists.insert((claim.pool, claim.instance_types.as_ptr()));
            continue;
        }
        for &own in claim.instance_types.iter().filter(|&&own| own as usize >= known) {
            found.push(Violation::UnknownType { claim: position, position: own });
        }
    }
    found
}

/// Returns the node selector combined with each required term.
///
/// Without terms it is the node selector alone.
pub(super) fn node_affinity_alternatives(spec: &PodSpec) -> Vec<Requirements> {
    let mut all: Vec<Requirements> = Vec::new();
    for term in &spec.node_affinity {
        let both = spec.node_selector.iter().chain(term.iter());
        all.push(both.cloned().collect());
    }
    if all.is_empty() {
        all.push(spec.node_selector.clone());
    }
    all
}

/// Returns the first taint that keeps a pod with these tolerations off a node.
pub(super) fn first_untolerated_taint<'t>(
    taints: &'t [Taint],
    tolerations: &[Toleration],
) -> Option<&'t Taint> {
    taints.iter().find(|taint| {
        taint.effect != TaintEffect::PreferNoSchedule
            && !tolerations.iter().any(|toleration| toleration.tolerates(taint))
    })
}
