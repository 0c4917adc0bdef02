//! Tests of the expansion of workloads: generated pods, claims, names and limits.

use super::*;
use serde_json::{Value, json};

fn gather(values: &[Value]) -> ClusterObjects {
    let mut gathered = ClusterObjects::default();
    gathered.file_objects = FileObjects::collect(values);
    for value in values {
        assert_eq!(gathered.add_manifest(value.clone()), None);
    }
    gathered
}

fn workload(kind: &str, name: &str, spec: Value) -> Value {
    let api_version = match kind {
        "Job" => "batch/v1",
        "ReplicationController" => "v1",
        _ => "apps/v1",
    };
    let mut object = json!({
        "apiVersion": api_version, "kind": kind, "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c"}]}},
        },
    });
    let Value::Object(more) = spec else { panic!("not a mapping") };
    object["spec"].as_object_mut().unwrap().extend(more);
    object
}

fn pod(name: &str, labels: &Value, owners: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": []},
        "metadata": {"name": name, "labels": labels, "ownerReferences": owners}})
}

/// Names of the pods after expansion.
#[track_caller]
fn names(values: &[Value]) -> Vec<String> {
    let mut gathered = gather(values);
    expand_workloads(&mut gathered);
    gathered.objects.pods.into_iter().map(|pod| pod.metadata.name.unwrap()).collect()
}

#[test]
fn workloads_get_the_pods_that_their_controllers_would_make() {
    let cases = [
        (workload("Deployment", "web", json!({"replicas": 2})), vec!["web-0", "web-1"]),
        (workload("Deployment", "web", json!({})), vec!["web-0"]),
        (workload("Deployment", "web", json!({"replicas": 0})), vec![]),
        (workload("ReplicaSet", "rs", json!({"replicas": 1})), vec!["rs-0"]),
        (
            workload("ReplicationController", "rc", json!({"replicas": 1, "selector": null})),
            vec!["rc-0"],
        ),
        (workload("StatefulSet", "db", json!({"replicas": 2})), vec!["db-0", "db-1"]),
        (workload("StatefulSet", "db", json!({"ordinals": {"start": 5}})), vec!["db-5"]),
        (workload("Job", "job", json!({})), vec!["job-0"]),
        (workload("Job", "job", json!({"parallelism": 2})), vec!["job-0", "job-1"]),
        (workload("Job", "job", json!({"parallelism": 3, "completions": 1})), vec!["job-0"]),
        (workload("Job", "job", json!({"completions": 9})), vec!["job-0"]),
        (workload("Job", "job", json!({"suspend": true})), vec![]),
        (workload("DaemonSet", "agent", json!({})), vec![]),
    ];
    for (object, wanted) in cases {
        assert_eq!(names(std::slice::from_ref(&object)), wanted, "{object}");
    }
}

#[test]
fn finished_jobs_get_no_pods_and_partly_finished_jobs_get_fewer() {
    let mut job = workload("Job", "job", json!({"parallelism": 3, "completions": 3}));
    job["status"] = json!({"succeeded": 1});
    assert_eq!(names(std::slice::from_ref(&job)).len(), 2);
    job["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    assert!(names(&[job]).is_empty());
}

#[test]
fn workloads_with_pods_in_the_input_are_not_expanded() {
    let web = workload("Deployment", "web", json!({"replicas": 3}));
    let owner = |kind: &str, name: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "1"}]);
    // By its labels.
    let by_labels = pod("web-abc", &json!({"app": "web", "x": "y"}), &json!([]));
    assert_eq!(names(&[web.clone(), by_labels]), ["web-abc"]);
    // By its owner.
    let db = workload("StatefulSet", "db", json!({"replicas": 3}));
    let by_owner = pod("db-0", &json!({}), &owner("StatefulSet", "db"));
    assert_eq!(names(&[db, by_owner]), ["db-0"]);
    // A Deployment whose ReplicaSet is in the input: the ReplicaSet counts.
    let mut set = workload("ReplicaSet", "web-1", json!({"replicas": 1}));
    set["metadata"]["ownerReferences"] = owner("Deployment", "web");
    assert_eq!(names(&[web.clone(), set]), ["web-1-0"]);
    // Pods of others do not count.
    let other = pod("x", &json!({"app": "other"}), &owner("ReplicaSet", "other"));
    assert_eq!(names(&[web, other]).len(), 4);
}

#[test]
fn pods_of_a_stateful_set_have_their_claims() {
    let db = workload(
        "StatefulSet",
        "db",
        json!({"replicas": 2, "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}]}),
    );
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "p",
        "metadata": {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}});
    let kept = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data-db-0"},
        "spec": {"volumeName": "pv", "storageClassName": ""}});
    let mut gathered = gather(&[db, class, kept]);
    expand_workloads(&mut gathered);
    let claims: Vec<_> = gathered
        .objects
        .persistent_volume_claims
        .iter()
        .map(|claim| {
            let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
            (claim.metadata.name.as_deref().unwrap(), class)
        })
        .collect();
    assert_eq!(claims, [("data-db-0", Some("")), ("data-db-1", Some("fast"))]);
    let volumes = gathered.objects.pods[1].spec.as_ref().unwrap().volumes.as_ref().unwrap();
    let claim = volumes[0].persistent_volume_claim.as_ref().unwrap();
    assert_eq!((volumes[0].name.as_str(), claim.claim_name.as_str()), ("data", "data-db-1"));
}

#[test]
fn workloads_of_one_name_get_pods_with_different_names() {
    let values = [
        workload("Deployment", "a", json!({})),
        workload("StatefulSet", "a", json!({})),
        pod("a-0", &json!({}), &json!([])),
    ];
    assert_eq!(names(&values), ["a-0", "a-0-x", "a-0-x-x"]);
}

#[test]
fn expansion_limits_the_pods_of_one_workload() {
    let mut gathered = gather(&[workload("Deployment", "a", json!({"replicas": 2_000_000_000}))]);
    let limits = Limits { pods_per_workload: 10, ..Limits::PLAN };
    let expanded = expand_within(&mut gathered, limits);
    assert_eq!(gathered.objects.pods.len(), 10);
    assert_eq!((expanded[0].pods, expanded[0].left_out), (10, 1_999_999_990));
}

#[test]
fn expansion_limits_the_number_and_size_of_all_pods() {
    let many = |name| workload("Deployment", name, json!({"replicas": 8}));
    let made = |limits| {
        let expanded = expand_within(&mut gather(&[many("a"), many("b")]), limits);
        expanded.iter().map(|expanded| expanded.pods).collect::<Vec<_>>()
    };
    assert_eq!(made(Limits { pods: 10, ..Limits::PLAN }), [8, 2]);
    let template = serde_json::from_value(many("a")["spec"]["template"].clone()).unwrap();
    let pod = FileObjects::default().pod_from_template(Some(&template), "default");
    let size = serde_json::to_vec(&pod).unwrap().len();
    let few = made(Limits { bytes: size * 13, ..Limits::PLAN });
    assert!(few[0] == 8 && few[1] < 8, "{few:?}");
}
