//! Tests of the StatefulSet controller's decisions: order, rolling updates and claims.

use serde_json::{Value, json};

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "tables read better so")]
fn set(replicas: i32, more: Value) -> StatefulSet {
    let mut object = json!({
        "metadata": {"name": "s", "namespace": "n", "uid": "s", "generation": 1},
        "spec": {
            "replicas": replicas, "serviceName": "db",
            "selector": {"matchLabels": {"app": "x"}},
            "template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "c", "image": "new"}]},
            },
        },
    });
    object["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(object).unwrap()
}

fn update(set: &StatefulSet) -> String {
    Revisions::new(set, set.spec.as_ref().unwrap(), &[]).update().0
}

fn pod(ordinal: i32, revision: &str, state: &str) -> Arc<Pod> {
    let ready = if state == "ready" { "True" } else { "False" };
    let phase = match state {
        "ready" | "starting" | "ending" => "Running",
        other => other,
    };
    let mut pod = json!({
        "metadata": {"name": format!("s-{ordinal}"), "labels": {"app": "x", REVISION_HASH: revision}},
        "status": {"phase": phase, "conditions": [
            {"type": "Ready", "status": ready, "lastTransitionTime": "1970-01-01T00:00:00Z"},
        ]},
    });
    if state == "ending" {
        pod["metadata"]["deletionTimestamp"] = "1970-01-01T00:10:00Z".into();
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn made(decision: &Decision) -> Vec<&str> {
    decision.create.iter().map(|pod| pod.metadata.name.as_deref().unwrap()).collect()
}

fn ended(decision: &Decision) -> Vec<&str> {
    decision.delete.iter().map(|pod| pod.metadata.name.as_deref().unwrap()).collect()
}

type Pods = &'static [(i32, &'static str)];
type Names = &'static [&'static str];

#[test]
fn pods_are_created_and_deleted_in_order_unless_parallel() {
    let parallel = json!({"podManagementPolicy": "Parallel"});
    let none = json!({});
    #[rustfmt::skip]
    let cases: [(&str, i32, &Value, Pods, Names, Names); 11] = [
        ("the first", 3, &none, &[], &["s-0"], &[]),
        ("it is waited for", 3, &none, &[(0, "starting")], &[], &[]),
        ("then the next", 3, &none, &[(0, "ready")], &["s-1"], &[]),
        ("a gap is filled first", 3, &none, &[(0, "ready"), (2, "ready")], &["s-1"], &[]),
        ("one that ends is waited for", 3, &none, &[(0, "ending"), (1, "ready")], &[], &[]),
        ("a failed one goes", 3, &none, &[(0, "Failed"), (1, "ready")], &[], &["s-0"]),
        ("all at once", 3, &parallel, &[(1, "starting")], &["s-0", "s-2"], &[]),
        ("the highest goes first", 1, &none, &[(0, "ready"), (1, "ready"), (2, "ready")], &[], &["s-2"]),
        ("it is waited for to go", 1, &none, &[(0, "ready"), (1, "ready"), (2, "ending")], &[], &[]),
        ("all go at once", 1, &parallel, &[(0, "ready"), (1, "ready"), (2, "ready")], &[], &["s-2", "s-1"]),
        ("none goes while one is missing", 1, &none, &[(0, "starting"), (1, "ready")], &[], &[]),
    ];
    for (case, replicas, more, pods, expected_made, expected_ended) in cases {
        let set = set(replicas, more.clone());
        let revision = update(&set);
        let pods: Vec<_> = pods.iter().map(|(n, state)| pod(*n, &revision, state)).collect();
        let decision = decide(&set, &pods, &[], at(100)).unwrap();
        assert_eq!(
            (made(&decision).as_slice(), ended(&decision).as_slice()),
            (expected_made, expected_ended),
            "{case}"
        );
    }
}

#[test]
fn a_rolling_update_runs_from_the_highest_ordinal_to_the_partition() {
    let partition =
        json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}});
    let set = set(3, partition);
    let new = update(&set);
    let old = |n| pod(n, "s-old", "ready");
    let decided = |pods: &[Arc<Pod>]| decide(&set, pods, &[], at(100)).unwrap();
    assert_eq!(ended(&decided(&[old(0), old(1), old(2)])), ["s-2"]);
    assert_eq!(ended(&decided(&[old(0), old(1), pod(2, &new, "starting")])), [""; 0]);
    assert_eq!(ended(&decided(&[old(0), old(1), pod(2, &new, "ready")])), ["s-1"]);
    assert_eq!(ended(&decided(&[old(0), pod(1, &new, "ready"), pod(2, &new, "ready")])), [""; 0]);
}

#[test]
fn pods_below_the_partition_are_recreated_with_the_old_template() {
    let partition =
        json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}});
    let mut set = set(2, partition);
    set.status = Some(StatefulSetStatus {
        current_revision: Some("s-old".to_owned()),
        ..StatefulSetStatus::default()
    });
    let revision: ControllerRevision = serde_json::from_value(json!({
        "metadata": {"name": "s-old"}, "revision": 1,
        "data": {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "old"}]}}}},
    }))
    .unwrap();
    let revisions = [Arc::new(revision)];
    let image = |decision: &Decision| {
        decision.create[0].spec.as_ref().unwrap().containers[0].image.clone().unwrap()
    };
    let first = decide(&set, &[], &revisions, at(100)).unwrap();
    assert_eq!((made(&first), image(&first)), (vec!["s-0"], "old".to_owned()));
    let second = decide(&set, &[pod(0, "s-old", "ready")], &revisions, at(100)).unwrap();
    assert_eq!((made(&second), image(&second)), (vec!["s-1"], "new".to_owned()));
    assert_eq!(first.revision.unwrap().revision, 2);
}

#[test]
fn each_pod_has_its_own_name_and_volume_claims() {
    let claims = json!({
        "ordinals": {"start": 5},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}],
    });
    let decision = decide(&set(1, claims), &[], &[], at(0)).unwrap();
    assert_eq!(made(&decision), ["s-5"]);
    assert_eq!(decision.claims[0].metadata.name.as_deref(), Some("data-s-5"));
    let spec = decision.create[0].spec.as_ref().unwrap();
    assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("s-5"), Some("db")));
    let volume = &spec.volumes.as_ref().unwrap()[0];
    assert_eq!(volume.name, "data");
    assert_eq!(volume.persistent_volume_claim.as_ref().unwrap().claim_name, "data-s-5");
    assert_eq!(
        decision.create[0].metadata.labels.as_ref().unwrap()["apps.kubernetes.io/pod-index"],
        "5"
    );
}

#[test]
fn the_update_revision_becomes_current_when_all_pods_have_it() {
    let mut set = set(2, json!({}));
    set.status = Some(StatefulSetStatus {
        current_revision: Some("s-old".to_owned()),
        ..StatefulSetStatus::default()
    });
    let new = update(&set);
    let status =
        |pods: &[Arc<Pod>], set: &StatefulSet| decide(set, pods, &[], at(1)).unwrap().status;
    let done = status(&[pod(0, &new, "ready"), pod(1, &new, "ready")], &set);
    assert_eq!((done.current_revision.as_ref(), done.current_replicas), (Some(&new), Some(2)));
    assert_eq!((done.ready_replicas, done.updated_replicas), (Some(2), Some(2)));
}
