//! Tests of admission of built-in kinds: defaults that depend on other objects.

use super::*;
use crate::kinds::json_access::{at, list, text};

fn pod(spec: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"containers": [{"name": "a", "image": "a"}]},
    });
    for (name, value) in spec.as_object().unwrap() {
        pod["spec"][name] = value.clone();
    }
    pod
}

fn api_with_objects(plural: &'static str, objects: &[Value]) -> TestApi {
    let mut world = default_objects();
    world.0.extend(objects.iter().map(|object| (plural, object.clone())));
    TestApi::new(world)
}

#[test]
fn a_pod_without_priority_class_gets_the_lowest_global_default() {
    let class = |name: &str, value: i64| {
        json!({
            "metadata": {"name": name}, "globalDefault": true, "value": value,
            "preemptionPolicy": "Never",
        })
    };
    let api = api_with_objects("priorityclasses", &[class("high", 10), class("low", 5)]);
    let pod = api.create("", "pods", pod(&json!({}))).unwrap();
    assert_eq!(text(&pod, "/spec/priorityClassName"), "low");
    assert_eq!(pod["spec"]["priority"], 5);
    assert_eq!(pod["spec"]["preemptionPolicy"], "Never");
}

#[test]
fn a_second_default_priority_class_is_rejected() {
    let first = json!({"metadata": {"name": "first"}, "globalDefault": true, "value": 1});
    let api = api_with_objects("priorityclasses", &[first]);
    let second = json!({"metadata": {"name": "second"}, "globalDefault": true, "value": 2});
    let failure = api.create("scheduling.k8s.io", "priorityclasses", second).unwrap_err();
    assert_eq!(
        failure.message,
        "priorityclasses.scheduling.k8s.io \"second\" is forbidden: PriorityClass first is already \
         marked as default. Only one default can exist"
    );
}

#[test]
fn a_runtime_class_sets_pod_overhead_and_node_selector() {
    let class = json!({
        "metadata": {"name": "vm"}, "handler": "vm", "overhead": {"podFixed": {"cpu": "100m"}},
        "scheduling": {
            "nodeSelector": {"vm": "yes"},
            "tolerations": [{"key": "vm", "operator": "Exists"}],
        },
    });
    let api = api_with_objects("runtimeclasses", &[class]);
    let created = api.create("", "pods", pod(&json!({"runtimeClassName": "vm"}))).unwrap();
    assert_eq!(created["spec"]["overhead"], json!({"cpu": "100m"}));
    assert_eq!(created["spec"]["nodeSelector"], json!({"vm": "yes"}));
    let keys: Vec<&str> = list(&created, "/spec/tolerations")
        .iter()
        .map(|toleration| text(toleration, "/key"))
        .collect();
    assert_eq!(keys, ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "vm"]);
    let other = pod(&json!({"runtimeClassName": "vm", "nodeSelector": {"vm": "no"}}));
    let failure = api.create("", "pods", other).unwrap_err();
    assert_eq!(
        failure.message,
        "pods \"a\" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; \
         pod.spec.nodeSelector[vm] = no"
    );
}

#[test]
fn a_bound_pod_gets_the_topology_labels_of_its_node() {
    let labels = json!({"topology.kubernetes.io/zone": "z", "other": "x"});
    let api = api_with_objects("nodes", &[json!({"metadata": {"name": "n", "labels": labels}})]);
    let created = api.create("", "pods", pod(&json!({"nodeName": "n"}))).unwrap();
    assert_eq!(created["metadata"]["labels"], json!({"topology.kubernetes.io/zone": "z"}));
}

#[test]
fn a_service_account_sets_token_mount_and_image_pull_secrets() {
    let account = json!({
        "metadata": {"name": "quiet", "namespace": "default"},
        "automountServiceAccountToken": false,
        "imagePullSecrets": [{"name": "key"}],
    });
    let api = api_with_objects("serviceaccounts", &[account]);
    let created = api.create("", "pods", pod(&json!({"serviceAccountName": "quiet"}))).unwrap();
    assert!(at(&created, "/spec/volumes").is_null());
    assert_eq!(created["spec"]["imagePullSecrets"], json!([{"name": "key"}]));
}

#[test]
fn pods_get_no_service_account_when_the_plugin_is_disabled() {
    let api = TestApi::new(default_objects());
    let (_, strategy) = api.resource("", "pods");
    let mut pod = pod(&json!({}));
    let context = AdmissionContext { service_accounts: false, ..api.admission_context() };
    strategy.admit_create(&mut pod, context).unwrap();
    assert!(at(&pod, "/spec/serviceAccountName").is_null());
    assert!(at(&pod, "/spec/volumes").is_null());
}

#[test]
fn a_pvc_gets_the_newest_default_storage_class() {
    let class = |name: &str, time: &str, default: &str| {
        let annotations = json!({"storageclass.kubernetes.io/is-default-class": default});
        json!({"metadata": {
            "name": name, "creationTimestamp": time, "annotations": annotations,
        }})
    };
    let api = api_with_objects(
        "storageclasses",
        &[
            class("old", "2020-01-01T00:00:00Z", "true"),
            class("new", "2021-01-01T00:00:00Z", "true"),
            class("newest", "2022-01-01T00:00:00Z", "false"),
        ],
    );
    let claim = |class: Value| {
        json!({
            "metadata": {"name": "a", "namespace": "default"},
            "spec": {
                "storageClassName": class, "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        })
    };
    let class = |given: Value| {
        let created = api.create("", "persistentvolumeclaims", claim(given)).unwrap();
        text(&created, "/spec/storageClassName").to_owned()
    };
    assert_eq!(class(Value::Null), "new");
    assert_eq!(class("".into()), "", "the user wants none");
    assert_eq!(class("old".into()), "old");
}

#[test]
fn services_get_unused_cluster_ips_and_node_ports() {
    let taken = json!({
        "metadata": {"name": "other", "uid": "other"},
        "spec": {"clusterIP": "10.96.0.2", "ports": [{"nodePort": 30000}]},
    });
    let api = api_with_objects("services", &[taken]);
    let service = json!({
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"type": "NodePort", "ports": [
            {"name": "a", "port": 1}, {"name": "b", "port": 2}, {"name": "c", "port": 3, "nodePort": 30001},
        ]},
    });
    let created = api.create("", "services", service).unwrap();
    assert_eq!(created["spec"]["clusterIP"], "10.96.0.3");
    let ports: Vec<&Value> =
        list(&created, "/spec/ports").iter().map(|port| at(port, "/nodePort")).collect();
    assert_eq!(ports, [30002, 30003, 30001]);
}

#[test]
fn only_a_running_pod_on_a_node_has_a_grace_period() {
    let strategy = TestApi::new(default_objects()).resource("", "pods").1;
    let pod = |node: &str, phase: &str| {
        json!({
            "spec": {"nodeName": node, "terminationGracePeriodSeconds": 30},
            "status": {"phase": phase},
        })
    };
    #[rustfmt::skip]
    let cases = [
        ("n", "Running",   None,     30),
        ("n", "Running",   Some(5),  5),
        ("n", "Running",   Some(0),  0),
        ("n", "Running",   Some(-1), 1),
        ("",  "Pending",   None,     0),
        ("",  "Pending",   Some(5),  0),
        ("n", "Succeeded", None,     0),
        ("n", "Failed",    Some(5),  0),
    ];
    for (node, phase, requested, expected) in cases {
        let found = strategy.grace_period(&pod(node, phase), requested);
        assert_eq!(found, Some(expected), "{node:?} {phase} {requested:?}");
    }
}

#[test]
fn pods_support_the_field_selectors_of_kubernetes() {
    let api = TestApi::new(default_objects());
    let pod = json!({
        "spec": {
            "nodeName": "n", "restartPolicy": "Always", "schedulerName": "s",
            "serviceAccountName": "a", "hostNetwork": true,
        },
        "status": {"phase": "Running", "podIPs": [{"ip": "1.2.3.4"}], "nominatedNodeName": "m"},
    });
    let found = api.resource("", "pods").1.selectable_fields(&pod);
    let found: Vec<String> =
        found.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(
        found,
        [
            "spec.nodeName=n",
            "spec.restartPolicy=Always",
            "spec.schedulerName=s",
            "spec.serviceAccountName=a",
            "spec.hostNetwork=true",
            "status.phase=Running",
            "status.podIP=1.2.3.4",
            "status.nominatedNodeName=m",
        ]
    );
}
