//! `karpenter demo`: a cluster in this process, to look at and to play with.

use std::path::PathBuf;

use karpenter_sim::scenario::Scenario;

use super::{Failure, Outcome};
use crate::demo::{self, Settings, Speed};
use crate::diagnostic::{Diagnostic, Place};

const TOUR: &str = include_str!("../../../../scenarios/demo/tour.yaml");

/// Run a simulated cluster in this process and watch it; kubectl works on it
///
/// The Kubernetes API, the scheduler, the kubelets and the cloud are simulated; nothing leaves this
/// machine. What happens is written in a scenario: pods and nodes come and go at the times that it
/// says.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The scenario to play [default: a short tour]
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// How many seconds pass in the cluster for each real one, or `max`: as fast as it goes, with
    /// the same timeline for the same seed; without kubectl, and ends when it is done
    #[arg(long, value_name = "N|max", default_value = "5")]
    speed: Speed,
    /// What chance is drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// End when the scenario is over and the cluster is at rest; exit code 1 if a pod is left
    /// pending or a NodeClaim leaks
    #[arg(long)]
    exit_when_done: bool,
    /// Where to write the kubeconfig [default: a new file in the directory for temporary
    /// files]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The port of the API on 127.0.0.1; 0 takes one that is free
    #[arg(long, default_value_t = 0)]
    port: u16,
}

const EXAMPLES: &str = "\
Examples:
  karpenter demo                              look at a small cluster
  karpenter demo --speed 60                   an hour in a minute
  karpenter demo --speed max --seed 7         the timeline of seed 7
  karpenter demo --scenario my.yaml --exit-when-done

From another terminal, with the kubeconfig that the demo prints:
  kubectl --kubeconfig FILE get nodes,pods -w
  kubectl --kubeconfig FILE scale deployment web --replicas 12";

pub(crate) fn run(args: &Args) -> Result<Outcome, Failure> {
    let (text, place) = match &args.scenario {
        None => (TOUR.to_owned(), "the built-in tour".to_owned()),
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| {
                Diagnostic::new("cannot read the scenario")
                    .at(Place::file(path.display().to_string()))
                    .found(error.to_string())
            })?;
            (text, path.display().to_string())
        }
    };
    let scenario = Scenario::parse(&text).map_err(|error| {
        Diagnostic::new("the scenario has a mistake")
            .at(Place { field: Some(error.place), ..Place::file(place) })
            .found(error.problem)
    })?;
    // Two demos at once have a file each.
    let name = format!("karpenter-demo-{}.kubeconfig", std::process::id());
    let default = || std::env::temp_dir().join(name);
    let settings = Settings {
        speed: args.speed,
        seed: args.seed,
        exit_when_done: args.exit_when_done || args.speed == Speed::Max,
        kubeconfig: args.kubeconfig.clone().unwrap_or_else(default),
        port: args.port,
    };
    demo::run(&scenario, &settings)
}
