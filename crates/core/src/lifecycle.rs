//! The next step of one NodeClaim, given facts and a time (spec 40 §1, §2.1).
//!
//! ```text
//! launch ──▶ registration ──▶ initialization        each knows one condition of the claim
//!    └───────────┴──▶ liveness: too late, so it goes
//! expiration, garbage: it goes for other reasons    finalization: how it goes
//! consistency, pod_events, health, drift, consolidatable: what is noted on the way
//! repair: what is done about a broken node        reboot: one of these ways
//! ```
//!
//! Facts are plain values. Who gathers them and carries the steps out is in the controllers.

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
    /// Nobody can tell yet; also if the condition is not there.
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

/// What is left at `now` of a time that began at `since`; none when it is over.
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
