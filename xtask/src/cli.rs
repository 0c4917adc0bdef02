//! The commands and their help texts.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use crate::test::Step;
use crate::tools::Toolbox;
use crate::{bench, codegen, ec2_tables, host, names, process, spec, test, tidy};

/// Developer commands of karpenter-rs.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs every check that CI runs, in CI's order, and stops at the first that fails.
    ///
    /// Ends with a table of what each step took and the test binaries over one second. What
    /// cannot run here (end-to-end tests without Go) is skipped with one line; with CI set in
    /// the environment, that is a failure.
    #[command(after_help = "\
Examples:
  cargo xtask test                 everything; the first time builds a control plane (minutes)
  cargo xtask test --skip e2e      the inner loop
  cargo xtask test --only clippy   one step again")]
    Test(TestArgs),

    /// Prints all names that are visible outside their module, with path, kind and summary.
    #[command(after_help = "\
Examples:
  cargo xtask names                all crates
  cargo xtask names core           the crate in crates/core")]
    Names {
        /// Lists only the names of this crate.
        #[arg(value_name = "CRATE")]
        package: Option<String>,
    },

    /// Checks identifiers, head comments, words and Markdown lines against the committed baseline.
    ///
    /// The banned words are in xtask/src/tidy/banned-words.txt. The baseline counts the findings
    /// that existed before this check, and may only shrink.
    Tidy {
        /// Writes the baseline anew, if no check has more findings than before.
        #[arg(long)]
        update: bool,
    },

    /// Counts the cases of the specification with a test, and checks every citation.
    ///
    /// The specification is docs/spec. A string in a Rust file, a scenario or a script tests the
    /// case that it cites (`20/A3`). Fails if a citation in code, tests or docs names nothing of
    /// the specification, or if docs/coverage.md does not list the cases without a test.
    #[command(after_help = "\
Examples:
  cargo xtask spec                 one line per file, and all wrong citations
  cargo xtask spec --missing 50    the cases of docs/spec/50-aws.md without a test, too")]
    Spec {
        /// Lists the cases of this file that have no test.
        #[arg(long, value_name = "NUMBER")]
        missing: Option<String>,
    },

    /// Writes the files that are generated from the code, such as the CRDs of the chart.
    Codegen {
        /// Changes nothing; fails if a file is not what would be written.
        #[arg(long)]
        check: bool,
    },

    /// Writes the table of Kubernetes' kinds that the embedded API reads. Needs Go.
    ///
    /// To be run after a change of the pinned Kubernetes; an end-to-end test tells when.
    Shapes,

    /// Writes the tables of EC2's instance types, zones and prices. Needs Python and Go.
    ///
    /// The sources are pinned public packages, so the same command writes the same bytes.
    #[command(name = "ec2-tables")]
    Ec2Tables,

    /// Builds the programs that the end-to-end tests start, and prints their paths.
    ///
    /// They are built from pinned Go modules (tests/e2e/tools) once per version, and kept in
    /// $KARPENTER_RS_CACHE, or else karpenter-rs in the user's cache directory.
    Tools,

    /// Runs a Kubernetes control plane on loopback until Ctrl-C, and prints its KUBECONFIG.
    ///
    /// The same that the end-to-end tests use: etcd, kube-apiserver, kube-controller-manager and
    /// kube-scheduler in a temporary directory, gone without a trace afterwards.
    ControlPlane {
        /// Only etcd and kube-apiserver: nothing schedules pods or runs controllers.
        #[arg(long)]
        api_only: bool,
    },

    /// Asks a real API server what the embedded API has to answer, and compares with the recordings.
    ///
    /// The scripts are in scenarios/api, what was answered in scenarios/api/recorded.
    #[command(after_help = "\
Examples:
  cargo xtask conformance                      is every recording still what the API server says?
  cargo xtask conformance --record             writes the recordings anew
  cargo xtask conformance --only watch         only areas and checks with this in their names")]
    Conformance {
        /// Writes what the API server answers, in place of what was recorded.
        #[arg(long)]
        record: bool,
        /// Only what has this text in `area: check`.
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
    },

    /// Runs a simulated day in each of 300 worlds, with faults, and checks what must always hold.
    ///
    /// `cargo xtask swarm --help` tells the options. A seed that fails prints how to replay it.
    #[command(disable_help_flag = true)]
    Swarm(ForwardedOptions),

    /// Compares our decisions with upstream's over hundreds of generated clusters.
    ///
    /// Needs Go, for upstream's side (bench/oracle). Takes minutes and prints progress.
    /// `cargo xtask parity --help` tells the options.
    #[command(disable_help_flag = true)]
    Parity(ForwardedOptions),

    /// Measures workloads beside upstream in one run, and keeps the results in bench/results.
    ///
    /// Needs Go, for upstream's side (bench/oracle). Takes minutes and prints progress.
    /// `cargo xtask bench --help` lists what can be measured.
    #[command(disable_help_flag = true)]
    Bench(ForwardedOptions),
}

/// The options that `karpenter-bench` or the swarm parses.
#[derive(Debug, Args)]
struct ForwardedOptions {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
    options: Vec<OsString>,
}

#[derive(Debug, Args)]
struct TestArgs {
    /// Runs only this step (repeat for more).
    #[arg(long, value_name = "STEP", conflicts_with = "skip")]
    only: Vec<Step>,

    /// Leaves this step out (repeat for more). Without `e2e`, `tools` is left out, too.
    #[arg(long, value_name = "STEP")]
    skip: Vec<Step>,
}

/// Parses the command line and runs the command.
pub fn run() -> Result<()> {
    match Cli::parse().command {
        Command::Test(args) => test::run(&args.only, &args.skip),
        Command::Parity(ForwardedOptions { options }) => bench::parity(&options),
        Command::Bench(ForwardedOptions { options }) => bench::bench(&options),
        Command::Swarm(ForwardedOptions { options }) => {
            let run = ["run", "--locked", "-q", "--release", "--no-default-features"];
            let mut command = process::cargo(&run);
            command.args(["-p", "karpenter-sim", "--bin", "swarm", "--"]).args(options);
            // Replaces this process, so that Ctrl-C and the exit code are the program's own.
            Err(command.exec().into())
        }
        Command::Conformance { record, only } => {
            let test = ["test", "--locked", "-q", "-p", "karpenter-e2e", "--test", "conformance"];
            let mut command = process::cargo(&[&test[..], &["--", "--nocapture"]].concat());
            command.env("CONFORMANCE_RECORD", if record { "1" } else { "" });
            command.env("CONFORMANCE_ONLY", only.unwrap_or_default());
            process::run(command)
        }
        Command::Names { package } => names::print(package.as_deref()),
        Command::Tidy { update } => tidy::run(update),
        Command::Spec { missing } => spec::run(missing.as_deref()),
        Command::Codegen { check: true } => codegen::check(),
        Command::Codegen { check: false } => codegen::write(),
        Command::Ec2Tables => ec2_tables::write(),
        Command::Shapes => codegen::write_type_table(),
        Command::Tools => {
            for (tool, path) in Toolbox::from_env()?.ensure_all()? {
                host::print(&format!("{:<24} {}", tool.name(), path.display()));
            }
            Ok(())
        }
        Command::ControlPlane { api_only } => {
            let mut command =
                process::cargo(&["run", "-q", "-p", "karpenter-e2e", "--bin", "control-plane"]);
            if api_only {
                command.args(["--", "--api-only"]);
            }
            // Replaces this process, so that Ctrl-C reaches only the one that cleans up.
            Err(command.exec().into())
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
