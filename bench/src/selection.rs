//! Selects the workloads and sides of a bench and measures them in turn.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::host;

#[derive(Debug, clap::Args)]
pub(crate) struct Selection {
    /// Upstream's decision code, as a program (`cargo xtask bench` builds it).
    #[arg(long, value_name = "FILE", hide = true, required_unless_present = "no_upstream")]
    oracle: Option<PathBuf>,

    /// Only the workload of this name, or those whose names contain it (repeat for more). Results are not kept then.
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,

    /// Measures only our side. Results are not kept then.
    #[arg(long)]
    no_upstream: bool,
}

impl Selection {
    /// Returns whether every workload and side is selected; only then results are saved.
    pub(crate) fn is_complete(&self) -> bool {
        self.only.is_empty() && !self.no_upstream
    }

    pub(crate) fn upstream(&self) -> Option<&Path> {
        self.oracle.as_deref().filter(|_| !self.no_upstream)
    }

    /// Measures the selected workloads in turn and prints a line for each.
    pub(crate) fn measure_selected<W, R>(
        &self,
        all: &[W],
        name: impl Fn(&W) -> &str,
        measure: impl Fn(&W) -> Result<R>,
        line: impl Fn(&R) -> String,
    ) -> Result<Vec<R>> {
        let names: Vec<_> = all.iter().map(&name).collect();
        let wanted: Vec<_> = all.iter().filter(|w| self.is_selected(name(w), &names)).collect();
        ensure!(
            !wanted.is_empty(),
            "no workload is called like that; there are: {}",
            names.join(", ")
        );
        let mut rows = Vec::new();
        for (at, workload) in wanted.iter().enumerate() {
            let name = name(workload);
            host::note(&format!("[{:>2}/{}] {name}…", at + 1, wanted.len()));
            let row = measure(workload).with_context(|| name.to_owned())?;
            host::print(&(line(&row) + "\n"));
            rows.push(row);
        }
        Ok(rows)
    }

    /// Returns whether `--only` selects `name`: exact names first, then substrings.
    fn is_selected(&self, name: &str, names: &[&str]) -> bool {
        let fits = |text: &String| {
            name == text || (!names.contains(&text.as_str()) && name.contains(text.as_str()))
        };
        self.only.is_empty() || self.only.iter().any(fits)
    }
}
