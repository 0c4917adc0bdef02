//! Whether a node is what its claim promised (spec 40 §1.9).

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::remaining;
use crate::resources::{Quantity, Resources};

/// How often the consistency of a claim is checked.
pub const CHECK_INTERVAL: SignedDuration = SignedDuration::from_mins(10);

/// The least share of a promised resource that a node has to have.
const MIN_SHARE: f64 = 0.90;

/// Returns the time until the next check; none if it is due.
pub fn time_until_check(last: Option<Timestamp>, now: Timestamp) -> Option<Duration> {
    remaining(last?, CHECK_INTERVAL, now)
}

/// A resource of which the node has too little. Its text is that of the event.
#[derive(Clone, Debug, PartialEq)]
pub struct Shortage {
    /// The resource.
    pub resource: String,
    /// What the claim promised.
    pub expected: Quantity,
    /// What the node has.
    pub found: Quantity,
    share: f64,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, expected, found, share } = self;
        let (expected, found) = (expected.canonical(), found.canonical());
        let percent = share * 100.0;
        write!(f, "expected {expected} of resource {resource}, but found {found} ")?;
        write!(f, "({percent:.1}% of expected)")
    }
}

/// What a node of this capacity lacks for a claim with these requests and that promise, by name.
pub fn shortages(requests: &Resources, promised: &Resources, found: &Resources) -> Vec<Shortage> {
    let shortage = |(name, request): (&str, Quantity)| {
        let (expected, found) = (promised.amount(name), found.amount(name));
        if request.is_zero() || expected.is_zero() {
            return None;
        }
        let share = share(found, expected);
        let resource = name.to_owned();
        (share < MIN_SHARE).then_some(Shortage { resource, expected, found, share })
    };
    requests.iter().filter_map(shortage).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a share in percent needs no more")]
fn share(found: Quantity, expected: Quantity) -> f64 {
    found.nanos() as f64 / expected.nanos() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::Notation;

    fn gibibytes(n: i64) -> Quantity {
        Quantity::from_units(n << 30).with_notation(Notation::BinarySi)
    }

    #[test]
    fn a_node_with_less_than_nine_tenths_of_a_resource_is_short() {
        let memory = |n| [("memory", gibibytes(n))].into_iter().collect::<Resources>();
        let half = "expected 128Gi of resource memory, but found 64Gi (50.0% of expected)";
        let none = "expected 128Gi of resource memory, but found 0 (0.0% of expected)";
        #[rustfmt::skip]
        let cases: [(&str, Resources, Resources, Resources, &[&str]); 6] = [
            ("40/LC-49",       memory(1), memory(128), memory(64),           &[half]),
            ("40/LC-50",       memory(1), memory(128), memory(128),          &[]),
            ("nine tenths",    memory(1), memory(100), memory(90),           &[]),
            ("nothing there",  memory(1), memory(128), Resources::default(), &[none]),
            ("not asked for",  memory(0), memory(128), memory(64),           &[]),
            ("not promised",   memory(1), Resources::default(), memory(64),  &[]),
        ];
        for (case, requests, promised, found, expected) in cases {
            let issues: Vec<_> =
                shortages(&requests, &promised, &found).iter().map(ToString::to_string).collect();
            assert_eq!(issues, expected, "{case}");
        }
    }

    #[test]
    fn consistency_checks_are_ten_minutes_apart() {
        let minute = |n| Timestamp::UNIX_EPOCH + SignedDuration::from_mins(n);
        let minutes = |n: u64| Some(Duration::from_secs(n * 60));
        assert_eq!(time_until_check(None, minute(0)), None);
        assert_eq!(time_until_check(Some(minute(0)), minute(3)), minutes(7), "40/LC-51");
        assert_eq!(time_until_check(Some(minute(0)), minute(10)), None);
    }
}
