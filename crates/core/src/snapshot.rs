//! The cluster at one moment, as decisions see it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::copy_on_write::CopyOnWrite;
use crate::disruption::ConsolidationPolicy;
use crate::disruption::budget::Budget;
use crate::id::{NodeId, PodId, PoolId};
use crate::pod::{Pod, PodSpec};
use crate::requirement::Requirements;
use crate::resources::Resources;
use crate::scheduling::dra::DynamicResourceState;
use crate::selector::{LabelSelector, Labels, Selector};
use crate::taint::Taint;
use crate::volume::Volumes;
use std::sync::Arc;

/// Everything of a cluster that a decision may read.
///
/// Large parts are shared, so a copy with a few changes costs little.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The NodePools that can launch nodes for pods: managed, ready, not static, not deleting. In
    /// any order.
    pub pools: Vec<Pool>,
    /// Every NodePool of ours by name, also those that can launch nothing for pods now: disruption
    /// has to know them all.
    pub managed_pools: CopyOnWrite<BTreeMap<String, ManagedPool>>,
    /// Nodes and launched NodeClaims, also those that are not ours. In any order.
    pub nodes: Vec<CopyOnWrite<StateNode>>,
    /// All pods, bound and unbound.
    pub pods: Vec<CopyOnWrite<Pod>>,
    /// One pod for each DaemonSet, as a new node would get it.
    pub daemons: Vec<Daemon>,
    /// Labels of namespaces by name.
    pub namespaces: CopyOnWrite<BTreeMap<String, Labels>>,
    /// PersistentVolumeClaims and what they lead to.
    pub volumes: CopyOnWrite<Volumes>,
    /// PodDisruptionBudgets.
    pub disruption_budgets: CopyOnWrite<Vec<PodDisruptionBudget>>,
    /// Selectors of Services, for default spread constraints, by namespace and then in name order.
    pub services: CopyOnWrite<Vec<Service>>,
    /// Selectors of ReplicationControllers, ReplicaSets and StatefulSets, for the same.
    pub workloads: CopyOnWrite<BTreeMap<WorkloadKey, LabelSelector>>,
    /// Devices and claims of dynamic resource allocation.
    pub dynamic_resources: CopyOnWrite<DynamicResourceState>,
}

impl Snapshot {
    /// The pod of an id.
    pub fn pod(&self, id: PodId) -> &Pod {
        &self.pods[id.index()]
    }

    /// The node of an id.
    pub fn node(&self, id: NodeId) -> &StateNode {
        &self.nodes[id.index()]
    }

    /// The NodePool of an id.
    pub fn pool(&self, id: PoolId) -> &Pool {
        &self.pools[id.index()]
    }
}

/// A NodePool as scheduling sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// The name.
    pub name: String,
    /// Heavier pools are tried first; absent is 0.
    pub weight: Option<i32>,
    /// `spec.template.spec.requirements`, with minValues.
    pub requirements: Requirements,
    /// The labels of the template.
    pub labels: Labels,
    /// The taints of the template.
    pub taints: Vec<Taint>,
    /// Taints that go away while a node starts.
    pub startup_taints: Vec<Taint>,
    /// What the nodes of the pool may have together; no entry, no limit.
    pub limits: Resources,
    /// The NodeClass.
    pub node_class: NodeClassRef,
    /// `spec.disruption.consolidateAfter`; none for Never.
    pub consolidate_after: Option<SignedDuration>,
}

/// A NodePool as disruption sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ManagedPool {
    /// What scheduling would see, whether or not the pool can be used now.
    pub pool: Pool,
    /// `spec.disruption.consolidationPolicy`.
    pub policy: ConsolidationPolicy,
    /// `spec.disruption.budgets`.
    pub budgets: Vec<Budget>,
    /// `spec.replicas` of a static pool.
    pub replicas: Option<i64>,
    /// Whether it is Ready.
    pub is_ready: bool,
    /// Whether it is being deleted.
    pub is_deleting: bool,
}

/// Which NodeClass a pool uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeClassRef {
    /// Its API group.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// A Node, a launched NodeClaim, or both, joined (spec 20 §3.4, spec 40 §5.2).
#[derive(Clone, Debug, PartialEq)]
pub struct StateNode {
    /// The name of the Node, or of the NodeClaim while there is no registered Node.
    pub name: String,
    /// The effective labels: the NodeClaim's until the node is registered, then the Node's.
    pub labels: Labels,
    /// The effective taints, without the ephemeral ones of a starting node.
    pub taints: Vec<Taint>,
    /// Labels and taints of the Node object as they are; none while there is no Node.
    pub object: Option<NodeObject>,
    /// The NodePool; none for nodes that are not ours.
    pub pool: Option<String>,
    /// Whether there is a NodeClaim.
    pub is_managed: bool,
    /// Whether it is ready for pods; nodes that are not ours count as such.
    pub is_initialized: bool,
    /// Whether it is being deleted, or marked for deletion.
    pub is_deleting: bool,
    /// What it has, `nodes` left out.
    pub capacity: Resources,
    /// What pods may use.
    pub allocatable: Resources,
    /// The volume limits that the node published by CSI driver; `None` is unlimited.
    pub published_volume_limits: BTreeMap<String, Option<u32>>,
    /// When the NodeClaim became Initialized.
    pub initialized_at: Option<Timestamp>,
    /// When a pod last came or went.
    pub last_pod_event: Option<Timestamp>,
    /// The provider's id of the instance.
    pub provider_id: String,
    /// The facts that only disruption reads.
    pub disruption_state: NodeDisruptionState,
}

/// The facts of a node that decide whether it may be disrupted.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "facts of the objects, each on its own")]
pub struct NodeDisruptionState {
    /// The name of the NodeClaim; empty without one.
    pub node_claim: String,
    /// The uid of the NodeClaim.
    pub node_claim_uid: String,
    /// The creation time of the NodeClaim.
    pub node_claim_created_at: Option<Timestamp>,
    /// Whether the Node has joined; one that is not ours has.
    pub is_registered: bool,
    /// Whether the Node's condition Ready is True.
    pub is_ready: bool,
    /// Whether repair is restarting it (condition Rebooting of the NodeClaim).
    pub is_rebooting: bool,
    /// Whether its instance is being ended (condition InstanceTerminating of the NodeClaim).
    pub is_instance_terminating: bool,
    /// Whether no pod has come or gone for long enough (condition Consolidatable).
    pub is_consolidatable: bool,
    /// Since when it has drifted; none while the condition Drifted is not True.
    pub drifted_at: Option<Timestamp>,
    /// The annotation `karpenter.sh/do-not-disrupt`: the Node's once it is registered, else the
    /// NodeClaim's.
    pub do_not_disrupt: Option<String>,
    /// Whether the annotation `karpenter.sh/do-not-repair`, found likewise, is `true`.
    pub do_not_repair: bool,
    /// The annotation of the NodeClaim that records failed consolidations.
    pub failed_consolidations: Option<String>,
    /// How long a drain may take at most; none for no bound.
    pub termination_grace_period: Option<SignedDuration>,
    /// When it expires, counted from its creation; none for Never.
    pub expire_after: Option<SignedDuration>,
    /// The time when the last reboot by repair ended.
    pub rebooted_at: Option<Timestamp>,
    /// The creation time of the Node.
    pub node_created_at: Option<Timestamp>,
    /// The conditions of the Node, for repair.
    pub conditions: Vec<NodeCondition>,
}

/// A condition of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCondition {
    /// The type.
    pub condition_type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, in one word; may be empty.
    pub reason: String,
    /// The time of the last change of the status, if the condition has one.
    pub last_transition_time: Option<Timestamp>,
}

/// The Node object's own labels and taints.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeObject {
    /// `metadata.labels`.
    pub labels: Labels,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
}

/// What a DaemonSet puts on every node it matches (spec 20 §3.3).
#[derive(Clone, Debug, PartialEq)]
pub struct Daemon {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The newest live pod's spec with the template's required node affinity, or the template's.
    pub spec: Arc<PodSpec>,
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodDisruptionBudget {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The pods that it protects.
    pub selector: Selector,
    /// Whether it can never allow a disruption: maxUnavailable 0 or 0 %, minAvailable 100 %.
    pub blocks_all: bool,
    /// How many pods it lets go now (`status.disruptionsAllowed`).
    pub disruptions_allowed: i32,
    /// Whether pods that are not ready may go in any case (`unhealthyPodEvictionPolicy`).
    pub always_evicts_unhealthy: bool,
}

/// A Service's selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Labels of its pods; none for a Service without selector.
    pub selector: Option<Labels>,
}

/// Names a workload object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkloadKey {
    /// The API group; empty for ReplicationControllers.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}
