//! Tests of condition metrics and their events.

use k8s_openapi::api::core::v1::ObjectReference;

use super::*;
use crate::clock::{Clock, SystemClock};
use crate::metrics::{Metrics as AllMetrics, MetricsConfig};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn object(conditions: &[(&str, &str, i64)]) -> ObjectStatus {
    let condition = |(condition_type, status, since): &(&str, &str, i64)| {
        let seen = ObservedCondition {
            status: (*status).to_owned(),
            reason: "Why".to_owned(),
            message: String::new(),
            last_transition: at(*since),
        };
        ((*condition_type).to_owned(), seen)
    };
    ObjectStatus {
        reference: ObjectReference {
            kind: Some("NodeClaim".to_owned()),
            name: Some("a".to_owned()),
            ..ObjectReference::default()
        },
        labels: [("karpenter.sh/nodepool".to_owned(), "p".to_owned())].into(),
        conditions: conditions.iter().map(condition).collect(),
        ..ObjectStatus::default()
    }
}

fn metrics() -> AllMetrics {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let config = MetricsConfig {
        node_class_labels: vec!["karpenter.test.sh/testnodeclass".to_owned()],
        ..MetricsConfig::default()
    };
    AllMetrics::new(clock, &config)
}

const COUNT: &str = "operator_nodeclaim_status_condition_count";
const TRANSITIONS: &str = "operator_nodeclaim_status_condition_transitions_total";
const TRANSITION_SECONDS: &str = "operator_nodeclaim_status_condition_transition_seconds";
const EXTRA: [(&str, &str); 2] =
    [("karpenter_sh_nodepool", "p"), ("karpenter_test_sh_testnodeclass", "")];

fn with_extra<'a>(labels: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    labels.iter().copied().chain(EXTRA).collect()
}

#[test]
fn a_condition_transition_is_counted_measured_and_emitted_as_event() {
    let metrics = metrics();
    let status = &metrics.nodeclaim_status;
    assert!(status.observe(&object(&[("Launched", "Unknown", 0)]), at(5)).is_empty());
    assert_eq!(metrics.registry().series_count(TRANSITIONS), 0, "Unknown is no change");
    let events = status.observe(&object(&[("Launched", "True", 30)]), at(31));
    let emitted: Vec<_> = events.iter().map(|event| (&*event.reason, &*event.message)).collect();
    let text =
        "Status condition transitioned, Type: Launched, Status: Unknown -> True, Reason: Why";
    assert_eq!(emitted, [("Launched", text)], "40/OB-15");
    let labels = with_extra(&[("type", "Launched"), ("status", "True"), ("reason", "Why")]);
    assert_eq!(metrics.registry().value(TRANSITIONS, &labels), Some(1.0), "40/OB-15");
    let labels = with_extra(&[("type", "Launched"), ("status", "Unknown"), ("to_status", "True")]);
    assert_eq!(metrics.registry().value(TRANSITION_SECONDS, &labels), Some(1.0), "45/OB-2");
    assert!(metrics.registry().text().contains(
        r#"operator_nodeclaim_status_condition_transition_seconds_sum{karpenter_sh_nodepool="p",karpenter_test_sh_testnodeclass="",status="Unknown",to_status="True",type="Launched"} 30"#
    ));
    let deprecated_labels = [
        ("type", "Launched"),
        ("status", "Unknown"),
        ("to_status", "True"),
        ("group", "karpenter.sh"),
        ("kind", "NodeClaim"),
    ];
    let name = "operator_status_condition_transition_seconds";
    assert_eq!(metrics.registry().value(name, &deprecated_labels), Some(1.0));
}

#[test]
fn a_condition_true_at_startup_is_counted_but_not_measured() {
    let metrics = metrics();
    let events = metrics.nodeclaim_status.observe(&object(&[("Launched", "True", 0)]), at(5));
    let labels = with_extra(&[("type", "Launched"), ("status", "True"), ("reason", "Why")]);
    assert_eq!(metrics.registry().value(TRANSITIONS, &labels), Some(1.0), "40/OB-16");
    assert_eq!(metrics.registry().series_count(TRANSITION_SECONDS), 0, "40/OB-16");
    assert!(events.is_empty(), "40/OB-16");
}

#[test]
fn stale_series_are_removed_and_all_series_with_the_object() {
    let metrics = metrics();
    let status = &metrics.nodeclaim_status;
    let mut claim = object(&[("Launched", "Unknown", 0), ("Registered", "Unknown", 0)]);
    status.observe(&claim, at(1));
    claim.conditions.remove("Registered");
    claim.conditions.get_mut("Launched").unwrap().status = "True".to_owned();
    status.observe(&claim, at(2));
    assert_eq!(metrics.registry().series_count(COUNT), 1);
    claim.labels.insert("karpenter.sh/nodepool".to_owned(), "q".to_owned());
    status.observe(&claim, at(3));
    assert_eq!(metrics.registry().series_count(COUNT), 1, "other labels");
    claim.deletion_timestamp = Some(at(3));
    claim.finalizers = vec!["f".to_owned()];
    status.observe(&claim, at(10));
    let current = "operator_nodeclaim_termination_current_time_seconds";
    assert_eq!(metrics.registry().series_count(current), 1);
    let events = status.record_deletion("", "a", at(13));
    assert_eq!(events.iter().map(|event| &*event.message).collect::<Vec<_>>(), ["Finalized f"]);
    let text = metrics.registry().text();
    let left: Vec<_> = text.lines().filter(|line| line.contains("name=\"a\"")).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(text.contains(
        r#"operator_nodeclaim_termination_duration_seconds_sum{karpenter_sh_nodepool="q",karpenter_test_sh_testnodeclass=""} 10"#
    ));
    assert!(text.contains(
        r#"operator_termination_duration_seconds_sum{group="karpenter.sh",kind="NodeClaim"} 10"#
    ));
    assert!(status.record_deletion("", "a", at(20)).is_empty(), "it is gone once");
}

#[test]
fn a_removed_finalizer_emits_an_event() {
    let metrics = metrics();
    let status = &metrics.nodeclaim_status;
    let with = |finalizers: &[&str]| ObjectStatus {
        finalizers: finalizers.iter().map(|&f| f.to_owned()).collect(),
        ..object(&[])
    };
    assert!(status.observe(&with(&["a", "b"]), at(0)).is_empty());
    let events = status.observe(&with(&["b"]), at(1));
    assert_eq!(events.iter().map(|event| &*event.message).collect::<Vec<_>>(), ["Finalized a"]);
}

#[test]
fn node_conditions_have_no_metrics_under_deprecated_names() {
    let metrics = metrics();
    metrics.node_status.observe(&object(&[("KernelReady", "True", 0)]), at(7));
    let text = metrics.registry().text();
    assert!(!text.contains("type=\"Ready\""), "40/OB-17");
    assert!(text.contains("operator_node_status_condition_count{"));
    assert!(!text.contains("operator_status_condition_count{"));
    let age = "operator_node_status_condition_current_status_seconds{karpenter_sh_initialized=\"\",karpenter_sh_nodepool=\"p\",karpenter_test_sh_testnodeclass=\"\",name=\"a\",namespace=\"\",reason=\"Why\",status=\"True\",type=\"KernelReady\"} 7";
    assert!(text.contains(age), "{text}");
}

#[test]
fn refresh_updates_only_the_age_gauges() {
    let metrics = metrics();
    let status = &metrics.nodeclaim_status;
    let deleted = Some(at(3));
    status.observe(
        &ObjectStatus { deletion_timestamp: deleted, ..object(&[("Launched", "True", 0)]) },
        at(5),
    );
    status.refresh(at(13));
    let text = metrics.registry().text();
    let numbers = |name: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
        lines.filter_map(|line| Some(line.rsplit_once(' ')?.1.to_owned())).collect()
    };
    for prefix in ["operator_nodeclaim", "operator"] {
        assert_eq!(numbers(&format!("{prefix}_status_condition_count")), ["1"]);
        let age = format!("{prefix}_status_condition_current_status_seconds");
        assert_eq!(numbers(&age), ["13"], "{age}");
        assert_eq!(numbers(&format!("{prefix}_termination_current_time_seconds")), ["10"]);
    }
}

#[test]
fn a_recreated_object_does_not_inherit_the_deleted_one() {
    let metrics = metrics();
    let status = &metrics.nodeclaim_status;
    let with_uid = |uid: &str, deleted| {
        let mut one = object(&[("Launched", "True", 0)]);
        one.reference.uid = Some(uid.to_owned());
        ObjectStatus { deletion_timestamp: deleted, ..one }
    };
    status.observe(&with_uid("1", Some(at(3))), at(5));
    let events = status.observe(&with_uid("2", None), at(8));
    assert!(events.is_empty(), "nothing of it has changed: {events:?}");
    let registry = metrics.registry();
    assert_eq!(registry.series_count("operator_nodeclaim_termination_current_time_seconds"), 0);
    assert_eq!(
        registry.value("operator_nodeclaim_termination_duration_seconds", &EXTRA),
        Some(1.0)
    );
}
