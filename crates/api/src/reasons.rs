//! Condition reasons, and the messages whose text is fixed (spec 10 §2.4, §3.3, §4.3, §5.4, §6.5,
//! §8; spec 45 §1.2).
//!
//! A condition that turned True carries its own type as the reason, so those are not repeated
//! here (spec 10 §8). Messages have the name of the reason that they go with.

/// No controller has reconciled the object yet.
pub const AWAITING_RECONCILIATION: &str = "AwaitingReconciliation";
/// Root: some dependent is False.
pub const UNHEALTHY_DEPENDENTS: &str = "UnhealthyDependents";
/// Root: some dependent is Unknown or out of date.
pub const RECONCILING_DEPENDENTS: &str = "ReconcilingDependents";

/// Reasons of NodePool conditions.
pub mod nodepool {
    /// A disruption budget cannot be understood.
    pub const INVALID_BUDGET: &str = "InvalidBudget";
    /// Runtime validation found errors; the message lists them.
    pub const NODEPOOL_VALIDATION_FAILED: &str = "NodePoolValidationFailed";
    /// The node class does not exist.
    pub const NODE_CLASS_NOT_FOUND: &str = "NodeClassNotFound";
    /// The node class is being deleted.
    pub const NODE_CLASS_TERMINATING: &str = "NodeClassTerminating";
    /// The node class has not said whether it is ready. Also a reason of NodeClaim launches.
    pub const NODE_CLASS_READINESS_UNKNOWN: &str = "NodeClassReadinessUnknown";
    /// A launched claim did not register in time.
    pub const REGISTRATION_FAILED: &str = "RegistrationFailed";
}

/// Reasons of NodeClaim conditions.
pub mod nodeclaim {
    /// Launched: the launch failed for a reason without a name of its own.
    pub const LAUNCH_FAILED: &str = "LaunchFailed";

    /// Registered, Initialized: no node has the claim's provider id.
    pub const NODE_NOT_FOUND: &str = "NodeNotFound";
    /// Registered: registration hooks are not done; the message names them.
    pub const REGISTRATION_HOOK_PENDING: &str = "RegistrationHookPending";
    /// Registered: several nodes have the claim's provider id.
    pub const MULTIPLE_NODES_FOUND: &str = "MultipleNodesFound";

    /// Initialized: the node is not ready.
    pub const NODE_NOT_READY: &str = "NodeNotReady";
    /// Initialized: a startup taint of the claim is still there.
    pub const STARTUP_TAINTS_EXIST: &str = "StartupTaintsExist";
    /// Initialized: a taint that nodes shed by themselves is still there.
    pub const KNOWN_EPHEMERAL_TAINTS_EXIST: &str = "KnownEphemeralTaintsExist";
    /// Initialized: a requested resource is not on the node yet.
    pub const RESOURCE_NOT_REGISTERED: &str = "ResourceNotRegistered";
    /// Initialized: a DRA driver has not published its devices yet.
    pub const DRA_DRIVER_POOLS_NOT_PUBLISHED: &str = "DRADriverPoolsNotPublished";
    /// Initialized: repair is restarting the instance.
    pub const REBOOTING: &str = "Rebooting";

    /// Drifted: the template of the pool has changed.
    pub const NODEPOOL_DRIFTED: &str = "NodePoolDrifted";
    /// Drifted: the node's labels no longer meet the pool's requirements.
    pub const REQUIREMENTS_DRIFTED: &str = "RequirementsDrifted";
    /// Drifted: the provider no longer offers the instance type.
    pub const INSTANCE_TYPE_NOT_FOUND: &str = "InstanceTypeNotFound";
    /// Drifted (AWS): the node class has changed.
    pub const NODE_CLASS_DRIFT: &str = "NodeClassDrift";
    /// Drifted (AWS): the class selects other images.
    pub const AMI_DRIFT: &str = "AMIDrift";
    /// Drifted (AWS): the class selects other security groups.
    pub const SECURITY_GROUP_DRIFT: &str = "SecurityGroupDrift";
    /// Drifted (AWS): the class selects other subnets.
    pub const SUBNET_DRIFT: &str = "SubnetDrift";
    /// Drifted (AWS): the class selects other capacity reservations.
    pub const CAPACITY_RESERVATION_DRIFT: &str = "CapacityReservationDrift";
    /// Drifted (AWS): the class selects another placement group.
    pub const PLACEMENT_GROUP_DRIFT: &str = "PlacementGroupDrift";

    /// Drained: pods are still leaving.
    pub const DRAINING: &str = "Draining";
    /// VolumesDetached: volumes are still attached.
    pub const AWAITING_VOLUME_DETACHMENT: &str = "AwaitingVolumeDetachment";
    /// VolumesDetached: time was up before the volumes were gone.
    pub const TERMINATION_GRACE_PERIOD_ELAPSED: &str = "TerminationGracePeriodElapsed";
    /// ConsistentStateFound: the node is not what the claim promised.
    pub const CONSISTENCY_CHECK_FAILED: &str = "ConsistencyCheckFailed";

    /// Rebooting: repair has decided on it.
    pub const REBOOT_REQUESTED: &str = "RebootRequested";
    /// Rebooting: the provider has accepted the call.
    pub const REBOOT_ISSUED: &str = "RebootIssued";
    /// Rebooting: the node has recovered.
    pub const REBOOT_SUCCEEDED: &str = "RebootSucceeded";
    /// Rebooting: it did not work.
    pub const REBOOT_FAILED: &str = "RebootFailed";

    /// Launched: what an AWS launch can fail with, besides the reasons above.
    pub mod aws {
        /// The catalog of instance types could not be read.
        pub const INSTANCE_TYPE_RESOLUTION_FAILED: &str = "InstanceTypeResolutionFailed";
        /// No subnet could be chosen.
        pub const SUBNET_RESOLUTION_FAILED: &str = "SubnetResolutionFailed";
        /// The service-linked role for spot could not be made.
        pub const SPOT_SLR_CREATION_FAILED: &str = "SpotSLRCreationFailed";
        /// The controller may not do that.
        pub const UNAUTHORIZED: &str = "Unauthorized";
        /// The account may not use the image.
        pub const AMI_AUTHORIZATION_FAILURE: &str = "AMIAuthorizationFailure";
        /// Security groups and subnet belong to different VPCs.
        pub const SECURITY_GROUP_SUBNET_VPC_MISMATCH: &str = "SecurityGroupSubnetVPCMismatch";
        /// No instance profile has that name.
        pub const INSTANCE_PROFILE_NAME_INVALID: &str = "InstanceProfileNameInvalid";
        /// The launch template is gone.
        pub const LAUNCH_TEMPLATE_NOT_FOUND: &str = "LaunchTemplateNotFound";
        /// The user data is too large.
        pub const USER_DATA_SIZE_LIMIT_EXCEEDED: &str = "UserDataSizeLimitExceeded";
        /// No image has that id.
        pub const INVALID_AMI_ID: &str = "InvalidAMIID";
        /// The image is gone.
        pub const AMI_NOT_FOUND: &str = "AMINotFound";
        /// EC2 throttles the account.
        pub const REQUEST_LIMIT_EXCEEDED: &str = "RequestLimitExceeded";
        /// EC2 has a problem.
        pub const INTERNAL_ERROR: &str = "InternalError";
        /// The free tier does not have that type.
        pub const FREE_TIER_INELIGIBLE: &str = "FreeTierIneligible";
        /// The account has too many fleets.
        pub const FLEET_QUOTA_EXCEEDED: &str = "FleetQuotaExceeded";
        /// AWS is still checking the account.
        pub const ACCOUNT_PENDING_VERIFICATION: &str = "AccountPendingVerification";
        /// The account has too many spot instances.
        pub const SPOT_QUOTA_EXCEEDED: &str = "SpotQuotaExceeded";
        /// The account has too many vCPUs.
        pub const VCPU_LIMIT_EXCEEDED: &str = "VCPULimitExceeded";
        /// The subnet has no address left.
        pub const INSUFFICIENT_FREE_ADDRESSES_IN_SUBNET: &str = "InsufficientFreeAddressesInSubnet";
    }
}

/// Why a node is disrupted: reasons of DisruptionReason, of budgets and of metrics.
pub mod disruption {
    /// Its pods fit elsewhere, or on something cheaper.
    pub const UNDERUTILIZED: &str = "Underutilized";
    /// It has no pods that count.
    pub const EMPTY: &str = "Empty";
    /// It no longer is what its pool and class ask for.
    pub const DRIFTED: &str = "Drifted";
    /// A repair policy matched it.
    pub const UNHEALTHY: &str = "Unhealthy";
}

/// Reasons of NodeOverlay conditions.
pub mod nodeoverlay {
    /// Runtime validation found errors; the message lists them.
    pub const RUNTIME_VALIDATION: &str = "RuntimeValidation";
    /// Another overlay of the same weight changes the same thing.
    pub const CONFLICT: &str = "Conflict";
}

/// Reasons of CapacityBuffer conditions.
pub mod capacity_buffer {
    /// ReadyForProvisioning: the pod template is known.
    pub const RESOLVED: &str = "Resolved";
    /// ReadyForProvisioning: the pod template does not exist.
    pub const POD_TEMPLATE_NOT_FOUND: &str = "PodTemplateNotFound";
    /// ReadyForProvisioning: the workload does not exist.
    pub const SCALABLE_REF_NOT_FOUND: &str = "ScalableRefNotFound";
    /// ReadyForProvisioning: anything else went wrong.
    pub const RESOLUTION_FAILED: &str = "ResolutionFailed";
    /// Provisioning: the buffer is not ready for it.
    pub const NOT_READY_FOR_PROVISIONING: &str = "NotReadyForProvisioning";
    /// Provisioning: there is nothing to provide.
    pub const BUFFER_EMPTY: &str = "BufferEmpty";
    /// Provisioning: some virtual pods need new nodes.
    pub const REQUIRES_NEW_CAPACITY: &str = "RequiresNewCapacity";
    /// Provisioning: all virtual pods fit on existing nodes.
    pub const FITS_EXISTING_CAPACITY: &str = "FitsExistingCapacity";
}

/// Reasons of EC2NodeClass conditions.
pub mod ec2_node_class {
    /// AMIsReady: the alias does not exist for this Kubernetes version.
    pub const UNSUPPORTED_ALIAS: &str = "UnsupportedAlias";
    /// AMIsReady: the selector matches nothing.
    pub const AMI_NOT_FOUND: &str = "AMINotFound";
    /// SubnetsReady: the selector matches nothing.
    pub const SUBNETS_NOT_FOUND: &str = "SubnetsNotFound";
    /// SecurityGroupsReady: the selector matches nothing.
    pub const SECURITY_GROUPS_NOT_FOUND: &str = "SecurityGroupsNotFound";
    /// PlacementGroupReady: EC2 could not be asked.
    pub const PLACEMENT_GROUP_RESOLUTION_FAILED: &str = "PlacementGroupResolutionFailed";
    /// PlacementGroupReady: the selector matches nothing.
    pub const PLACEMENT_GROUP_NOT_FOUND: &str = "PlacementGroupNotFound";

    /// ValidationSucceeded: the cluster's address range is not known.
    pub const CLUSTER_CIDR_RESOLUTION_FAILED: &str = "ClusterCIDRResolutionFailed";
    /// ValidationSucceeded: `spec.kubelet` is not a kubelet configuration.
    pub const INVALID_KUBELET_CONFIGURATION: &str = "InvalidKubeletConfiguration";
    /// ValidationSucceeded: `spec.kubelet` has expressions, which are switched off.
    pub const KUBELET_EXPRESSIONS_DISABLED: &str = "KubeletExpressionsDisabled";
    /// ValidationSucceeded: an expression in `spec.kubelet` does not compile.
    pub const KUBELET_EXPRESSION_INVALID: &str = "KubeletExpressionInvalid";
    /// ValidationSucceeded: an expression in `spec.kubelet` fails for some instance type.
    pub const KUBELET_EXPRESSION_EVALUATION_FAILED: &str = "KubeletExpressionEvaluationFailed";
    /// ValidationSucceeded: the image family would not apply all of `spec.kubelet`.
    pub const UNSUPPORTED_KUBELET_CONFIGURATION: &str = "UnsupportedKubeletConfiguration";
    /// ValidationSucceeded: what the class selects is not known yet.
    pub const DEPENDENCIES_NOT_READY: &str = "DependenciesNotReady";
    /// ValidationSucceeded: `spec.tags` uses keys that belong to Karpenter.
    pub const TAG_VALIDATION_FAILED: &str = "TagValidationFailed";
    /// ValidationSucceeded: a dry run of CreateLaunchTemplate was refused.
    pub const CREATE_LAUNCH_TEMPLATE_AUTH_CHECK_FAILED: &str =
        "CreateLaunchTemplateAuthCheckFailed";
    /// ValidationSucceeded: a dry run of CreateFleet was refused.
    pub const CREATE_FLEET_AUTH_CHECK_FAILED: &str = "CreateFleetAuthCheckFailed";
    /// ValidationSucceeded: a dry run of RunInstances was refused.
    pub const RUN_INSTANCES_AUTH_CHECK_FAILED: &str = "RunInstancesAuthCheckFailed";
    /// ValidationSucceeded: the instance profile does not exist.
    pub const INSTANCE_PROFILE_NOT_FOUND: &str = "InstanceProfileNotFound";
    /// ValidationSucceeded: the rendered user data is too large.
    pub const USER_DATA_SIZE_LIMIT_EXCEEDED: &str = "UserDataSizeLimitExceeded";
    /// ValidationSucceeded: dry runs are switched off. Never written: the condition is True then.
    pub const DRY_RUN_DISABLED: &str = "DryRunDisabled";
}

/// Messages with a fixed text, by the reason that they go with.
pub mod messages;
