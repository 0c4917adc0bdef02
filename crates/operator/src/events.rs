//! Events: what users read in `kubectl describe` (spec 40 §8.3).
//!
//! [`definitions`] has a constructor for every event. [`EventRecorder`] drops what was just said, writes the
//! rest in the background and never makes anybody wait.
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

/// How long an event is not repeated, unless it says otherwise.
pub const DEFAULT_DEDUPE_TIMEOUT: Duration = Duration::from_mins(2);

/// Something to tell about an object.
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
    /// With the reason, what makes it the same event as another. Empty for one that is never the
    /// same.
    pub dedupe_values: Vec<String>,
    /// How long the same event is not published again.
    pub dedupe_timeout: Duration,
    /// The bucket that it shares with others.
    pub shared_limiter: Option<SharedLimiter>,
}

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// All is well.
    Normal,
    /// Somebody may have to look.
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

/// Buckets that events share: five a second, ten at once.
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

    /// The same with another time.
    #[must_use]
    pub fn with_dedupe_timeout(self, ttl: Duration) -> Self {
        Self { dedupe_timeout: ttl, ..self }
    }

    /// The same with a shared limiter.
    #[must_use]
    pub fn with_shared_limiter(self, limit: SharedLimiter) -> Self {
        Self { shared_limiter: Some(limit), ..self }
    }
}
