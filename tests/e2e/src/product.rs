//! Runs the product's own binary, which the first test builds.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context as _, Result, bail};

/// Runs `karpenter` with these arguments and returns its stdout.
pub fn run_karpenter(args: &[&str]) -> Result<String> {
    let output = Command::new(karpenter_binary()?)
        .args(args)
        .current_dir(workspace())
        .stdin(Stdio::null())
        .output()
        .context("cannot start karpenter")?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("karpenter {} ended with {}: {complaint}", args.join(" "), output.status);
    }
    String::from_utf8(output.stdout).context("karpenter printed something else than text")
}

/// The folder of the workspace.
pub fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns the path of `karpenter`, built on first use: Cargo does not build it for tests.
pub fn karpenter_binary() -> Result<&'static Path> {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BINARY.get_or_init(|| build_karpenter().map_err(|error| format!("{error:#}")));
    built.as_deref().map_err(|error| anyhow::anyhow!("{error}"))
}

fn build_karpenter() -> Result<PathBuf> {
    let cargo = option_env!("CARGO").unwrap_or("cargo");
    let output = Command::new(cargo)
        .args(["build", "--locked", "--package", "karpenter", "--no-default-features"])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(workspace())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    let messages = String::from_utf8_lossy(&output.stdout);
    let executable = messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    });
    executable.filter(|_| output.status.success()).context("cargo did not build karpenter")
}
