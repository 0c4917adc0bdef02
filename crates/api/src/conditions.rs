//! Condition types, and which of them `Ready` depends on (spec 10 §2.4, §3.3, §4.3, §5.4, §6.5).
//!
//! How the root is computed from its dependents is in [`crate::condition_set`]; reasons and
//! messages are in [`crate::reasons`].

/// The root of every condition set: whether the object can be used.
pub const READY: &str = "Ready";

/// The object passed runtime validation (NodePool, NodeOverlay, EC2NodeClass).
pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";

/// NodePool: False while a disruption budget cannot be understood, absent otherwise. Does not touch
/// `Ready`: nodes are launched, but none is disrupted. Ours, upstream only logs it.
pub const DISRUPTION_BUDGETS_VALID: &str = "DisruptionBudgetsValid";
/// NodePool: its node class exists and is ready.
pub const NODE_CLASS_READY: &str = "NodeClassReady";
/// NodePool: nodes launched from it do register. Does not touch `Ready`.
pub const NODE_REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";

/// NodeClaim: the provider has accepted the launch.
pub const LAUNCHED: &str = "Launched";
/// NodeClaim: the node has joined the cluster.
pub const REGISTERED: &str = "Registered";
/// NodeClaim: the node can run pods.
pub const INITIALIZED: &str = "Initialized";
/// NodeClaim: consolidation may disrupt the node.
pub const CONSOLIDATABLE: &str = "Consolidatable";
/// NodeClaim: the node no longer is what its pool and class ask for.
pub const DRIFTED: &str = "Drifted";
/// NodeClaim: the pods that have to leave have left.
pub const DRAINED: &str = "Drained";
/// NodeClaim: no volume is attached any more.
pub const VOLUMES_DETACHED: &str = "VolumesDetached";
/// NodeClaim: the provider has been asked to end the instance.
pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
/// NodeClaim: the node has the shape that the claim promised.
pub const CONSISTENT_STATE_FOUND: &str = "ConsistentStateFound";
/// NodeClaim: a disruption command holds it; the reason says which kind.
pub const DISRUPTION_REASON: &str = "DisruptionReason";
/// NodeClaim: repair is restarting its instance.
pub const REBOOTING: &str = "Rebooting";

/// CapacityBuffer: its pod template is known.
pub const READY_FOR_PROVISIONING: &str = "ReadyForProvisioning";
/// CapacityBuffer: its virtual pods fit on capacity that exists.
pub const PROVISIONING: &str = "Provisioning";
/// CapacityBuffer: a quota holds it back. Nothing writes it yet.
pub const LIMITED_BY_QUOTAS: &str = "LimitedByQuotas";

/// EC2NodeClass: its selector found images.
pub const AMIS_READY: &str = "AMIsReady";
/// EC2NodeClass: its selector found subnets.
pub const SUBNETS_READY: &str = "SubnetsReady";
/// EC2NodeClass: its selector found security groups.
pub const SECURITY_GROUPS_READY: &str = "SecurityGroupsReady";
/// EC2NodeClass: there is an instance profile for its nodes.
pub const INSTANCE_PROFILE_READY: &str = "InstanceProfileReady";
/// EC2NodeClass: its placement group, if any, was found.
pub const PLACEMENT_GROUP_READY: &str = "PlacementGroupReady";
/// EC2NodeClass: its capacity reservations were looked up.
pub const CAPACITY_RESERVATIONS_READY: &str = "CapacityReservationsReady";

/// What `Ready` of a NodePool depends on.
pub const NODEPOOL_DEPENDENTS: &[&str] = &[VALIDATION_SUCCEEDED, NODE_CLASS_READY];
/// What `Ready` of a NodeClaim depends on.
pub const NODECLAIM_DEPENDENTS: &[&str] = &[LAUNCHED, REGISTERED, INITIALIZED];
/// What `Ready` of a NodeOverlay depends on.
pub const NODEOVERLAY_DEPENDENTS: &[&str] = &[VALIDATION_SUCCEEDED];
/// What `Ready` of a KWOKNodeClass depends on: nothing, so it is ready at once.
pub const KWOK_NODE_CLASS_DEPENDENTS: &[&str] = &[];

/// What `Ready` of an EC2NodeClass depends on, by whether gate ReservedCapacity is on.
pub const fn ec2_node_class_dependents(reserved_capacity: bool) -> &'static [&'static str] {
    const WITHOUT_RESERVATIONS: &[&str] = &[
        AMIS_READY,
        SUBNETS_READY,
        SECURITY_GROUPS_READY,
        INSTANCE_PROFILE_READY,
        VALIDATION_SUCCEEDED,
        PLACEMENT_GROUP_READY,
    ];
    const WITH_RESERVATIONS: &[&str] = &[
        AMIS_READY,
        SUBNETS_READY,
        SECURITY_GROUPS_READY,
        INSTANCE_PROFILE_READY,
        VALIDATION_SUCCEEDED,
        PLACEMENT_GROUP_READY,
        CAPACITY_RESERVATIONS_READY,
    ];
    if reserved_capacity { WITH_RESERVATIONS } else { WITHOUT_RESERVATIONS }
}
