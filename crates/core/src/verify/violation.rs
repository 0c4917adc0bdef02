//! What can be wrong with a plan.

use std::fmt;

use crate::id::{NodeId, PodId, PoolId};
use crate::taint::Taint;

/// Where a pod is sent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A node, by name.
    Node(String),
    /// A NodeClaim, by its position in the plan.
    Claim(usize),
}

/// A rule that a plan breaks. Pods are named `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the fields are what the text says")]
pub enum Violation {
    /// A pod id that the snapshot does not have.
    UnknownPod(PodId),
    /// A node id that the snapshot does not have.
    UnknownNode(NodeId),
    /// A NodePool id that the snapshot does not have.
    UnknownPool(PoolId),
    /// A position that the pool's list of instance types does not have.
    UnknownType { claim: usize, position: u32 },
    /// A pod of the plan that the request does not have.
    NotRequested { pod: String },
    /// A pod with two places.
    PlacedTwice { pod: String },
    /// A pod that the plan both places and rejects.
    PlacedAndRefused { pod: String },
    /// A pod without an answer, although the solve was not cut short.
    Forgotten { pod: String },
    /// A pod of a node that a command removes, without another place.
    Unplaced { pod: String },
    /// A node that is gone or going.
    NodeGone { node: String },
    /// A NodeClaim without instance types or pods.
    EmptyClaim { claim: usize },
    /// A taint that the pod does not tolerate.
    Taint { pod: String, target: Target, taint: Taint },
    /// Node selector and required node affinity do not hold.
    NodeAffinity { pod: String, target: Target },
    /// The pod's volumes are elsewhere, or cannot be resolved.
    VolumeTopology { pod: String, target: Target },
    /// More volumes of a driver than can be attached.
    VolumeLimit { target: Target, driver: String },
    /// The pods of a node exceed its resources.
    NodeTooSmall { node: String, resource: String },
    /// An instance type that cannot hold the pods and its daemons in any offering that suits.
    TypeTooSmall { claim: usize, instance_type: String },
    /// An instance type that cannot be launched with the requirements.
    TypeUnsuitable { claim: usize, instance_type: String },
    /// A NodeClaim that asks for less than its pods do.
    Requests { claim: usize, resource: String },
    /// Two pods, or a pod and a daemon, that want one port.
    HostPort { pod: String, other: String, target: Target },
    /// A pod that keeps another away, and the other, may share a domain.
    AntiAffinity { pod: String, other: String, key: String },
    /// The pod's node is in no known domain of a key of its affinity or spread.
    NoDomain { pod: String, key: String },
    /// No matching pod where the pod may end up.
    Affinity { pod: String, key: String },
    /// Too many pods of one kind in a domain; `pods` are all new ones.
    Spread { pod: String, key: String, domain: String, pods: Vec<String> },
    /// The pool's limit of a resource.
    Limit { pool: String, resource: String },
    /// More NodeClaims hold a reservation than it has slots.
    Reservation { id: String },
    /// Fewer distinct values than minValues asks for.
    MinValues { claim: usize },
}

impl Violation {
    /// Returns the name of the broken rule, for metrics.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::UnknownPod(_)
            | Self::UnknownNode(_)
            | Self::UnknownPool(_)
            | Self::UnknownType { .. } => "known_ids",
            Self::NotRequested { .. }
            | Self::PlacedTwice { .. }
            | Self::PlacedAndRefused { .. }
            | Self::Forgotten { .. }
            | Self::Unplaced { .. } => "one_place_per_pod",
            Self::NodeGone { .. } => "node_stays",
            Self::EmptyClaim { .. } => "claim_not_empty",
            Self::Taint { .. } => "taints",
            Self::NodeAffinity { .. } => "node_affinity",
            Self::VolumeTopology { .. } => "volume_topology",
            Self::VolumeLimit { .. } => "volume_limits",
            Self::NodeTooSmall { .. } | Self::TypeTooSmall { .. } | Self::Requests { .. } => {
                "resources"
            }
            Self::TypeUnsuitable { .. } => "offerings",
            Self::HostPort { .. } => "host_ports",
            Self::AntiAffinity { .. } | Self::Affinity { .. } => "pod_affinity",
            Self::NoDomain { .. } => "topology_domain",
            Self::Spread { .. } => "topology_spread",
            Self::Limit { .. } => "nodepool_limits",
            Self::Reservation { .. } => "reservations",
            Self::MinValues { .. } => "min_values",
        }
    }

    /// Returns whether an id is unknown, so that no other check can run.
    pub(crate) fn is_unknown_id(&self) -> bool {
        matches!(
            self,
            Self::UnknownPod(_)
                | Self::UnknownNode(_)
                | Self::UnknownPool(_)
                | Self::UnknownType { .. }
        )
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => write!(f, "node {name}"),
            Self::Claim(position) => write!(f, "nodeclaim {position}"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPod(id) => write!(f, "there is no pod {}", id.0),
            Self::UnknownNode(id) => write!(f, "there is no node {}", id.0),
            Self::UnknownPool(id) => write!(f, "there is no nodepool {}", id.0),
            Self::UnknownType { claim, position } => {
                write!(f, "nodeclaim {claim}: there is no instance type {position}")
            }
            Self::NotRequested { pod } => write!(f, "{pod} was not to be placed"),
            Self::PlacedTwice { pod } => write!(f, "{pod} is placed twice"),
            Self::PlacedAndRefused { pod } => write!(f, "{pod} is placed and refused"),
            Self::Forgotten { pod } => write!(f, "{pod} is neither placed nor refused"),
            Self::Unplaced { pod } => write!(f, "{pod} loses its node and has no other place"),
            Self::NodeGone { node } => write!(f, "node {node} takes no pods"),
            Self::EmptyClaim { claim } => {
                write!(f, "nodeclaim {claim} has no pods or no instance types")
            }
            Self::Taint { pod, target, taint } => {
                write!(f, "{pod} does not tolerate {taint} of {target}")
            }
            Self::NodeAffinity { pod, target } => {
                write!(f, "{pod} does not allow the labels of {target}")
            }
            Self::VolumeTopology { pod, target } => {
                write!(f, "the volumes of {pod} do not allow {target}")
            }
            Self::VolumeLimit { target, driver } => {
                write!(f, "{target} cannot attach so many volumes of {driver}")
            }
            Self::NodeTooSmall { node, resource } => {
                write!(f, "node {node} has too little {resource}")
            }
            Self::TypeTooSmall { claim, instance_type } => {
                write!(f, "nodeclaim {claim}: {instance_type} is too small")
            }
            Self::TypeUnsuitable { claim, instance_type } => {
                write!(f, "nodeclaim {claim}: {instance_type} cannot be launched")
            }
            Self::Requests { claim, resource } => {
                write!(f, "nodeclaim {claim} asks for less {resource} than its pods")
            }
            Self::HostPort { pod, other, target } => {
                write!(f, "{pod} and {other} want one port of {target}")
            }
            Self::AntiAffinity { pod, other, key } => {
                write!(f, "{pod} keeps {other} away, and both may be in one {key}")
            }
            Self::NoDomain { pod, key } => write!(f, "{pod} is in no known {key}"),
            Self::Affinity { pod, key } => {
                write!(f, "{pod} may be in a {key} without the pods that it needs")
            }
            Self::Spread { pod, key, domain, .. } => {
                write!(f, "too many pods like {pod} in {key} {domain}")
            }
            Self::Limit { pool, resource } => {
                write!(f, "nodepool {pool} exceeds its limit of {resource}")
            }
            Self::Reservation { id } => write!(f, "reservation {id} is promised too often"),
            Self::MinValues { claim } => write!(f, "nodeclaim {claim} misses minValues"),
        }
    }
}
