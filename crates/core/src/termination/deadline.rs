//! When a node has to be gone: the annotation `karpenter.sh/nodeclaim-termination-timestamp`.

use jiff::Timestamp;

/// Reads the annotation.
pub fn parse(annotation: &str) -> Result<Timestamp, jiff::Error> {
    annotation.parse()
}

/// Formats the annotation: whole seconds, like times in the API.
pub fn format(deadline: Timestamp) -> String {
    Timestamp::from_second(deadline.as_second()).unwrap_or(deadline).to_string()
}

/// Returns the annotation for a deadline no later than `wanted`.
/// None if the deadline is that already. A deadline is never postponed, and one that cannot be
/// parsed counts as none.
pub fn tighten(present: Option<&str>, wanted: Timestamp) -> Option<String> {
    let present = present.and_then(|text| parse(text).ok());
    present.is_none_or(|deadline| deadline > wanted).then(|| format(wanted))
}

/// Returns the annotation for a deadline that passes now; none if it has passed.
/// Legacy repair overrides the grace period of the claim with it.
pub fn expire_now(present: Option<&str>, now: Timestamp) -> Option<String> {
    let present = present.and_then(|text| parse(text).ok());
    present.is_none_or(|deadline| deadline >= now).then(|| format(now))
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    const NOW: &str = "2026-01-01T12:00:00Z";

    fn now() -> Timestamp {
        NOW.parse().unwrap()
    }

    #[test]
    fn a_termination_deadline_is_never_postponed() {
        #[rustfmt::skip]
        let cases = [
            // case               present                        tightened to now   elapsed now
            ("40/NR-05",          None,                          Some(NOW),         Some(NOW)),
            ("40/NR-06",          Some("2026-01-01T14:00:00Z"),  Some(NOW),         Some(NOW)),
            ("40/NR-07, 45/RB-15", Some("2026-01-01T11:57:00Z"), None,              None),
            ("the same",          Some(NOW),                     None,              Some(NOW)),
            ("no time",           Some("tomorrow"),              Some(NOW),         Some(NOW)),
        ];
        for (case, present, tight, up) in cases {
            assert_eq!(tighten(present, now()).as_deref(), tight, "{case}: tightened");
            assert_eq!(expire_now(present, now()).as_deref(), up, "{case}: elapsed");
        }
    }

    #[test]
    fn the_termination_timestamp_has_whole_seconds() {
        let time = now() + SignedDuration::from_millis(999);
        assert_eq!(format(time), NOW);
        assert_eq!(parse("2026-01-01T13:00:00+01:00").unwrap(), now());
        assert!(parse("soon").is_err());
    }
}
