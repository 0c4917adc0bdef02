//! The restart of a node in place (spec 45 §6): its steps, from the request to the end.
//!
//! ```text
//! RebootRequested ── fence ── drain ── note the boot id ── call the cloud ──▶ RebootIssued
//!        │                                  5 min                                │ another boot id,
//!        ▼                                                                 20 min │ and ready
//!   failed: the node is replaced  ◀──────────────────────────────────────────────┴──▶ succeeded
//! ```
//!
//! A step is worked out of what the NodeClaim and its Node say, so that a process that starts anew
//! goes on where another one stopped. Two times are in the memory of the process alone.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karpenter_grammar::parse_duration;

use crate::termination::drain::MIN_DRAIN_TIME;

#[cfg(test)]
mod tests;

/// How often a rebooting node is checked.
pub const POLL_INTERVAL: Duration = Duration::from_secs(15);

/// How long the cloud may refuse to begin.
const ISSUANCE_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);

/// How long the node may take to recover.
const OBSERVATION_WINDOW: SignedDuration = SignedDuration::from_mins(20);

/// How far a reboot is, as the reason of the condition `Rebooting` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It was requested; the cloud has not accepted it yet.
    Requested,
    /// The cloud has accepted it.
    Issued,
}

/// A reboot, as its NodeClaim describes it.
#[derive(Clone, Copy, Debug)]
pub struct Reboot<'a> {
    /// How far it is.
    pub phase: Phase,
    /// When it was requested.
    pub requested: Timestamp,
    /// The value of the annotation that bounds the drain.
    pub grace_period: Option<&'a str>,
    /// The annotation with the boot id from before the first call.
    pub pre_boot_id: Option<&'a str>,
    /// Last transition of the condition `Initialized`.
    pub initialized: Option<Timestamp>,
    /// The facts that only this process remembers.
    pub memory: ProcessMemory,
}

/// The facts of a reboot that only one process remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessMemory {
    /// When it first called the cloud, or was about to.
    pub issuing: Option<Timestamp>,
    /// When the cloud accepted the reboot.
    pub issued: Option<Timestamp>,
}

/// The observed facts of a rebooting node.
#[derive(Clone, Copy, Debug)]
pub struct ObservedNode<'a> {
    /// The id of the running boot.
    pub boot_id: &'a str,
    /// Whether the node is ready.
    pub is_ready: bool,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Check again later.
    Poll,
    /// It did not work.
    Fail(Failure),
    /// Keep pods away, drain, and then call the cloud.
    Drain(DrainBound),
    /// Keep pods away, and call the provider again.
    /// It is not known whether the last call arrived.
    CallProvider,
    /// Record that the reboot was issued: the node has rebooted already.
    RecordIssued,
    /// Wait for the node to recover; `has_booted` is true once the new boot runs.
    Observe {
        /// Whether the boot is another one.
        has_booted: bool,
    },
    /// The node is back.
    Succeed,
}

/// How a reboot failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The cause.
    pub result: FailureResult,
    /// The text for people.
    pub message: String,
}

/// The cause of a failed reboot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureResult {
    /// The cloud provider.
    ProviderError,
    /// The node: it did not recover.
    RecoveryTimeout,
    /// The request. The node is left as it is.
    InvalidRequest,
}

impl FailureResult {
    /// The value of the label `result` in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::ProviderError => "provider_error",
            Self::RecoveryTimeout => "recovery_timeout",
            Self::InvalidRequest => "invalid_request",
        }
    }
}

impl Failure {
    /// The cloud cannot reboot.
    pub fn not_implemented() -> Self {
        let message = "reboot not implemented by the cloud provider".to_owned();
        Self { result: FailureResult::ProviderError, message }
    }

    /// The cloud will not reboot.
    pub fn rejected(error: &str) -> Self {
        let message = format!("reboot rejected by the cloud provider: {error}");
        Self { result: FailureResult::ProviderError, message }
    }

    fn timed_out(phase: Phase) -> Self {
        let (result, message) = match phase {
            Phase::Requested => {
                (FailureResult::ProviderError, "reboot was not issued within the issuance timeout")
            }
            Phase::Issued => (
                FailureResult::RecoveryTimeout,
                "node did not recover within the observation window",
            ),
        };
        Self { result, message: message.to_owned() }
    }
}

/// How long a drain before a reboot may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainBound {
    /// There is none: every pod rides along.
    None,
    /// Pods that are left at the time ride along.
    Until(Timestamp),
    /// It waits for every pod.
    Unbounded,
}

impl Reboot<'_> {
    /// Returns the next step for a node, or for one that does not exist.
    pub fn next_step(&self, node: Option<ObservedNode<'_>>, now: Timestamp) -> Step {
        let is_late = |deadline: Option<Timestamp>| deadline.is_some_and(|deadline| now > deadline);
        let Some(node) = node else {
            // Without a node no drain starts the clock, so the request does.
            let deadline = self.deadline().or(Some(add_clamped(self.requested, ISSUANCE_TIMEOUT)));
            return if is_late(deadline) {
                Step::Fail(Failure::timed_out(self.phase))
            } else {
                Step::Poll
            };
        };
        if is_late(self.deadline()) {
            return Step::Fail(Failure::timed_out(self.phase));
        }
        let has_booted = node.boot_id != self.pre_boot_id.unwrap_or_default();
        match self.phase {
            Phase::Issued if has_booted && node.is_ready => Step::Succeed,
            Phase::Issued => Step::Observe { has_booted },
            Phase::Requested => match (self.grace_period(), self.pre_boot_id) {
                (Err(error), _) => Step::Fail(Failure {
                    result: FailureResult::InvalidRequest,
                    message: format!("invalid reboot request: {error}"),
                }),
                (Ok(_), Some(_)) if has_booted => Step::RecordIssued,
                (Ok(_), Some(_)) => Step::CallProvider,
                (Ok(bound), None) => Step::Drain(self.drain_bound(bound)),
            },
        }
    }

    /// Returns how long to wait for the pods; none if the drain is over.
    pub fn after_drain(
        &self,
        bound: DrainBound,
        has_pods: bool,
        now: Timestamp,
    ) -> Option<Duration> {
        let rest = |deadline: Timestamp| {
            let rest = Duration::try_from(deadline.duration_since(now)).unwrap_or_default();
            (!rest.is_zero()).then_some(rest)
        };
        match (bound, has_pods) {
            (DrainBound::None, _) => None,
            // Pods may still be on their way from a scheduler that has not seen the fence.
            (_, false) => rest(add_clamped(self.requested, MIN_DRAIN_TIME)),
            (DrainBound::Unbounded, true) => Some(POLL_INTERVAL),
            (DrainBound::Until(deadline), true) => {
                rest(deadline).map(|rest| rest.min(POLL_INTERVAL))
            }
        }
    }

    /// Returns the bound of the drain: none for no bound.
    /// It is also the bound of the termination after a failure.
    pub fn grace_period(&self) -> Result<Option<Duration>, String> {
        let Some(text) = self.grace_period else { return Ok(None) };
        let duration = parse_duration(text).map_err(|error| {
            format!("parsing reboot termination grace period {text:?}: {error}")
        })?;
        let duration = Duration::try_from(duration).map_err(|_| {
            format!("reboot termination grace period must be non-negative, got {text:?}")
        })?;
        Ok(Some(duration))
    }

    /// Returns when the cloud accepted the reboot, as far as is known.
    pub fn issued(&self) -> Timestamp {
        // `Initialized` turns Unknown then, but keeps its time if it was that before.
        let noted = self.initialized.map_or(self.requested, |time| time.max(self.requested));
        self.memory.issued.unwrap_or(noted)
    }

    fn drain_bound(&self, bound: Option<Duration>) -> DrainBound {
        match bound {
            None => DrainBound::Unbounded,
            Some(Duration::ZERO) => DrainBound::None,
            Some(bound) => {
                let bound = SignedDuration::try_from(bound).unwrap_or(SignedDuration::MAX);
                DrainBound::Until(add_clamped(self.requested, bound.max(MIN_DRAIN_TIME)))
            }
        }
    }

    /// When the phase has to be over, if that is known.
    fn deadline(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Requested => Some(add_clamped(self.memory.issuing?, ISSUANCE_TIMEOUT)),
            Phase::Issued => Some(add_clamped(self.issued(), OBSERVATION_WINDOW)),
        }
    }
}

/// Returns the id of one reboot for the cloud, the same for every call.
pub fn operation_id(claim_uid: &str, requested: Timestamp, pre_boot_id: &str) -> String {
    format!("{claim_uid}-{}-{pre_boot_id}", requested.as_nanosecond())
}

fn add_clamped(time: Timestamp, duration: SignedDuration) -> Timestamp {
    time.checked_add(duration).unwrap_or(Timestamp::MAX)
}
