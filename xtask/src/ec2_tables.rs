//! Generates the tables of EC2's instance types, zones and prices in `crates/aws`.
//!
//! AWS cannot be asked without an account, so the figures come from two public copies of them
//! (spec 51 §13): the data of moto, which repeats the answers of AWS's API, and the generated
//! figures of the AWS provider of Karpenter. Only figures are read, no code.
//!
//! ```text
//! PyPI: moto ─▶ instance types, zones ─┐
//! Go module: karpenter-provider-aws ───┴▶ types.tsv, zones.tsv, figures.tsv
//! ```

mod figures;
mod moto;
mod rows;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::host;

/// The folder of the tables.
const DATA: &str = "crates/aws/src/tables/data";

/// The regions of the tables, in the order of the columns of `types.tsv`.
const REGIONS: [&str; 5] = ["us-west-2", "us-east-1", "us-east-2", "eu-west-1", "ap-south-1"];

/// Downloads the sources and writes the tables.
pub(crate) fn write() -> Result<()> {
    let scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
    host::note("downloading the data of moto from PyPI");
    let ec2 = moto::read(scratch.path(), &REGIONS)?;
    host::note("downloading the figures of karpenter-provider-aws");
    let figures = figures::read()?;
    let folder = host::repo().join(DATA);
    fs::create_dir_all(&folder)?;
    save(&folder, "types.tsv", &rows::types(&ec2)?)?;
    save(&folder, "zones.tsv", &rows::zones(&ec2))?;
    save(&folder, "figures.tsv", &rows::figures(&figures))
}

fn save(folder: &Path, name: &str, text: &str) -> Result<()> {
    fs::write(folder.join(name), text).with_context(|| format!("cannot write {name}"))?;
    host::note(&format!(
        "wrote {DATA}/{name}: {} rows, {} bytes",
        text.lines().count(),
        text.len()
    ));
    Ok(())
}
