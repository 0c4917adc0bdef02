//! The one binary: parses the command line, runs a subcommand, turns its outcome into an exit code.
//!
//! Start reading at [`commands`], which lists the subcommands; each has a file of its own.

mod admission;
mod clock;
mod commands;
mod controller;
mod convert;
mod demo;
mod diagnostic;
mod environment;
mod manifest;
mod options;
mod plan;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    commands::run(commands::Cli::parse())
}
