//! Keeps clusters with upstream's answers, so that the default tests can compare without Go.
//! They cannot ask again, so all that a second look would have found is asked for here.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::report::{each, first_line};
use super::{SECOND_LOOK, Upstream, scenario, waiting};
use crate::decision::{self, Files};
use crate::generate::Recipe;
use crate::host;

/// Writes `scenarios/parity/<name>/{snapshot.yaml,upstream.json}` for each recipe, and
/// `instance-types.json` where the cluster has its own.
pub(super) fn record(recipes: &[Recipe], oracle: &Path, runs: usize) -> Result<()> {
    let root = host::repo().join("scenarios/parity");
    let done = each(
        recipes,
        |recipe| one(recipe, oracle, runs, &root),
        |recipe, result| match result {
            Ok(upstream) => {
                format!("{:<22} {} kinds of answer", recipe.name(), upstream.unplaced.len())
            }
            Err(error) => format!("{:<22} FAILED {}", recipe.name(), first_line(error)),
        },
    );
    done.into_iter().collect::<Result<Vec<_>>>().map(drop)
}

fn one(recipe: &Recipe, oracle: &Path, runs: usize, root: &Path) -> Result<Upstream> {
    let folder = root.join(recipe.name());
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let case = recipe.generate();
    let files = Files::write(&case, recipe.types, &folder)?;
    let runs = decision::upstream(oracle, &files, runs * (1 + SECOND_LOOK))?;
    let upstream = Upstream::of(&runs, &waiting(&case.objects));
    let text = serde_json::to_string_pretty(&scenario(&case, &upstream))?;
    fs::write(folder.join("upstream.json"), text + "\n")?;
    Ok(upstream)
}
