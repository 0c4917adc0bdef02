//! Decides the next step of one NodeClaim from facts and a time (spec 40 §1, §2.1).
//!
//! ```text
//! launch ──▶ registration ──▶ initialization        each sets one condition of the claim
//!    └───────────┴──▶ liveness: deletes the claim after a timeout
//! expiration, garbage_collection: delete the claim for other reasons
//! finalization: steps of the deletion
//! consistency, pod_events, drift, consolidatable: keep conditions and the status current
//! registration_health: rates a NodePool by recent registrations
//! repair: chooses the action for an unhealthy node        reboot: one of these actions
//! ```
//!
//! Facts are plain values. The controllers gather them and carry out the steps.

use jiff::{SignedDuration, Timestamp};

pub mod consistency;
pub mod consolidatable;
pub mod drift;
pub mod expiration;
pub mod finalization;
pub mod garbage_collection;
pub mod initialization;
pub mod launch;
pub mod liveness;
pub mod pod_events;
pub mod reboot;
pub mod registration;
pub mod registration_health;
pub mod repair;
pub mod static_hash;

/// Whether a condition of an object holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// It is not known yet, or the condition is missing.
    #[default]
    Unknown,
}

/// How a claim ends, by its grace period: a label of metrics (spec 40 §8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminationMode {
    /// There is no grace period: whatever blocks evictions is waited for.
    Graceful,
    /// There is one, and then it ends.
    Eventual,
    /// It is over at once.
    Forceful,
}

impl TerminationMode {
    /// The mode of a claim with this grace period.
    pub fn of(grace_period: Option<SignedDuration>) -> Self {
        match grace_period {
            None => Self::Graceful,
            Some(period) if period.is_positive() => Self::Eventual,
            Some(_) => Self::Forceful,
        }
    }

    /// The value of the label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Graceful => "graceful",
            Self::Eventual => "eventual",
            Self::Forceful => "forceful",
        }
    }
}

/// Returns how much of `length` since `since` is left; none if it is over.
fn remaining(
    since: Timestamp,
    length: SignedDuration,
    now: Timestamp,
) -> Option<std::time::Duration> {
    let left = length.checked_sub(now.duration_since(since)).unwrap_or(SignedDuration::MAX);
    std::time::Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grace_period_decides_the_termination_mode() {
        let cases = [
            ("45/OB-4", None, "graceful"),
            ("45/OB-4", Some(SignedDuration::from_mins(5)), "eventual"),
            ("45/OB-4", Some(SignedDuration::ZERO), "forceful"),
            ("negative", Some(SignedDuration::from_secs(-1)), "forceful"),
        ];
        for (case, period, label) in cases {
            assert_eq!(TerminationMode::of(period).label(), label, "{case}: {period:?}");
        }
    }

    #[test]
    fn the_remaining_time_never_overflows() {
        let (then, now) = (Timestamp::MIN, Timestamp::MAX);
        assert_eq!(remaining(then, SignedDuration::from_secs(1), now), None);
        assert!(remaining(now, SignedDuration::MAX, then).is_some());
        assert_eq!(remaining(then, SignedDuration::ZERO, then), None, "over when it begins");
    }
}
