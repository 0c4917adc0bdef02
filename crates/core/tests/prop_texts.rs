//! No text, however wrong, makes a decision panic.

use jiff::Timestamp;
use karpenter_core::disruption::Reason;
use karpenter_core::disruption::budget::{Budget, NodeCounts, allowance};
use karpenter_core::disruption::cron::Schedule;
use karpenter_core::disruption::do_not_disrupt::PodProtection;
use karpenter_core::overlay::PriceChange;
use karpenter_core::requirement::{Aliases, Operator, Requirement, RequirementItem};
use proptest::prelude::*;

/// Anything, or something made of the characters that the grammars are made of.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[-+0-9a-z.*?,/%@ µ]{0,24}", "[-+]?[0-9.]{1,30}(ns|µs|m|h|%)?"]
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    (Timestamp::MIN.as_second()..=Timestamp::MAX.as_second())
        .prop_map(|second| Timestamp::from_second(second).expect("within the range of time"))
}

proptest! {
    #[test]
    fn parsing_any_text_gives_a_value_or_an_error(text in text()) {
        let schedule = Schedule::parse(&text).map_err(|error| error.to_string());
        if let Ok(schedule) = schedule {
            schedule.next_after(Timestamp::UNIX_EPOCH);
        }
        if let Ok(change) = PriceChange::parse(&text) {
            prop_assert!(change.apply(1.0) >= 0.0);
            prop_assert!(change.apply(0.0) >= 0.0);
        }
    }

    #[test]
    fn parsing_any_requirement_gives_a_value_or_an_error(
        operator in prop::sample::select(&Operator::ALL[..]),
        values in prop::collection::vec(text(), 0..3),
        value in text(),
    ) {
        let item = RequirementItem { key: value.clone(), operator, values, min_values: None };
        match Requirement::from_item(&item, &Aliases::default()) {
            Ok(requirement) => {
                requirement.has(&value);
                requirement.pick_value(u64::MAX);
                prop_assert!(!requirement.to_string().is_empty());
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    /// At any time, and with durations that leave the calendar.
    #[test]
    fn unparsable_budgets_allow_no_disruption(
        nodes in text(),
        schedule in prop::option::of(text()),
        duration in prop::option::of(prop_oneof![text(), Just("9999999h".to_owned()), Just("2562047h".to_owned())]),
        now in timestamp(),
        total in any::<u32>(),
    ) {
        let budget = Budget { nodes, schedule, duration, reasons: None };
        let counts = NodeCounts { total, disrupting: total };
        let got = allowance(&[budget], Reason::Empty, now, counts);
        prop_assert!(got.problems.is_empty() || got.allowed == 0);
        prop_assert!(got.remaining <= got.allowed);
    }

    #[test]
    fn any_do_not_disrupt_annotation_is_active_or_not(
        annotation in prop::option::of(text()),
        started in prop::option::of(timestamp()),
        now in timestamp(),
    ) {
        let got = PodProtection::from_annotation(annotation.as_deref(), started, now);
        prop_assert!(annotation.is_some() || !got.is_active());
    }
}
