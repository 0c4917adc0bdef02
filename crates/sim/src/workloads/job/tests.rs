//! Tests of the Job controller's decisions: pod counts, failures, backoff and expiration.

use serde_json::{Value, json};

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "tables read better so")]
fn job(spec: Value, status: Value) -> Job {
    let mut full = json!({
        "selector": {}, "template": {"spec": {"containers": [{"name": "c"}]}},
        "parallelism": 2, "completions": 4, "backoffLimit": 2,
    });
    full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    serde_json::from_value(json!({
        "metadata": {"name": "j", "namespace": "n", "uid": "j"}, "spec": full, "status": status,
    }))
    .unwrap()
}

fn pod(name: &str, phase: &str, tracked: bool) -> Arc<Pod> {
    let finalizers: &[&str] = if tracked { &[FINALIZER] } else { &[] };
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {"name": name, "uid": name, "finalizers": finalizers},
            "status": {"phase": phase},
        }))
        .unwrap(),
    )
}

fn with_index(pod: &Arc<Pod>, index: i32) -> Arc<Pod> {
    let mut pod = (**pod).clone();
    pod.metadata.annotations = Some([(INDEX.to_owned(), index.to_string())].into());
    Arc::new(pod)
}

fn conditions(decision: &Decision) -> Vec<&str> {
    let conditions = decision.status.conditions.iter().flatten();
    conditions.map(|condition| condition.type_.as_str()).collect()
}

fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
    pods.iter().map(|pod| uid(pod)).collect()
}

#[test]
fn a_job_creates_pods_up_to_parallelism_and_remaining_work() {
    let running = || pod("r", "Running", true);
    for (case, spec, status, pods, expected) in [
        ("at the start", json!({}), json!({}), vec![], 2),
        ("one runs", json!({}), json!({}), vec![running()], 1),
        ("one is left", json!({}), json!({"succeeded": 3}), vec![], 1),
        ("the last one runs", json!({}), json!({"succeeded": 3}), vec![running()], 0),
        ("a pool", json!({"completions": null}), json!({}), vec![running()], 1),
        (
            "a pool that is done",
            json!({"completions": null}),
            json!({"succeeded": 1}),
            vec![running()],
            0,
        ),
        ("suspended", json!({"suspend": true}), json!({}), vec![], 0),
    ] {
        let decision = decide(&job(spec, status), &pods, at(100)).unwrap();
        assert_eq!(decision.create.len(), expected, "{case}");
        assert!(decision.create.iter().all(is_tracked), "{case}");
    }
}

#[test]
fn a_finished_pod_is_recorded_then_released_then_counted() {
    let done = pod("a", "Succeeded", true);
    let first = decide(&job(json!({}), json!({})), &[done], at(100)).unwrap();
    let noted = first.status.uncounted_terminated_pods.clone().unwrap();
    assert_eq!((noted.succeeded, first.status.succeeded), (Some(vec!["a".to_owned()]), None));
    assert_eq!(names(&first.release), ["a"]);
    let status = serde_json::to_value(&first.status).unwrap();
    let second =
        decide(&job(json!({}), status.clone()), &[pod("a", "Succeeded", false)], at(101)).unwrap();
    assert_eq!(second.status.succeeded, Some(1));
    assert_eq!(second.status.uncounted_terminated_pods, Some(UncountedTerminatedPods::default()));
    let gone = decide(&job(json!({}), status), &[], at(101)).unwrap();
    assert_eq!(gone.status.succeeded, Some(1), "even if the pod is gone");
}

#[test]
fn a_job_completes_when_all_pods_are_counted() {
    let status = json!({"succeeded": 3});
    let last = pod("a", "Succeeded", true);
    let first = decide(&job(json!({}), status), &[last], at(100)).unwrap();
    assert_eq!(conditions(&first), ["SuccessCriteriaMet"]);
    let status = serde_json::to_value(&first.status).unwrap();
    let second = decide(&job(json!({}), status), &[pod("a", "Succeeded", false)], at(101)).unwrap();
    assert_eq!(conditions(&second), ["SuccessCriteriaMet", "Complete"]);
    assert_eq!(second.status.completion_time, Some(Time(at(101))));
    let status = serde_json::to_value(&second.status).unwrap();
    let rest = decide(&job(json!({}), status), &[pod("a", "Succeeded", false)], at(500)).unwrap();
    assert_eq!(rest.status, second.status);
    assert!(rest.create.is_empty() && rest.release.is_empty() && rest.delete.is_empty());
}

#[test]
fn failures_beyond_the_backoff_limit_fail_the_job() {
    let status = json!({"failed": 3});
    let running = pod("r", "Running", true);
    let first = decide(&job(json!({}), status), &[running], at(100)).unwrap();
    assert_eq!((conditions(&first), names(&first.delete)), (vec!["FailureTarget"], vec!["r"]));
    let status = serde_json::to_value(&first.status).unwrap();
    let second = decide(&job(json!({}), status), &[], at(101)).unwrap();
    assert_eq!(conditions(&second), ["FailureTarget", "Failed"]);
    let failed = &second.status.conditions.as_ref().unwrap()[1];
    assert_eq!(failed.reason.as_deref(), Some("BackoffLimitExceeded"));
}

#[test]
fn the_active_deadline_fails_the_job() {
    let spec = json!({"activeDeadlineSeconds": 60});
    let status = json!({"startTime": "1970-01-01T00:01:40Z"});
    let running = || [pod("r", "Running", true), pod("s", "Running", true)];
    let early = decide(&job(spec.clone(), status.clone()), &running(), at(159)).unwrap();
    assert_eq!((early.requeue_at, early.delete.len()), (Some(at(160)), 0));
    let late = decide(&job(spec, status), &running(), at(160)).unwrap();
    let reason = late.status.conditions.as_ref().unwrap()[0].reason.as_deref();
    assert_eq!((reason, late.delete.len()), (Some("DeadlineExceeded"), 2));
}

#[test]
fn repeated_failures_increase_the_backoff() {
    let failed = |name: &str| {
        let mut pod = (*pod(name, "Failed", false)).clone();
        pod.metadata.creation_timestamp = Some(Time(at(100)));
        Arc::new(pod)
    };
    let one = decide(&job(json!({}), json!({"failed": 1})), &[failed("a")], at(105)).unwrap();
    assert_eq!((one.create.len(), one.requeue_at), (0, Some(at(110))));
    let two = decide(&job(json!({}), json!({"failed": 2})), &[failed("a"), failed("b")], at(105))
        .unwrap();
    assert_eq!(two.requeue_at, Some(at(120)));
    let later = decide(&job(json!({}), json!({"failed": 1})), &[failed("a")], at(110)).unwrap();
    assert_eq!(later.create.len(), 2);
}

#[test]
fn an_evicted_pod_counts_as_failed() {
    let mut evicted = (*pod("a", "Running", true)).clone();
    evicted.metadata.deletion_timestamp = Some(Time(at(130)));
    evicted.metadata.deletion_grace_period_seconds = Some(30);
    let decision = decide(&job(json!({}), json!({})), &[Arc::new(evicted)], at(100)).unwrap();
    let noted = decision.status.uncounted_terminated_pods.unwrap();
    assert_eq!((noted.failed, names(&decision.release)), (Some(vec!["a".to_owned()]), vec!["a"]));
}

#[test]
fn each_index_has_to_succeed_once() {
    let indexed = json!({"completionMode": "Indexed", "parallelism": 3});
    let pods = [
        with_index(&pod("a", "Succeeded", true), 0),
        with_index(&pod("a2", "Succeeded", true), 0),
        with_index(&pod("b", "Running", true), 1),
    ];
    let decision = decide(&job(indexed, json!({"completedIndexes": "3"})), &pods, at(100)).unwrap();
    assert_eq!(decision.status.completed_indexes.as_deref(), Some("0,3"));
    assert_eq!(decision.status.succeeded, Some(2));
    let made: Vec<_> = decision.create.iter().map(|pod| index_of(pod).unwrap()).collect();
    assert_eq!(made, [2]);
    let made = &decision.create[0];
    assert_eq!(made.metadata.generate_name.as_deref(), Some("j-2-"));
    let env = made.spec.as_ref().unwrap().containers[0].env.as_ref().unwrap();
    assert_eq!(env[0].name, "JOB_COMPLETION_INDEX");
}

#[test]
fn a_finished_job_expires_after_its_ttl() {
    let complete = json!({"conditions": [{
        "type": "Complete", "status": "True", "lastTransitionTime": "1970-01-01T00:01:40Z",
    }]});
    let spec = json!({"ttlSecondsAfterFinished": 30});
    let early = decide(&job(spec.clone(), complete.clone()), &[], at(120)).unwrap();
    assert_eq!((early.expired, early.requeue_at), (false, Some(at(130))));
    assert!(decide(&job(spec, complete.clone()), &[], at(130)).unwrap().expired);
    assert!(!decide(&job(json!({}), complete), &[], at(9999)).unwrap().expired);
}
