//! Tests of objects of manifests: each is completed twice, the second time without a change.

use serde_json::json;

use super::*;

/// A cluster with one object of each class.
#[derive(Debug)]
struct Classes;

impl ObjectReader for Classes {
    fn get(&self, _: &str, plural: &str, _: &str, name: &str) -> Option<Value> {
        let mut found = self.list("", plural, "").into_iter();
        found.find(|class| class["metadata"]["name"] == name)
    }

    fn labels(&self, _: &str, _: &str, _: &str, name: &str) -> Option<Vec<(String, String)>> {
        let zone = ("topology.kubernetes.io/zone".to_owned(), "zone-a".to_owned());
        (name == "node").then(|| vec![zone])
    }

    fn list(&self, _: &str, plural: &str, _: &str) -> Vec<Value> {
        let mut class = json!({"metadata": {"name": "class"}});
        match plural {
            "priorityclasses" => class["value"] = 7.into(),
            "runtimeclasses" => class["overhead"] = json!({"podFixed": {"cpu": "1"}}),
            _ => {
                let key = "storageclass.kubernetes.io/is-default-class";
                class["metadata"]["annotations"] = json!({key: "true"});
            }
        }
        vec![class]
    }
}

fn object(api_version: &str, kind: &str, spec: Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
    object["spec"] = spec;
    object
}

fn pod(spec: Value) -> Value {
    object("v1", "Pod", spec)
}

fn template(spec: Value) -> Value {
    let mut template = json!({"metadata": {"labels": {"app": "a"}}});
    template["spec"] = spec;
    template
}

/// Completes an object, twice: the second time changes nothing.
#[track_caller]
fn complete(mut object: Value) -> Value {
    let kind = ManifestKind::find(&object).unwrap();
    assert_eq!(kind.check(&object), Ok(()));
    kind.complete(&mut object, &Classes);
    let once = object.clone();
    kind.complete(&mut object, &Classes);
    assert_eq!(object, once);
    object
}

#[test]
fn missing_requests_of_pods_default_to_limits_per_resource() {
    let container = |resources: Value| json!({"name": "c", "image": "x", "resources": resources});
    for (resources, requests) in [
        (json!({"limits": {"nvidia.com/gpu": 1}}), json!({"nvidia.com/gpu": "1"})),
        (json!({"limits": {"cpu": "2", "memory": "1Gi"}}), json!({"cpu": "2", "memory": "1Gi"})),
        (
            json!({"limits": {"cpu": 2, "memory": "1Gi"}, "requests": {"cpu": 1}}),
            json!({"cpu": "1", "memory": "1Gi"}),
        ),
        (json!({"requests": {"cpu": "1"}}), json!({"cpu": "1"})),
    ] {
        let containers = [container(resources.clone())];
        let completed =
            complete(pod(json!({"containers": containers, "initContainers": containers})));
        for list in ["containers", "initContainers"] {
            assert_eq!(
                completed["spec"][list][0]["resources"]["requests"], requests,
                "{resources}"
            );
        }
    }
    let completed = complete(pod(json!({
        "resources": {"limits": {"cpu": 4, "memory": "4Gi"}},
        "containers": [container(json!({"requests": {"cpu": 1}})), container(json!({"limits": {"cpu": 2}}))],
    })));
    assert_eq!(completed["spec"]["resources"]["requests"], json!({"cpu": "3", "memory": "4Gi"}));
}

#[test]
fn templates_keep_limits_without_requests() {
    let spec =
        json!({"containers": [{"name": "c", "image": "x", "resources": {"limits": {"cpu": 2}}}]});
    let job = json!({"template": template(spec.clone())});
    for (object, at) in [
        (object("apps/v1", "Deployment", json!({"template": template(spec)})), "/spec/template"),
        (
            object("batch/v1", "CronJob", json!({"jobTemplate": {"spec": job}})),
            "/spec/jobTemplate/spec/template",
        ),
    ] {
        let completed = complete(object);
        let container = completed.pointer(&format!("{at}/spec/containers/0")).unwrap();
        assert_eq!(container["resources"], json!({"limits": {"cpu": "2"}}));
        assert_eq!(container["terminationMessagePolicy"], "File");
    }
}

#[test]
fn admission_copies_values_of_other_objects_into_pods() {
    let completed = complete(pod(json!({
        "containers": [], "priorityClassName": "class", "runtimeClassName": "class", "nodeName": "node",
    })));
    assert_eq!(completed["spec"]["priority"], 7);
    assert_eq!(completed["spec"]["overhead"], json!({"cpu": "1"}));
    assert_eq!(completed["metadata"]["labels"]["topology.kubernetes.io/zone"], "zone-a");
    let keys: Vec<_> =
        completed["spec"]["tolerations"].as_array().unwrap().iter().map(|t| &t["key"]).collect();
    assert_eq!(keys, ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]);
}

#[test]
fn a_class_that_is_not_given_keeps_other_plugins_working() {
    let completed = complete(pod(json!({
        "containers": [], "priorityClassName": "other", "priority": 9, "runtimeClassName": "class",
    })));
    assert_eq!(completed["spec"]["priority"], 9);
    assert_eq!(completed["spec"]["overhead"], json!({"cpu": "1"}));
}

#[test]
fn label_keys_are_merged_into_selectors_once() {
    let mut object = pod(json!({"containers": [], "topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {}, "matchLabelKeys": ["version"],
    }]}));
    object["metadata"]["labels"] = json!({"version": "2"});
    let completed = complete(object);
    let selector = &completed["spec"]["topologySpreadConstraints"][0]["labelSelector"];
    let requirement = json!({"key": "version", "operator": "In", "values": ["2"]});
    assert_eq!(*selector, json!({"matchExpressions": [requirement]}));
}

#[test]
fn claims_get_the_default_class_and_nodes_their_allocatable_resources() {
    let completed = complete(object("v1", "PersistentVolumeClaim", json!({})));
    assert_eq!(completed["spec"]["storageClassName"], "class");
    let mut node = object("v1", "Node", json!({}));
    node["status"] = json!({"capacity": {"cpu": "4"}});
    assert_eq!(complete(node)["status"]["allocatable"], json!({"cpu": "4"}));
}

#[test]
fn a_status_that_is_not_written_stays_absent() {
    for (api_version, kind) in [("v1", "Pod"), ("policy/v1", "PodDisruptionBudget"), ("v1", "Node")]
    {
        let completed = complete(object(api_version, kind, json!({})));
        assert_eq!(completed.get("status"), None, "{kind}");
    }
}

#[test]
fn jobs_have_no_placeholders_for_generated_labels() {
    let spec = json!({"template": template(json!({"containers": []}))});
    let completed = complete(object("batch/v1", "Job", spec));
    assert_eq!(completed["metadata"]["labels"], json!({"app": "a"}));
    assert_eq!(completed["spec"]["parallelism"], 1);
}

#[test]
fn every_cluster_has_the_system_priority_classes() {
    let names: Vec<_> =
        system_priority_classes().map(|class| class["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["system-node-critical", "system-cluster-critical"]);
}
