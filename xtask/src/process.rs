//! Runs other programs, mostly cargo, in the root of the checkout.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::host;

/// The cargo that runs us, so that `cargo +toolchain xtask` stays on that toolchain.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let program = host::var("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    let mut command = Command::new(program);
    command.args(args).current_dir(host::repo());
    // Build scripts that read these variables (ring's) would run again whenever cargo is called
    // with and without us in turn, and all that needs them would be built again, the control
    // plane's client among it: eleven minutes with the profile `dist`.
    for name in host::package_variables() {
        command.env_remove(name);
    }
    command
}

/// Runs `command` with our own terminal.
pub(crate) fn run(mut command: Command) -> Result<()> {
    let status =
        command.status().with_context(|| format!("cannot start {}", command_line(&command)))?;
    if !status.success() {
        bail!("{} failed ({status})", command_line(&command));
    }
    Ok(())
}

/// Runs `command`, forwards its output as it is printed, and passes each line to `each`.
///
/// Both streams go through one pipe: cargo names a test binary on stderr, the binary prints its
/// result on stdout, and only one pipe keeps the two in order.
pub(crate) fn relay(mut command: Command, mut each: impl FnMut(&str)) -> Result<()> {
    let name = command_line(&command);
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
    drop(command); // it holds our copies of the writing end, which would keep the pipe open

    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        host::relay(&line);
        each(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("{name} failed ({status})");
    }
    Ok(())
}

/// What `command` prints, or an error that ends in what it complained about.
pub(crate) fn output(mut command: Command) -> Result<Vec<u8>> {
    let output =
        command.output().with_context(|| format!("cannot start {}", command_line(&command)))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed ({})\n{}", command_line(&command), output.status, complaint.trim_end());
    }
    Ok(output.stdout)
}

/// Returns whether `command` succeeds; for version checks of programs.
pub(crate) fn succeeds(mut command: Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Returns the command line as a user would type it.
fn command_line(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let program = program.file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_does_not_inherit_the_package_variables() {
        let command = cargo(&["build"]);
        let removed: Vec<_> =
            command.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME"] {
            assert!(removed.contains(&name.as_ref()), "{name} of {removed:?}");
        }
    }
}
