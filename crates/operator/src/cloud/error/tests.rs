//! Tests of cloud error classes, messages and source chains.

use CloudErrorClass as Class;

use super::*;

/// An error from another crate that wraps a cloud error.
#[derive(Debug, thiserror::Error)]
#[error("calling the cloud: {0}")]
struct ForeignError(#[source] CloudError);

type MakeError = fn() -> CloudError;

fn create() -> CloudError {
    CloudError::Create {
        reason: "LaunchTemplateNotFound".into(),
        message: "the template is gone".into(),
        source: "inner".into(),
    }
}

fn unevaluated() -> CloudError {
    CloudError::UnevaluatedNodePool("web".into())
}

fn reboot_failed() -> CloudError {
    CloudError::NodeRebootFailed("inner".into())
}

#[test]
fn every_error_class_has_its_message_and_metric_label() {
    let not_implemented = || CloudError::NodeRebootNotImplemented;
    let plain: MakeError = || CloudError::other("inner");
    let not_found: MakeError = || CloudError::not_found("inner");
    let capacity: MakeError = || CloudError::insufficient_capacity("inner");
    let not_ready: MakeError = || CloudError::node_class_not_ready("inner");
    #[rustfmt::skip]
    let cases: [(&str, MakeError, Option<Class>, &str, &str); 8] = [
        ("40/CP-01", not_found,       Some(Class::NodeClaimNotFound),        "nodeclaim not found, inner",                       "NodeClaimNotFoundError"),
        ("40/CP-01", capacity,        Some(Class::InsufficientCapacity),     "insufficient capacity, inner",                     "InsufficientCapacityError"),
        ("40/CP-01", not_ready,       Some(Class::NodeClassNotReady),        "NodeClassRef not ready, inner",                    "NodeClassNotReadyError"),
        ("40/CP-01", create,          Some(Class::Create),                   "creating nodeclaim, inner",                        "unknown"),
        ("40/CP-01", unevaluated,     Some(Class::UnevaluatedNodePool),      "nodepool \"web\" is awaiting evaluation",          "unknown"),
        ("40/CP-01", not_implemented, Some(Class::NodeRebootNotImplemented), "reboot is not implemented by this cloud provider", "unknown"),
        ("40/CP-01", reboot_failed,   Some(Class::NodeRebootFailed),         "inner",                                            "unknown"),
        ("40/CP-09", plain,           None,                                  "inner",                                            "unknown"),
    ];
    for (case, make, class, text, label) in cases {
        assert_eq!(make().to_string(), text, "{case}");
        let wrapped = CloudError::other(ForeignError(make().context("deleting node")));
        assert_eq!(
            wrapped.to_string(),
            format!("calling the cloud: deleting node, {text}"),
            "{case}"
        );
        for error in [make(), wrapped] {
            assert_eq!(error.metric_label(), label, "{case}: {error}");
            for other in ALL_CLASSES {
                assert_eq!(error.is(other), Some(other) == class, "{case}: {error} is {other:?}");
            }
        }
    }
}

const ALL_CLASSES: [Class; 7] = [
    Class::NodeClaimNotFound,
    Class::InsufficientCapacity,
    Class::NodeClassNotReady,
    Class::Create,
    Class::UnevaluatedNodePool,
    Class::NodeRebootNotImplemented,
    Class::NodeRebootFailed,
];

#[test]
fn the_innermost_error_is_reachable_through_the_source_chain() {
    let io = std::io::Error::other("the line is cut");
    let error = CloudError::not_found(io).context("finding node").context("once more");
    let chain = std::iter::successors(Some(&error as &dyn Error), |&error| error.source());
    let innermost = chain.last().unwrap();
    assert!(innermost.downcast_ref::<std::io::Error>().is_some(), "40/CP-01: {innermost:?}");
}

#[test]
fn an_error_has_every_class_that_it_wraps() {
    let error = CloudError::Create {
        reason: "Outer".into(),
        message: String::new(),
        source: CloudError::insufficient_capacity("no spot").into(),
    };
    assert!(error.is(Class::Create) && error.is(Class::InsufficientCapacity));
    assert_eq!(error.metric_label(), "InsufficientCapacityError");
    assert_eq!(error.to_string(), "creating nodeclaim, insufficient capacity, no spot");
}

#[test]
fn a_failed_launch_provides_the_condition_reason_and_message() {
    let error = create().context("launching");
    assert_eq!(error.launch_failure(), Some(("LaunchTemplateNotFound", "the template is gone")));
    assert_eq!(CloudError::other("inner").launch_failure(), None);
}
