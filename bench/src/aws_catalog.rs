//! `cargo xtask bench aws-catalog`: the instance types of AWS under several NodeClasses.
//!
//! The instance types, zones and prices are those of the committed table of us-west-2. Each
//! NodeClass has four subnets in four zones. Each task runs in a process of its own:
//!
//! | Task | Measures |
//! |---|---|
//! | `resolution` | the list of one NodeClass: cold, unchanged, and after one mark |
//! | `memory` | the peak of resident memory with the lists of 20 NodePools |
//! | `pools` | the lists of 20 and of 500 NodePools from empty caches, in turn |
//! | `solve` | 10,000 pods on these types and on upstream's 400 fake types, in turn |

pub mod measure;
mod region;
mod results;

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Result;
use serde::Serialize;

use crate::decision::{CaseFiles, run_command};
use crate::generate::{Profile, Recipe, Types};
use crate::{host, limit};

use measure::Figure;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// How often each time is measured; the best counts. Results are kept only with the default.
    #[arg(long, default_value_t = RUNS, value_name = "N")]
    runs: usize,
}

const RUNS: usize = 20;

/// How many pods the solve places.
const PODS: usize = 10_000;

/// One figure of a task.
#[derive(Clone, Debug, Serialize)]
struct Row {
    task: &'static str,
    #[serde(flatten)]
    figure: Figure,
}

/// Measures every task and keeps the results.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let folder = tempfile::tempdir()?;
    let snapshot = write_snapshot(folder.path())?;
    let runs = format!("--runs={}", args.runs);
    let tasks: [(&str, &[&str]); 4] = [
        ("resolution", &[&runs]),
        ("memory", &[]),
        ("pools", &[&runs]),
        ("solve", &[&runs, &snapshot]),
    ];
    let mut rows = Vec::new();
    for (task, options) in tasks {
        let mut command = Command::new(host::sibling_program("aws-catalog")?);
        command.arg(task).args(options);
        let figures: Vec<Figure> = serde_json::from_slice(&run_command(command, &[0])?)?;
        for figure in figures {
            let row = Row { task, figure };
            host::print(&results::line(&row));
            rows.push(row);
        }
    }
    let limits = results::limits(&rows);
    let verdict = limit::print_limits(&limits);
    if args.runs == RUNS {
        results::save(&rows, &limits)?;
    }
    Ok(verdict)
}

/// Writes the pods of upstream's scheduler benchmark, and returns the path of the file.
fn write_snapshot(folder: &Path) -> Result<String> {
    let recipe = Recipe {
        profile: Profile::Diverse,
        types: Types::Fake400,
        pods: PODS,
        nodes: 0,
        seed: 42,
        features: None,
    };
    let files = CaseFiles::write(&recipe.generate(), recipe.types, folder)?;
    Ok(files.snapshot.display().to_string())
}
