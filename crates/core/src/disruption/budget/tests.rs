//! Tests of disruption budgets: schedules, percentages and the nodes that count.

use jiff::SignedDuration;

use super::*;
use Reason::{Drifted, Empty, Underutilized, Unhealthy};

const NOW: &str = "2000-06-15T12:30:30Z";
const HOUR: SignedDuration = SignedDuration::from_hours(1);

#[track_caller]
fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn budget(nodes: &str) -> Budget {
    Budget { nodes: nodes.to_owned(), schedule: None, duration: None, reasons: None }
}

fn scheduled(nodes: &str, schedule: &str, duration: SignedDuration) -> Budget {
    let duration = Some(format!("{}s", duration.as_secs()));
    Budget { schedule: Some(schedule.to_owned()), duration, ..budget(nodes) }
}

fn only(reasons: &[Reason], budget: Budget) -> Budget {
    Budget { reasons: Some(reasons.to_vec()), ..budget }
}

fn total(total: u32) -> NodeCounts {
    NodeCounts { total, disrupting: 0 }
}

#[test]
fn the_tightest_budget_that_covers_the_reason_wins() {
    let by_reason = [
        budget("10"),
        only(&[Drifted, Underutilized], budget("15")),
        only(&[Drifted], budget("5")),
        only(&[Empty], budget("4")),
    ];
    let every_minute = |nodes| [scheduled(nodes, "* * * * *", HOUR)];
    #[rustfmt::skip]
    let cases: [(&str, &[Budget], Reason, u32, u32); 24] = [
        // case                 budgets                             reason         nodes allowed
        ("10/BU-1",             &every_minute("10"),                Empty,         100,  10),
        ("10/BU-1",             &every_minute("100"),               Empty,         100,  100),
        ("10/BU-1",             &every_minute("100%"),              Empty,         100,  100),
        ("10/BU-2, 30/BUD-2",   &[budget("20%")],                   Empty,         19,   4),
        ("10/BU-2, 30/BUD-2",   &[budget("5%")],                    Empty,         10,   1),
        ("10/BU-2",             &[budget("10%")],                   Empty,         0,    0),
        ("10/BU-2",             &[budget("0%")],                    Empty,         100,  0),
        ("10/BU-3, 30/BUD-8",   &[scheduled("0", "@yearly", HOUR)], Empty,         10,   NO_LIMIT),
        ("10/BU-5, 30/BUD-7",   &by_reason,                         Empty,         100,  4),
        ("10/BU-5, 30/BUD-7",   &by_reason,                         Drifted,       100,  5),
        ("10/BU-5, 30/BUD-7",   &by_reason,                         Underutilized, 100,  10),
        ("10/BU-6",             &[budget("10"), only(&Reason::ALL, budget("0"))], Empty,         100, 0),
        ("10/BU-6",             &[budget("10"), only(&Reason::ALL, budget("0"))], Drifted,       100, 0),
        ("10/BU-6",             &[budget("10"), only(&Reason::ALL, budget("0"))], Underutilized, 100, 0),
        ("10/BU-6",             &[budget("10"), only(&Reason::ALL, budget("0"))], Unhealthy,     100, 0),
        ("45/AP-2",             &[budget("0")],                     Unhealthy,     10,   0),
        ("45/AP-3",             &[budget("10"), only(&[Unhealthy], budget("2"))], Unhealthy,     100, 2),
        ("45/AP-3",             &[budget("10"), only(&[Unhealthy], budget("2"))], Empty,         100, 10),
        ("45/AP-3",             &[budget("10"), only(&[Unhealthy], budget("2"))], Drifted,       100, 10),
        ("45/AP-3",             &[budget("10"), only(&[Unhealthy], budget("2"))], Underutilized, 100, 10),
        ("no budgets",          &[],                                Empty,         10,   NO_LIMIT),
        ("empty reasons",       &[only(&[], budget("0"))],          Empty,         10,   NO_LIMIT),
        ("beyond 32 bits",      &[budget("3000000000")],            Empty,         10,   NO_LIMIT),
        ("below zero",          &[budget("-5")],                    Empty,         10,   0),
    ];
    for (case, budgets, reason, nodes, allowed) in cases {
        let got = allowance(budgets, reason, time(NOW), total(nodes));
        assert_eq!(
            (got.allowed, got.remaining, got.problems),
            (allowed, allowed, vec![]),
            "{case}: {budgets:?} for {reason} on {nodes} nodes"
        );
    }
}

#[test]
fn an_invalid_budget_allows_no_disruption_for_any_reason() {
    #[rustfmt::skip]
    let cases: [(&str, &[Budget], &str); 11] = [
        ("10/BU-4, 30/BUD-9", &[scheduled("10", "@wrongly", HOUR)],
            "invariant violated, invalid cron, unrecognized descriptor: @wrongly"),
        ("10/BU-4, 30/BUD-9", &[budget("1000a%")],
            r#"invalid value for IntOrString: invalid value "1000a%": strconv.Atoi: parsing "1000a": invalid syntax"#),
        ("10/BU-7",  &[only(&[Drifted], scheduled("10", "@wrongly", HOUR)), budget("10")],
            "invariant violated, invalid cron, unrecognized descriptor: @wrongly"),
        ("10/BU-11, 30/BUD-13", &[scheduled("10", "0 0 * * tue-mon", HOUR)],
            "invariant violated, invalid cron, beginning of range (2) beyond end of range (1): tue-mon"),
        ("10/BU-13", &[scheduled("10", "* * * * * *", HOUR)],
            "invariant violated, invalid cron, expected exactly 5 fields, found 6: [* * * * * *]"),
        ("10/BU-13", &[scheduled("10", "@annuallyfoo", HOUR)],
            "invariant violated, invalid cron, unrecognized descriptor: @annuallyfoo"),
        ("no percent sign", &[budget("ten")],
            "invalid value for IntOrString: invalid type: string is not a percentage"),
        ("beyond 64 bits", &[budget("99999999999999999999")],
            "invalid value for IntOrString: invalid type: string is not a percentage"),
        ("duration alone", &[Budget { duration: Some("1h".to_owned()), ..budget("10") }],
            "invariant violated, invalid cron, expected exactly 5 fields, found 0: []"),
        ("above all", &[budget("200%")],
            "invalid value for IntOrString: invalid value \"200%\": is above 100%"),
        ("10/DU-5: too long", &[Budget { duration: Some("9999999h".to_owned()), ..scheduled("10", "@yearly", HOUR) }],
            "time: invalid duration \"9999999h\""),
    ];
    for (case, budgets, problem) in cases {
        for reason in Reason::ALL {
            let got = allowance(budgets, reason, time(NOW), total(100));
            assert_eq!((got.allowed, got.remaining), (0, 0), "{case}: {budgets:?} for {reason}");
            let problems: Vec<_> = got.problems.iter().map(ToString::to_string).collect();
            assert_eq!(problems, [problem], "{case}: {budgets:?} for {reason}");
        }
    }
}

#[test]
fn a_budget_window_lasts_from_its_firing_for_its_duration() {
    let minutes = SignedDuration::from_mins;
    #[rustfmt::skip]
    let cases = [
        // case              schedule          duration      now                          active
        ("10/BU-8, 30/BUD-14", "@daily",         minutes(30),  "2024-01-07T00:00:00+01:00", false), // 23:00 UTC
        ("10/BU-9, 30/BUD-10", "@yearly",        HOUR * 24,    "1000-01-01T12:00:00Z",      true),
        ("10/BU-10, 30/BUD-11", "@daily",         HOUR * 48,    "2024-01-07T00:00:00Z",      true),
        ("10/BU-10, 30/BUD-12", "30 6 * * SUN",   HOUR * 6,     "2024-01-07T00:00:00Z",      false),
        ("10/BU-12",         "0 12 * * *",     minutes(30),  "2000-06-15T12:30:00Z",      false), // duration ago
        ("10/BU-12",         "0 12 * * *",     minutes(30),  "2000-06-15T12:29:59Z",      true),
        ("at the firing",    "0 12 * * *",     minutes(30),  "2000-06-15T12:00:00Z",      true),
        ("before it",        "0 12 * * *",     minutes(30),  "2000-06-15T11:59:59.9Z",    false),
        ("longer than a day", "0 12 * * *",    HOUR * 25,    NOW,                         true),
        ("never fires",      "0 0 30 2 *",     minutes(1),   NOW,                         true),
        ("no duration",      "* * * * *",      minutes(0),   NOW,                         false),
        ("start of time",    "@yearly",        HOUR * 24,    "-009999-01-02T12:00:00Z",   false),
    ];
    for (case, schedule, duration, now, active) in cases {
        let got = scheduled("0", schedule, duration).is_active(time(now));
        assert_eq!(got, Ok(active), "{case}: {schedule} for {duration} at {now}");
    }
}

const READY: BudgetNode = BudgetNode {
    managed: true,
    initialized: true,
    rebooting: false,
    instance_terminating: false,
    ready: true,
    marked_for_deletion: false,
};

#[test]
fn nodes_under_disruption_count_against_the_budget() {
    #[rustfmt::skip]
    let cases = [
        // case              node                                               reason     total disrupting
        ("ready",            READY,                                             Empty,     1, 0),
        ("unmanaged",        BudgetNode { managed: false, ..READY },            Empty,     0, 0),
        ("uninitialized",    BudgetNode { initialized: false, ..READY },        Empty,     0, 0),
        ("terminating",      BudgetNode { instance_terminating: true, ..READY }, Empty,    0, 0),
        ("marked",           BudgetNode { marked_for_deletion: true, ..READY }, Empty,     1, 1),
        ("marked",           BudgetNode { marked_for_deletion: true, ..READY }, Unhealthy, 1, 1),
        ("not ready",        BudgetNode { ready: false, ..READY },              Drifted,   1, 1),
        ("not ready, repair", BudgetNode { ready: false, ..READY },             Unhealthy, 1, 0),
        ("rebooting",        BudgetNode { rebooting: true, initialized: false, ready: false, ..READY }, Unhealthy, 1, 1),
    ];
    for (case, node, reason, total, disrupting) in cases {
        let expected = NodeCounts { total, disrupting };
        assert_eq!(NodeCounts::of([node], reason), expected, "{case}: {node:?} for {reason}");
    }
}

#[test]
fn rebooting_nodes_count_against_the_budget_for_every_reason() {
    let requested = BudgetNode { rebooting: true, ..READY };
    let issued = BudgetNode { initialized: false, ready: false, ..requested };
    let nodes = [[READY; 8].as_slice(), &[requested, issued]].concat();
    for reason in [Empty, Drifted, Underutilized, Unhealthy] {
        let counts = NodeCounts::of(nodes.clone(), reason);
        let got = allowance(&[budget("10")], reason, time(NOW), counts);
        assert_eq!((got.allowed, got.remaining), (10, 8), "45/RB-18 {reason}");
    }
}

#[test]
fn the_remaining_allowance_never_goes_below_zero() {
    for (disrupting, left) in [(0, 3), (2, 1), (3, 0), (10, 0)] {
        let nodes = NodeCounts { total: 10, disrupting };
        let got = allowance(&[budget("30%")], Empty, time(NOW), nodes);
        assert_eq!((got.allowed, got.remaining), (3, left), "{disrupting} of 10 disrupting");
    }
}

#[test]
fn the_allowance_names_the_tightest_budget() {
    let budgets = [budget("50%"), only(&[Empty], budget("2")), budget("2"), budget("9")];
    for (reason, nodes, tightest) in [(Empty, 10, 1), (Drifted, 10, 2), (Drifted, 2, 0)] {
        let got = allowance(&budgets, reason, time(NOW), total(nodes));
        assert_eq!(got.tightest, Some(tightest), "for {reason} on {nodes} nodes");
    }
    let got = allowance(&[], Empty, time(NOW), total(10));
    assert_eq!(got.tightest, None, "nothing limits");
    let windowed = only(&[Empty, Drifted], scheduled("0", "0 9 * * mon-fri", HOUR));
    assert_eq!(
        windowed.to_string(),
        r#"nodes: 0, schedule: "0 9 * * mon-fri", duration: 3600s, reasons: [Empty, Drifted]"#
    );
}
