//! Whether a NodeClaim has been quiet for long enough to be consolidated (spec 30 §10.2).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::remaining;

/// What the condition `Consolidatable` should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// True.
    Set,
    /// Not there, for this reason.
    Clear(NotConsolidatableReason),
    /// Not there until this time is over.
    Wait(Duration),
}

/// Why a claim is not consolidatable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotConsolidatableReason {
    /// consolidateAfter of the NodePool is Never.
    Disabled,
    /// Its node has not been ready for pods yet.
    NotInitialized,
}

impl NotConsolidatableReason {
    /// The text in logs.
    pub fn text(self) -> &'static str {
        match self {
            Self::Disabled => "consolidation is disabled",
            Self::NotInitialized => "nodeclaim isn't initialized",
        }
    }
}

/// The text in logs for a claim with a recent pod event.
pub const WINDOW_NOT_ELAPSED: &str = "consolidateAfter window not yet elapsed";

/// What to do with the condition. `after` is the pool's consolidateAfter, none for Never;
/// `initialized` since when the condition `Initialized` is True, none if it is not.
pub fn next(
    after: Option<SignedDuration>,
    initialized: Option<Timestamp>,
    last_pod_event: Option<Timestamp>,
    now: Timestamp,
) -> Step {
    let Some(after) = after else { return Step::Clear(NotConsolidatableReason::Disabled) };
    let Some(initialized) = initialized else {
        return Step::Clear(NotConsolidatableReason::NotInitialized);
    };
    // From then on pods could come.
    let quiet_since = last_pod_event.unwrap_or(initialized);
    match remaining(quiet_since, after, now) {
        Some(rest) if !after.is_zero() => Step::Wait(rest),
        _ => Step::Set,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_consolidatable_after_consolidate_after_has_passed() {
        let now: Timestamp = "2000-06-15T12:30:30Z".parse().unwrap();
        let ago = |seconds| Some(now - SignedDuration::from_secs(seconds));
        let minute = Some(SignedDuration::from_mins(1));
        let wait = |seconds| Step::Wait(Duration::from_secs(seconds));
        #[rustfmt::skip]
        let cases = [
            // case           consolidateAfter            initialized  pod event  step
            ("30/CA-1",       minute,                     ago(999),    ago(0),    wait(60)),
            ("30/CA-1",       minute,                     ago(999),    ago(59),   wait(1)),
            ("30/CA-1",       minute,                     ago(999),    ago(60),   Step::Set),
            ("30/CA-2",       minute,                     ago(10),     None,      wait(50)),
            ("30/CA-2",       minute,                     ago(60),     None,      Step::Set),
            ("30/CA-3",       None,                       ago(999),    None,      Step::Clear(NotConsolidatableReason::Disabled)),
            ("30/CA-3",       minute,                     None,        ago(999),  Step::Clear(NotConsolidatableReason::NotInitialized)),
            ("both",          None,                       None,        None,      Step::Clear(NotConsolidatableReason::Disabled)),
            ("at once",       Some(SignedDuration::ZERO), ago(0),      ago(0),    Step::Set),
            ("in the future", Some(SignedDuration::ZERO), ago(-9),     ago(-5),   Step::Set),
            ("clock moved",   minute,                     ago(999),    ago(-5),   wait(65)),
        ];
        for (case, after, initialized, event, expected) in cases {
            assert_eq!(next(after, initialized, event, now), expected, "{case}");
        }
    }
}
