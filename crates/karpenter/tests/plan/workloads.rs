//! Workloads whose pods are made up, and what an API server would not take.

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
fn told(text: &str) -> Ran {
    plan(&scenarios(), &["-f", "-"], format!("{POOL}{text}"))
}

/// Runs and expects an object to be left out, with its place and something to do about it.
#[track_caller]
fn left_out(text: &str, said: &str) {
    let ran = told(text);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.contains(said), "{said}\n{}", ran.stdout);
    assert!(ran.stdout.contains("0 pods placed"), "{}", ran.stdout);
}

#[test]
fn a_missing_storage_class_is_assumed_and_told() {
    let claims = |class: &str| {
        workload(
            "StatefulSet",
            &format!(
                "volumeClaimTemplates: [{{metadata: {{name: data}}, spec: {{{class}accessModes: \
                 [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}}}]\n  replicas: 2"
            ),
        )
    };
    let ran = told(&claims("storageClassName: gp3, "));
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
    let ran = told(&claims(""));
    assert_eq!(ran.code, 0, "{ran:?}");
    let said =
        "StatefulSet default/a: claims name no StorageClass, and the input has no default one";
    assert!(ran.stdout.contains(said), "{}", ran.stdout);
    let class = "---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: gp3}\n\
                 provisioner: ebs.csi.aws.com\nvolumeBindingMode: WaitForFirstConsumer\n";
    let ran = told(&format!("{}{class}", claims("storageClassName: gp3, ")));
    assert!(!ran.stdout.contains("TO LOOK AT"), "{}", ran.stdout);
}

#[test]
fn claims_without_a_class_in_the_input_say_what_to_add() {
    let pod = POD.replace(
        "spec:\n",
        "spec:\n  volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]\n",
    );
    let claim = "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n\
                 spec: {storageClassName: gp3}\n";
    for text in [format!("---\n{pod}"), format!("---\n{pod}{claim}")] {
        let ran = told(&text);
        assert_eq!(ran.code, 1);
        let fix = "-> add what is missing: kubectl get pvc,pv,storageclasses -A -o yaml";
        assert!(ran.stdout.contains(fix), "{}", ran.stdout);
    }
}

#[test]
fn workloads_that_no_api_server_takes_make_no_pods() {
    for kind in ["Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"] {
        let said = format!(
            "{kind} default/a: spec.replicas: must not be negative, is -2; left out (stdin:14)"
        );
        left_out(&workload(kind, "replicas: -2"), &said);
        let bare = workload(kind, "replicas: 2");
        let bare = bare.split("  template:").next().unwrap();
        left_out(
            bare,
            &format!("{kind} default/a: spec.template: has no containers; left out (stdin:"),
        );
        let other = workload(kind, "replicas: 2").replace("labels: {app: a}", "labels: {app: b}");
        let said = "spec.selector: does not match the labels of its own pods; left out (stdin:15)\n    -> \
                    write the same labels into spec.selector and spec.template.metadata";
        left_out(&other, said);
    }
    let said = "Job default/a: spec.parallelism: must not be negative, is -1; left out";
    left_out(&workload("Job", "parallelism: -1"), said);
    let empty = workload("Deployment", "replicas: 1").replace("{matchLabels: {app: a}}", "{}");
    left_out(&empty, "Deployment default/a: spec.selector: must not be empty; left out");
}

#[test]
fn values_that_no_api_server_takes_are_told() {
    let spread = "topologySpreadConstraints: [{labelSelector: {}, ";
    for (field, said) in [
        (format!("{spread}maxSkew: 1, whenUnsatisfiable: DoNotSchedule, topologyKey: ''}}]"), "topologySpreadConstraints[0].topologyKey must not be empty"),
        (format!("{spread}maxSkew: 0, whenUnsatisfiable: DoNotSchedule, topologyKey: z}}]"), "topologySpreadConstraints[0].maxSkew must be 1 or more, is 0"),
        (format!("{spread}maxSkew: 1, minDomains: 0, whenUnsatisfiable: DoNotSchedule, topologyKey: z}}]"), "topologySpreadConstraints[0].minDomains must be 1 or more, is 0"),
        (format!("{spread}maxSkew: 1, whenUnsatisfiable: Never, topologyKey: z}}]"), "topologySpreadConstraints[0].whenUnsatisfiable must be DoNotSchedule or ScheduleAnyway, is \"Never\""),
        ("tolerations: [{key: a, operator: Like}]".to_owned(), "toleration of \"a\": operator must be Exists or Equal, is \"Like\""),
        ("tolerations: [{key: a, operator: Exists, effect: Never}]".to_owned(), "toleration of \"a\": effect must be NoSchedule, PreferNoSchedule or NoExecute, is \"Never\""),
        ("affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: ''}]}}".to_owned(), "affinity: topologyKey must not be empty"),
    ] {
        let ran = told(&format!("---\n{}", POD.replace("spec:\n", &format!("spec:\n  {field}\n"))));
        assert_eq!(ran.code, 1, "{field}");
        assert!(ran.stdout.contains(&format!("Pod default/pod: {said}")), "{said}\n{}", ran.stdout);
        assert!(ran.stdout.contains("0 pods placed"), "{}", ran.stdout);
    }
    let ported =
        POD.replace("- name: c\n", "- name: c\n    ports: [{containerPort: 1, hostPort: 70000}]\n");
    let ran = told(&format!("---\n{ported}"));
    assert!(
        ran.stdout.contains("container c: hostPort must be 1 to 65535, is 70000"),
        "{}",
        ran.stdout
    );
    for (field, said) in [
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
        assert!(ran.stdout.contains(said), "{said}\n{}", ran.stdout);
    }
}

#[test]
fn more_pods_than_can_be_planned_are_cut_and_told() {
    let ran = told(&workload("Deployment", "replicas: 2000000000").replace("100m", "1m"));
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("50000 pods placed"), "{}", ran.stdout);
    let said =
        "Deployment default/a: spec.replicas: asks for 2000000000 pods; 50000 of them are planned";
    assert!(ran.stdout.contains(said), "{}", ran.stdout);
}

#[test]
fn replication_controllers_count_with_their_pods() {
    let ran = told(&workload("ReplicationController", "replicas: 3"));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("ReplicationController default/a (3)"), "{}", ran.stdout);
}

#[test]
fn autoscalers_are_mentioned() {
    let scaler = |name: &str| {
        format!(
            "---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {{name: x}}\nspec: \
             {{maxReplicas: 9, scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: {name}}}}}\n"
        )
    };
    let web = workload("Deployment", "replicas: 2");
    let ran = told(&format!("{web}{}", scaler("a")));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let said = "note: a HorizontalPodAutoscaler decides about the replicas of Deployment default/a; planned with";
    assert!(ran.stdout.contains(said), "{}", ran.stdout);
    let ran = told(&format!("{web}{}", scaler("other")));
    assert!(!ran.stdout.contains("note:"), "{}", ran.stdout);
}

#[test]
fn a_replica_set_of_a_deployment_is_not_counted_twice() {
    let set = workload("ReplicaSet", "replicas: 2").replace(
        "{name: a}\nspec",
        "{name: a-1, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: a, uid: u}]}\nspec",
    );
    let ran = told(&format!("{}{set}", workload("Deployment", "replicas: 2")));
    assert!(ran.stdout.contains("2 pods placed"), "{}", ran.stdout);
}
