//! The cluster as the plan leaves it: nodes and NodeClaims with the pods on them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::violation::{Target, Violation};
use crate::catalog::InstanceType;
use crate::id::{NodeId, PodId};
use crate::plan::{Plan, PlannedClaim};
use crate::pod::{Pod, PodSpec};
use crate::requirement::{Requirement, Requirements};
use crate::scheduling::Request;
use crate::selector::Labels;
use crate::snapshot::{Node, Pool};
use crate::taint::{Taint, TaintEffect, Toleration};

pub(super) use crate::labels::HOSTNAME;

/// A node or NodeClaim.
pub(super) struct Place<'a> {
    pub target: Target,
    pub kind: Kind<'a>,
    /// Pods that the plan puts there.
    pub placed: Vec<&'a Pod>,
    /// Pods that are there and stay.
    pub bound: Vec<&'a Pod>,
}

pub(super) enum Kind<'a> {
    Node {
        node: &'a Node,
        /// Whether it takes part: not gone, not going.
        is_active: bool,
    },
    Claim {
        claim: &'a PlannedClaim,
        pool: &'a Pool,
        position: usize,
        types: Vec<&'a Arc<InstanceType>>,
    },
}

/// Values of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Domains {
    /// The label is not there.
    None,
    /// One of these.
    Of(BTreeSet<String>),
    /// Anything that the requirement allows.
    Open(Requirement),
}

impl Domains {
    fn one(value: &str) -> Self {
        Self::Of(BTreeSet::from([value.to_owned()]))
    }

    /// The value, if there can be only one.
    pub(super) fn only(&self) -> Option<&str> {
        match self {
            Self::Of(values) if values.len() == 1 => values.first().map(String::as_str),
            _ => None,
        }
    }

    pub(super) fn may_be(&self, value: &str) -> bool {
        match self {
            Self::None => false,
            Self::Of(values) => values.contains(value),
            Self::Open(requirement) => requirement.has(value),
        }
    }

    pub(super) fn may_meet(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, _) | (_, Self::None) => false,
            (Self::Of(values), any) | (any, Self::Of(values)) => {
                values.iter().any(|value| any.may_be(value))
            }
            (Self::Open(a), Self::Open(b)) => a.has_intersection(b),
        }
    }
}

impl<'a> Place<'a> {
    pub(super) fn taints(&self) -> &'a [Taint] {
        match &self.kind {
            Kind::Node { node, .. } => &node.taints,
            Kind::Claim { pool, .. } => &pool.taints,
        }
    }

    /// The domains in which a pod that is placed here may end up.
    pub(super) fn domains(&self, key: &str) -> Domains {
        match &self.kind {
            Kind::Node { node, .. } => {
                node.labels.get(key).map_or(Domains::None, |value| Domains::one(value))
            }
            Kind::Claim { position, .. } if key == HOSTNAME => {
                // No node can have this name.
                Domains::one(&format!("nodeclaim/{position}"))
            }
            Kind::Claim { claim, .. } => match claim.requirements.get(key) {
                Some(requirement) if requirement.is_complement() => {
                    Domains::Open(requirement.clone())
                }
                Some(requirement) if requirement.values().is_empty() => Domains::None,
                Some(requirement) => Domains::Of(requirement.values().clone()),
                None => Domains::Open(Requirement::exists(key)),
            },
        }
    }

    /// The domain of a pod that is bound here.
    pub(super) fn bound_domains(&self, key: &str) -> Domains {
        let Kind::Node { node, .. } = &self.kind else { return Domains::None };
        let label = node.object.as_ref().and_then(|object| object.labels.get(key));
        label.map_or(Domains::None, |value| Domains::one(value))
    }

    /// The same, with the node's name where there is no hostname.
    pub(super) fn named(&self, domains: Domains, key: &str) -> Domains {
        match (&self.kind, domains) {
            (Kind::Node { node, .. }, Domains::None) if key == HOSTNAME => Domains::one(&node.name),
            (_, domains) => domains,
        }
    }
}

/// All places, and what they are looked at with.
pub(super) struct Places<'a> {
    pub request: Request<'a>,
    /// Nodes in the order of the snapshot, then NodeClaims in the order of the plan.
    pub all: Vec<Place<'a>>,
}

impl<'a> Places<'a> {
    /// All ids must be known.
    pub(super) fn new(request: &Request<'a>, plan: &'a Plan) -> Self {
        let snapshot = request.snapshot;
        let asked: BTreeSet<PodId> = request.pods.iter().copied().collect();
        let mut placed: BTreeMap<NodeId, Vec<&Pod>> = BTreeMap::new();
        for (node, pods) in &plan.existing {
            placed.entry(*node).or_default().extend(pods.iter().map(|&pod| snapshot.pod(pod)));
        }
        let mut bound: BTreeMap<NodeId, Vec<&Pod>> = BTreeMap::new();
        for (position, pod) in snapshot.pods.iter().enumerate() {
            let stays = !pod.is_terminal() && !asked.contains(&PodId::new(position));
            if let Some(node) = pod.node.filter(|_| stays) {
                bound.entry(node).or_default().push(pod);
            }
        }
        let nodes = snapshot.nodes.iter().enumerate().map(|(position, node)| {
            let id = NodeId::new(position);
            let is_active = !node.is_deleting && !request.without.contains(&id);
            Place {
                target: Target::Node(node.name.clone()),
                kind: Kind::Node { node, is_active },
                placed: placed.remove(&id).unwrap_or_default(),
                bound: bound.remove(&id).unwrap_or_default(),
            }
        });
        let claims = plan.claims.iter().enumerate().map(|(position, claim)| {
            let pool = snapshot.pool(claim.pool);
            let list = request.catalog.pools.get(&pool.name).map_or(&[][..], |list| list);
            let types = claim.instance_types.iter().map(|&t| &list[t as usize]).collect();
            Place {
                target: Target::Claim(position),
                kind: Kind::Claim { claim, pool, position, types },
                placed: claim.pods.iter().map(|&pod| snapshot.pod(pod)).collect(),
                bound: Vec::new(),
            }
        });
        Self { request: *request, all: nodes.chain(claims).collect() }
    }

    /// The places that receive pods, and all NodeClaims.
    pub(super) fn targets(&self) -> impl Iterator<Item = &Place<'a>> {
        let is_target = |place: &&Place<'_>| {
            !place.placed.is_empty() || matches!(place.kind, Kind::Claim { .. })
        };
        self.all.iter().filter(is_target)
    }

    /// Labels as requirements.
    pub(super) fn labels(&self, labels: &Labels) -> Requirements {
        let pairs = labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        Requirements::from_labels(pairs, &self.request.catalog.aliases)
    }

    /// Pods that stay where they are and are neither over nor on their way out, with their places.
    pub(super) fn active_bound(&self) -> impl Iterator<Item = (&Place<'a>, &'a Pod)> {
        self.all.iter().flat_map(|place| {
            place.bound.iter().filter(|pod| pod.is_active()).map(move |&pod| (place, pod))
        })
    }

    /// Pods that the plan places, with their places.
    pub(super) fn placed(&self) -> impl Iterator<Item = (&Place<'a>, &'a Pod)> {
        self.all.iter().flat_map(|place| place.placed.iter().map(move |&pod| (place, pod)))
    }
}

/// Ids of the plan that lead nowhere.
pub(super) fn unknown(request: &Request<'_>, plan: &Plan) -> Vec<Violation> {
    let mut found = Vec::new();
    for (node, _) in &plan.existing {
        if node.index() >= request.snapshot.nodes.len() {
            found.push(Violation::UnknownNode(*node));
        }
    }
    for (position, claim) in plan.claims.iter().enumerate() {
        let Some(pool) = request.snapshot.pools.get(claim.pool.index()) else {
            found.push(Violation::UnknownPool(claim.pool));
            continue;
        };
        let known = request.catalog.pools.get(&pool.name).map_or(0, |list| list.len());
        for &own in claim.instance_types.iter().filter(|&&own| own as usize >= known) {
            found.push(Violation::UnknownType { claim: position, position: own });
        }
    }
    found
}

/// Node selector and term, for each required term; the node selector alone without terms.
pub(super) fn alternatives(spec: &PodSpec) -> Vec<Requirements> {
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

/// The first taint that keeps a pod with these tolerations off a node.
pub(super) fn keeping_off<'t>(
    taints: &'t [Taint],
    tolerations: &[Toleration],
) -> Option<&'t Taint> {
    taints.iter().find(|taint| {
        taint.effect != TaintEffect::PreferNoSchedule
            && !tolerations.iter().any(|toleration| toleration.tolerates(taint))
    })
}
