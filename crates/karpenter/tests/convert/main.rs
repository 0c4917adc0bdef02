//! Tests of `karpenter convert` from the outside: the built binary, its output and its exit code.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod bad_input;
#[path = "../binary/mod.rs"]
mod binary;
mod in_place;
mod output;
mod usage;

use std::path::{Path, PathBuf};

use binary::{RunOutput, folder, run, subcommand};

/// The manifests that documentation and end-to-end tests use as well.
fn legacy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/legacy")
}

/// Runs `karpenter convert` in a directory, with a text on stdin.
#[track_caller]
fn convert(directory: &Path, args: &[&str], stdin: impl AsRef<[u8]>) -> RunOutput {
    run(subcommand("convert", directory, args), stdin)
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
