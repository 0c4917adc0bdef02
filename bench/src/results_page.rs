//! Writes the page of all results, `bench/results/README.md`. Each command rewrites its own
//! section.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::bench_host::BenchHost;
use crate::host;
use crate::limit::Limit;

const HEAD: &str = "# Results\n\n\
                    Written by `cargo xtask bench`, a section per command; edit nothing here.\n";

/// What a command has measured.
pub(crate) struct Section<'a, R> {
    /// In lower case and with hyphens it is also the name of the file with the figures.
    pub(crate) title: &'static str,
    /// The command that makes it.
    pub(crate) command: &'static str,
    /// What the figures mean.
    pub(crate) about: &'static str,
    /// The figures, as Markdown.
    pub(crate) table: String,
    /// The same, for the file.
    pub(crate) rows: &'a [R],
    pub(crate) limits: &'a [Limit],
}

impl<R: Serialize> Section<'_, R> {
    /// Writes `bench/results/<date>-<host>/<title>.json` and the section.
    pub(crate) fn save(&self) -> Result<()> {
        let bench_host = BenchHost::detect();
        let folder = bench_host.results_folder()?;
        let file = folder.join(file_name(self.title));
        let limits: Vec<_> = self.limits.iter().map(ToString::to_string).collect();
        let value = json!({
            "command": self.command, "date": bench_host.date, "cores": bench_host.cores,
            "cpu": bench_host.cpu, "rows": self.rows, "limits": limits,
        });
        fs::write(file, serde_json::to_string_pretty(&value)? + "\n")?;
        let path = host::repo().join("bench/results/README.md");
        let page = fs::read_to_string(&path).unwrap_or_default();
        fs::write(&path, replace_section(&page, self.title, &self.text(&bench_host, &limits)))
            .with_context(|| format!("cannot write {}", path.display()))?;
        host::note(&format!("kept in {}", folder.display()));
        Ok(())
    }

    fn text(&self, bench_host: &BenchHost, limits: &[String]) -> String {
        let Self { command, about, table, .. } = self;
        let BenchHost { date, cores, cpu, .. } = bench_host;
        let mut text = format!("`{command}`, {date} on {cores} cores ({cpu}). {about}\n\n{table}");
        text.push_str("\nWhat must be reached:\n\n");
        for limit in limits {
            let _ = writeln!(text, "- {limit}");
        }
        text
    }
}

/// Returns the rows of a section saved today on this host, if any.
pub(crate) fn load_saved<R: DeserializeOwned>(title: &str) -> Result<Vec<R>> {
    #[derive(Deserialize)]
    struct SavedRows<R> {
        rows: Vec<R>,
    }
    let path = BenchHost::detect().results_folder()?.join(file_name(title));
    if !path.exists() {
        return Ok(Vec::new());
    }
    let read =
        || anyhow::Ok(serde_json::from_str::<SavedRows<R>>(&fs::read_to_string(&path)?)?.rows);
    read().with_context(|| format!("cannot read {}", path.display()))
}

fn file_name(title: &str) -> String {
    title.to_lowercase().replace(' ', "-") + ".json"
}

pub(crate) fn format_seconds(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.2} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}

#[expect(clippy::cast_precision_loss, reason = "sizes of memory, for people")]
pub(crate) fn format_mebibytes(size: u64) -> String {
    format!("{:.1} MiB", size as f64 / 1_048_576.0)
}

fn replace_section(page: &str, title: &str, text: &str) -> String {
    let mut sections: Vec<(String, String)> = page
        .split("\n## ")
        .skip(1)
        .filter_map(|section| section.split_once('\n'))
        .map(|(title, text)| (title.to_owned(), text.trim().to_owned()))
        .collect();
    let text = text.trim().to_owned();
    match sections.iter_mut().find(|(found, _)| found == title) {
        Some((_, old)) => *old = text,
        None => sections.push((title.to_owned(), text)),
    }
    sections.sort();
    let written = sections.iter().map(|(title, text)| format!("\n## {title}\n\n{text}\n"));
    HEAD.to_owned() + &written.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacing_a_section_keeps_the_others() {
        let page = replace_section("# Old head\n\n## B\n\nkept\n\nstill\n", "C", "new");
        assert_eq!(page, format!("{HEAD}\n## B\n\nkept\n\nstill\n\n## C\n\nnew\n"));
        let page = replace_section(&page, "B", "other\n");
        assert_eq!(page, format!("{HEAD}\n## B\n\nother\n\n## C\n\nnew\n"));
        assert_eq!(replace_section(&page, "B", "other"), page, "nothing grows");
    }
}
