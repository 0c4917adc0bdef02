//! The findings that existed before the check, counted per check and file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context as _, Result, bail, ensure};

use super::{Check, Finding};
use crate::host;

/// Where the committed baseline is.
const FILE: &str = "xtask/src/tidy/baseline.txt";

/// How many findings each file has.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Baseline(BTreeMap<(Check, String), usize>);

/// A file that has not as many findings as the baseline counts for it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) check: Check,
    pub(super) path: String,
    pub(super) allowed: usize,
    pub(super) found: usize,
}

impl Baseline {
    pub(super) fn count(findings: &[Finding]) -> Self {
        let mut counts = BTreeMap::new();
        for finding in findings {
            *counts.entry((finding.check, finding.path.clone())).or_default() += 1;
        }
        Self(counts)
    }

    /// Reads the committed baseline.
    pub(super) fn read() -> Result<Self> {
        let path = host::repo().join(FILE);
        Self::parse(&fs::read_to_string(path).with_context(|| format!("reading {FILE}"))?)
    }

    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut counts = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            if line.starts_with('#') {
                continue;
            }
            let entry = parse_line(line)
                .with_context(|| format!("{FILE} line {}: write `check count path`", index + 1))?;
            counts.insert(entry.0, entry.1);
        }
        Ok(Self(counts))
    }

    fn render(&self) -> String {
        let mut text = "# Findings of `cargo xtask tidy` that may only become fewer.\n".to_owned();
        for ((check, path), count) in &self.0 {
            text.extend([check.name(), " ", &count.to_string(), " ", path, "\n"]);
        }
        text
    }

    /// How many findings of the check all files have.
    pub(super) fn total(&self, check: Check) -> usize {
        self.0.iter().filter(|((of, _), _)| *of == check).map(|(_, count)| count).sum()
    }

    /// Returns the files whose findings differ from this baseline.
    pub(super) fn differences(&self, found: &Self) -> Vec<Difference> {
        let keys: BTreeSet<_> = self.0.keys().chain(found.0.keys()).collect();
        let count = |of: &Self, key| of.0.get(key).copied().unwrap_or(0);
        keys.into_iter()
            .map(|key| Difference {
                check: key.0,
                path: key.1.clone(),
                allowed: count(self, key),
                found: count(found, key),
            })
            .filter(|difference| difference.allowed != difference.found)
            .collect()
    }

    /// Writes these counts as the new baseline; fails if a check has more findings than before.
    ///
    /// Only the totals count, so that a file can move together with its findings.
    pub(super) fn write_if_not_larger(&self, allowed: &Self) -> Result<()> {
        for check in Check::ALL {
            let (found, allowed) = (self.total(check), allowed.total(check));
            ensure!(
                found <= allowed,
                "{}: {found} findings, {allowed} in the baseline; it may only shrink",
                check.name()
            );
        }
        fs::write(host::repo().join(FILE), self.render()).with_context(|| format!("writing {FILE}"))
    }
}

fn parse_line(line: &str) -> Result<((Check, String), usize)> {
    let mut words = line.splitn(3, ' ');
    let (Some(name), Some(count), Some(path)) = (words.next(), words.next(), words.next()) else {
        bail!("found `{line}`");
    };
    let check = Check::ALL.into_iter().find(|check| check.name() == name);
    let check = check.with_context(|| format!("unknown check `{name}`"))?;
    let count = count.parse().with_context(|| format!("`{count}` is not a count"))?;
    Ok(((check, path.to_owned()), count))
}

#[cfg(test)]
mod tests {
    use super::{Baseline, Check, Difference};

    const TEXT: &str = "# Findings of `cargo xtask tidy` that may only become fewer.\n\
        identifier 2 a.rs\ncomment-word 1 a file.rs\n";

    #[test]
    fn a_rendered_baseline_parses_again() {
        let baseline = Baseline::parse(TEXT).expect("well formed");
        assert_eq!(baseline.render(), TEXT);
        assert_eq!(baseline.total(Check::Identifier), 2);
        for wrong in ["identifier a.rs", "identifier x a.rs", "other 1 a.rs"] {
            assert!(Baseline::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn files_with_more_or_fewer_findings_differ() {
        let allowed = Baseline::parse(TEXT).expect("well formed");
        let found = Baseline::parse("identifier 3 a.rs\n").expect("well formed");
        let difference = |check, path: &str, allowed, found| Difference {
            check,
            path: path.to_owned(),
            allowed,
            found,
        };
        assert_eq!(
            allowed.differences(&found),
            [
                difference(Check::Identifier, "a.rs", 2, 3),
                difference(Check::CommentWord, "a file.rs", 1, 0),
            ]
        );
        assert!(found.write_if_not_larger(&allowed).is_err());
        assert!(allowed.differences(&allowed).is_empty());
    }
}
