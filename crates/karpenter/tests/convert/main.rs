//! `karpenter convert` from the outside: the built binary, its output and its exit code.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod bad_input;
mod in_place;
mod output;
mod usage;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The manifests that documentation and end-to-end tests use as well.
fn legacy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/legacy")
}

/// What a run printed, and how it ended.
#[derive(Debug)]
struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

/// Runs `karpenter convert` in a directory, with a text on stdin.
#[track_caller]
fn convert(directory: &Path, args: &[&str], stdin: impl AsRef<[u8]>) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_karpenter"))
        .arg("convert")
        .args(args)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let text = stdin.as_ref().to_vec();
    // A command that does not read stdin may be gone before everything is written.
    let writer = std::thread::spawn(move || drop(pipe.write_all(&text)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Ran {
        code: output.status.code().expect("no signal"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A directory with files in it.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

fn read(folder: &tempfile::TempDir, name: &str) -> String {
    std::fs::read_to_string(folder.path().join(name)).unwrap()
}

const POOL: &str = "\
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata:
  name: pool
spec:
  template:
    spec:
      requirements: []
      nodeClassRef:
        name: class
";

const CLASS: &str = "\
apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata:
  name: class
spec:
  amiFamily: Bottlerocket
  role: nodes
  subnetSelectorTerms:
  - id: subnet-1
  securityGroupSelectorTerms:
  - id: sg-1
";

const CONFIG_MAP: &str = "\
apiVersion: v1
kind: ConfigMap   # not ours
metadata: { name: other }
";
