//! `cargo xtask parity` and `cargo xtask bench`: builds both sides, then hands over to
//! `karpenter-bench`, which finds our programs beside itself.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;

use anyhow::Result;

use crate::process;
use crate::tools::{Tool, Toolbox};

const BENCH: [&str; 4] = ["-p", "karpenter-bench", "--bin", "karpenter-bench"];

/// Our decisions beside upstream's.
pub(crate) fn parity(options: &[OsString]) -> Result<()> {
    hand_over("release", &["-p", "karpenter", "--bin", "karpenter"], "parity", options)
}

/// Workloads, measured. Only the shipped profile counts.
pub(crate) fn bench(options: &[OsString]) -> Result<()> {
    // The embedded API has no upstream: it is measured by the program itself.
    if options.first().is_some_and(|what| what == OsStr::new("api")) {
        let mut run = process::cargo(&["run", "--locked", "-q", "--no-default-features"]);
        run.args(BENCH).args(["--profile", "dist", "--", "bench"]).args(options);
        return Err(run.exec().into());
    }
    hand_over("dist", &["--bin", "solve", "--bin", "solve-heap"], "bench", options)
}

fn hand_over(profile: &str, needed: &[&str], command: &str, options: &[OsString]) -> Result<()> {
    let profile = ["--profile", profile];
    let is_asked = |option: &str| options.iter().any(|found| found == OsStr::new(option));
    let mut run = process::cargo(&["run", "--locked", "-q"]);
    run.args(BENCH).args(profile).args(["--", command]).args(options);
    if !is_asked("--help") && !is_asked("-h") {
        // Without the AWS SDK, which decides nothing and takes minutes to build.
        let mut build = process::cargo(&["build", "--locked", "--no-default-features"]);
        build.args(BENCH).args(needed).args(profile);
        process::run(build)?;
        if !is_asked("--no-upstream") {
            run.arg("--oracle").arg(Toolbox::from_env()?.ensure(Tool::Oracle)?);
        }
    }
    // Replaces this process, so that Ctrl-C and the exit code are the program's own.
    Err(run.exec().into())
}
