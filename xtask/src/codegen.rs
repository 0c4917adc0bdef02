//! Writes the files in the repository that the product's own binary generates.
//!
//! Everything generated is one row of [`GENERATED_FILES`]. The binary prints, this module writes
//! the file or compares, so a generator can also be run manually.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

use crate::tools::{Tool, Toolbox};
use crate::{host, process};

/// A file whose content is the output of `karpenter <args>`.
struct GeneratedFile {
    args: &'static [&'static str],
    file: &'static str,
}

const GENERATED_FILES: &[GeneratedFile] = &[
    GeneratedFile {
        args: &["crds", "--provider", "aws"],
        file: "charts/karpenter-crd/generated/aws.yaml",
    },
    GeneratedFile {
        args: &["crds", "--provider", "kwok"],
        file: "charts/karpenter-crd/generated/kwok.yaml",
    },
    GeneratedFile { args: &["reference", "annotations"], file: "docs/reference/annotations.md" },
    GeneratedFile { args: &["reference", "metrics"], file: "docs/reference/metrics.md" },
    GeneratedFile { args: &["reference", "options"], file: "docs/reference/options.md" },
];

/// Writes every generated file; leaves the ones that are right untouched.
pub(crate) fn write() -> Result<()> {
    for row in GENERATED_FILES {
        let (path, wanted) = (row.path(), row.generate()?);
        if read_if_exists(&path)?.as_ref() == Some(&wanted) {
            host::note(&format!("unchanged {}", row.file));
            continue;
        }
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        fs::write(&path, &wanted).with_context(|| format!("cannot write {}", row.file))?;
        host::note(&format!("wrote     {}", row.file));
    }
    Ok(())
}

/// The path of the table of Kubernetes' kinds.
const TYPE_TABLE_FILE: &str = "crates/apiserver/src/kinds/shapes.txt";

/// Generates the table for the pinned Kubernetes. Not in [`GENERATED_FILES`], for it takes Go.
fn generate_type_table() -> Result<String> {
    let tool = Toolbox::from_env()?.ensure(Tool::Shapes)?;
    let text = process::output(std::process::Command::new(tool))?;
    ensure!(!text.is_empty(), "the program printed nothing");
    String::from_utf8(text).context("the table of shapes")
}

pub(crate) fn write_type_table() -> Result<()> {
    fs::write(host::repo().join(TYPE_TABLE_FILE), generate_type_table()?)?;
    host::note(&format!("wrote     {TYPE_TABLE_FILE}"));
    Ok(())
}

/// Fails, with the first difference of each, if a generated file is stale.
pub(crate) fn check() -> Result<()> {
    let mut stale = Vec::new();
    for row in GENERATED_FILES {
        let wanted = row.generate()?;
        match read_if_exists(&row.path())? {
            Some(found) if found == wanted => {}
            Some(found) => {
                host::note(&format!("{} is stale:\n{}", row.file, difference(&found, &wanted)));
                stale.push(row.file);
            }
            None => {
                host::note(&format!("{} is missing", row.file));
                stale.push(row.file);
            }
        }
    }
    if !stale.is_empty() {
        bail!("run `cargo xtask codegen` and commit {}", stale.join(", "));
    }
    Ok(())
}

impl GeneratedFile {
    fn path(&self) -> PathBuf {
        host::repo().join(self.file)
    }

    fn generate(&self) -> Result<String> {
        let cargo = ["run", "--locked", "-q", "-p", "karpenter", "--no-default-features", "--"];
        let text = process::output(process::cargo(&[&cargo[..], self.args].concat()))?;
        // An empty file would pass for a generated one for ever after.
        ensure!(!text.is_empty(), "`karpenter {}` printed nothing", self.args.join(" "));
        String::from_utf8(text).with_context(|| format!("`karpenter {}`", self.args.join(" ")))
    }
}

/// Returns the text of a file, or `None` if it does not exist.
fn read_if_exists(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Returns the lines between the first and the last difference, at most a dozen of each side:
/// enough to see which change was forgotten.
fn difference(found: &str, wanted: &str) -> String {
    const LINES_MAX: usize = 12;
    let (found, wanted): (Vec<_>, Vec<_>) = (found.lines().collect(), wanted.lines().collect());
    let start = found.iter().zip(&wanted).take_while(|(a, b)| a == b).count();
    let (found, wanted) = (&found[start..], &wanted[start..]);
    let end = found.iter().rev().zip(wanted.iter().rev()).take_while(|(a, b)| a == b).count();

    let mut lines = vec![format!("@@ line {}", start + 1)];
    for (sign, side) in [('-', &found[..found.len() - end]), ('+', &wanted[..wanted.len() - end])] {
        lines.extend(side.iter().take(LINES_MAX).map(|line| format!("{sign}{line}")));
        if side.len() > LINES_MAX {
            lines.push(format!("{sign}… {} more lines", side.len() - LINES_MAX));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn a_difference_shows_only_the_lines_that_differ() {
        let cases = [
            ("a\nb\nc", "a\nx\nc", "@@ line 2\n-b\n+x"),
            ("a\nc", "a\nb\nc", "@@ line 2\n+b"),
            ("a\na\na", "a\na", "@@ line 3\n-a"), // the ends do not overlap
            ("", "a", "@@ line 1\n+a"),
        ];
        for (found, wanted, expected) in cases {
            assert_eq!(difference(found, wanted), expected, "{found:?} → {wanted:?}");
        }
    }

    #[test]
    fn a_long_difference_is_truncated() {
        let wanted = "x\n".repeat(20);
        assert!(difference("", &wanted).ends_with("+x\n+… 8 more lines"));
    }
}
