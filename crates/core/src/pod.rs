//! Pods, as far as decisions read them.

use std::sync::Arc;

use jiff::Timestamp;

use crate::host_port::HostPort;
use crate::id::NodeId;
use crate::requirement::Requirements;
use crate::resources::Resources;
use crate::scheduling::dra::ClaimRef;
use crate::selector::{LabelSelector, Labels, Selector};
use crate::taint::Toleration;

pub mod drain_state;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod example;
pub mod requests;
mod requirements;

/// A pod: its identity, its node and its requests.
#[expect(clippy::struct_excessive_bools, reason = "facts of the object, each on its own")]
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The uid; the last tie-break of the queue.
    pub uid: String,
    /// When it was created.
    pub created: Timestamp,
    /// Its labels. Shared: replicas mostly have the same.
    pub labels: Arc<Labels>,
    /// What it asks for. Shared by replicas.
    pub spec: Arc<PodSpec>,
    /// The names of the PersistentVolumeClaims that the pod mounts, in volume order.
    pub volume_claims: Vec<String>,
    /// The node that holds it. A pod on a node that the snapshot does not know is left out.
    pub node: Option<NodeId>,
    /// The phase.
    pub phase: Phase,
    /// Whether it has a deletion timestamp.
    pub terminating: bool,
    /// Whether the scheduler marked it Unschedulable.
    pub unschedulable: bool,
    /// Whether it waits for the preemption of others on a node (`status.nominatedNodeName`).
    pub preempting: bool,
    /// The kind of its owner.
    pub owner: OwnerKind,
    /// The controlling owner, for default spread constraints.
    pub controller: Option<ControllerRef>,
    /// Whether `karpenter.sh/do-not-disrupt` holds it where it is, at the time of the snapshot.
    pub do_not_disrupt: bool,
    /// What it costs to evict it (spec 30 §3.6), from −10 to 10.
    pub eviction_cost: f64,
    /// Whether its condition Ready is False.
    pub is_unready: bool,
    /// Whether a scheduling constraint of the pod could not be parsed.
    ///
    /// It is then unknown on which other nodes the pod may run.
    pub has_unparsed_constraints: bool,
    /// Whether it stands for spare capacity of a CapacityBuffer and does not exist.
    pub is_virtual: bool,
    /// Why it cannot be considered, found when it was read: its node selector or affinity is not
    /// allowed (spec 20 §2.3), or it could not be read whole. Several are joined with `; `.
    pub problem: Option<PodProblem>,
}

/// The reason why the provisioner ignores a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodProblem {
    /// The text, as events carry it after `ignoring pod, `.
    pub text: String,
    /// Whether the pod asked not to run on our nodes, which is not worth an event.
    pub is_opt_out: bool,
}

impl Pod {
    /// `namespace/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Failed or Succeeded.
    pub fn is_terminal(&self) -> bool {
        self.phase.is_terminal()
    }

    /// Returns whether the pod is neither terminal nor terminating.
    pub fn is_active(&self) -> bool {
        !self.is_terminal() && !self.terminating
    }
}

/// The phase of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// No phase, as in virtual pods.
    #[default]
    Unset,
    /// Accepted, not running yet.
    Pending,
    /// Running.
    Running,
    /// All containers ended well.
    Succeeded,
    /// Some container did not.
    Failed,
}

impl Phase {
    /// Returns the phase with this name; an unknown name is no phase.
    pub fn from_name(name: &str) -> Self {
        match name {
            "Pending" => Self::Pending,
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            _ => Self::Unset,
        }
    }

    /// Returns whether the pod has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// The owner kinds that change how a pod is handled.
///
/// Any owner reference counts, not only the controller's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OwnerKind {
    /// Another kind, or no owner.
    #[default]
    Other,
    /// A DaemonSet: the pod comes and goes with its node.
    DaemonSet,
    /// The Node itself: a static pod.
    Node,
    /// A StatefulSet: the pod is replaced only after it is gone.
    StatefulSet,
}

impl OwnerKind {
    /// Returns the kind of the owner that matters most, given API versions and kinds of all owners.
    pub fn from_owners<'a>(owners: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let kinds = owners.map(|owner| match owner {
            ("apps/v1", "DaemonSet") => Self::DaemonSet,
            ("v1", "Node") => Self::Node,
            ("apps/v1", "StatefulSet") => Self::StatefulSet,
            _ => Self::Other,
        });
        kinds.max_by_key(|kind| kind.precedence()).unwrap_or_default()
    }

    fn precedence(self) -> u8 {
        match self {
            Self::Other => 0,
            Self::StatefulSet => 1,
            Self::Node => 2,
            Self::DaemonSet => 3,
        }
    }

    /// Returns whether the pods run only on their own node, so that they need no other one.
    pub fn is_bound_to_node(self) -> bool {
        matches!(self, Self::DaemonSet | Self::Node)
    }
}

/// The pod's owner reference with `controller: true`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ControllerRef {
    /// Its API group, without the version.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its name, in the pod's namespace.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// What a pod asks for. Equal specs are scheduled alike, so pods with equal specs, namespaces and
/// labels form a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodSpec {
    /// Effective requests (spec 20 §1.11), `pods: 1` included.
    pub requests: Resources,
    /// The node selector, keys normalised.
    pub node_selector: Requirements,
    /// Required node affinity: one of these terms must hold, in the order written. Empty when there
    /// is none.
    pub node_affinity: Vec<Requirements>,
    /// Preferred node affinity, in the order written.
    pub preferred_node_affinity: Vec<WeightedTerm<Requirements>>,
    /// Required pod affinity.
    pub pod_affinity: Vec<AffinityTerm>,
    /// Preferred pod affinity.
    pub preferred_pod_affinity: Vec<WeightedTerm<AffinityTerm>>,
    /// Required pod anti-affinity.
    pub pod_anti_affinity: Vec<AffinityTerm>,
    /// Preferred pod anti-affinity.
    pub preferred_pod_anti_affinity: Vec<WeightedTerm<AffinityTerm>>,
    /// Topology spread constraints, in the order written.
    pub topology_spread: Vec<SpreadConstraint>,
    /// What it tolerates.
    pub tolerations: Vec<Toleration>,
    /// The host ports of its regular containers.
    pub host_ports: Vec<HostPort>,
    /// Whether the pod requests dynamic resources (spec 20 §3.19).
    ///
    /// It may do so even if no claim is listed.
    pub requests_dynamic_resources: bool,
    /// The ResourceClaims that it uses, resolved to names.
    pub resource_claims: Vec<ClaimRef>,
}

/// A preferred term with its weight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WeightedTerm<T> {
    /// 1 to 100.
    pub weight: i32,
    /// The preferred term.
    pub term: T,
}

/// A term of pod affinity or anti-affinity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AffinityTerm {
    /// The label whose values are the domains.
    pub topology_key: String,
    /// The pods that are meant.
    pub selector: Selector,
    /// Their namespaces by name.
    pub namespaces: Vec<String>,
    /// Their namespaces by label. Absent together with an empty list of names: the pod's own.
    pub namespace_selector: Option<LabelSelector>,
}

/// A topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpreadConstraint {
    /// The label whose values are the domains.
    pub topology_key: String,
    /// How far the domains may be apart.
    pub max_skew: i32,
    /// DoNotSchedule (true) or ScheduleAnyway (false).
    pub is_required: bool,
    /// The pods that are counted, in the pod's own namespace.
    pub selector: Selector,
    /// Labels of the pod whose values are added to the selector; missing ones are ignored.
    pub match_label_keys: Vec<String>,
    /// As long as there are fewer domains, the least count is taken as 0.
    pub min_domains: Option<i32>,
    /// Whether only nodes that the pod's node selector and affinity allow are counted (Honor).
    pub honors_node_affinity: bool,
    /// Whether only nodes whose taints the pod tolerates are counted (Honor).
    pub honors_node_taints: bool,
}
