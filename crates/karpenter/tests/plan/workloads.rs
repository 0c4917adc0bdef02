//! Tests of generated pods of workloads, and of workloads that an API server would reject.

use super::*;

/// A workload of a kind, with more fields of its spec in YAML.
fn workload(kind: &str, more: &str) -> String {
    let version = match kind {
        "ReplicationController" => "v1",
        "Job" => "batch/v1",
        _ => "apps/v1",
    };
    let selector =
        if kind == "ReplicationController" { "{app: a}" } else { "{matchLabels: {app: a}}" };
    format!(
        "---\napiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\nspec:\n  {more}\n  \
         selector: {selector}\n  template:\n    metadata: {{labels: {{app: a}}}}\n    \
         spec: {{containers: [{{name: c, resources: {{requests: {{cpu: 100m}}}}}}]}}\n"
    )
}

#[track_caller]
fn plan_text(text: &str) -> RunOutput {
    plan(&scenarios(), &["-f", "-"], format!("{POOL}{text}"))
}

/// Plans a text and asserts that an object is left out, with a message.
#[track_caller]
fn assert_left_out(text: &str, message: &str) {
    let ran = plan_text(text);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.contains(message), "{message}\n{}", ran.stdout);
    assert!(ran.stdout.contains("0 pods placed"), "{}", ran.stdout);
}

#[test]
fn a_missing_storage_class_is_assumed_and_reported() {
    let claims = |class: &str| {
        workload(
            "StatefulSet",
            &format!(
                "volumeClaimTemplates: [{{metadata: {{name: data}}, spec: {{{class}accessModes: \
                 [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}}}]\n  replicas: 2"
            ),
        )
    };
    let ran = plan_text(&claims("storageClassName: gp3, "));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("2 pods placed"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains(
            "StorageClass gp3: is not in the input, and StatefulSet default/a asks for it; assumed \
             that volumes are made in the zone of the pod, any zone\n    -> add it to the input: \
             kubectl get storageclasses -o yaml\n"
        ),
        "{}",
        ran.stdout
    );
    let ran = plan_text(&claims(""));
    assert_eq!(ran.code, 0, "{ran:?}");
    let message =
        "StatefulSet default/a: claims name no StorageClass, and the input has no default one";
    assert!(ran.stdout.contains(message), "{}", ran.stdout);
    let class = "---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: gp3}\n\
                 provisioner: ebs.csi.aws.com\nvolumeBindingMode: WaitForFirstConsumer\n";
    let ran = plan_text(&format!("{}{class}", claims("storageClassName: gp3, ")));
    assert!(!ran.stdout.contains("TO LOOK AT"), "{}", ran.stdout);
}

#[test]
fn claims_of_missing_storage_classes_get_a_fix() {
    let pod = POD.replace(
        "spec:\n",
        "spec:\n  volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]\n",
    );
    let claim = "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n\
                 spec: {storageClassName: gp3}\n";
    for text in [format!("---\n{pod}"), format!("---\n{pod}{claim}")] {
        let ran = plan_text(&text);
        assert_eq!(ran.code, 1);
        let fix = "-> add what is missing: kubectl get pvc,pv,storageclasses -A -o yaml";
        assert!(ran.stdout.contains(fix), "{}", ran.stdout);
    }
}

#[test]
fn invalid_workloads_get_no_pods() {
    for kind in ["Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"] {
        let message = format!(
            "{kind} default/a: spec.replicas: must not be negative, is -2; left out (stdin:14)"
        );
        assert_left_out(&workload(kind, "replicas: -2"), &message);
        let bare = workload(kind, "replicas: 2");
        let bare = bare.split("  template:").next().unwrap();
        assert_left_out(
            bare,
            &format!("{kind} default/a: spec.template: has no containers; left out (stdin:"),
        );
        let other = workload(kind, "replicas: 2").replace("labels: {app: a}", "labels: {app: b}");
        let message = "spec.selector: does not match the labels of its own pods; left out (stdin:15)\n    -> \
                    write the same labels into spec.selector and spec.template.metadata";
        assert_left_out(&other, message);
    }
    let message = "Job default/a: spec.parallelism: must not be negative, is -1; left out";
    assert_left_out(&workload("Job", "parallelism: -1"), message);
    let empty = workload("Deployment", "replicas: 1").replace("{matchLabels: {app: a}}", "{}");
    assert_left_out(&empty, "Deployment default/a: spec.selector: must not be empty; left out");
}

#[test]
fn invalid_pod_and_node_pool_fields_are_reported() {
    let spread = "topologySpreadConstraints: [{labelSelector: {}, ";
    for (field, message) in [
        (format!("{spread}maxSkew: 1, whenUnsatisfiable: DoNotSchedule, topologyKey: ''}}]"), "topologySpreadConstraints[0].topologyKey must not be empty"),
        (format!("{spread}maxSkew: 0, whenUnsatisfiable: DoNotSchedule, topologyKey: z}}]"), "topologySpreadConstraints[0].maxSkew must be 1 or more, is 0"),
        (format!("{spread}maxSkew: 1, minDomains: 0, whenUnsatisfiable: DoNotSchedule, topologyKey: z}}]"), "topologySpreadConstraints[0].minDomains must be 1 or more, is 0"),
        (format!("{spread}maxSkew: 1, whenUnsatisfiable: Never, topologyKey: z}}]"), "topologySpreadConstraints[0].whenUnsatisfiable must be DoNotSchedule or ScheduleAnyway, is \"Never\""),
        ("tolerations: [{key: a, operator: Like}]".to_owned(), "toleration of \"a\": operator must be Exists or Equal, is \"Like\""),
        ("tolerations: [{key: a, operator: Exists, effect: Never}]".to_owned(), "toleration of \"a\": effect must be NoSchedule, PreferNoSchedule or NoExecute, is \"Never\""),
        ("affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: ''}]}}".to_owned(), "affinity: topologyKey must not be empty"),
    ] {
        let ran = plan_text(&format!("---\n{}", POD.replace("spec:\n", &format!("spec:\n  {field}\n"))));
        assert_eq!(ran.code, 1, "{field}");
        assert!(ran.stdout.contains(&format!("Pod default/pod: {message}")), "{message}\n{}", ran.stdout);
        assert!(ran.stdout.contains("0 pods placed"), "{}", ran.stdout);
    }
    let ported =
        POD.replace("- name: c\n", "- name: c\n    ports: [{containerPort: 1, hostPort: 70000}]\n");
    let ran = plan_text(&format!("---\n{ported}"));
    assert!(
        ran.stdout.contains("container c: hostPort must be 1 to 65535, is 70000"),
        "{}",
        ran.stdout
    );
    for (field, message) in [
        ("weight: -1", "NodePool pool: spec.weight: must be 1 to 100, is -1; left out (stdin:5)"),
        (
            "limits: {cpu: -1}",
            "NodePool pool: spec.limits[cpu]: must not be negative; left out (stdin:5)",
        ),
        (
            "replicas: -1",
            "NodePool pool: spec.replicas: must not be negative, is -1; left out (stdin:5)",
        ),
    ] {
        let pool = POOL.replace("spec:\n  template", &format!("spec:\n  {field}\n  template"));
        let ran = plan(&scenarios(), &["-f", "-"], format!("{pool}---\n{POD}"));
        assert_eq!(ran.code, 1, "{field}");
        assert!(ran.stdout.contains(message), "{message}\n{}", ran.stdout);
    }
}

#[test]
fn excess_replicas_are_left_out_and_reported() {
    let ran = plan_text(&workload("Deployment", "replicas: 2000000000").replace("100m", "1m"));
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("50000 pods placed"), "{}", ran.stdout);
    let message =
        "Deployment default/a: spec.replicas: asks for 2000000000 pods; 50000 of them are planned";
    assert!(ran.stdout.contains(message), "{}", ran.stdout);
}

#[test]
fn pods_of_replication_controllers_are_planned() {
    let ran = plan_text(&workload("ReplicationController", "replicas: 3"));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("ReplicationController default/a (3)"), "{}", ran.stdout);
}

#[test]
fn a_horizontal_pod_autoscaler_is_mentioned_in_a_note() {
    let scaler = |name: &str| {
        format!(
            "---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {{name: x}}\nspec: \
             {{maxReplicas: 9, scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: {name}}}}}\n"
        )
    };
    let web = workload("Deployment", "replicas: 2");
    let ran = plan_text(&format!("{web}{}", scaler("a")));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let message = "note: a HorizontalPodAutoscaler decides about the replicas of Deployment default/a; planned with";
    assert!(ran.stdout.contains(message), "{}", ran.stdout);
    let ran = plan_text(&format!("{web}{}", scaler("other")));
    assert!(!ran.stdout.contains("note:"), "{}", ran.stdout);
}

#[test]
fn a_replica_set_of_a_deployment_is_not_counted_twice() {
    let set = workload("ReplicaSet", "replicas: 2").replace(
        "{name: a}\nspec",
        "{name: a-1, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: a, uid: u}]}\nspec",
    );
    let ran = plan_text(&format!("{}{set}", workload("Deployment", "replicas: 2")));
    assert!(ran.stdout.contains("2 pods placed"), "{}", ran.stdout);
}

/// Plans a text with a GPU type and returns the requests of the only new NodeClaim.
#[track_caller]
fn requests_with_gpus(text: &str) -> serde_json::Value {
    let types = serde_json::json!([{
        "name": "gpu-8", "architecture": "amd64", "operatingSystems": ["linux"],
        "resources": {"cpu": "8", "memory": "32Gi", "pods": "100", "ephemeral-storage": "20Gi", "nvidia.com/gpu": "4"},
        "offerings": [{"Price": 1.0, "Available": true, "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-a"]},
        ]}],
    }]);
    let folder = folder(&[("types.json", &types.to_string())]);
    let args = ["-f", "-", "-o", "json", "--instance-types", "types.json"];
    let ran = plan(folder.path(), &args, format!("{POOL}{text}"));
    assert_eq!(ran.code, 0, "{ran:?}");
    let claims = ran.json()["nodeClaims"].clone();
    assert_eq!(claims.as_array().map(Vec::len), Some(1), "{claims}");
    claims[0]["requests"].clone()
}

#[test]
fn limits_without_requests_are_requested() {
    let own = "requests: {cpu: 100m}";
    let gpu = "limits: {nvidia.com/gpu: 2}";
    let limits = "limits: {cpu: 2, memory: 1Gi}";
    let pod = |resources: &str| {
        let written = "requests: {cpu: 1, memory: 1Gi}";
        format!("---\n{}", POD.replace(written, resources))
    };
    let init = "  initContainers: [{name: i, resources: {limits: {memory: 3Gi}}}]\n";
    let whole = "  resources: {limits: {cpu: 3, memory: 2Gi}}\n";
    let owned = workload("Job", "parallelism: 1").replace(own, gpu).replace(
        "{name: a}\nspec",
        "{name: a-1, ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: a, uid: u}]}\nspec",
    );
    for (text, requests) in [
        (pod(gpu), "{nvidia.com/gpu: '2', pods: '1'}"),
        (pod(limits), "{cpu: '2', memory: 1Gi, pods: '1'}"),
        (pod(&format!("{limits}, requests: {{cpu: 1}}")), "{cpu: '1', memory: 1Gi, pods: '1'}"),
        (pod(gpu) + init, "{memory: 3Gi, nvidia.com/gpu: '2', pods: '1'}"),
        (pod(limits) + whole, "{cpu: '2', memory: 1Gi, pods: '1'}"),
        (pod("limits: {}") + whole, "{cpu: '3', memory: 2Gi, pods: '1'}"),
        (
            workload("Deployment", "replicas: 2").replace(own, gpu),
            "{nvidia.com/gpu: '4', pods: '2'}",
        ),
        (
            workload("StatefulSet", "replicas: 1").replace(own, limits),
            "{cpu: '2', memory: 1Gi, pods: '1'}",
        ),
        (owned, "{nvidia.com/gpu: '2', pods: '1'}"),
    ] {
        let requests: serde_json::Value = serde_saphyr::from_str(requests).unwrap();
        assert_eq!(requests_with_gpus(&text), requests, "{text}");
    }
}

#[test]
fn a_cron_job_has_no_pods() {
    let cron_job = "---\napiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\nspec: {schedule: '* * * * *', \
                    jobTemplate: {spec: {template: {spec: {containers: [{name: c, resources: {limits: {cpu: 2}}}]}}}}}\n";
    let ran = plan_text(cron_job);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert!(
        !ran.stdout.contains("pods placed") || ran.stdout.contains("0 pods placed"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_wrong_type_that_decisions_do_not_read_keeps_the_defaults() {
    let pod = POD
        .replace("requests: {cpu: 1, memory: 1Gi}", "limits: {nvidia.com/gpu: 1}")
        .replace("- name: c\n", "- name: c\n    env: [{name: PORT, value: 80}]\n");
    let requests = requests_with_gpus(&format!("---\n{pod}"));
    assert_eq!(requests, serde_json::json!({"nvidia.com/gpu": "1", "pods": "1"}));
}
