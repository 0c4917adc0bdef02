//! Tests of the scheduling queue: order, backoff, retries and assumed pods.

use jiff::{SignedDuration, Timestamp};

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

fn scheduler_with(nodes: &[Node], pods: &[WirePod]) -> SchedulerState {
    let mut scheduler = SchedulerState::default();
    for node in nodes {
        scheduler.cache_mut().set_node(node);
    }
    for pod in pods {
        scheduler.set_pod(&ObjectKey::of(pod), Some(pod), at(0));
    }
    scheduler
}

/// The pods that are due, in their order, with their nodes; `-` for none.
fn due(scheduler: &mut SchedulerState, seconds: i64) -> Vec<String> {
    let decisions = std::iter::from_fn(|| scheduler.schedule_next(at(seconds)));
    let texts = decisions.map(|Decision { pod, outcome }| {
        format!("{}: {}", pod.key.name, outcome.map_or("-".to_owned(), |placement| placement.node))
    });
    texts.collect()
}

#[test]
fn pods_are_scheduled_by_priority_then_creation_time_then_name() {
    let made = |name: &str, priority: i32, created: &str| {
        let mut pod = pod(name, "p", json!({ "priority": priority }));
        pod.metadata.creation_timestamp = Some(object(json!(created)));
        pod
    };
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z");
    let pods = [made("a", 0, late), made("d", 0, early), made("c", 0, early), made("b", 5, late)];
    let mut scheduler = scheduler_with(&[node("n", "1", json!({}))], &pods);
    assert_eq!(due(&mut scheduler, 0), ["b: n", "c: n", "d: n", "a: n"]);
}

#[test]
fn an_assumed_pod_uses_capacity_before_its_binding_is_observed() {
    let pods = ["a", "b"].map(|name| pod(name, "p", json!({})));
    let one = node("n", "1", json!({ "status": { "allocatable": { "cpu": "1" } } }));
    let mut scheduler = scheduler_with(&[one], &pods);
    assert_eq!(due(&mut scheduler, 0), ["a: n", "b: -"]);
    // A late watch event from before the binding changes nothing.
    scheduler.set_pod(&key("a"), Some(&pods[0]), at(0));
    assert_eq!(due(&mut scheduler, 400), ["b: -"]);
    scheduler.set_pod(&key("a"), Some(&on("n", pods[0].clone())), at(400));
    assert_eq!(due(&mut scheduler, 401), [""; 0]);
}

#[test]
fn an_unschedulable_pod_waits_for_a_useful_change_and_its_backoff() {
    let tainted =
        node("n", "1", json!({ "spec": { "taints": [{ "key": "k", "effect": "NoSchedule" }] } }));
    let mut scheduler = scheduler_with(&[tainted], &[pod("p", "p", json!({}))]);
    assert_eq!(due(&mut scheduler, 0), ["p: -"]);
    scheduler.unblock(Blockers::CAPACITY | Blockers::VOLUMES);
    assert_eq!(due(&mut scheduler, 2), [""; 0], "that cannot help");
    scheduler.unblock(Blockers::TAINTS);
    assert_eq!(due(&mut scheduler, 2), ["p: -"], "the backoff of a second is over");
    scheduler.unblock(Blockers::TAINTS);
    assert_eq!(due(&mut scheduler, 3), [""; 0], "two seconds are not");
    assert_eq!(scheduler.next_time(), Some(at(4)));
    assert_eq!(due(&mut scheduler, 4), ["p: -"]);
    let helps = scheduler.cache_mut().set_node(&node("n", "1", json!({})));
    scheduler.unblock(helps);
    assert_eq!(due(&mut scheduler, 20), ["p: n"]);
    assert_eq!(scheduler.next_time(), None);
}

#[test]
fn backoff_is_capped_and_every_pod_is_retried_within_five_minutes() {
    let mut scheduler = scheduler_with(&[], &[pod("p", "p", json!({}))]);
    let mut now = 0;
    for backoff in [1, 2, 4, 8, 10, 10] {
        assert_eq!(due(&mut scheduler, now), ["p: -"]);
        assert_eq!(scheduler.next_time(), Some(at(now + 300)), "if nothing changes");
        scheduler.unblock(Blockers::NODES);
        assert_eq!(due(&mut scheduler, now), [""; 0]);
        assert_eq!(scheduler.next_time(), Some(at(now + backoff)));
        now += backoff;
    }
    assert_eq!(due(&mut scheduler, now), ["p: -"]);
    assert_eq!(due(&mut scheduler, now + 299), [""; 0]);
    assert_eq!(due(&mut scheduler, now + 300), ["p: -"]);
}

#[test]
fn a_deleted_or_finished_pod_frees_capacity_for_the_next_pod() {
    let pods = ["a", "b"].map(|name| pod(name, "p", json!({})));
    let one = node("n", "1", json!({ "status": { "allocatable": { "cpu": "1" } } }));
    for end in ["deleted", "Succeeded", "Failed"] {
        let mut scheduler = scheduler_with(std::slice::from_ref(&one), &pods);
        assert_eq!(due(&mut scheduler, 0), ["a: n", "b: -"]);
        let mut ended = on("n", pods[0].clone());
        ended.status = Some(object(json!({ "phase": end })));
        scheduler.set_pod(&key("a"), (end != "deleted").then_some(&ended), at(5));
        assert_eq!(due(&mut scheduler, 5), ["b: n"], "{end}");
    }
}

#[test]
fn a_failed_binding_is_retried_after_its_backoff() {
    let mut scheduler = scheduler_with(&[node("n", "1", json!({}))], &[pod("p", "p", json!({}))]);
    assert_eq!(due(&mut scheduler, 0), ["p: n"]);
    scheduler.forget(&key("p"), at(0));
    assert!(scheduler.cache_mut().bound(&key("p")).is_none());
    assert_eq!(due(&mut scheduler, 0), [""; 0]);
    assert_eq!(due(&mut scheduler, 1), ["p: n"]);
}

#[test]
fn only_ungated_pods_with_our_scheduler_name_are_scheduled() {
    let gated = json!({ "schedulingGates": [{ "name": "wait" }] });
    let mut leaving = pod("leaving", "p", json!({}));
    leaving.metadata.deletion_timestamp = Some(object(json!("2026-01-01T00:00:00Z")));
    let pods = [
        pod("gated", "p", gated),
        pod("theirs", "p", json!({ "schedulerName": "other" })),
        pod("ours", "p", json!({ "schedulerName": SCHEDULER_NAME })),
        leaving,
    ];
    let mut scheduler = scheduler_with(&[node("n", "1", json!({}))], &pods);
    assert_eq!(due(&mut scheduler, 0), ["ours: n"]);
    scheduler.set_pod(&key("gated"), Some(&pod("gated", "p", json!({}))), at(1));
    assert_eq!(due(&mut scheduler, 1), ["gated: n"], "the gate is gone");
}

#[test]
fn a_recreated_pod_starts_without_backoff() {
    let mut scheduler = scheduler_with(&[], &[pod("p", "p", json!({}))]);
    assert_eq!(due(&mut scheduler, 0), ["p: -"]);
    let mut new = pod("p", "p", json!({}));
    new.metadata.uid = Some("new".to_owned());
    scheduler.set_pod(&key("p"), Some(&new), at(0));
    assert_eq!(due(&mut scheduler, 0), ["p: -"], "it has no backoff");
}
