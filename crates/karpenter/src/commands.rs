//! The subcommands, one file each, and their common parts: outcomes, failures and printing.
//!
//! Data goes to stdout, everything else to stderr. A reader that closes the pipe early (`| head`)
//! is no error.

mod controller;
mod convert;
mod crds;
mod demo;
mod plan;
mod reference;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

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

/// Writes data to stdout. The reader may have enough of it at any time.
pub(crate) fn print(data: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(data.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Diagnostic::new("cannot write to stdout").found(error.to_string()).into())
        }
        _ => Ok(()),
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
