//! Tests of what a command reads and writes: input files, stdout and the environment.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

#[path = "../binary/mod.rs"]
mod binary;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

use binary::{RunOutput, folder, run, subcommand};

const OBJECTS: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: pool}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements: []
---
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}
";

/// Returns the binary with arguments, killed after a time in which it must have ended.
fn karpenter(directory: &Path, args: &[&str]) -> Command {
    let timed = subcommand(args[0], directory, &args[1..]);
    let mut command = Command::new("timeout");
    command.arg("60").arg(timed.get_program()).args(timed.get_args()).current_dir(directory);
    command.env_remove("KUBECONFIG").env("HOME", directory);
    command
}

#[track_caller]
fn assert_refused(ran: &RunOutput, expected: &str, case: &str) {
    assert!(ran.code == 1 || ran.code == 2, "{case}: {ran:?}");
    assert!(ran.stderr.contains(expected), "{case}: {ran:?}");
}

#[test]
fn pipes_and_devices_are_refused_as_files() {
    let folder = folder(&[("objects.yaml", OBJECTS)]);
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join("pipe"), mode).unwrap();
    for (path, found) in [("/dev/zero", "it is a device"), ("pipe", "it is a pipe")] {
        for args in [
            &["plan", "-f", path][..],
            &["plan", "-f", "objects.yaml", "--instance-types", path],
            &["plan", "--kubeconfig", path],
            &["convert", "-f", path],
            &["convert", "--in-place", "-f", path],
            &["demo", "--scenario", path],
            &["demo", "--kubeconfig", path],
            &["controller", "--provider", "kwok", "--instance-types-file-path", path],
        ] {
            let ran = run(karpenter(folder.path(), args), "");
            let expected = format!("{found}, and only regular files are read");
            assert_refused(&ran, &expected, &format!("{args:?}"));
        }
        for args in
            [&["plan"][..], &["controller", "--provider", "kwok", "--disable-leader-election"]]
        {
            let mut command = karpenter(folder.path(), args);
            command.env("KUBECONFIG", path);
            assert_refused(&run(command, ""), found, &format!("KUBECONFIG={path} {args:?}"));
        }
    }
}

/// A shell command line with the binary as `$0` and its arguments as `$@`.
fn shell(directory: &Path, line: &str, args: &[&str]) -> RunOutput {
    let mut command = Command::new("sh");
    command.args(["-c", line, env!("CARGO_BIN_EXE_karpenter")]).args(args).current_dir(directory);
    run(command, "")
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let folder = folder(&[("objects.yaml", OBJECTS)]);
    for args in [
        &["plan", "-f", "objects.yaml"][..],
        &["plan", "-f", "objects.yaml", "--consolidate", "-o", "json"],
        &["convert", "-f", "objects.yaml"],
        &["crds"],
        &["reference", "options"],
        &["demo", "--speed", "max"],
        &["controller", "--help"],
        &["plan", "--help"],
        &["--version"],
    ] {
        for (line, found) in [
            ("exec \"$0\" \"$@\" >&-", "it is closed"),
            ("exec \"$0\" \"$@\" > /dev/full", "No space left on device"),
            ("exec \"$0\" \"$@\" 1< /dev/null", "it is not open for writing"),
        ] {
            let ran = shell(folder.path(), line, args);
            assert_eq!(ran.code, 1, "{args:?} {line}: {ran:?}");
            let message = format!("error: cannot write to stdout\n found: {found}");
            assert!(ran.stderr.contains(&message), "{args:?} {line}: {ran:?}");
        }
        for line in ["exec \"$0\" \"$@\" > /dev/null", "\"$0\" \"$@\" | true"] {
            let ran = shell(folder.path(), line, args);
            assert_eq!(ran.code, 0, "{args:?} {line}: {ran:?}");
            assert!(!ran.stderr.contains("stdout"), "{args:?} {line}: {ran:?}");
        }
    }
}

#[test]
fn a_variable_that_is_not_utf8_is_an_error_with_its_name() {
    let folder = folder(&[("objects.yaml", OBJECTS)]);
    let plan = &["plan", "-f", "objects.yaml"][..];
    let controller = &["controller", "--provider", "kwok", "--disable-leader-election"][..];
    for (args, name, code) in [
        (plan, "FEATURE_GATES", 2),
        (&["plan"], "KUBECONFIG", 1),
        (&["demo", "--speed", "max"], "CONSOLIDATION_SEARCH", 2),
        (controller, "LOG_LEVEL", 2),
        (controller, "KUBECONFIG", 1),
    ] {
        let mut command = karpenter(folder.path(), args);
        command.env(name, OsStr::from_bytes(b"a\xff"));
        let ran = run(command, "");
        assert_eq!(ran.code, code, "{args:?} {name}: {ran:?}");
        let message = format!("the environment variable {name} is not valid UTF-8");
        assert!(ran.stderr.contains(&message), "{args:?} {name}: {ran:?}");
    }
    // The variable is not read.
    let mut command = karpenter(folder.path(), plan);
    command.env("LOG_LEVEL", OsStr::from_bytes(b"a\xff"));
    let ran = run(command, "");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("1 pod placed"), "{ran:?}");
}
