//! Runs the built binary, for the tests of each subcommand.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The exit code and the output of a run.
#[derive(Debug)]
pub(crate) struct RunOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A subcommand in a directory.
pub(crate) fn subcommand(name: &str, directory: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_karpenter"));
    command.arg(name).args(args).current_dir(directory);
    command
}

/// Runs a command with a text on stdin.
#[track_caller]
pub(crate) fn run(mut command: Command, stdin: impl AsRef<[u8]>) -> RunOutput {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let text = stdin.as_ref().to_vec();
    // A command that does not read stdin may be gone before everything is written.
    let writer = std::thread::spawn(move || drop(pipe.write_all(&text)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    RunOutput {
        code: output.status.code().expect("no signal"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A directory with files in it.
pub(crate) fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}
