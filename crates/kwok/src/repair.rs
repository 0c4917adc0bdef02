//! Repairs of simulated faults (spec 45 §16).

use std::time::Duration;

use karpenter_api::conditions::READY;
use karpenter_operator::cloud::{RepairAction, RepairPolicy};

/// Simulated fault that is repaired by a replacement.
pub const UNHEALTHY: &str = "KWOKUnhealthy";
/// Simulated fault that is repaired by a reboot.
pub const REBOOT_REQUIRED: &str = "KWOKRebootRequired";

/// Returns the repair policies of the provider.
pub fn repair_policies() -> Vec<RepairPolicy> {
    let (replace, reboot) = (RepairAction::ReplaceNode, RepairAction::RebootNode);
    #[rustfmt::skip]
    let policies = [
        // condition      status     reason  tolerated  drain  action
        (READY,           "False",   "",     600,       0,     replace),
        (READY,           "Unknown", ".*",   600,       0,     replace),
        (UNHEALTHY,       "True",    ".*",   30,        45,    replace),
        (REBOOT_REQUIRED, "True",    ".*",   30,        60,    reboot),
    ];
    let policy = |(condition, status, reason, tolerated, drain, action)| RepairPolicy {
        condition_type: str::to_owned(condition),
        condition_status: str::to_owned(status),
        reason_regex: str::to_owned(reason),
        toleration_duration: Duration::from_secs(tolerated),
        termination_grace_period: Some(Duration::from_secs(drain)),
        priority: 0,
        action,
    };
    policies.into_iter().map(policy).collect()
}
