//! Tests of condition sets: changes of conditions, and the root `Ready`.

use super::*;
use crate::conditions::{
    DRIFTED, INITIALIZED, LAUNCHED, NODE_CLASS_READY, NODECLAIM_DEPENDENTS, NODEPOOL_DEPENDENTS,
    REBOOTING, REGISTERED, VALIDATION_SUCCEEDED,
};

const CREATED: Timestamp = Timestamp::UNIX_EPOCH;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn subject(generation: i64) -> Subject {
    Subject { generation, created: Some(CREATED), deleting: false }
}

fn claim(conditions: &mut Vec<Condition>, generation: i64, now: i64) -> ConditionSet<'_> {
    ConditionSet::new(conditions, NODECLAIM_DEPENDENTS, subject(generation), at(now))
}

fn pool(conditions: &mut Vec<Condition>, generation: i64, now: i64) -> ConditionSet<'_> {
    ConditionSet::new(conditions, NODEPOOL_DEPENDENTS, subject(generation), at(now))
}

/// `Type=Status Reason "message"` of one condition.
fn text(set: &ConditionSet<'_>, type_: &str) -> String {
    let c = set.get(type_).unwrap_or_else(|| panic!("no condition {type_}"));
    format!("{}={} {} {:?}", c.type_, c.status, c.reason, c.message)
}

fn types(conditions: &[Condition]) -> Vec<&str> {
    conditions.iter().map(|c| c.type_.as_str()).collect()
}

fn initialized_claim(generation: i64) -> Vec<Condition> {
    let mut conditions = Vec::new();
    let mut set = claim(&mut conditions, generation, 10);
    for type_ in NODECLAIM_DEPENDENTS {
        set.set_true(type_);
    }
    assert!(set.is_true(READY));
    conditions
}

#[test]
fn a_new_set_contains_ready_and_its_dependents() {
    let mut conditions = Vec::new();
    let mut set = claim(&mut conditions, 1, 100);
    set.set(DRIFTED, Status::True, "NodePoolDrifted", "NodePoolDrifted");
    assert_eq!(
        text(&set, READY),
        r#"Ready=Unknown ReconcilingDependents "Launched=Unknown, Registered=Unknown, Initialized=Unknown""#,
        "10/CS-1"
    );
    assert_eq!(
        text(&set, LAUNCHED),
        r#"Launched=Unknown AwaitingReconciliation "object is awaiting reconciliation""#,
        "10/CS-1"
    );
    for condition in &conditions {
        let created = if condition.type_ == DRIFTED { at(100) } else { CREATED };
        assert_eq!(condition.last_transition_time.0, created, "10/CS-1: {}", condition.type_);
        assert_eq!(condition.observed_generation, Some(1));
    }
    // Sorted by time, the root last.
    let order = [LAUNCHED, REGISTERED, INITIALIZED, DRIFTED, READY];
    assert_eq!(types(&conditions), order, "10/CS-1");
}

#[test]
fn a_new_generation_makes_ready_wait_for_all_dependents() {
    let mut conditions = initialized_claim(1);
    let mut set = claim(&mut conditions, 2, 20);
    set.set_true(REGISTERED);
    assert_eq!(
        text(&set, READY),
        r#"Ready=Unknown ReconcilingDependents "Launched=True, Initialized=True""#,
        "10/CS-2"
    );
    set.set_true(LAUNCHED);
    set.set_true(INITIALIZED);
    assert_eq!(text(&set, READY), r#"Ready=True Ready """#, "10/CS-2");
}

#[test]
fn a_false_dependent_makes_ready_false_unless_outdated() {
    let mut conditions = Vec::new();
    let mut set = pool(&mut conditions, 1, 10);
    set.set_true(VALIDATION_SUCCEEDED);
    set.set_false(NODE_CLASS_READY, "NodeClassNotFound", "NodeClass not found on cluster");
    let expected = r#"Ready=False UnhealthyDependents "NodeClassReady=False""#;
    assert_eq!(text(&set, READY), expected, "10/CS-3");

    let mut set = pool(&mut conditions, 2, 20);
    set.set_true(VALIDATION_SUCCEEDED);
    let expected = r#"Ready=Unknown ReconcilingDependents "NodeClassReady=False""#;
    assert_eq!(text(&set, READY), expected, "10/CS-4");
}

#[test]
fn unhealthy_dependents_are_listed_by_their_last_change() {
    let mut conditions = Vec::new();
    pool(&mut conditions, 1, 10).set_false(NODE_CLASS_READY, "A", "");
    let mut set = pool(&mut conditions, 1, 20);
    set.set_false(VALIDATION_SUCCEEDED, "B", "");
    let expected =
        r#"Ready=False UnhealthyDependents "ValidationSucceeded=False, NodeClassReady=False""#;
    assert_eq!(text(&set, READY), expected);
}

#[test]
fn the_transition_time_changes_only_with_the_status() {
    let mut conditions = Vec::new();
    pool(&mut conditions, 1, 10).set_false(NODE_CLASS_READY, "NodeClassNotFound", "");
    let mut set = pool(&mut conditions, 1, 20);
    assert!(set.set_false(NODE_CLASS_READY, "NodeClassTerminating", "gone"), "10/CS-5");
    assert_eq!(
        text(&set, NODE_CLASS_READY),
        r#"NodeClassReady=False NodeClassTerminating "gone""#,
        "10/CS-5"
    );
    let time = |set: &ConditionSet<'_>| set.get(NODE_CLASS_READY).unwrap().last_transition_time.0;
    assert_eq!(time(&set), at(10), "10/CS-5");
    assert!(!set.set_false(NODE_CLASS_READY, "NodeClassTerminating", "gone"), "nothing changed");
    set.set_true(NODE_CLASS_READY);
    assert_eq!(time(&set), at(20));
}

#[test]
fn only_independents_can_be_cleared() {
    let mut conditions = initialized_claim(1);
    let before = conditions.clone();
    for type_ in [READY, LAUNCHED] {
        let error = claim(&mut conditions, 1, 20).clear(type_).unwrap_err();
        assert_eq!(error, ClearError(type_.to_owned()), "10/CS-6");
        assert_eq!(conditions, before, "10/CS-6");
    }
    let mut set = claim(&mut conditions, 1, 20);
    assert_eq!(set.clear(DRIFTED), Ok(false));
    set.set(DRIFTED, Status::True, "AMIDrift", "AMIDrift");
    assert_eq!(set.clear(DRIFTED), Ok(true));
    assert_eq!(types(&conditions), [INITIALIZED, LAUNCHED, READY, REGISTERED], "sorted by type");
}

#[test]
fn deletion_brings_every_condition_up_to_date() {
    let mut conditions = initialized_claim(1);
    let subject = Subject { deleting: true, ..subject(2) };
    let mut set = ConditionSet::new(&mut conditions, NODECLAIM_DEPENDENTS, subject, at(20));
    set.set_true(crate::conditions::INSTANCE_TERMINATING);
    assert!(set.is_true(READY));
    assert!(conditions.iter().all(|c| c.observed_generation == Some(2)));
}

#[test]
fn the_rebooting_condition_does_not_change_ready() {
    for (status, reason) in [
        (Status::True, reasons::nodeclaim::REBOOT_ISSUED),
        (Status::False, reasons::nodeclaim::REBOOT_FAILED),
    ] {
        let mut conditions = initialized_claim(1);
        let mut set = claim(&mut conditions, 1, 20);
        set.set(REBOOTING, status, reason, "");
        assert!(set.is_true(READY), "45/AP-5: Rebooting={status:?}");
        set.set(
            INITIALIZED,
            Status::Unknown,
            reasons::nodeclaim::REBOOTING,
            reasons::messages::REBOOTING,
        );
        let expected = r#"Ready=Unknown ReconcilingDependents "Initialized=Unknown""#;
        assert_eq!(text(&set, READY), expected, "45/AP-5: Rebooting={status:?}");
    }
}

#[test]
fn a_kind_without_dependents_is_ready_when_set() {
    let mut conditions = Vec::new();
    let mut set = ConditionSet::new(&mut conditions, &[], subject(1), at(10));
    assert!(!set.is_true(READY));
    set.set_true(READY);
    assert!(set.is_true(READY));
}

#[test]
fn reading_conditions_changes_nothing() {
    let conditions = Vec::new();
    assert!(find(&conditions, READY).is_none());
    assert!(!is_true(&conditions, READY));
}

#[test]
fn transition_times_are_whole_seconds() {
    let mut conditions = Vec::new();
    let now = at(10) + jiff::SignedDuration::from_millis(700);
    let subject = Subject { created: None, ..subject(1) };
    ConditionSet::new(&mut conditions, NODEPOOL_DEPENDENTS, subject, now);
    assert!(conditions.iter().all(|c| c.last_transition_time.0 == at(10)));
}

#[test]
fn an_old_condition_without_a_generation_counts_as_generation_zero() {
    let mut conditions = initialized_claim(1);
    for condition in &mut conditions {
        condition.observed_generation = None;
    }
    let mut set = claim(&mut conditions, 0, 20);
    set.set(DRIFTED, Status::True, "AMIDrift", "AMIDrift");
    assert!(set.is_true(READY));
}
