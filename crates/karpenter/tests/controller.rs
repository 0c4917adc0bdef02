//! What `karpenter controller` says before it has a cluster.

use std::process::{Command, Output};

use serde_json::Value;

/// Starts it where there is no cluster.
fn controller(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_karpenter"));
    command.args(["controller", "--provider", "kwok"]).args(arguments);
    command.env_clear().env("KUBECONFIG", "/nowhere/kubeconfig");
    command.envs(environment.iter().copied()).output().expect("starts")
}

/// The warnings in the log, without what every line has.
fn warnings(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).expect("prints text");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let warnings = lines.filter(|line| line["level"] == "WARN");
    let stripped = warnings.map(|mut line| {
        let fields = line.as_object_mut().expect("an object");
        fields.retain(|key, _| !["level", "time", "logger"].contains(&key.as_str()));
        line
    });
    stripped.collect()
}

#[test]
fn gates_that_nobody_knows_are_warned_about_once_each() {
    let gates = "NodeOverlayy=true,NodeOverlay=true,Foo=false,Foo=true";
    let known = "NodeRepair, ReservedCapacity, SpotToSpotConsolidation, NodeOverlay, \
                 StaticCapacity, CapacityBuffer, TerminateFirstDrift, TerminateFirstRepair, \
                 PodDeletionCostManagement";
    let warning = |gate| {
        let message = "ignoring a feature gate that nobody knows";
        serde_json::json!({"message": message, "gate": gate, "known": known})
    };
    let wanted = [warning("NodeOverlayy"), warning("Foo")];
    assert_eq!(warnings(&controller(&["--feature-gates", gates], &[])), wanted);
    assert_eq!(warnings(&controller(&[], &[("FEATURE_GATES", gates)])), wanted);
    assert_eq!(warnings(&controller(&["--feature-gates", "NodeOverlay=true"], &[])).len(), 0);
}

#[test]
fn variables_that_upstream_ignores_in_silence_are_warned_about() {
    let output = controller(&[], &[("METRICS_PORT", "abc"), ("KUBE_CLIENT_QPS", "")]);
    let wanted = serde_json::json!({
        "message": "ignoring a variable that cannot be read",
        "variable": "METRICS_PORT", "value": "abc",
        "allowed": "a whole number from 0 to 65535", "default": "8080",
    });
    assert_eq!(warnings(&output), [wanted]);
}

#[test]
fn what_upstream_refuses_is_wrong_usage_and_names_what_is_allowed() {
    for (variable, value, said) in [
        ("LOG_LEVEL", "loud", r#"invalid LOG_LEVEL "loud": must be debug, info or error"#),
        ("METRICS_PORT", "70000", r#"invalid METRICS_PORT "70000": must be a whole number from"#),
        ("PREFERENCE_POLICY", "x", r#"invalid PREFERENCE_POLICY "x": must be Respect or Ignore"#),
        ("FEATURE_GATES", "NodeOverlay", r#"invalid FEATURE_GATES "NodeOverlay": malformed pair"#),
    ] {
        let output = controller(&[], &[(variable, value)]);
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{complaint}");
        assert!(complaint.contains(said), "{complaint}");
    }
}
