//! The README's first command: a cluster in this process.

use std::process::{Command, Output};

fn demo(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_karpenter")).arg("demo").args(args).output().expect("starts")
}

#[track_caller]
fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("prints text")
}

/// Writes a scenario and plays it as fast as it goes.
fn play(scenario: &str, args: &[&str]) -> Output {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), scenario).expect("written");
    let path = file.path().to_str().expect("a path of ours");
    demo(&[&["--scenario", path, "--speed", "max"], args].concat())
}

#[test]
fn the_tour_ends_with_every_pod_in_its_place() {
    let output = demo(&["--speed", "max", "--exit-when-done"]);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    for part in [
        "step  six pods wait; the first three nodes are launched, one in each zone",
        "joins: c-4x-amd64-linux, test-zone-a, on-demand, $0.1086/h",
        "default/web: 6 do not fit: no nodes available to schedule pods",
        "default/report: 2 succeeded",
        "done: 3 nodes, 6 pods running, $0.2932 per hour",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    assert!(!text.contains("left over"), "{text}");
}

#[test]
fn one_seed_gives_one_timeline_and_another_seed_another() {
    let timeline = |seed| stdout(&demo(&["--speed", "max", "--seed", seed]));
    let first = timeline("7");
    assert_eq!(first, timeline("7"));
    assert_ne!(first, timeline("8"));
}

#[test]
fn a_pod_that_is_left_pending_is_a_finding() {
    let output = play(
        "name: nobody has room\nsettle: 2m\nobjects:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: alone, namespace: default}\n  spec: {containers: [{name: c, image: i}]}\n",
        &[],
    );
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    assert!(text.contains("left over: default/alone: 1 pods left pending"), "{text}");
}

#[test]
fn mistakes_are_told_with_their_place() {
    for (scenario, args, code, expected) in [
        ("name: x\nsteps: [{at: soon, say: x}]", &[][..], 1, "steps[0].at"),
        (
            "name: x\nsteps: [{at: 1s, remove: {claims: [a-1]}}]",
            &[],
            1,
            "there is no NodeClaim a-1",
        ),
        (
            "name: x\nobjects: [{apiVersion: v1, kind: Wrong, metadata: {name: x}}]",
            &[],
            1,
            "objects[0]",
        ),
        ("name: x", &["--seed", "minus"], 2, "--seed"),
    ] {
        let output = play(scenario, args);
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{scenario}: {complaint}");
        assert!(complaint.contains(expected), "{scenario}: {complaint}");
    }
    let output = demo(&["--speed", "0"]);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("use a number from 0.01 to 10000, or `max`"), "{complaint}");
}
