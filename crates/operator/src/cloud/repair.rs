//! Whether the provider's repair policies are good enough to start with (spec 45 §2, §4.1).

use karpenter_core::lifecycle::repair::policy::{InvalidPolicies, Policies};
pub use karpenter_core::lifecycle::repair::policy::{RepairAction, RepairPolicy};

use crate::options::{Gate, Options};

/// Why node repair cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RepairError {
    /// The provider defines no repair policies.
    #[error(
        "node repair requires the cloud provider to define RepairPolicies, but it defines none"
    )]
    NoPolicies,
    /// The policies make no sense together or alone; all that is wrong.
    #[error("node repair requires valid RepairPolicies, {0}")]
    Invalid(#[from] InvalidPolicies),
}

/// The policies that the process may start with: they matter with the gate NodeRepair alone, and
/// not to legacy repair. None where they do not.
pub fn check_repair_policies(
    options: &Options,
    policies: &[RepairPolicy],
) -> Result<Option<Policies>, RepairError> {
    if !options.is_enabled(Gate::NodeRepair) || options.legacy_node_repair {
        return Ok(None);
    }
    if policies.is_empty() {
        return Err(RepairError::NoPolicies);
    }
    Ok(Some(Policies::new(policies.to_vec())?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::options::FeatureGates;

    fn policy(condition: &str, status: &str, regex: &str) -> RepairPolicy {
        RepairPolicy {
            condition_type: condition.to_owned(),
            condition_status: status.to_owned(),
            reason_regex: regex.to_owned(),
            toleration_duration: Duration::ZERO,
            termination_grace_period: None,
            priority: 0,
            action: RepairAction::ReplaceNode,
        }
    }

    fn options(gate: bool, legacy_node_repair: bool) -> Options {
        let feature_gates = FeatureGates::default().with_gate(Gate::NodeRepair, gate);
        Options { legacy_node_repair, feature_gates, ..Options::default() }
    }

    fn check(policies: &[RepairPolicy]) -> String {
        let result = check_repair_policies(&options(true, false), policies);
        result.map_or_else(|error| error.to_string(), |found| found.is_some().to_string())
    }

    #[test]
    fn node_repair_requires_repair_policies() {
        let none = "node repair requires the cloud provider to define RepairPolicies, but it \
                    defines none";
        assert_eq!(check(&[]), none, "45/OPT-4");
        for (gate, legacy) in [(false, false), (true, true), (false, true)] {
            let result = check_repair_policies(&options(gate, legacy), &[]);
            assert!(matches!(result, Ok(None)), "45/OPT-5: {result:?}");
        }
        assert_eq!(check(&[policy("Ready", "False", "")]), "true");
    }

    #[test]
    fn an_invalid_repair_policy_is_reported() {
        let good = policy("Ready", "False", "");
        let bad_regex = check(&[good, policy("Ready", "Unknown", "(")]);
        let start = "node repair requires valid RepairPolicies, validating repair policy for \
                     condition status \"Unknown\", policy[1]=";
        assert!(bad_regex.starts_with(start), "45/OPT-6 {bad_regex}");
        assert!(bad_regex.contains(" has invalid reason regex, unclosed group (condition=Ready)"));
    }
}
