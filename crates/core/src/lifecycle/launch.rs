//! Launching the instance of a claim (spec 40 §1.2).

use std::collections::BTreeMap;

use super::ConditionStatus;

/// What to do about the launch of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing but to keep the condition current: it is decided.
    Settled,
    /// Use the result of a launch whose status update failed.
    /// Invariant: a claim is never launched twice by one process.
    Adopt,
    /// Ask the cloud for an instance.
    Create,
}

/// The step of a claim whose condition Launched is so; `is_remembered` if this process has a result
/// of its launch.
pub fn next(launched: ConditionStatus, is_remembered: bool) -> Step {
    match (launched, is_remembered) {
        (ConditionStatus::True | ConditionStatus::False, _) => Step::Settled,
        (ConditionStatus::Unknown, true) => Step::Adopt,
        (ConditionStatus::Unknown, false) => Step::Create,
    }
}

/// The kinds of errors of a launch. Where one wraps another, the first of these counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing that the claim asks for can be had now.
    InsufficientCapacity,
    /// The node class cannot be used.
    NodeClassNotReady,
    /// The provider gives a message for the condition.
    ProviderMessage,
    /// Anything else.
    Other,
}

/// The action after a failed launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureAction {
    /// The claim goes, and scheduling decides anew.
    Delete {
        /// The reason in metrics.
        reason: &'static str,
        /// Whether events report the failure.
        is_reported: bool,
    },
    /// The claim stays, and the launch is tried again until it is too late.
    Retry {
        /// Whether the condition has the message of the provider, not the error.
        uses_provider_message: bool,
    },
}

/// Returns the action after a failed launch.
pub fn failure_action(failure: Failure) -> FailureAction {
    match failure {
        Failure::InsufficientCapacity => {
            FailureAction::Delete { reason: "insufficient_capacity", is_reported: true }
        }
        Failure::NodeClassNotReady => {
            FailureAction::Delete { reason: "nodeclass_not_ready", is_reported: false }
        }
        Failure::ProviderMessage => FailureAction::Retry { uses_provider_message: true },
        Failure::Other => FailureAction::Retry { uses_provider_message: false },
    }
}

/// Merges labels or annotations; `upper` takes precedence.
pub fn merge_maps(
    lower: &BTreeMap<String, String>,
    upper: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut all = lower.clone();
    all.extend(upper.iter().map(|(key, value)| (key.clone(), value.clone())));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use ConditionStatus::{False, True, Unknown};

    #[test]
    fn an_instance_is_requested_once() {
        #[rustfmt::skip]
        let cases = [
            // case         launched  remembered  step
            ("40/LC-01",    Unknown,  false,      Step::Create),
            ("40/LC-04",    Unknown,  true,       Step::Adopt),
            ("40/LC-30",    True,     false,      Step::Settled),
            ("written late", True,    true,       Step::Settled),
            ("by others",   False,    false,      Step::Settled),
        ];
        for (case, launched, is_remembered, step) in cases {
            assert_eq!(next(launched, is_remembered), step, "{case}");
        }
    }

    #[test]
    fn a_failed_launch_deletes_the_claim_or_is_retried() {
        let delete = |reason, is_reported| FailureAction::Delete { reason, is_reported };
        let cases = [
            ("40/LC-05", Failure::InsufficientCapacity, delete("insufficient_capacity", true)),
            ("40/LC-06", Failure::NodeClassNotReady, delete("nodeclass_not_ready", false)),
            (
                "40/LC-07",
                Failure::ProviderMessage,
                FailureAction::Retry { uses_provider_message: true },
            ),
            ("40/LC-08", Failure::Other, FailureAction::Retry { uses_provider_message: false }),
        ];
        for (case, failure, consequence) in cases {
            assert_eq!(failure_action(failure), consequence, "{case}");
        }
    }

    #[test]
    fn merged_maps_prefer_the_upper_map() {
        let map = |list: &[(&str, &str)]| {
            list.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect::<BTreeMap<_, _>>()
        };
        let (claim, provider) = (map(&[("x", "a"), ("y", "c")]), map(&[("x", "b"), ("z", "p")]));
        let labels = map(&[("x", "a"), ("y", "c"), ("z", "p")]);
        assert_eq!(merge_maps(&provider, &claim), labels, "40/LC-03: labels of the claim win");
        let annotations = map(&[("x", "b"), ("y", "c"), ("z", "p")]);
        assert_eq!(merge_maps(&claim, &provider), annotations, "40/LC-03: the provider wins");
    }
}
