//! Tests of long texts and long lists: the table stays short, and repeats nothing.

use super::*;
use std::fmt::Write as _;

#[track_caller]
fn plan_text(text: &str, args: &[&str]) -> RunOutput {
    let args: Vec<_> = ["-f", "-"].iter().chain(args).copied().collect();
    plan(&scenarios(), &args, text)
}

fn pod(name: &str, spec: &str) -> String {
    POD.replace("name: pod", &format!("name: {name}"))
        .replace("spec:\n", &format!("spec:\n  {spec}\n"))
}

#[test]
fn long_values_and_lists_are_truncated_in_the_table() {
    let label = "x".repeat(1 << 20);
    let many: Vec<_> = (0..50_000).map(|n| format!("v{n}")).collect();
    let affinity = |values: &str| {
        format!(
            "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: \
             [{{matchExpressions: [{{key: team, operator: In, values: [{values}]}}]}}]}}}}}}"
        )
    };
    let pool = POOL.replace(
        "      requirements:\n",
        "      requirements:\n      - {key: team, operator: In, values: [a]}\n",
    );
    for text in [
        format!("{pool}---\n{}", pod("a", &format!("nodeSelector: {{team: {label}}}"))),
        format!("{pool}---\n{}", pod("a", &format!("nodeSelector: {{{label}: x}}"))),
        format!("{pool}---\n{}", pod("a", &affinity(&many.join(", ")))),
        format!("{pool}---\n{}", pod("a", &affinity(&label))),
        format!("{pool}---\n{}", pod(&label, "nodeSelector: {team: b}")),
        format!("{}---\n{POD}", pool.replace("name: pool", &format!("name: {label}"))),
        format!("{}---\n{POD}", pool.replace("[a]", &format!("[{}]", many.join(", ")))),
        format!("{}---\n{POD}", pool.replace("[a]", &format!("[{label}]"))),
    ] {
        let ran = plan_text(&text, &[]);
        let shown: String = ran.stdout.chars().take(3000).collect();
        assert!(ran.stdout.len() < 6000, "{} bytes: {shown}", ran.stdout.len());
        assert!(ran.stdout.contains("placed"), "{shown}");
    }
}

#[test]
fn pods_without_owner_and_with_one_reason_share_a_line() {
    let mut text = POOL.to_owned();
    for number in 0..12 {
        let _ = write!(text, "---\n{}", pod(&format!("p{number:02}"), "nodeSelector: {team: a}"));
    }
    let ran = plan_text(&text, &[]);
    assert_eq!(ran.code, 1);
    insta::assert_snapshot!(ran.stdout, @r"
    PENDING 12 pods
      default 12 pods (p00, p01, p02, 9 more)
        NodePool pool: the pod asks for label team, which the pool does not set
          -> add team to labels or requirements of the pool, or drop it

    0 pods placed, 12 pending
    ");
    let json = plan_text(&text, &["-o", "json"]).json();
    assert_eq!(json["explanations"][0]["pods"].as_array().unwrap().len(), 12);
}

#[test]
fn equal_remarks_share_a_line() {
    let mut text = format!("{POOL}---\n{POD}");
    for number in 0..5 {
        let _ =
            write!(text, "---\n{}", pod(&format!("p{number}"), "tolerations: [{operator: Like}]"));
    }
    let ran = plan_text(&text, &[]);
    let message = "TO LOOK AT 5 objects\n  5 Pods: default/p0, default/p1, default/p2, 2 more: toleration of \"\": \
                operator must be Exists or Equal, is \"Like\" (first in stdin:18)\n";
    assert!(ran.stdout.contains(message), "{}", ran.stdout);
}

#[test]
fn the_nearest_type_shows_the_overhead_of_daemonsets() {
    let daemon = "---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: c, resources: {requests: {cpu: 500m}}}]}
";
    let large = POD.replace("cpu: 1,", "cpu: 255600m,");
    let ran = plan_text(&format!("{POOL}---\n{large}{daemon}"), &[]);
    assert_eq!(ran.code, 1);
    let message = "needs 256.1 cpu (daemons take 0.5 of it), has 255.9";
    assert!(ran.stdout.contains(message), "{}", ran.stdout);
}

#[test]
fn a_pod_with_an_open_zone_is_counted_once() {
    let spec = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: \
                topology.kubernetes.io/zone, labelSelector: {matchLabels: {a: b}}}]}}";
    let labelled = |name: &str| {
        pod(name, spec)
            .replace(&format!("{{name: {name}}}"), &format!("{{name: {name}, labels: {{a: b}}}}"))
    };
    let ran = plan_text(&format!("{POOL}---\n{}---\n{}", labelled("a"), labelled("b")), &[]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("1 pod placed"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("1 in test-zone"), "{}", ran.stdout);
    let message = "taken, or may be taken: test-zone-a, test-zone-b, test-zone-c, test-zone-d";
    assert!(ran.stdout.contains(message), "{}", ran.stdout);
}

#[test]
fn unreadable_files_are_listed_in_the_json() {
    let folder = folder(&[("pool.yaml", POOL), ("bad.yaml", "a: [\n"), ("pod.yaml", POD)]);
    let args =
        ["-f", "pool.yaml", "-f", "bad.yaml", "-f", "none.yaml", "-f", "pod.yaml", "-o", "json"];
    let ran = plan(folder.path(), &args, "");
    assert_eq!(ran.code, 1);
    let marked = ran.json()["marked"].as_array().unwrap().clone();
    let objects: Vec<_> = marked.iter().map(|remark| remark["object"].as_str().unwrap()).collect();
    assert_eq!(objects.len(), 2, "{marked:?}");
    assert!(objects.contains(&"bad.yaml") && objects.contains(&"none.yaml"), "{marked:?}");
    assert!(marked.iter().all(|remark| remark["broken"] == true), "{marked:?}");
}

#[test]
fn enormous_quantities_are_printed_short() {
    let ran = plan_text(&format!("{POOL}---\n{}", POD.replace("cpu: 1,", "cpu: 1e40,")), &[]);
    assert_eq!(ran.code, 1);
    let line = ran.stdout.lines().find(|line| line.contains("nearest type")).unwrap();
    assert!(line.len() < 120, "{line}");
}
