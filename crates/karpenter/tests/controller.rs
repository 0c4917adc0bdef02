//! Tests of `karpenter controller` before it has a cluster: options, errors and warnings.

use std::process::{Command, Output};

use serde_json::Value;

/// Runs the controller without a cluster.
fn run_controller(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_karpenter"));
    command.args(["controller", "--provider", "kwok"]).args(arguments);
    command.env_clear().env("KUBECONFIG", "/nowhere/kubeconfig");
    command.envs(environment.iter().copied()).output().expect("starts")
}

/// Returns the warnings in the log, without the common fields.
fn logged_warnings(output: &Output) -> Vec<Value> {
    logged(output, "WARN")
}

/// The same for any level.
fn logged(output: &Output, level: &str) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).expect("prints text");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let wanted = lines.filter(|line| line["level"] == level);
    let stripped = wanted.map(|mut line| {
        let fields = line.as_object_mut().expect("an object");
        fields.retain(|key, _| !["level", "time", "logger"].contains(&key.as_str()));
        line
    });
    stripped.collect()
}

#[test]
fn unknown_feature_gates_are_logged_once_each() {
    let gates = "NodeOverlayy=true,NodeOverlay=true,Foo=false,Foo=true";
    let known = "NodeRepair, ReservedCapacity, SpotToSpotConsolidation, NodeOverlay, \
                 StaticCapacity, CapacityBuffer, TerminateFirstDrift, TerminateFirstRepair, \
                 PodDeletionCostManagement";
    let warning = |gate| {
        let message = "ignoring a feature gate that nobody knows";
        serde_json::json!({"message": message, "gate": gate, "known": known})
    };
    let wanted = [warning("NodeOverlayy"), warning("Foo")];
    assert_eq!(logged_warnings(&run_controller(&["--feature-gates", gates], &[])), wanted);
    assert_eq!(logged_warnings(&run_controller(&[], &[("FEATURE_GATES", gates)])), wanted);
    assert_eq!(
        logged_warnings(&run_controller(&["--feature-gates", "NodeOverlay=true"], &[])).len(),
        0
    );
}

#[test]
fn variables_that_upstream_ignores_silently_are_logged() {
    let output = run_controller(&[], &[("METRICS_PORT", "abc"), ("KUBE_CLIENT_QPS", "")]);
    let wanted = serde_json::json!({
        "message": "ignoring a variable that cannot be read",
        "variable": "METRICS_PORT", "value": "abc",
        "allowed": "a whole number from 0 to 65535", "default": "8080",
    });
    assert_eq!(logged_warnings(&output), [wanted]);
}

#[test]
fn default_spread_constraints_are_logged() {
    let config = "podTopologySpread: {defaultConstraints: [{maxSkew: 2, \
                  topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}]}";
    let mut logged_lines = logged(&run_controller(&["--scheduler-config", config], &[]), "INFO");
    logged_lines.retain(|line| line["message"] != "starting");
    let wanted = serde_json::json!({
        "message": "pods without spread constraints of their own get this one",
        "topologyKey": "topology.kubernetes.io/zone", "maxSkew": 2,
        "whenUnsatisfiable": "ScheduleAnyway",
    });
    assert_eq!(logged_lines, [wanted], "40 §7.4");
}

#[test]
fn values_that_upstream_rejects_are_usage_errors() {
    for (variable, value, message) in [
        ("LOG_LEVEL", "loud", r#"invalid LOG_LEVEL "loud": must be debug, info or error"#),
        ("METRICS_PORT", "70000", r#"invalid METRICS_PORT "70000": must be a whole number from"#),
        ("PREFERENCE_POLICY", "x", r#"invalid PREFERENCE_POLICY "x": must be Respect or Ignore"#),
        ("FEATURE_GATES", "NodeOverlay", r#"invalid FEATURE_GATES "NodeOverlay": malformed pair"#),
    ] {
        let output = run_controller(&[], &[(variable, value)]);
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{complaint}");
        assert!(complaint.contains(message), "{complaint}");
    }
}

#[test]
fn contradictory_options_are_usage_errors_that_name_the_flag() {
    let folder = std::env::temp_dir().join(format!("karpenter-types-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (bad, empty) = (folder.join("bad.json"), folder.join("empty.json"));
    std::fs::write(&bad, "root:x:0").expect("is written");
    std::fs::write(&empty, "[]").expect("is written");
    let of = |path: &std::path::Path| format!("--instance-types-file-path={}", path.display());
    let no_log = r#"--log-output-paths: opening log output "/no/log": No such file"#;
    let no_error_log = r#"--log-error-output-paths: opening log output "/no/log": No such file"#;
    for (arguments, message) in [
        (vec!["--log-output-paths=/no/log"], no_log),
        (vec!["--log-error-output-paths=/no/log"], no_error_log),
        (vec![&*of(&bad)], "bad.json: instance types are not JSON"),
        (vec![&*of(&empty)], "empty.json: it has no instance types"),
        (vec!["--instance-types-file-path=/no/types"], "--instance-types-file-path /no/types: No"),
        (vec!["--leader-election-name="], "--leader-election-name is empty"),
        (
            vec!["--metrics-port=9090", "--health-probe-port=9090"],
            "--metrics-port and --health-probe-port are both 9090",
        ),
        (vec!["--batch-max-duration=-1s"], "such as 10s or 1m30s, 0s or longer"),
    ] {
        let output = run_controller(&arguments, &[]);
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {complaint}");
        assert!(complaint.contains(message), "{arguments:?}: {complaint}");
    }
    std::fs::remove_dir_all(folder).expect("is removed");
}

#[test]
fn a_lease_without_a_namespace_is_a_usage_error_before_the_start() {
    if std::path::Path::new("/var/run/secrets/kubernetes.io/serviceaccount/namespace").exists() {
        return; // in a pod it has one
    }
    let output = run_controller(&[], &[("DISABLE_LEADER_ELECTION", "yess")]);
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stderr), @r"
    error: outside of a cluster the namespace of the lease has to be named
       fix: add --disable-leader-election for a single replica, or --leader-election-namespace
      more: karpenter controller --help
    ");
    assert_eq!(logged_warnings(&output).len(), 1, "why it was not heard is told before");
    assert_eq!(logged(&output, "INFO").len(), 1, "nothing but that it starts");
}

#[test]
fn an_unusable_kubeconfig_is_reported_once() {
    let output = run_controller(&["--disable-leader-election"], &[]);
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stderr), @r"
    error: no cluster
     where: /nowhere/kubeconfig
     found: No such file or directory (os error 2)
       fix: let KUBECONFIG name a file that can be read
    ");
    let output = run_controller(&["--disable-leader-election"], &[("KUBECONFIG", "")]);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(complaint.contains("fix: set KUBECONFIG, or run in a pod"), "{complaint}");
}
