//! Tests of wrong usage, help and options.

use super::*;

#[test]
fn plan_usage_errors_have_exit_code_2() {
    let cases: [&[&str]; 9] = [
        &["--no-such-flag"],
        &["-f"],
        &["-f", "x.yaml", "-o", "xml"],
        &["-f", "x.yaml", "--provider", "gcp"],
        &["-f", "x.yaml", "--now", "yesterday"],
        &["-f", "x.yaml", "--preference-policy", "Sometimes"],
        &["-f", "x.yaml", "--feature-gates", "NodeOverlay"],
        &["-f", "x.yaml", "--ignore-dra-requests=maybe"],
        &["-f", "x.yaml", "--context", "production"],
    ];
    for args in cases {
        let ran = plan(&scenarios(), args, "");
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("error: "), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn invalid_environment_variables_are_usage_errors() {
    let environment = [("SCHEDULER_CONFIG", "podTopologySpread: {defaultConstraints: [{}]}")];
    let ran = plan_with(&scenarios(), &["-f", "pending.yaml"], "", &environment);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    insta::assert_snapshot!(ran.stderr, @r"
    error: SCHEDULER_CONFIG: validating scheduler config, podTopologySpread.defaultConstraints[0].maxSkew must be greater than 0
       fix: write it as kube-scheduler has it: {podTopologySpread: {defaultConstraints: [...]}}
      more: karpenter plan --help
    ");
}

#[test]
fn plan_help_has_examples() {
    let ran = plan(&scenarios(), &["--help"], "");
    assert_eq!(ran.code, 0);
    assert!(ran.stdout.contains("Examples:\n  karpenter plan -f "), "{}", ran.stdout);
}

#[test]
fn a_plan_without_files_and_cluster_is_an_error() {
    let folder = folder(&[]);
    let ran = plan(folder.path(), &[], "");
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran:?}");
    assert!(ran.stderr.starts_with("error: no cluster to plan for\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("fix: name manifests with -f"), "{}", ran.stderr);
}

#[test]
fn options_change_the_plan() {
    let spread = "podTopologySpread: {defaultConstraints: [{maxSkew: 1, whenUnsatisfiable: \
                  DoNotSchedule, topologyKey: topology.kubernetes.io/zone}]}";
    let web = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, resources: {requests: {cpu: 100m}}}]
";
    let text = format!("{POOL}---{web}");
    let nodes = |args: &[&str]| {
        let all: Vec<_> = ["-f", "-", "-o", "json"].iter().chain(args).copied().collect();
        plan(&scenarios(), &all, &text).json()["nodeClaims"].as_array().unwrap().len()
    };
    assert_eq!(nodes(&[]), 1);
    assert_eq!(nodes(&["--scheduler-config", spread]), 4);
    assert_eq!(nodes(&["--no-expand"]), 0);
}

#[test]
fn a_file_without_the_filename_flag_gets_a_fix() {
    for args in [&["x.yaml"][..], &["x.yaml", "y.yaml"], &["-o", "json", "x.yaml"]] {
        let ran = plan(&scenarios(), args, "");
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("fix: karpenter plan -f x.yaml"), "{}", ran.stderr);
    }
}

#[test]
fn unknown_feature_gates_give_a_warning_and_a_plan() {
    let ran = plan(&scenarios(), &["-f", "shop", "--feature-gates", "Magic=true"], "");
    assert_eq!(ran.code, 0);
    let warning = "warning: --feature-gates: no such gate: Magic; there are ";
    assert!(ran.stderr.starts_with(warning), "{}", ran.stderr);
}

#[test]
fn the_kubectl_example_of_the_help_includes_volumes() {
    let ran = plan(&scenarios(), &["--help"], "");
    assert!(ran.stdout.contains("pods,daemonsets,pvc,pv,storageclasses -A"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("[PATH]"), "{}", ran.stdout);
}
