//! Events: users read them in `kubectl describe` (spec 40 §8.3).
//!
//! [`definitions`] has a constructor for every event. [`EventRecorder`] drops recent duplicates,
//! writes the rest in the background and never blocks the caller.
//!
//! ```text
//! publish ──▶ dedupe by key and TTL ──▶ shared limiter ──▶ queue (bounded)
//!                                                            │ one task
//!          create, or patch with a higher count ◀── correlate: aggregate, count, limit per object
//! ```

use std::borrow::Cow;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;

mod correlator;
mod dedupe;
pub mod definitions;
mod recorder;

pub use recorder::{EventRecorder, PublishedEvents};

/// The default time for which a duplicate event is dropped.
pub const DEFAULT_DEDUPE_TIMEOUT: Duration = Duration::from_mins(2);

/// An event about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// What it is about.
    pub object: ObjectReference,
    /// How bad it is.
    pub severity: Severity,
    /// Why, in one word.
    pub reason: Cow<'static, str>,
    /// What happened.
    pub message: String,
    /// The values that, with the reason, identify duplicates. Empty for an event that is never a
    /// duplicate.
    pub dedupe_values: Vec<String>,
    /// The time for which duplicates of this event are dropped.
    pub dedupe_timeout: Duration,
    /// The rate limiter that the event shares with others.
    pub shared_limiter: Option<SharedLimiter>,
}

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// All is well.
    Normal,
    /// A user may have to act.
    Warning,
}

impl Severity {
    /// As Kubernetes writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Rate limiters that events share: five per second, bursts of ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SharedLimiter {
    /// Pods that were nominated.
    Nominated,
    /// Pods whose NodeClaim found no capacity.
    InsufficientCapacity,
}

impl Event {
    /// An event that is deduplicated by these values for the usual time.
    pub fn new(
        object: ObjectReference,
        severity: Severity,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
        dedupe: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            object,
            severity,
            reason: reason.into(),
            message: message.into(),
            dedupe_values: dedupe.into_iter().map(Into::into).collect(),
            dedupe_timeout: DEFAULT_DEDUPE_TIMEOUT,
            shared_limiter: None,
        }
    }

    /// Returns the event with another dedupe timeout.
    #[must_use]
    pub fn with_dedupe_timeout(self, ttl: Duration) -> Self {
        Self { dedupe_timeout: ttl, ..self }
    }

    /// Returns the event with a shared limiter.
    #[must_use]
    pub fn with_shared_limiter(self, limit: SharedLimiter) -> Self {
        Self { shared_limiter: Some(limit), ..self }
    }
}
