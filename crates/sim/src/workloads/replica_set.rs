//! ReplicaSet: decides which pods to create and delete, and computes the status.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::index::labels;
use super::int_or_percent::{int, nonzero_count};
use super::pods::{created, is_available, is_ready, node_name, phase, ready_since};

/// The most pods that one sync creates or deletes.
pub(super) const BURST: usize = 500;

/// Pods with a lower number here are ended first.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

const FAILURE: &str = "ReplicaFailure";

#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) create: usize,
    pub(super) delete: Vec<Arc<Pod>>,
}

pub(super) fn spec_replicas(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1).max(0)
}

fn min_ready_seconds(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or_default()
}

/// `related` are the active pods of the same Deployment: where there are more of them, there one
/// is missed less.
pub(super) fn plan(
    set: &ReplicaSet,
    active: &[Arc<Pod>],
    related: &[Arc<Pod>],
    now: Timestamp,
) -> Plan {
    if set.metadata.deletion_timestamp.is_some() {
        return Plan::default();
    }
    let wanted = usize::try_from(spec_replicas(set)).unwrap_or_default();
    if active.len() <= wanted {
        return Plan { create: (wanted - active.len()).min(BURST), delete: Vec::new() };
    }
    let mut per_node: BTreeMap<&str, usize> = BTreeMap::new();
    for node in related.iter().filter_map(|pod| node_name(pod)) {
        *per_node.entry(node).or_default() += 1;
    }
    let crowd = |pod: &Pod| node_name(pod).and_then(|node| per_node.get(node)).copied();
    let mut delete = active.to_vec();
    delete.sort_by(|a, b| {
        let crowds = (crowd(a).unwrap_or_default(), crowd(b).unwrap_or_default());
        deletion_order(a, b, crowds, now)
    });
    delete.truncate((active.len() - wanted).min(BURST));
    Plan { create: 0, delete }
}

/// Orders pods by which one a scale-down deletes first.
/// Not bound, not running, not ready, low deletion cost, many related pods on the node, ready for a
/// short time, often restarted, young. Times are compared by their order of magnitude, so that not
/// all of the youngest, which share a node or a fault, go together.
fn deletion_order(a: &Pod, b: &Pod, crowds: (usize, usize), now: Timestamp) -> Ordering {
    let rank = |pod: &Pod| match phase(pod) {
        "Running" => 2,
        "Unknown" => 1,
        _ => 0,
    };
    let bound = |pod: &Pod| node_name(pod).is_some();
    let by_uid = || a.metadata.uid.cmp(&b.metadata.uid);
    let by_age = |a: Timestamp, b: Timestamp| {
        (a != b).then(|| magnitude(a, now).cmp(&magnitude(b, now)).then_with(by_uid))
    };
    let readiness = || match (ready_since(a), ready_since(b)) {
        (Some(a), Some(b)) => by_age(a, b),
        _ => None,
    };
    bound(a)
        .cmp(&bound(b))
        .then_with(|| rank(a).cmp(&rank(b)))
        .then_with(|| is_ready(a).cmp(&is_ready(b)))
        .then_with(|| deletion_cost(a).cmp(&deletion_cost(b)))
        .then_with(|| crowds.1.cmp(&crowds.0))
        .then_with(|| readiness().unwrap_or(Ordering::Equal))
        .then_with(|| restarts(b).cmp(&restarts(a)))
        .then_with(|| by_age(created(&a.metadata), created(&b.metadata)).unwrap_or(Ordering::Equal))
        .then_with(by_uid)
}

/// The logarithm of the age in seconds.
fn magnitude(time: Timestamp, now: Timestamp) -> u32 {
    let nanos = u128::try_from(now.duration_since(time).as_nanos()).unwrap_or_default();
    nanos.checked_ilog2().map_or(0, |log| log + 1)
}

fn deletion_cost(pod: &Pod) -> i32 {
    let annotations = pod.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(DELETION_COST)?.parse().ok()).unwrap_or_default()
}

fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    statuses.into_iter().map(|container| container.restart_count).max().unwrap_or_default()
}

/// What the pods amount to. `failure` is why pods could not be made or ended.
pub(super) fn status(
    set: &ReplicaSet,
    active: &[Arc<Pod>],
    terminating: usize,
    failure: Option<&str>,
    now: Timestamp,
) -> ReplicaSetStatus {
    let min_ready = min_ready_seconds(set);
    let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
    let template = template.and_then(|template| template.metadata.as_ref()?.labels.as_ref());
    let is_labelled = |pod: &Pod| {
        template.into_iter().flatten().all(|(key, value)| labels(pod).get(key) == Some(value))
    };
    let number = |holds: &dyn Fn(&Pod) -> bool| active.iter().filter(|pod| holds(pod)).count();
    let old = set.status.clone().unwrap_or_default();
    ReplicaSetStatus {
        replicas: int(active.len()),
        fully_labeled_replicas: nonzero_count(number(&is_labelled)),
        ready_replicas: nonzero_count(number(&is_ready)),
        available_replicas: nonzero_count(number(&|pod| is_available(pod, min_ready, now))),
        terminating_replicas: Some(int(terminating)),
        observed_generation: set.metadata.generation,
        conditions: conditions(old.conditions, set, active.len(), failure, now),
    }
}

fn conditions(
    old: Option<Vec<ReplicaSetCondition>>,
    set: &ReplicaSet,
    active: usize,
    failure: Option<&str>,
    now: Timestamp,
) -> Option<Vec<ReplicaSetCondition>> {
    let mut conditions = old.unwrap_or_default();
    let is_reported = conditions.iter().any(|condition| condition.type_ == FAILURE);
    match failure {
        None => conditions.retain(|condition| condition.type_ != FAILURE),
        Some(_) if is_reported => {}
        Some(message) => {
            let is_short = int(active) < spec_replicas(set);
            conditions.push(ReplicaSetCondition {
                type_: FAILURE.to_owned(),
                status: "True".to_owned(),
                reason: Some(if is_short { "FailedCreate" } else { "FailedDelete" }.to_owned()),
                message: Some(message.to_owned()),
                last_transition_time: Some(Time(now)),
            });
        }
    }
    Some(conditions).filter(|conditions| !conditions.is_empty())
}

/// Returns when the status changes next by the passing of time.
pub(super) fn next_status_change(
    set: &ReplicaSet,
    active: &[Arc<Pod>],
    now: Timestamp,
) -> Option<Timestamp> {
    super::pods::next_available(active.iter().map(Arc::as_ref), min_ready_seconds(set), now)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(replicas: i32) -> ReplicaSet {
        serde_json::from_value(json!({
            "metadata": {"name": "s", "generation": 3},
            "spec": {
                "replicas": replicas, "selector": {}, "minReadySeconds": 10,
                "template": {"metadata": {"labels": {"app": "x"}}},
            },
        }))
        .unwrap()
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    /// Running and ready on a node since the second 100, unless changed.
    fn pod(name: &str, change: Value) -> Arc<Pod> {
        let mut pod = json!({
            "metadata": {
                "name": name, "uid": name, "creationTimestamp": "1970-01-01T00:01:00Z",
                "labels": {"app": "x"},
            },
            "spec": {"nodeName": "n", "containers": []},
            "status": {"phase": "Running", "conditions": ready("True", "00:01:40")},
        });
        merge(&mut pod, change);
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn ready(status: &str, time: &str) -> Value {
        let time = format!("1970-01-01T{time}Z");
        json!([{"type": "Ready", "status": status, "lastTransitionTime": time}])
    }

    fn merge(target: &mut Value, change: Value) {
        match change {
            Value::Object(fields) => {
                for (key, value) in fields {
                    merge(&mut target[key], value);
                }
            }
            other => *target = other,
        }
    }

    fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
        pods.iter().map(|pod| pod.metadata.name.as_deref().unwrap()).collect()
    }

    #[test]
    fn missing_pods_are_created_in_bursts() {
        assert_eq!(plan(&set(3), &[pod("a", json!({}))], &[], at(0)).create, 2);
        assert_eq!(plan(&set(10_000), &[], &[], at(0)).create, BURST);
        assert_eq!(plan(&set(-1), &[], &[], at(0)).create, 0);
        let mut ending = set(3);
        ending.metadata.deletion_timestamp = Some(Time(at(0)));
        assert_eq!(plan(&ending, &[], &[], at(0)).create, 0, "one that goes makes none");
    }

    #[test]
    fn pods_are_deleted_in_the_upstream_order() {
        let usual = || pod("z", json!({}));
        let crowded = || pod("crowded", json!({"spec": {"nodeName": "m"}}));
        for (case, goes, stays) in [
            ("not bound", pod("p", json!({"spec": {"nodeName": ""}})), usual()),
            ("pending", pod("p", json!({"status": {"phase": "Pending"}})), usual()),
            (
                "not ready",
                pod("p", json!({"status": {"conditions": ready("False", "00:00:01")}})),
                usual(),
            ),
            (
                "cheap",
                pod("p", json!({"metadata": {"annotations": {DELETION_COST: "-5"}}})),
                usual(),
            ),
            ("in a crowd", crowded(), pod("a", json!({}))),
            (
                "ready for a short time",
                pod("p", json!({"status": {"conditions": ready("True", "00:16:39")}})),
                usual(),
            ),
            (
                "restarted",
                pod(
                    "p",
                    json!({"status": {"containerStatuses": [
                {"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 2}]}}),
                ),
                usual(),
            ),
            (
                "young",
                pod("p", json!({"metadata": {"creationTimestamp": "1970-01-01T00:16:30Z"}})),
                usual(),
            ),
            ("the same age, by uid", pod("a", json!({})), usual()),
        ] {
            let related = [crowded(), crowded(), usual()];
            for pods in [[goes.clone(), stays.clone()], [stays.clone(), goes.clone()]] {
                let plan = plan(&set(1), &pods, &related, at(1000));
                assert_eq!(names(&plan.delete), names(std::slice::from_ref(&goes)), "{case}");
            }
        }
    }

    #[test]
    fn replica_set_status_counts_pods() {
        let pods = [
            pod("a", json!({})),
            pod("late", json!({"status": {"conditions": ready("True", "00:03:15")}})),
            pod("b", json!({"status": {"conditions": ready("False", "00:03:15")}})),
            pod("c", json!({"metadata": {"labels": {"app": "y"}}})),
        ];
        let status = status(&set(4), &pods, 2, None, at(200));
        let counts = (
            status.replicas,
            status.fully_labeled_replicas,
            status.ready_replicas,
            status.available_replicas,
            status.terminating_replicas,
        );
        assert_eq!(counts, (4, Some(3), Some(3), Some(2), Some(2)));
        assert_eq!(status.observed_generation, Some(3));
        assert_eq!(
            next_status_change(&set(4), &pods, at(200)),
            Some(at(205)),
            "late becomes available"
        );
    }

    #[test]
    fn a_failure_condition_is_set_once_and_removed() {
        let mut set = set(1);
        let failed = status(&set, &[], 0, Some("quota"), at(1));
        let reported = failed.conditions.clone().unwrap();
        assert_eq!(reported[0].reason.as_deref(), Some("FailedCreate"));
        set.status = Some(failed);
        assert_eq!(status(&set, &[], 0, Some("again"), at(2)).conditions, Some(reported));
        assert_eq!(status(&set, &[], 0, None, at(3)).conditions, None);
    }
}
