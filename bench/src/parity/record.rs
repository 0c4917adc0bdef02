//! Records clusters with upstream's answers, so that the default tests can compare without Go.
//! Those tests cannot run upstream again, so the recording has as many runs as a comparison after a
//! difference.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::report::{first_line, for_each_recipe};
use super::{RETRY_FACTOR, UpstreamRange, pending_pods, recorded_answer};
use crate::decision::{self, CaseFiles};
use crate::generate::Recipe;
use crate::host;

/// Writes `scenarios/parity/<name>/{snapshot.yaml,upstream.json}` for each recipe, and
/// `instance-types.json` where the cluster has its own.
pub(super) fn record(recipes: &[Recipe], oracle: &Path, runs: usize) -> Result<()> {
    let root = host::repo().join("scenarios/parity");
    let done = for_each_recipe(
        recipes,
        |recipe| record_one(recipe, oracle, runs, &root),
        |recipe, result| match result {
            Ok(upstream) => {
                format!("{:<22} {} kinds of answer", recipe.name(), upstream.unplaced.len())
            }
            Err(error) => format!("{:<22} FAILED {}", recipe.name(), first_line(error)),
        },
    );
    done.into_iter().collect::<Result<Vec<_>>>().map(drop)
}

fn record_one(recipe: &Recipe, oracle: &Path, runs: usize, root: &Path) -> Result<UpstreamRange> {
    let folder = root.join(recipe.name());
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let case = recipe.generate();
    let files = CaseFiles::write(&case, recipe.types, &folder)?;
    let runs = decision::run_upstream(oracle, &files, runs * (1 + RETRY_FACTOR))?;
    let upstream = UpstreamRange::from_runs(&runs, &pending_pods(&case.objects));
    let text = serde_json::to_string_pretty(&recorded_answer(&case, &upstream))?;
    fs::write(folder.join("upstream.json"), text + "\n")?;
    Ok(upstream)
}
