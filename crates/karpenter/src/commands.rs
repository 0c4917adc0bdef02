//! The subcommands, one file each, and their common parts: outcomes, failures and printing.
//!
//! Data goes to stdout, everything else to stderr. A reader that closes the pipe early (`| head`)
//! is no error.

mod controller;
mod convert;
mod crds;
mod demo;
mod instance_types;
mod plan;
mod reference;

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rustix::fs::OFlags;

use crate::diagnostic::Diagnostic;

/// Just-in-time nodes for Kubernetes
#[derive(Debug, Parser)]
#[command(name = "karpenter", version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 = fine, 1 = a finding or a failed operation, 2 = wrong \
                          usage.\nData goes to stdout, everything else to stderr.";

/// One line per subcommand, in the order in which `--help` shows them.
#[derive(Debug, Subcommand)]
enum Command {
    Controller(controller::Args),
    Convert(convert::Args),
    Crds(crds::Args),
    Demo(demo::Args),
    InstanceTypes(instance_types::Args),
    Plan(Box<plan::Args>),
    #[command(hide = true)]
    Reference(reference::Args),
}

/// How a command that did its work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    /// The run succeeded and found something that the caller should check.
    Finding,
}

/// Why a command could not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line is invalid.
    Usage(Box<Diagnostic>),
    Failed(Box<Diagnostic>),
}

impl From<Diagnostic> for Failure {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::Failed(diagnostic.into())
    }
}

impl From<Box<Diagnostic>> for Failure {
    fn from(diagnostic: Box<Diagnostic>) -> Self {
        Self::Failed(diagnostic)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Diagnostic::new(format!("{error:#}")).into()
    }
}

/// Runs the subcommand; what it could not do goes to stderr.
pub(crate) fn run(cli: Cli) -> ExitCode {
    let result = match cli.command {
        Command::Controller(args) => controller::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Crds(args) => crds::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::InstanceTypes(args) => instance_types::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Reference(args) => reference::run(&args),
    };
    match result {
        Ok(Outcome::Success) => ExitCode::SUCCESS,
        Ok(Outcome::Finding) => ExitCode::from(1),
        Err(Failure::Failed(diagnostic)) => {
            print_to_stderr(&diagnostic.to_string());
            ExitCode::from(1)
        }
        Err(Failure::Usage(diagnostic)) => {
            print_to_stderr(&diagnostic.to_string());
            ExitCode::from(2)
        }
    }
}

/// Parses the command line. Without a command to run it prints help, the version or a usage error,
/// and returns the exit code.
pub(crate) fn parse_command_line() -> Result<Cli, ExitCode> {
    Cli::try_parse().map_err(|error| {
        // Usage errors go to stderr.
        let usage = ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1));
        if error.use_stderr() {
            let _ = error.print();
            return usage;
        }
        let print = || {
            check_stdout_is_open()?;
            error.print()?;
            io::stdout().flush()
        };
        match print() {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                print_to_stderr(&stdout_diagnostic(&error).to_string());
                ExitCode::from(1)
            }
            _ => usage,
        }
    })
}

/// Writes data to stdout. The reader may have enough of it at any time.
pub(crate) fn print(data: &str) -> Result<(), Failure> {
    write_to_stdout(data).map(|_| ())
}

/// Writes data to stdout. Returns whether its reader still reads.
pub(crate) fn write_to_stdout(data: &str) -> Result<bool, Failure> {
    if data.is_empty() {
        return Ok(true);
    }
    let mut out = io::stdout().lock();
    let written = check_stdout_is_open()
        .and_then(|()| out.write_all(data.as_bytes()))
        .and_then(|()| out.flush());
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(stdout_diagnostic(&error).into()),
    }
}

fn stdout_diagnostic(error: &io::Error) -> Diagnostic {
    Diagnostic::new("cannot write to stdout")
        .found(error.to_string())
        .fix("redirect stdout to a file or a pipe; `> /dev/null` discards it")
}

/// Fails if stdout is closed or open for reading only: the standard library takes writes to both
/// for success.
///
/// At the start of a process the standard library opens `/dev/null` for reading and writing in the
/// place of a closed stdout (`>&-`). It looks like that if a parent process has opened it so
/// (Python's `subprocess.DEVNULL` does, `> /dev/null` does not): without unsafe code nothing runs
/// early enough to distinguish the two.
fn check_stdout_is_open() -> io::Result<()> {
    let stdout = io::stdout();
    let mode = rustix::fs::fcntl_getfl(&stdout)? & OFlags::RWMODE;
    let is_null = || -> io::Result<bool> {
        let null = fs::metadata("/dev/null")?.rdev();
        Ok(rustix::fs::fstat(&stdout)?.st_rdev == null)
    };
    if mode == OFlags::RDONLY {
        Err(io::Error::other("it is not open for writing"))
    } else if mode == OFlags::RDWR && is_null().unwrap_or(false) {
        Err(io::Error::other("it is closed"))
    } else {
        Ok(())
    }
}

/// Formats a count with its noun: `1 pod`, `2 pods`.
pub(crate) fn count_noun(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Writes one message to stderr; a closed stderr is ignored.
pub(crate) fn print_to_stderr(message: &str) {
    let _ = writeln!(io::stderr().lock(), "{message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }

    #[test]
    fn error_causes_are_printed_outermost_first() {
        use anyhow::Context as _;
        let io: Result<(), _> = Err(io::Error::other("disk full"));
        let error = io.context("writing the kubeconfig").unwrap_err();
        let Failure::Failed(diagnostic) = Failure::from(error) else { panic!("not a failure") };
        assert_eq!(diagnostic.to_string(), "error: writing the kubeconfig: disk full");
    }
}
