//! Describes the host of a benchmark run and names its results folder.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::host;

/// The date and the host of a benchmark run.
#[derive(Debug)]
pub(crate) struct BenchHost {
    pub(crate) date: String,
    name: String,
    pub(crate) cpu: String,
    pub(crate) cores: usize,
}

impl BenchHost {
    pub(crate) fn detect() -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let cpu =
            model.map_or_else(|| "unknown cpu".to_owned(), |(_, name)| name.trim().to_owned());
        let cores = host::cores();
        // Distinguishes hosts without their names.
        let name = format!("{}-{cores}-cores", std::env::consts::ARCH);
        Self { date: host::today(), name, cpu, cores }
    }

    /// Creates and returns `bench/results/<date>-<host>`.
    pub(crate) fn results_folder(&self) -> Result<PathBuf> {
        let results = host::repo().join("bench/results");
        let folder = results.join(format!("{}-{}", self.date, self.name));
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }
}
