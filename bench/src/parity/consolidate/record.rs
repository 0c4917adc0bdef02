//! Keeps clusters with upstream's answers, so that the default tests can compare without Go.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::json;

use super::RETRY_FACTOR;
use super::differences::equal_commands;
use crate::consolidation::{self, Command, ConsolidationDecision};
use crate::decision::CaseFiles;
use crate::generate::Recipe;
use crate::host;
use crate::parity::report::{first_line, for_each_recipe};

/// Writes `scenarios/consolidation/<name>/{snapshot.yaml,upstream.json}` for each recipe, and
/// `instance-types.json` where the cluster has its own.
pub(super) fn record(recipes: &[Recipe], oracle: &Path, runs: usize) -> Result<()> {
    let root = host::repo().join("scenarios/consolidation");
    let done = for_each_recipe(
        recipes,
        |recipe| record_one(recipe, oracle, runs, &root),
        |recipe, result| match result {
            Ok(answers) => format!("{:<22} {answers} kinds of answer", recipe.name()),
            Err(error) => format!("{:<22} FAILED {}", recipe.name(), first_line(error)),
        },
    );
    done.into_iter().collect::<Result<Vec<_>>>().map(drop)
}

fn record_one(recipe: &Recipe, oracle: &Path, runs: usize, root: &Path) -> Result<usize> {
    let folder = root.join(recipe.name());
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let case = recipe.generate();
    let files = CaseFiles::write(&case, recipe.types, &folder)?;
    let runs = consolidation::run_upstream(oracle, &files, runs * (1 + RETRY_FACTOR))?;
    let mut answers: Vec<&[Command]> = Vec::new();
    for run in &runs {
        if !answers.iter().any(|known| equal_commands(known, &run.commands)) {
            answers.push(&run.commands);
        }
    }
    let highest = runs.iter().map(ConsolidationDecision::savings).fold(0.0, f64::max);
    let kept = json!({"flags": case.options.flags(), "answers": answers, "savings": highest});
    fs::write(folder.join("upstream.json"), serde_json::to_string_pretty(&kept)? + "\n")?;
    Ok(answers.len())
}
