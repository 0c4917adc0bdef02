//! Runs kubectl as a user would, but without the user's own settings.

use std::path::Path;
use std::process::{ExitStatus, Stdio};

use anyhow::{Context as _, Result, bail};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// The output and the exit status of a kubectl run.
#[derive(Debug, Clone)]
pub struct KubectlOutput {
    /// The arguments, for messages.
    pub args: String,
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl KubectlOutput {
    /// Returns its stdout, or an error with its stderr.
    pub fn into_stdout(self) -> Result<String> {
        if !self.status.success() {
            bail!("kubectl {} failed ({}): {}", self.args, self.status, self.stderr.trim_end());
        }
        Ok(self.stdout)
    }
}

pub(crate) async fn run(
    program: &Path,
    kubeconfig: &Path,
    dir: &Path,
    args: &[&str],
    stdin: Option<&str>,
) -> Result<KubectlOutput> {
    let mut command = Command::new(program);
    command.args(args).current_dir(dir).env("KUBECONFIG", kubeconfig);
    // Its cache of discovery, and any settings of the user, live below the home directory.
    command.env("HOME", dir).env_remove("KUBERC");
    command.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().context("cannot start kubectl")?;

    // While it reads it may also print, and neither side may wait for the other.
    let pipe = child.stdin.take();
    let feed = async {
        if let (Some(mut pipe), Some(text)) = (pipe, stdin) {
            // A kubectl that stops reading reports the reason itself.
            let _ = pipe.write_all(text.as_bytes()).await;
        }
    };
    let ((), output) = tokio::join!(feed, child.wait_with_output());
    let output = output.context("cannot read from kubectl")?;
    Ok(KubectlOutput {
        args: args.join(" "),
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
