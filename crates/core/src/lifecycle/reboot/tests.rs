//! Tests of the steps of a reboot, and of its drain and deadlines.

use super::*;

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn at(seconds: i64) -> Timestamp {
    start() + SignedDuration::from_secs(seconds)
}

const MINUTE: i64 = 60;

/// Returns a reboot that was requested at the start, without a bound.
fn requested() -> Reboot<'static> {
    Reboot {
        phase: Phase::Requested,
        requested: start(),
        grace_period: None,
        pre_boot_id: None,
        initialized: Some(at(-3600)),
        memory: ProcessMemory::default(),
    }
}

/// Returns a reboot that the cloud accepted a minute later, in this process.
fn issued() -> Reboot<'static> {
    let memory = ProcessMemory { issuing: Some(at(55)), issued: Some(at(60)) };
    let initialized = Some(at(60));
    Reboot { phase: Phase::Issued, pre_boot_id: Some("old"), initialized, memory, ..requested() }
}

const OLD: ObservedNode<'static> = ObservedNode { boot_id: "old", is_ready: true };
const NEW: ObservedNode<'static> = ObservedNode { boot_id: "new", is_ready: true };

fn timed_out_step(result: FailureResult) -> Step {
    let message = match result {
        FailureResult::RecoveryTimeout => "node did not recover within the observation window",
        _ => "reboot was not issued within the issuance timeout",
    };
    Step::Fail(Failure { result, message: message.to_owned() })
}

#[test]
fn reboot_steps_follow_from_the_claim_and_its_node() {
    use FailureResult::{ProviderError, RecoveryTimeout};
    let bounded = |text| Reboot { grace_period: Some(text), ..requested() };
    let called = Reboot { pre_boot_id: Some("old"), ..requested() };
    let issuing = ProcessMemory { issuing: Some(start()), issued: None };
    let retrying = Reboot { memory: issuing, ..called };
    let unready = ObservedNode { is_ready: false, ..NEW };
    let until = |seconds| Step::Drain(DrainBound::Until(at(seconds)));
    #[rustfmt::skip]
    let cases = [
        // case                      reboot           node        at            step
        ("45/RB-1",                  bounded("1m"),   Some(OLD),  0,            until(60)),
        ("45/RB-2",                  bounded("0s"),   Some(OLD),  0,            Step::Drain(DrainBound::None)),
        ("a short bound",            bounded("1s"),   Some(OLD),  0,            until(5)),
        ("45/RB-9",                  requested(),     Some(OLD),  24 * 3600,    Step::Drain(DrainBound::Unbounded)),
        ("45/RB-7 same boot",        called,          Some(OLD),  3600,         Step::CallProvider),
        ("45/RB-7 other boot",       called,          Some(NEW),  3600,         Step::RecordIssued),
        ("45/RB-6 in time",          retrying,        Some(OLD),  5 * MINUTE,   Step::CallProvider),
        ("45/RB-6 late",             retrying,        Some(OLD),  6 * MINUTE,   timed_out_step(ProviderError)),
        ("45/RB-11 requested",       requested(),     None,       5 * MINUTE,   Step::Poll),
        ("45/RB-11 requested, late", requested(),     None,       6 * MINUTE,   timed_out_step(ProviderError)),
        ("45/RB-11 issued",          issued(),        None,       20 * MINUTE,  Step::Poll),
        ("45/RB-11 issued, late",    issued(),        None,       22 * MINUTE,  timed_out_step(RecoveryTimeout)),
        ("same boot",                issued(),        Some(OLD),  2 * MINUTE,   Step::Observe { has_booted: false }),
        ("45/RB-12",                 issued(),        Some(unready), 2 * MINUTE, Step::Observe { has_booted: true }),
        ("45/RB-13",                 issued(),        Some(NEW),  2 * MINUTE,   Step::Succeed),
        ("at the end",               issued(),        Some(OLD),  21 * MINUTE,  Step::Observe { has_booted: false }),
        ("45/RB-15",                 issued(),        Some(OLD),  22 * MINUTE,  timed_out_step(RecoveryTimeout)),
    ];
    for (case, reboot, node, seconds, step) in cases {
        assert_eq!(reboot.next_step(node, at(seconds)), step, "{case}");
    }
}

#[test]
fn an_invalid_reboot_request_fails() {
    let cases = [
        (
            "5min",
            r#"invalid reboot request: parsing reboot termination grace period "5min": time: unknown unit "min" in duration "5min""#,
        ),
        (
            "-5m",
            r#"invalid reboot request: reboot termination grace period must be non-negative, got "-5m""#,
        ),
    ];
    for (bound, message) in cases {
        let reboot = Reboot { grace_period: Some(bound), ..requested() };
        let failure =
            Failure { result: FailureResult::InvalidRequest, message: message.to_owned() };
        assert_eq!(reboot.next_step(Some(OLD), start()), Step::Fail(failure), "45/RB-10: {bound}");
    }
}

#[test]
fn a_drain_before_a_reboot_waits_for_pods_up_to_its_bound() {
    let seconds = |n| Some(Duration::from_secs(n));
    let until = DrainBound::Until(at(60));
    #[rustfmt::skip]
    let cases = [
        // case             bound                    pods   at          wait
        ("45/RB-1",         until,                   false, 0,          seconds(5)),
        ("45/RB-1",         until,                   false, 6,          None),
        ("45/RB-2",         DrainBound::None,        true,  0,          None),
        ("45/RB-8",         until,                   true,  45,         seconds(15)),
        ("the rest",        until,                   true,  50,         seconds(10)),
        ("45/RB-8",         until,                   true,  75,         None),
        ("45/RB-9",         DrainBound::Unbounded,   true,  24 * 3600,  seconds(15)),
        ("45/RB-9",         DrainBound::Unbounded,   false, 24 * 3600,  None),
    ];
    for (case, bound, has_pods, now, wait) in cases {
        assert_eq!(requested().after_drain(bound, has_pods, at(now)), wait, "{case}");
    }
}

/// Upstream counts from the creation of a claim that was never initialized, and replaces its node
/// right after the call.
#[test]
fn the_observation_window_starts_when_the_reboot_is_issued() {
    let hour = 3600;
    let memory = ProcessMemory { issuing: None, issued: Some(at(hour)) };
    let known = Reboot { initialized: Some(at(-hour)), memory, ..issued() };
    assert_eq!(known.issued(), at(hour));
    let step = known.next_step(Some(OLD), at(hour + 19 * MINUTE));
    assert_eq!(step, Step::Observe { has_booted: false }, "45 §17 #1");
    let restarted = Reboot { memory: ProcessMemory::default(), ..known };
    assert_eq!(restarted.issued(), start(), "no earlier than the request");
    let initialized = Some(at(60));
    assert_eq!(Reboot { initialized, ..restarted }.issued(), at(60));
}

#[test]
fn the_operation_id_contains_claim_request_time_and_boot_id() {
    let id = operation_id("uid", at(1), "old");
    assert_eq!(id, "uid-1767225601000000000-old");
    assert_ne!(id, operation_id("uid", at(2), "old"), "45/RB-14");
}
