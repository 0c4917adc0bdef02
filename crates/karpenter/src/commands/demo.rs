//! `karpenter demo`: runs a cluster in this process, to watch and to try out.

use std::path::{Path, PathBuf};

use karpenter_sim::scenario::{Scenario, ScenarioError};

use super::{Failure, Outcome};
use crate::bounded_file::{self, SCENARIO_BYTES_MAX};
use crate::demo::{self, ScenarioSource, Settings, Speed};
use crate::diagnostic::{Diagnostic, Location};
use crate::{environment, options};

const TOUR: &str = include_str!("../../../../scenarios/demo/tour.yaml");

/// Run a simulated cluster in this process and watch it; kubectl works on it
///
/// The Kubernetes API, the scheduler, the kubelets and the cloud are simulated, the controllers are
/// the real ones; nothing leaves this machine. What happens to them is written in a scenario:
/// workloads come, change and go at the times that it says.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The scenario to play [default: a short tour]
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// How many seconds pass in the cluster for each real one (fewer where the machine cannot keep
    /// up), or `max`: as fast as it goes, with
    /// the same timeline for the same seed; without kubectl (no --kubeconfig, no --port), and ends
    /// when it is done
    #[arg(long, value_name = "N|max", default_value = "5")]
    speed: Speed,
    /// What chance is drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// End when the scenario is over and the cluster is at rest; exit code 1 if a pod is left
    /// pending or a NodeClaim leaks
    #[arg(long)]
    exit_when_done: bool,
    /// The kubeconfig that the demo is added to, and removed from at the end [default: a new file in
    /// the directory for temporary files]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The port of the API on 127.0.0.1 [default: one that is free]
    #[arg(long)]
    port: Option<u16>,
}

const EXAMPLES: &str = "\
Examples:
  karpenter demo                              look at a small cluster
  karpenter demo --speed 60                   an hour in a minute
  karpenter demo --speed max --seed 7         the timeline of seed 7
  karpenter demo --scenario my.yaml --exit-when-done

From another terminal, with the kubeconfig that the demo prints:
  kubectl --kubeconfig FILE get nodes,pods -w
  kubectl --kubeconfig FILE scale deployment web --replicas 12

Of the controller's options the environment can set one: CONSOLIDATION_SEARCH=best|deep|upstream.

Exit codes: 0 = stopped by you, or done and every pod has its place, 1 = done and something is left
over (a pending pod, a leaked NodeClaim), stopped before --exit-when-done was done, or the scenario
has a mistake or cannot be played, 2 = wrong usage.";

pub(crate) fn run(args: &Args) -> Result<Outcome, Failure> {
    check_usage(args)?;
    let (text, file) = match &args.scenario {
        None => (TOUR.to_owned(), "the built-in tour".to_owned()),
        Some(path) => (read_scenario(path)?, path.display().to_string()),
    };
    let scenario = Scenario::parse(&text).map_err(|error| scenario_diagnostic(&file, error))?;
    let settings = Settings {
        speed: args.speed,
        seed: args.seed,
        exit_when_done: args.exit_when_done || args.speed == Speed::Max,
        kubeconfig: args.kubeconfig.clone(),
        port: args.port.unwrap_or_default(),
        options: options::demo_options(environment::variable).map_err(Failure::Usage)?,
    };
    let source = ScenarioSource { file, text };
    demo::run(&scenario, &source, &settings)
}

/// Rejects options for kubectl with virtual time, which has no kubectl.
fn check_usage(args: &Args) -> Result<(), Failure> {
    let given = [("--port", args.port.is_some()), ("--kubeconfig", args.kubeconfig.is_some())];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) if args.speed == Speed::Max => {
            let diagnostic = Diagnostic::new(format!("{option} has no effect with `--speed max`"))
                .found("at that speed nobody waits, and kubectl could not keep up")
                .fix(format!("leave {option} out, or use a number such as `--speed 60`"));
            Err(Failure::Usage(diagnostic.into()))
        }
        _ => Ok(()),
    }
}

fn read_scenario(path: &Path) -> Result<String, Failure> {
    bounded_file::read_text(path, SCENARIO_BYTES_MAX).map_err(|error| {
        Diagnostic::new("cannot read the scenario")
            .at(Location::file(path.display().to_string()))
            .found(error.to_string())
            .fix("name a YAML file that can be read, or leave --scenario out for the tour")
            .into()
    })
}

fn scenario_diagnostic(file: &str, error: ScenarioError) -> Diagnostic {
    let place =
        Location { line: error.line, field: Some(error.field_path), ..Location::file(file) };
    let diagnostic = Diagnostic::new("the scenario has a mistake").at(place).found(error.problem);
    match error.fix {
        Some(fix) => diagnostic.fix(fix),
        None => diagnostic,
    }
}
