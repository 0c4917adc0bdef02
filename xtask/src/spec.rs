//! `cargo xtask spec`: the cases of the specification without a test, and wrong citations.
//!
//! The specification is `docs/spec`. A case has a test if a string literal of a Rust file, or a
//! scenario, snapshot or script, cites it. Whether that test checks the case is for a reader to
//! judge. A citation that names nothing of the specification fails, in code, tests and docs.
//!
//! Start reading in [`survey`].

mod citation;
mod exceptions;
mod index;
mod scan;

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context as _, Result, bail};

use crate::host;
use crate::source::{self, SourceFile};

use self::citation::{Citation, Target};
use self::index::SpecFile;

#[cfg(test)]
mod tests;

/// Where the specification is.
const FOLDER: &str = "docs/spec";
/// The tests of this module cite files and cases that do not exist.
const EXAMPLES: &str = "xtask/src/spec/";

/// A citation that names nothing of the specification.
#[derive(Debug, PartialEq, Eq)]
struct DanglingCitation {
    path: String,
    line: usize,
    citation: String,
    /// What to write instead.
    hint: String,
}

/// The result of scanning all files.
#[derive(Debug, Default)]
struct Survey {
    /// The cited cases, as number of the file and id.
    tested: BTreeSet<(String, String)>,
    dangling: Vec<DanglingCitation>,
}

/// Prints the number of tested cases per file; fails on a wrong citation or exception.
///
/// With `missing`, lists the cases of that file without a test.
pub(crate) fn run(missing: Option<&str>) -> Result<()> {
    let specification = read_specification()?;
    let files: Vec<_> = source::files(&scan::extensions())?
        .into_iter()
        .filter(|file| !is_specification(&file.path) && !file.path.starts_with(EXAMPLES))
        .collect();
    let survey = survey(&specification, &files);
    for line in coverage(&specification, &survey.tested, missing) {
        host::print(&line);
    }
    if let Some(number) = missing
        && specification.iter().all(|file| file.number != number)
    {
        bail!("no file of {FOLDER} has the number {number}");
    }
    for DanglingCitation { path, line, citation, hint } in &survey.dangling {
        host::note(&format!("{path}:{line}: `{citation}` is not in {FOLDER}; {hint}"));
    }
    let faults = exceptions::faults(&specification, &survey.tested)?;
    for fault in &faults {
        host::note(fault);
    }
    if !survey.dangling.is_empty() || !faults.is_empty() {
        let (dangling, faults) = (survey.dangling.len(), faults.len());
        bail!("{dangling} wrong citations, {faults} faults in {}", exceptions::FILE);
    }
    Ok(())
}

/// Reads the numbered files of the specification, sorted by name.
fn read_specification() -> Result<Vec<SpecFile>> {
    let folder = host::repo().join(FOLDER);
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("listing {FOLDER}"))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_markdown = path.extension().is_some_and(|extension| extension == "md");
        if is_markdown && name.starts_with(|first: char| first.is_ascii_digit()) {
            let text = fs::read_to_string(&path).with_context(|| format!("reading {name}"))?;
            files.push(SpecFile::parse(&name, &text));
        }
    }
    files.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(files)
}

/// Returns whether the path is that of a numbered file of the specification.
fn is_specification(path: &str) -> bool {
    let name = path.strip_prefix(FOLDER).and_then(|name| name.strip_prefix('/'));
    name.is_some_and(|name| name.starts_with(|first: char| first.is_ascii_digit()))
}

/// Finds the cited cases and the wrong citations in the files.
fn survey(specification: &[SpecFile], files: &[SourceFile]) -> Survey {
    let numbers: Vec<_> = specification.iter().map(|file| file.number.clone()).collect();
    let prefixes: Vec<_> = numbers.iter().map(|number| format!("{number}/")).collect();
    let may_cite = |text: &str| {
        ["§", "spec "].iter().any(|mark| text.contains(mark))
            || prefixes.iter().any(|prefix| text.contains(prefix))
    };
    let mut survey = Survey::default();
    for file in files.iter().filter(|file| may_cite(&file.text)) {
        for block in scan::blocks(&file.path, &file.text) {
            for citation in citation::citations(&block.text, &numbers) {
                if block.is_test {
                    survey.tested.extend(tested_case(&citation));
                }
                if citation.is_certain && !resolves(specification, &citation) {
                    survey.dangling.push(DanglingCitation {
                        path: file.path.clone(),
                        line: scan::line_of(&file.text, block.start + citation.at),
                        citation: describe(&citation),
                        hint: hint(specification, &citation),
                    });
                }
            }
        }
    }
    survey
}

fn tested_case(citation: &Citation) -> Option<(String, String)> {
    match (&citation.target, citation.files.as_slice()) {
        (Target::Row(id), [number]) => Some((number.clone(), id.clone())),
        _ => None,
    }
}

/// Returns whether one of the files that may be meant has the target.
fn resolves(specification: &[SpecFile], citation: &Citation) -> bool {
    let has_target = |file: &SpecFile| match &citation.target {
        Target::Row(id) => file.has_row(id),
        Target::Section(path) => file.has_section(path),
        Target::Item { section, item } => file.has_item(section, item) || file.has_row(item),
        Target::UnknownFile => false,
    };
    cited_files(specification, citation).any(has_target)
}

fn cited_files<'a>(
    specification: &'a [SpecFile],
    citation: &'a Citation,
) -> impl Iterator<Item = &'a SpecFile> {
    specification.iter().filter(|file| citation.files.contains(&file.number))
}

fn describe(citation: &Citation) -> String {
    let files = citation.files.join(" or ");
    let text = match &citation.target {
        Target::Row(id) => format!("{files}/{id}"),
        Target::Section(path) => format!("{files} §{path}"),
        Target::Item { section, item } => format!("{files} §{section} #{item}"),
        Target::UnknownFile => format!("spec {files}"),
    };
    text.trim_start().to_owned()
}

/// Returns the nearest part of the specification that exists.
fn hint(specification: &[SpecFile], citation: &Citation) -> String {
    if citation.target == Target::UnknownFile {
        return format!("write the number of a file in {FOLDER}");
    }
    if citation.files.is_empty() {
        return "write the number of the file before the section".to_owned();
    }
    let nearest = |wanted: &str, ids: Vec<&str>| {
        let nearest = ids.into_iter().min_by_key(|id| strsim::levenshtein(wanted, id));
        nearest.map(str::to_owned)
    };
    let found = cited_files(specification, citation).find_map(|file| {
        let number = &file.number;
        match &citation.target {
            Target::Row(id) => Some(format!("{number}/{}", nearest(id, file.row_ids().collect())?)),
            Target::Section(path) => {
                Some(format!("{number} §{}", nearest(path, file.section_paths().collect())?))
            }
            Target::Item { section, item } => {
                let items = file.items(section)?.iter().map(String::as_str).collect();
                Some(format!("{number} §{section} #{}", nearest(item, items)?))
            }
            Target::UnknownFile => None,
        }
    });
    found.map_or_else(|| "nothing is near".to_owned(), |near| format!("the nearest is `{near}`"))
}

/// Formats one line per file, and the cases without a test of the file `missing`.
fn coverage(
    specification: &[SpecFile],
    tested: &BTreeSet<(String, String)>,
    missing: Option<&str>,
) -> Vec<String> {
    let row =
        |name: &str, cases: usize, tested: usize| format!("{name:<26} {cases:>6} {tested:>12}");
    let mut lines = vec![format!("{:<26} {:>6} {:>12}", "file", "cases", "with a test")];
    let (mut all_cases, mut all_tested) = (0, 0);
    for file in specification {
        let untested = untested_cases(file, tested);
        let (cases, with_test) = (file.cases.len(), file.cases.len() - untested.len());
        (all_cases, all_tested) = (all_cases + cases, all_tested + with_test);
        lines.push(row(&file.name, cases, with_test));
        if missing == Some(file.number.as_str()) {
            lines.extend(untested.iter().map(|id| format!("  {}/{id}", file.number)));
        }
    }
    lines.push(row("all", all_cases, all_tested));
    lines
}

/// Returns the cases of a file that no test cites.
fn untested_cases<'a>(file: &'a SpecFile, tested: &BTreeSet<(String, String)>) -> Vec<&'a str> {
    let is_tested = |id: &&String| tested.contains(&(file.number.clone(), (*id).clone()));
    file.cases.iter().filter(|id| !is_tested(id)).map(String::as_str).collect()
}
