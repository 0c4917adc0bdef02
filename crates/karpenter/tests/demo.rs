//! Tests of `karpenter demo`, the first command of the README: a cluster in this process.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Output, Stdio};

fn run_demo(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_karpenter")).arg("demo").args(args).output().expect("starts")
}

#[track_caller]
fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("prints text")
}

/// Writes a scenario and plays it in virtual time.
fn play_scenario(scenario: &str, args: &[&str]) -> Output {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), scenario).expect("written");
    let path = file.path().to_str().expect("a path of ours");
    run_demo(&[&["--scenario", path, "--speed", "max"], args].concat())
}

#[test]
fn the_built_in_tour_ends_with_every_pod_running() {
    let output = run_demo(&["--speed", "max", "--exit-when-done"]);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    for part in [
        "step  six pods of web wait, and nodes are launched for them, in every zone",
        "default/web: 6 do not fit: no nodes available to schedule pods",
        "test-zone-a, on-demand, $",
        "c-16x-arm64-linux",
        "default/report: 3 succeeded",
        "step  the pool for arm64 is deleted, and its nodes go with it",
        "plan  Underutilized: delete: nodepools=[default]: [kwok-",
        "-> [1 replacement] (savings: $",
        "plan  Empty: delete: nodepools=[default]: [kwok-default-",
        "done: 4 nodes, 8 pods running, $",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    assert!(!text.contains("left over"), "{text}");
}

#[test]
fn the_demo_ends_after_consolidation_has_finished() {
    let scenario = "
name: nodes are left alone for a while
objects:
- apiVersion: karpenter.sh/v1
  kind: NodePool
  metadata: {name: default}
  spec:
    template: {spec: {nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, requirements: []}}
    disruption: {consolidateAfter: 45s}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web, namespace: default}
  spec:
    replicas: 2
    selector: {matchLabels: {app: web}}
    template:
      metadata: {labels: {app: web}}
      spec: {containers: [{name: web, image: web, resources: {requests: {cpu: \"1\"}}}]}
steps:
- {at: 2m, scale: {name: web, replicas: 0}}
";
    let output = play_scenario(scenario, &["--exit-when-done"]);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("plan  Empty: delete: nodepools=[default]"), "{text}");
    assert!(text.contains("done: 0 nodes, 0 pods running"), "{text}");
}

#[test]
fn equal_seeds_give_equal_timelines_and_other_seeds_others() {
    let timeline = |seed| stdout(&run_demo(&["--speed", "max", "--seed", seed]));
    let first = timeline("7");
    assert_eq!(first, timeline("7"));
    assert_ne!(first, timeline("8"));
}

#[test]
fn a_pending_pod_at_the_end_sets_exit_code_1_with_its_reason() {
    let output = play_scenario(
        "name: nobody has room\nsettle: 2m\nobjects:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: alone, namespace: default}\n  spec: {containers: [{name: c, image: i}]}\n",
        &[],
    );
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    let expected =
        "left over: default/alone: 1 pod left pending: no nodes available to schedule pods\n";
    assert!(text.contains(expected), "{text}");
}

/// A pool whose limits allow one small node.
const LIMITED_POOL_SCENARIO: &str = "\
name: the pool is full
settle: 20m
objects:
- apiVersion: karpenter.sh/v1
  kind: NodePool
  metadata: {name: small}
  spec:
    limits: {cpu: 4}
    template:
      spec:
        nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
        requirements: []
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web, namespace: default}
  spec:
    replicas: 3
    selector: {matchLabels: {app: web}}
    template:
      metadata: {labels: {app: web}}
      spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 3}}}]}
";

#[test]
fn limits_that_keep_pods_pending_are_reported_once() {
    let output = play_scenario(LIMITED_POOL_SCENARIO, &[]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let reason = "no new node would help: all available instance types exceed limits for nodepool (NodePool=small)";
    let lines: Vec<_> = text.lines().filter(|line| line.contains(reason)).collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert!(lines[0].contains("  pods  default/web-"), "{text}");
    assert_eq!(text, stdout(&play_scenario(LIMITED_POOL_SCENARIO, &[])), "two runs are alike");
}

/// A node that stops reporting, with pods on it.
const SILENT_NODE_SCENARIO: &str = "\
name: a node falls silent
settle: 2m
objects:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web, namespace: default}
  spec:
    replicas: 5
    selector: {matchLabels: {app: web}}
    template:
      metadata: {labels: {app: web}}
      spec: {containers: [{name: c, image: i}]}
steps:
- {at: 1s, launch: {instanceType: c-4x-amd64-linux, zone: test-zone-a}}
- {at: 1m, silence: {claims: [node-1]}}
- {at: 2m, delete: [{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: default}}]}
";

#[test]
fn unsettled_pods_are_listed_with_the_node_that_they_wait_for() {
    let output = play_scenario(SILENT_NODE_SCENARIO, &[]);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    for part in [
        "done: 1 node, 0 pods running",
        "left over: default/web: 5 pods did not come to rest (web-",
        " and 2 more): ending on node kwok-",
        ", which is not ready\n",
        "waits for: node kwok-",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
}

#[test]
fn scenario_errors_are_reported_with_file_and_line() {
    for (scenario, args, code, expected) in [
        (
            "name: x\nsteps:\n- {at: soon, say: x}",
            &[][..],
            1,
            "error: the scenario has a mistake\n where: FILE:3  steps[0].at\n found: is `soon`, which is no time\n   fix: use a time such as 90s, 5m or 1h30m\n",
        ),
        (
            "name: x\nsteps:\n- {at: 9s, say: x}\n- {at: 1s, remove: {claims: [a-1]}}",
            &[],
            1,
            "FILE:4  steps[1]\n found: steps[1] at 1s: there is no NodeClaim a-1",
        ),
        (
            "name: x\nobjects: [{apiVersion: v1, kind: Wrong, metadata: {name: x}}]",
            &[],
            1,
            "FILE:2  objects[0]\n",
        ),
        (
            "name: x\nsteps: [{at: 1h, launch: {instanceType: c-4x-amd64-linx}}]",
            &[],
            1,
            "   fix: use `c-4x-amd64-linux`\n",
        ),
        ("name: x", &["--seed", "minus"], 2, "--seed"),
        ("name: x", &["--port", "0"], 2, "error: --port has no effect with `--speed max`"),
        ("name: x", &["--kubeconfig", "k"], 2, "--kubeconfig has no effect with `--speed max`"),
    ] {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), scenario).expect("written");
        let path = file.path().to_str().expect("a path of ours");
        let output = run_demo(&[&["--scenario", path, "--speed", "max"], args].concat());
        let complaint = String::from_utf8_lossy(&output.stderr).replace(path, "FILE");
        assert_eq!(output.status.code(), Some(code), "{scenario}: {complaint}");
        assert!(complaint.contains(expected), "{scenario}: {complaint}");
        assert_eq!(stdout(&output).lines().filter(|line| line.contains("done")).count(), 0);
    }
    let output = run_demo(&["--speed", "0"]);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("use a number from 0.01 to 10000, or `max`"), "{complaint}");
}

#[test]
fn unreadable_scenario_files_are_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    let binary = folder.path().join("binary");
    std::fs::write(&binary, [0xff, 0xfe, 0x00]).expect("written");
    for (path, expected) in [
        (binary.as_path(), "it is not text in UTF-8"),
        (folder.path(), "error: cannot read the scenario"),
        (&folder.path().join("none"), "error: cannot read the scenario"),
        (std::path::Path::new("/dev/zero"), "it is a device, and only regular files are read"),
    ] {
        let output = run_demo(&["--scenario", path.to_str().expect("a path of ours")]);
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{complaint}");
        assert!(complaint.contains(expected), "{complaint}");
        let fix =
            "\n   fix: name a YAML file that can be read, or leave --scenario out for the tour";
        assert!(complaint.contains(fix), "{complaint}");
    }
}

#[test]
fn a_demo_leaves_a_kubeconfig_with_other_clusters_as_it_was() {
    const OTHERS: &str = "\
# clusters of the team
apiVersion: v1
kind: Config
clusters:
- {name: production, cluster: {server: https://production.example.com}}
contexts: []
users:
- name: admin # of production
  user: {token: secret}
current-context: production
";
    let folder = tempfile::tempdir().expect("a folder");
    let (config, scenario) = (folder.path().join("config"), folder.path().join("scenario.yaml"));
    std::fs::write(&config, OTHERS).expect("written");
    std::fs::write(&scenario, "name: nothing happens").expect("written");
    let mut demo = Command::new(env!("CARGO_BIN_EXE_karpenter"))
        .arg("demo")
        .args([std::ffi::OsStr::new("--scenario"), scenario.as_os_str()])
        .args([std::ffi::OsStr::new("--kubeconfig"), config.as_os_str()])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut line = String::new();
    let mut stderr = BufReader::new(demo.stderr.take().expect("is piped"));
    stderr.read_line(&mut line).expect("is text");
    assert!(line.starts_with("kubectl --kubeconfig "), "{line}");
    let during = std::fs::read_to_string(&config).expect("is there");
    for part in [
        "# clusters of the team\n",
        "- name: admin # of production\n",
        "- name: karpenter-demo\n",
        "current-context: karpenter-demo\n",
        "https://production.example.com",
        "https://127.0.0.1:",
    ] {
        assert!(during.contains(part), "{part:?} is missing in\n{during}");
    }
    let kill = Command::new("kill").arg(demo.id().to_string()).status().expect("starts");
    assert!(kill.success() && demo.wait().expect("ends").success());
    assert_eq!(std::fs::read_to_string(&config).expect("is there"), OTHERS);
    assert_eq!(std::fs::read_dir(folder.path()).expect("is there").count(), 2);
}

#[test]
fn the_demo_help_lists_the_exit_codes() {
    let help = stdout(&run_demo(&["--help"]));
    for part in [
        "Exit codes: 0 =",
        "1 = done and something is left",
        "stopped before --exit-when-done was done",
        "has a mistake",
        "2 = wrong usage",
    ] {
        assert!(help.contains(part), "{part:?} is missing in\n{help}");
    }
}
