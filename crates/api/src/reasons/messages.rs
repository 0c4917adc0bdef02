//! Condition messages with a fixed text. Where a name or a number belongs in it, the message is a
//! function.

use k8s_openapi::api::core::v1::Taint;

use crate::taints;

/// Any kind: no controller has reconciled the object yet.
pub const AWAITING_RECONCILIATION: &str = "object is awaiting reconciliation";

/// NodePool: its node class does not exist.
pub const NODE_CLASS_NOT_FOUND: &str = "NodeClass not found on cluster";
/// NodePool: its node class is being deleted.
pub const NODE_CLASS_TERMINATING: &str = "NodeClass is Terminating";
/// NodePool: its node class has not said whether it is ready.
pub const NODE_CLASS_READINESS_UNKNOWN: &str = "Node Class Readiness Unknown";
/// NodePool: a launched claim did not register in time.
pub const REGISTRATION_FAILED: &str = "Failed to register node";

/// NodeClaim: no node has its provider id.
pub const NODE_NOT_FOUND: &str = "Node not registered with cluster";
/// NodeClaim: several nodes have its provider id.
pub const MULTIPLE_NODES_FOUND: &str = "Invariant violated, matched multiple nodes";
/// NodeClaim: its node is not ready.
pub const NODE_NOT_READY: &str = "Node status is NotReady";
/// NodeClaim: repair is restarting its instance.
pub const REBOOTING: &str = "node is rebooting";
/// NodeClaim: pods are still leaving.
pub const DRAINING: &str = "Draining";
/// NodeClaim: its node is not what it promised.
pub const CONSISTENCY_CHECK_FAILED: &str = "Consistency Check Failed";

/// NodeOverlay: another overlay of the same weight changes the same thing.
pub const CONFLICT: &str = "conflict with another overlay";

/// CapacityBuffer: its pod template is known.
pub const RESOLVED: &str = "Pod template resolved successfully";
/// CapacityBuffer: it names nothing to take the pods from.
pub const NO_REFERENCE: &str = "Neither podTemplateRef nor scalableRef is set";
/// CapacityBuffer: it is not ready for provisioning.
pub const NOT_READY_FOR_PROVISIONING: &str = "Buffer is not ReadyForProvisioning";
/// CapacityBuffer: there is nothing to provide.
pub const BUFFER_EMPTY: &str = "Buffer has zero desired replicas";

/// EC2NodeClass: no image.
pub const AMI_NOT_FOUND: &str = "AMISelector did not match any AMIs";
/// EC2NodeClass: no subnet.
pub const SUBNETS_NOT_FOUND: &str = "SubnetSelector did not match any Subnets";
/// EC2NodeClass: no security group.
pub const SECURITY_GROUPS_NOT_FOUND: &str =
    "SecurityGroupSelector did not match any SecurityGroups";
/// EC2NodeClass: EC2 could not be asked for the placement group.
pub const PLACEMENT_GROUP_RESOLUTION_FAILED: &str = "Failed to resolve placement group";
/// EC2NodeClass: the cluster's address range is not known.
pub const CLUSTER_CIDR_RESOLUTION_FAILED: &str = "Failed to detect the cluster CIDR";
/// EC2NodeClass: `spec.kubelet` has expressions, which are switched off.
pub const KUBELET_EXPRESSIONS_DISABLED: &str =
    "spec.kubelet contains a CEL expression, but the NodeClassCEL feature gate is disabled";
/// EC2NodeClass: what it selects is not known yet.
pub const DEPENDENCIES_NOT_READY: &str =
    "Awaiting AMI, Instance Profile, Security Group, and Subnet resolution";

/// Most bytes of a launch error that a condition carries.
const LAUNCH_ERROR_MAX: usize = 1024;

/// NodeClaim: the launch error, cut to 1024 bytes with `...` at the end (spec 10 §3.3).
///
/// The cut falls on a character boundary, so it may be a few bytes shorter than upstream's.
pub fn launch_failed(error: &str) -> String {
    const ELLIPSIS: &str = "...";
    if error.len() <= LAUNCH_ERROR_MAX {
        return error.to_owned();
    }
    let cut = error.floor_char_boundary(LAUNCH_ERROR_MAX - ELLIPSIS.len());
    format!("{}{ELLIPSIS}", &error[..cut])
}

/// NodeClaim: registration hooks that are not done.
pub fn registration_hooks_pending(hooks: &[&str]) -> String {
    hooks.join(", ")
}

/// NodeClaim: a startup taint is still on the node.
pub fn startup_taint_exists(taint: &Taint) -> String {
    format!("StartupTaint \"{}\" still exists", taints::display(taint))
}

/// NodeClaim: a taint that nodes shed by themselves is still there.
pub fn known_ephemeral_taint_exists(taint: &Taint) -> String {
    format!("KnownEphemeralTaint \"{}\" still exists", taints::display(taint))
}

/// NodeClaim: a requested resource is not on the node yet.
pub fn resource_not_registered(name: &str) -> String {
    format!("Resource \"{name}\" was requested but not registered")
}

/// NodeClaim: a DRA driver has not published its devices yet.
pub fn dra_driver_pools_not_published(driver: &str) -> String {
    format!("DRA driver \"{driver}\" has not published a complete resource pool")
}

/// CapacityBuffer: `new` of `total` virtual pods need new nodes and `failed` cannot be placed.
pub fn requires_new_capacity(new: usize, total: usize, failed: usize) -> String {
    format!("{new}/{total} virtual pods required new capacity, {failed} failed")
}

/// CapacityBuffer: all `total` virtual pods fit on existing nodes.
pub fn fits_existing_capacity(total: usize) -> String {
    format!("All {total} virtual pods fit on existing capacity")
}

/// CapacityBuffer: the workload is of a kind that cannot be scaled.
pub fn unsupported_kind(kind: &str) -> String {
    format!("unsupported kind {kind:?}")
}

/// CapacityBuffer: the workload is of a group that we do not know.
pub fn unsupported_scalable_group(group: &str) -> String {
    format!("unsupported scalableRef API group {group:?}")
}

/// EC2NodeClass: no placement group matches the selector.
pub fn placement_group_not_found(selector: &str) -> String {
    format!("Placement group {selector:?} not found")
}

/// EC2NodeClass: the instance profile does not exist.
pub fn instance_profile_not_found(profile: &str) -> String {
    format!("Instance profile {profile:?} not found")
}

/// EC2NodeClass: a dry run of `action` (for example `ec2:CreateFleet`) was refused.
pub fn not_authorized(action: &str, reason: &str) -> String {
    format!("Controller isn't authorized to call {action}: {reason}")
}

/// EC2NodeClass: the rendered user data is too large.
pub fn user_data_too_large(reason: &str) -> String {
    format!("ec2:CreateLaunchTemplate rejected the rendered user data as too large: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_launch_errors_are_cut_at_a_character() {
        assert_eq!(launch_failed("no"), "no");
        assert_eq!(launch_failed(&"x".repeat(1024)).len(), 1024);
        assert_eq!(launch_failed(&"x".repeat(1025)), format!("{}...", "x".repeat(1021)));
        let accents = launch_failed(&"\u{e9}".repeat(600));
        assert_eq!(accents, format!("{}...", "\u{e9}".repeat(510)));
    }
}
