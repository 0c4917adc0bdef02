//! The commands and their help texts. People reach `parity` and `bench` through `cargo xtask`,
//! which builds what they need first.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Args, Parser, Subcommand};

use crate::generate::{Feature, Profile, Recipe, Types};
use crate::{api, aws_catalog, cluster, disruption, host, parity, scheduling};

/// Comparisons with upstream, and measurements beside it.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Prints a random cluster: YAML documents on stdout.
    Generate(GenerateArgs),

    /// Compares our decisions with upstream's over generated clusters.
    ///
    /// Upstream decides five times, because it is not deterministic. The pods that we leave
    /// without a place must be those of one of its runs; price and number of nodes must not be
    /// above its highest. Where something differs, upstream decides 25 times more: what it does
    /// rarely is its decision, too, and is counted apart. Fails if anything differs that
    /// scenarios/parity/explained.txt does not name, with a reason from docs/deviations.md.
    Parity(parity::Args),

    /// Measures workloads beside upstream in one run, and keeps the results in bench/results.
    #[command(subcommand)]
    Bench(Bench),
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Decisions about pods that wait: time and memory of the solve.
    ///
    /// Prints a row per workload, and what must be reached; fails if something is not.
    Scheduling(scheduling::Args),

    /// Consolidation: time, memory and saving of a pass over the nodes of a cluster.
    ///
    /// Prints a row per workload, and what must be reached; fails if something is not.
    Disruption(disruption::Args),

    /// The embedded API with 5,000 nodes and 100,000 pods: memory, lists, and changes to watchers.
    ///
    /// Nothing of upstream is needed. Fails if something that must be reached is not.
    Api(api::Args),

    /// The instance types of AWS in us-west-2: resolution, memory, and a solve with all of them.
    ///
    /// Nothing of upstream is needed. Fails if something that must be reached is not.
    AwsCatalog(aws_catalog::Args),

    /// The controller on a real control plane: 0 to 3,000 pods and back, 500 idle nodes, 15,000 pods
    /// that no pool may take.
    ///
    /// A quarter of an hour. Nothing else should run meanwhile. Fails if something that must be
    /// reached is not.
    Cluster(cluster::Args),
}

#[derive(Debug, Args)]
struct GenerateArgs {
    #[arg(long, default_value = "mixed")]
    profile: Profile,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many pods wait.
    #[arg(long, default_value_t = 60)]
    pods: usize,
    /// How many nodes are there.
    #[arg(long, default_value_t = 0)]
    nodes: usize,
    #[arg(long, default_value = "kwok")]
    types: Types,
    /// Exactly these features instead of the profile's own.
    #[arg(long, value_delimiter = ',', value_name = "FEATURE")]
    with: Option<Vec<Feature>>,
    /// Where the instance types go, if the cluster needs other than the built-in ones.
    #[arg(long, value_name = "FILE")]
    instance_types: Option<PathBuf>,
}

/// Parses the command line and does what it says.
pub fn run() -> Result<ExitCode> {
    match Cli::parse().command {
        Command::Generate(args) => generate(args).map(|()| ExitCode::SUCCESS),
        Command::Parity(args) => parity::run(&args),
        Command::Bench(Bench::Scheduling(args)) => scheduling::run(&args),
        Command::Bench(Bench::Disruption(args)) => disruption::run(&args),
        Command::Bench(Bench::Api(args)) => api::run(&args),
        Command::Bench(Bench::AwsCatalog(args)) => aws_catalog::run(&args),
        Command::Bench(Bench::Cluster(args)) => cluster::run(&args),
    }
}

fn generate(args: GenerateArgs) -> Result<()> {
    let GenerateArgs { profile, seed, pods, nodes, types, .. } = args;
    let features = args.with.map(|features| features.into_iter().collect());
    let case = Recipe { profile, seed, pods, nodes, types, features }.generate();
    if let Some(types) = &case.instance_types {
        match args.instance_types {
            Some(path) => fs::write(&path, types.to_string())
                .with_context(|| format!("cannot write {}", path.display()))?,
            None => host::note("this cluster has instance types of its own: --instance-types FILE"),
        }
    }
    let flags = case.options.flags();
    if !flags.is_empty() {
        host::note(&format!("decide with: {}", flags.join(" ")));
    }
    host::print(&case.to_yaml());
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
