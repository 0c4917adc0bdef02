//! When a claim has had its time to become a node (spec 40 §1.5).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{ConditionStatus, remaining};

/// How long a launch may take.
pub const LAUNCH_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);
/// How long it may take from the creation of the claim until its node is there.
pub const REGISTRATION_TIMEOUT: SignedDuration = SignedDuration::from_mins(15);

/// The status of a condition, with its last transition time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConditionTransition {
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Since when.
    pub time: Timestamp,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing more: the node is there.
    Alive,
    /// Look again after this time.
    Wait(Duration),
    /// The claim goes.
    Delete(Timeout),
}

/// What came too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// The instance.
    Launch,
    /// The node.
    Registration,
}

impl Timeout {
    /// The reason in metrics and logs.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Launch => "launch_timeout",
            Self::Registration => "registration_timeout",
        }
    }

    /// Returns the time that the claim had.
    pub fn duration(self) -> SignedDuration {
        match self {
            Self::Launch => LAUNCH_TIMEOUT,
            Self::Registration => REGISTRATION_TIMEOUT,
        }
    }
}

/// The step of a claim whose conditions Launched and Registered are so. A claim for which both
/// times are over goes once, for the launch; upstream counts both (spec 40 Q2).
pub fn next(
    launched: ConditionTransition,
    registered: ConditionTransition,
    now: Timestamp,
) -> Step {
    if registered.status == ConditionStatus::True {
        return Step::Alive;
    }
    let timeout = if launched.status == ConditionStatus::True {
        Timeout::Registration
    } else {
        Timeout::Launch
    };
    let since = match timeout {
        Timeout::Launch => launched.time,
        Timeout::Registration => registered.time,
    };
    match remaining(since, timeout.duration(), now) {
        Some(left) => Step::Wait(left),
        None => Step::Delete(timeout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ConditionStatus::{False, True, Unknown};

    #[test]
    fn claims_that_do_not_launch_or_register_in_time_are_deleted() {
        let minute = |n: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_mins(n);
        let wait = |n: u64| Step::Wait(Duration::from_secs(n * 60));
        #[rustfmt::skip]
        let cases = [
            // case                     launched      registered    now  step
            ("40/LC-31",                (Unknown, 0), (Unknown, 0), 6,   Step::Delete(Timeout::Launch)),
            ("40/LC-32",                (Unknown, 0), (Unknown, 0), 1,   wait(4)),
            ("on the minute",           (Unknown, 0), (Unknown, 0), 5,   Step::Delete(Timeout::Launch)),
            ("40/LC-33",                (True, 1),    (Unknown, 0), 20,  Step::Delete(Timeout::Registration)),
            ("not from the launch on",  (True, 4),    (Unknown, 0), 10,  wait(5)),
            ("40/LC-34",                (True, 10),   (Unknown, 10), 16, wait(9)),
            ("40/LC-34: launch",        (Unknown, 10), (Unknown, 10), 14, wait(1)),
            ("40/LC-35",                (True, 1),    (True, 3),    20,  Step::Alive),
            ("40/LC-17: kept",          (True, 1),    (False, 10),  24,  wait(1)),
            ("40/LC-17: from then on",  (True, 1),    (False, 10),  25,  Step::Delete(Timeout::Registration)),
            ("40/Q2",                   (Unknown, 0), (Unknown, 0), 60,  Step::Delete(Timeout::Launch)),
            ("clock set back",          (Unknown, 9), (Unknown, 9), 0,   wait(14)),
        ];
        for (case, launched, registered, now, step) in cases {
            let since = |(status, at): (ConditionStatus, i64)| ConditionTransition {
                status,
                time: minute(at),
            };
            assert_eq!(next(since(launched), since(registered), minute(now)), step, "{case}");
        }
    }
}
