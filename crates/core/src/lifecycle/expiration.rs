//! When a claim is too old (spec 40 §1.7).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::remaining;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: it does not expire.
    Never,
    /// Look again after this time.
    Wait(Duration),
    /// It has expired.
    Delete,
}

/// The step of a claim of that age; `expire_after` is none for `Never`. Budgets and annotations
/// that hold back other disruption do not count.
pub fn next(created: Timestamp, expire_after: Option<SignedDuration>, now: Timestamp) -> Step {
    match expire_after {
        None => Step::Never,
        Some(age) => remaining(created, age, now).map_or(Step::Delete, Step::Wait),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_deleted_when_they_reach_expire_after() {
        let wait = |seconds| Step::Wait(Duration::from_secs(seconds));
        #[rustfmt::skip]
        let cases = [
            // case         expireAfter  age  step
            ("40/LC-42",    Some(30),    31,  Step::Delete),
            ("on time",     Some(30),    30,  Step::Delete),
            ("40/LC-43",    None,        31,  Step::Never),
            ("40/LC-44",    Some(30),    10,  wait(20)),
            ("at once",     Some(0),     0,   Step::Delete),
        ];
        for (case, expire_after, age, step) in cases {
            let created = Timestamp::UNIX_EPOCH;
            let now = created + SignedDuration::from_secs(age);
            let expire_after = expire_after.map(SignedDuration::from_secs);
            assert_eq!(next(created, expire_after, now), step, "{case}");
        }
        let for_ever = next(Timestamp::UNIX_EPOCH, Some(SignedDuration::MAX), Timestamp::MAX);
        assert!(matches!(for_ever, Step::Wait(_)), "{for_ever:?}");
    }
}
