//! `cargo xtask tidy`: plain names, a head comment in every module, plain English, narrow Markdown.
//!
//! The words are in `tidy/banned-words.txt`. What was wrong before the check existed is counted
//! per file in `tidy/baseline.txt`. The baseline may only shrink: a finding that it does not cover
//! fails, and so does a baseline that covers more than there is.
//!
//! Start reading in [`findings`].

mod baseline;
mod words;

use anyhow::{Context as _, Result, bail};

use crate::host;
use crate::source::{self, PieceKind, SourceFile};

use self::baseline::{Baseline, Difference};
use self::words::{BannedWords, Phrases};

#[cfg(test)]
mod tests;

/// The longest line of Markdown outside tables and code.
const MARKDOWN_WIDTH: usize = 120;
/// How many findings of one file a failure prints.
const PRINTED_PER_FILE: usize = 20;

/// One rule that a file can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Check {
    Identifier,
    HeadComment,
    CommentWord,
    StringWord,
    MarkdownWord,
    MarkdownLine,
}

impl Check {
    const ALL: [Self; 6] = [
        Self::Identifier,
        Self::HeadComment,
        Self::CommentWord,
        Self::StringWord,
        Self::MarkdownWord,
        Self::MarkdownLine,
    ];

    /// The name of the check in the baseline and in the output.
    fn name(self) -> &'static str {
        match self {
            Self::Identifier => "identifier",
            Self::HeadComment => "head-comment",
            Self::CommentWord => "comment-word",
            Self::StringWord => "string-word",
            Self::MarkdownWord => "markdown-word",
            Self::MarkdownLine => "markdown-line",
        }
    }
}

/// A place that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    check: Check,
    path: String,
    line: usize,
    message: String,
}

/// Compares the findings with the baseline; with `update`, writes the smaller baseline.
pub(crate) fn run(update: bool) -> Result<()> {
    let words = BannedWords::parse(include_str!("tidy/banned-words.txt"))?;
    let findings = all_findings(&words)?;
    let found = Baseline::count(&findings);
    let allowed = Baseline::read()?;
    host::note(&summary(&found, &allowed));
    if update {
        return found.write_if_not_larger(&allowed);
    }
    report(&findings, &allowed.differences(&found))
}

fn all_findings(words: &BannedWords) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in source::rust_files()? {
        if !words.exempts(&file.path) {
            let found = rust_findings(&file, words);
            findings.extend(found.with_context(|| format!("reading {}", file.path))?);
        }
    }
    for file in source::markdown_files()? {
        if !words.exempts(&file.path) {
            findings.extend(markdown_findings(&file, words));
        }
    }
    Ok(findings)
}

/// Returns the findings in a Rust file, in the order of its lines.
fn rust_findings(file: &SourceFile, words: &BannedWords) -> Result<Vec<Finding>> {
    let finding = |check, line, message| Finding { check, path: file.path.clone(), line, message };
    let mut findings = Vec::new();
    if !file.text.starts_with("//!") {
        let message = "the file does not start with a `//!` comment that describes the module";
        findings.push(finding(Check::HeadComment, 1, message.to_owned()));
    }
    for piece in source::pieces(&file.text)? {
        let check = match piece.kind {
            PieceKind::Identifier => {
                if let Some(banned) = words.in_identifier(piece.text) {
                    let message = format!("`{}`: {banned}", piece.text);
                    findings.push(finding(Check::Identifier, piece.line, message));
                }
                continue;
            }
            PieceKind::Comment => Check::CommentWord,
            PieceKind::String => Check::StringWord,
        };
        for (offset, line) in piece.text.lines().enumerate() {
            let found =
                words.in_text(line).map(|message| finding(check, piece.line + offset, message));
            findings.extend(found);
        }
    }
    Ok(findings)
}

/// Returns the findings in a Markdown file. Code is exempt, and tables may be wide.
fn markdown_findings(file: &SourceFile, words: &BannedWords) -> Vec<Finding> {
    let finding = |check, line, message| Finding { check, path: file.path.clone(), line, message };
    let (mut findings, mut in_code) = (Vec::new(), false);
    for (index, line) in file.text.lines().enumerate() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") {
            in_code = !in_code;
            continue;
        }
        if in_code {
            continue;
        }
        let columns = line.chars().count();
        if columns > MARKDOWN_WIDTH && !trimmed.starts_with('|') {
            let message = format!("{columns} columns; wrap at {MARKDOWN_WIDTH}");
            findings.push(finding(Check::MarkdownLine, index + 1, message));
        }
        let prose = Phrases::without_code(line);
        let found = words.in_text(&prose);
        findings.extend(found.map(|message| finding(Check::MarkdownWord, index + 1, message)));
    }
    findings
}

/// One line per check: how many findings there are, and how many the baseline allows.
fn summary(found: &Baseline, allowed: &Baseline) -> String {
    let mut lines = vec![format!("{:<14} {:>8} {:>9}", "check", "findings", "baseline")];
    lines.extend(Check::ALL.into_iter().map(|check| {
        format!("{:<14} {:>8} {:>9}", check.name(), found.total(check), allowed.total(check))
    }));
    lines.join("\n")
}

/// Prints the findings behind each difference, and fails if there is one.
fn report(findings: &[Finding], differences: &[Difference]) -> Result<()> {
    for Difference { check, path, allowed, found } in differences {
        host::note(&format!(
            "{path}: {}: {found} findings, {allowed} in the baseline",
            check.name()
        ));
        let is_here = |finding: &&Finding| finding.check == *check && finding.path == *path;
        for finding in findings.iter().filter(is_here).take(PRINTED_PER_FILE) {
            host::note(&format!("  {}:{}: {}", finding.path, finding.line, finding.message));
        }
    }
    let larger =
        differences.iter().filter(|difference| difference.found > difference.allowed).count();
    if larger > 0 {
        bail!("{larger} files have new findings; reword them (style: docs/concepts/glossary.md)");
    }
    if !differences.is_empty() {
        bail!(
            "{} files have fewer findings than the baseline; run `cargo xtask tidy --update`",
            differences.len()
        );
    }
    Ok(())
}
