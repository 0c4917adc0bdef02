//! Tests of `karpenter plan` from the outside: the built binary, its output and its exit code.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod aws;
mod bad_input;
#[path = "../binary/mod.rs"]
mod binary;
mod bounds;
mod consolidate;
mod devices;
mod documentation;
mod input_warnings;
mod live;
mod output;
mod pools;
mod recorded;
mod same_as_live;
mod usage;
mod workloads;

use std::path::{Path, PathBuf};

use binary::{RunOutput, folder, run, subcommand};

/// The manifests that documentation uses as well.
fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/plan")
}

impl RunOutput {
    #[track_caller]
    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }
}

/// Runs `karpenter plan` in a directory, with a text on stdin, without options of the environment.
#[track_caller]
fn plan(directory: &Path, args: &[&str], stdin: impl AsRef<[u8]>) -> RunOutput {
    plan_with(directory, args, stdin, &[])
}

#[track_caller]
fn plan_with(
    directory: &Path,
    args: &[&str],
    stdin: impl AsRef<[u8]>,
    environment: &[(&str, &str)],
) -> RunOutput {
    let mut command = subcommand("plan", directory, args);
    command.env_remove("KUBECONFIG").env_remove("AWS_REGION").env_remove("AWS_DEFAULT_REGION");
    command.env("HOME", directory).envs(environment.iter().copied());
    run(command, stdin)
}

const POOL: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: pool}
spec:
  template:
    spec:
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
";

const POD: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  containers:
  - name: c
    resources: {requests: {cpu: 1, memory: 1Gi}}
";
