//! Tests of wrong usage, help, and readers that close the pipe.

use std::process::{Command, Stdio};

use super::*;

#[test]
fn convert_usage_errors_have_exit_code_2() {
    let cases: [&[&str]; 7] = [
        &["--no-such-flag"],
        &["-o", "xml"],
        &["--role", ""],
        &["-f"],
        &["--in-place"],
        &["--in-place", "-f", "-"],
        &["--in-place", "-o", "json", "-f", "x.yaml"],
    ];
    for args in cases {
        let ran = convert(&legacy(), args, "");
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("error: "), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn the_binary_without_a_command_shows_its_help() {
    let output = Command::new(env!("CARGO_BIN_EXE_karpenter")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("convert"));
    let version = Command::new(env!("CARGO_BIN_EXE_karpenter")).arg("--version").output().unwrap();
    let expected = format!("karpenter {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&version.stdout), expected);
}

#[test]
fn convert_help_has_examples() {
    let ran = convert(&legacy(), &["--help"], "");
    assert_eq!(ran.code, 0);
    assert!(ran.stdout.contains("Examples:\n  karpenter convert -f "), "{}", ran.stdout);
}

#[test]
fn a_closed_stdout_pipe_is_not_an_error() {
    // More than a pipe holds, so that the write does fail.
    let pools: Vec<_> =
        (0..300).map(|n| POOL.replace("name: pool", &format!("name: pool-{n}"))).collect();
    let folder = folder(&[("pools.yaml", &pools.join("---\n"))]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_karpenter"))
        .args(["convert", "-f", "pools.yaml"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.lines().all(|line| line.starts_with("W06 ")), "{stderr}");
}
