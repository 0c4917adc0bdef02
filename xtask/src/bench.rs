//! `cargo xtask parity` and `cargo xtask bench`: builds both sides, then runs `karpenter-bench`,
//! which finds our programs in its own folder.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;

use anyhow::Result;

use crate::process;
use crate::tools::{Tool, Toolbox};

const BENCH: [&str; 4] = ["-p", "karpenter-bench", "--bin", "karpenter-bench"];

/// Compares our decisions with upstream's.
pub(crate) fn parity(options: &[OsString]) -> Result<()> {
    build_and_run("release", &["-p", "karpenter", "--bin", "karpenter"], "parity", options)
}

/// Workloads, measured. Only the shipped profile counts.
pub(crate) fn bench(options: &[OsString]) -> Result<()> {
    let target = options.first().and_then(|target| target.to_str()).unwrap_or_default();
    match target {
        // Neither has an upstream side.
        "api" => return bench_without_upstream(&[], options),
        "aws-catalog" => return bench_without_upstream(&["--bin", "aws-catalog"], options),
        "cluster" => return bench_cluster(options),
        _ => {}
    }
    let programs = ["solve", "solve-heap", "disrupt", "disrupt-heap"];
    let needed: Vec<_> = programs.into_iter().flat_map(|program| ["--bin", program]).collect();
    build_and_run("dist", &needed, "bench", options)
}

/// Builds the programs that measure us, then runs the bench.
fn bench_without_upstream(needed: &[&str], options: &[OsString]) -> Result<()> {
    let profile = ["--profile", "dist"];
    let mut build = process::cargo(&["build", "--locked", "--no-default-features"]);
    build.args(BENCH).args(needed).args(profile);
    process::run(build)?;
    let mut run = process::cargo(&["run", "--locked", "-q", "--no-default-features"]);
    run.args(BENCH).args(profile).args(["--", "bench"]).args(options);
    Err(run.exec().into())
}

/// Builds our controller and upstream's, then measures both as processes.
fn bench_cluster(options: &[OsString]) -> Result<()> {
    let profile = ["--profile", "dist"];
    let mut run = process::cargo(&["run", "--locked", "-q", "--no-default-features"]);
    run.args(BENCH).args(profile).args(["--", "bench"]).args(options);
    if !has_option(options, "--help") && !has_option(options, "-h") {
        let mut build = process::cargo(&["build", "--locked", "--no-default-features"]);
        build.args(BENCH).args(["-p", "karpenter", "--bin", "karpenter"]).args(profile);
        process::run(build)?;
        if !has_option(options, "--no-upstream") {
            let tools = Toolbox::from_env()?;
            run.arg("--upstream").arg(tools.ensure(Tool::UpstreamKwok)?);
            run.arg("--upstream-source").arg(tools.upstream_source()?);
        }
    }
    Err(run.exec().into())
}

fn has_option(options: &[OsString], option: &str) -> bool {
    options.iter().any(|found| found == OsStr::new(option))
}

fn build_and_run(
    profile: &str,
    needed: &[&str],
    command: &str,
    options: &[OsString],
) -> Result<()> {
    let profile = ["--profile", profile];
    let mut run = process::cargo(&["run", "--locked", "-q"]);
    run.args(BENCH).args(profile).args(["--", command]).args(options);
    if !has_option(options, "--help") && !has_option(options, "-h") {
        // Without the AWS SDK, which decides nothing and takes minutes to build.
        let mut build = process::cargo(&["build", "--locked", "--no-default-features"]);
        build.args(BENCH).args(needed).args(profile);
        process::run(build)?;
        if !has_option(options, "--no-upstream") {
            run.arg("--oracle").arg(Toolbox::from_env()?.ensure(Tool::Oracle)?);
        }
    }
    // Replaces this process, so that Ctrl-C and the exit code are the program's own.
    Err(run.exec().into())
}
