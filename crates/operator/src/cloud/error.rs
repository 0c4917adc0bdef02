//! Errors of a cloud, by what they mean to controllers (spec 40 §9.2, spec 45 §3.1).
//!
//! The texts are part of the interface: conditions and logs show them. An error is what it is, and
//! also what it wraps: a kind counts anywhere in the chain.

use std::error::Error;
use std::fmt;

#[cfg(test)]
mod tests;

/// Any error, as the inner one of a [`CloudError`].
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Why a call to the cloud did not work.
#[derive(Debug, thiserror::Error)]
pub enum CloudError {
    /// The instance does not exist.
    #[error("nodeclaim not found, {0}")]
    NodeClaimNotFound(#[source] BoxError),
    /// No instance for the request can be launched now. The provider has marked the offerings.
    #[error("insufficient capacity, {0}")]
    InsufficientCapacity(#[source] BoxError),
    /// The node class cannot be used yet.
    #[error("NodeClassRef not ready, {0}")]
    NodeClassNotReady(#[source] BoxError),
    /// The launch did not work, for a reason that the claim's condition is to show.
    #[error("creating nodeclaim, {source}")]
    Create {
        /// Reason of the condition `Launched`.
        reason: String,
        /// Message of the condition `Launched`.
        message: String,
        /// What happened.
        source: BoxError,
    },
    /// The pool's overlays have not been applied yet.
    #[error("nodepool {0:?} is awaiting evaluation")]
    UnevaluatedNodePool(String),
    /// The provider cannot restart instances.
    #[error("reboot is not implemented by this cloud provider")]
    NodeRebootNotImplemented,
    /// The restart will not work however often it is tried.
    #[error("{0}")]
    NodeRebootFailed(#[source] BoxError),
    /// Anything else; it may work next time.
    #[error("{0}")]
    Other(#[source] BoxError),
}

/// The kinds of [`CloudError`] that callers distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CloudErrorClass {
    /// [`CloudError::NodeClaimNotFound`].
    NodeClaimNotFound,
    /// [`CloudError::InsufficientCapacity`].
    InsufficientCapacity,
    /// [`CloudError::NodeClassNotReady`].
    NodeClassNotReady,
    /// [`CloudError::Create`].
    Create,
    /// [`CloudError::UnevaluatedNodePool`].
    UnevaluatedNodePool,
    /// [`CloudError::NodeRebootNotImplemented`].
    NodeRebootNotImplemented,
    /// [`CloudError::NodeRebootFailed`].
    NodeRebootFailed,
}

impl CloudError {
    /// An error without a kind.
    pub fn other(error: impl Into<BoxError>) -> Self {
        Self::Other(error.into())
    }

    /// The instance does not exist.
    pub fn not_found(error: impl Into<BoxError>) -> Self {
        Self::NodeClaimNotFound(error.into())
    }

    /// Nothing can be launched.
    pub fn insufficient_capacity(error: impl Into<BoxError>) -> Self {
        Self::InsufficientCapacity(error.into())
    }

    /// The node class is not ready.
    pub fn node_class_not_ready(error: impl Into<BoxError>) -> Self {
        Self::NodeClassNotReady(error.into())
    }

    /// Prepends the operation to the error text: `doing, what happened`.
    #[must_use]
    pub fn context(self, doing: impl Into<String>) -> Self {
        Self::Other(Box::new(ErrorContext { operation: doing.into(), source: self }))
    }

    /// Whether it is of the class, or wraps an error that is.
    pub fn is(&self, class: CloudErrorClass) -> bool {
        cloud_errors(self).any(|cause| cause.own_class() == Some(class))
    }

    /// The reason and the message for the claim's condition, if a failed launch brought some.
    pub fn launch_failure(&self) -> Option<(&str, &str)> {
        cloud_errors(self).find_map(|cause| match cause {
            Self::Create { reason, message, .. } => Some((reason.as_str(), message.as_str())),
            _ => None,
        })
    }

    /// The value of the label `error` in metrics.
    pub fn metric_label(&self) -> &'static str {
        let labels = [
            (CloudErrorClass::InsufficientCapacity, "InsufficientCapacityError"),
            (CloudErrorClass::NodeClaimNotFound, "NodeClaimNotFoundError"),
            (CloudErrorClass::NodeClassNotReady, "NodeClassNotReadyError"),
        ];
        labels.into_iter().find(|(class, _)| self.is(*class)).map_or("unknown", |(_, label)| label)
    }

    fn own_class(&self) -> Option<CloudErrorClass> {
        match self {
            Self::NodeClaimNotFound(_) => Some(CloudErrorClass::NodeClaimNotFound),
            Self::InsufficientCapacity(_) => Some(CloudErrorClass::InsufficientCapacity),
            Self::NodeClassNotReady(_) => Some(CloudErrorClass::NodeClassNotReady),
            Self::Create { .. } => Some(CloudErrorClass::Create),
            Self::UnevaluatedNodePool(_) => Some(CloudErrorClass::UnevaluatedNodePool),
            Self::NodeRebootNotImplemented => Some(CloudErrorClass::NodeRebootNotImplemented),
            Self::NodeRebootFailed(_) => Some(CloudErrorClass::NodeRebootFailed),
            Self::Other(_) => None,
        }
    }
}

/// Returns the cloud errors in the source chain of any error, outermost first.
pub fn cloud_errors<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a CloudError> {
    std::iter::successors(Some(error), |&error| error.source())
        .filter_map(|error| error.downcast_ref::<CloudError>())
}

/// A cloud error with the operation that failed.
#[derive(Debug)]
struct ErrorContext {
    operation: String,
    source: CloudError,
}

impl fmt::Display for ErrorContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.operation, self.source)
    }
}

impl Error for ErrorContext {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}
