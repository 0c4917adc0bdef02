//! Parses the files of the specification into cases, sections and numbered items.
//!
//! A case is a row of a table whose first header cell is `id` or `case`. A section is a numbered
//! heading, or a paragraph that starts with a bold number. An item is a numbered step, or a row of
//! any other table. Deliberately knows nothing about citations: see [`super::citation`].

use std::collections::{BTreeMap, BTreeSet};

#[cfg(test)]
mod tests;

/// One file of the specification.
#[derive(Debug, Default)]
pub(super) struct SpecFile {
    /// The two digits at the start of the file name.
    pub(super) number: String,
    pub(super) name: String,
    /// The ids of the cases, in the order of the file.
    pub(super) cases: Vec<String>,
    /// The first cells of all table rows: cases, and rows such as `Q12`.
    rows: BTreeSet<String>,
    /// The numbered steps and table rows below each section.
    sections: BTreeMap<String, BTreeSet<String>>,
}

impl SpecFile {
    /// Parses the text of a file whose name starts with its number.
    pub(super) fn parse(name: &str, text: &str) -> Self {
        let number = name.chars().take_while(char::is_ascii_digit).collect();
        let mut parser = Parser {
            file: Self { number, name: name.to_owned(), ..Self::default() },
            section: String::new(),
            in_code: false,
            table: None,
        };
        text.lines().for_each(|line| parser.read_line(line));
        parser.file
    }

    /// Returns whether `id` is a case, or the first cell of another table row.
    pub(super) fn has_row(&self, id: &str) -> bool {
        self.rows.contains(id)
    }

    /// Returns whether `path` is a section, or a section with the number of an item.
    pub(super) fn has_section(&self, path: &str) -> bool {
        let is_item =
            |(section, item): (&str, &str)| self.items(section).is_some_and(|i| i.contains(item));
        self.sections.contains_key(path) || path.rsplit_once('.').is_some_and(is_item)
    }

    /// Returns whether a section, or one of its sections, has the item.
    pub(super) fn has_item(&self, section: &str, item: &str) -> bool {
        let below = format!("{section}.");
        let is_within = |path: &str| path == section || path.starts_with(&below);
        self.sections.iter().any(|(path, items)| is_within(path) && items.contains(item))
    }

    /// Returns the ids that a citation can name without a section, for hints.
    pub(super) fn row_ids(&self) -> impl Iterator<Item = &str> {
        let ids = self.rows.iter().map(String::as_str);
        ids.filter(|id| is_id(id))
    }

    /// Returns the paths of the sections, for hints.
    pub(super) fn section_paths(&self) -> impl Iterator<Item = &str> {
        self.sections.keys().map(String::as_str)
    }

    /// Returns the items directly below a section.
    pub(super) fn items(&self, section: &str) -> Option<&BTreeSet<String>> {
        self.sections.get(section)
    }
}

/// Reads a file line by line.
struct Parser {
    file: SpecFile,
    /// The path of the section that the current line belongs to.
    section: String,
    in_code: bool,
    /// The table that the current line belongs to: whether its rows are cases.
    table: Option<bool>,
}

impl Parser {
    fn read_line(&mut self, line: &str) {
        if line.trim_start().starts_with("```") {
            self.in_code = !self.in_code;
        } else if self.in_code {
            return;
        }
        if !line.starts_with('|') {
            self.table = None;
        }
        if let Some(path) = heading_path(line).filter(|_| !self.is_title(line)) {
            self.file.sections.entry(path.clone()).or_default();
            self.section = path;
        } else if line.starts_with('|') {
            self.read_row(line);
        } else {
            for step in steps(line) {
                self.add_item(step);
            }
        }
    }

    /// Returns whether the line is `# 10 — …`, where 10 is no section.
    fn is_title(&self, line: &str) -> bool {
        line.strip_prefix("# ").is_some_and(|title| title.starts_with(&self.file.number))
    }

    fn read_row(&mut self, line: &str) {
        let first = line.trim().trim_matches('|').split('|').next().unwrap_or_default();
        let cell = first.trim().trim_matches(['`', '*', ' ']);
        let Some(is_case_table) = self.table else {
            self.table = Some(["id", "case"].contains(&cell.to_lowercase().as_str()));
            return;
        };
        let ids = expand(cell);
        if is_case_table {
            self.file.cases.extend(ids.iter().cloned());
        }
        if ids.is_empty() {
            let word = cell.split(' ').next().unwrap_or_default();
            self.add_row(word.trim_start_matches('#').to_owned());
        }
        for id in ids {
            self.add_row(id);
        }
    }

    fn add_row(&mut self, id: String) {
        self.file.rows.insert(id.clone());
        self.add_item(id);
    }

    fn add_item(&mut self, item: String) {
        self.file.sections.entry(self.section.clone()).or_default().insert(item);
    }
}

/// Returns the number of a heading, or of a bold paragraph such as `**3.17.1 Limits**`.
fn heading_path(line: &str) -> Option<String> {
    if let Some(text) = line.strip_prefix("**") {
        let path = number_path(text.split(' ').next()?)?;
        return path.contains('.').then_some(path);
    }
    let text = line.strip_prefix('#')?.trim_start_matches('#').strip_prefix(' ')?;
    let mut words = text.split(' ');
    let first = words.next()?;
    if first == "Appendix" {
        return words.next().map(str::to_owned);
    }
    let is_lettered = |path: &&str| {
        path.starts_with(|first: char| first.is_ascii_uppercase())
            && path.chars().skip(1).all(|character| character.is_ascii_digit())
    };
    let lettered = first.strip_suffix('.').filter(is_lettered).map(str::to_owned);
    lettered.or_else(|| number_path(first))
}

/// Returns `3.17` for `3.17` and `3.17.`.
fn number_path(word: &str) -> Option<String> {
    let path = word.strip_suffix('.').unwrap_or(word);
    let is_number =
        |part: &str| !part.is_empty() && part.chars().all(|character| character.is_ascii_digit());
    path.split('.').all(is_number).then(|| path.to_owned())
}

/// Returns the numbers of the steps in a line: the first starts it, others follow in order.
fn steps(line: &str) -> Vec<String> {
    let text = line.trim_start();
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    let Some(mut number) = number.parse::<u32>().ok().filter(|_| rest.starts_with(". ")) else {
        return inline_checks(line);
    };
    let mut steps = vec![number.to_string()];
    while let Some(next) = number.checked_add(1).filter(|n| rest.contains(&format!(" {n}. "))) {
        steps.push(next.to_string());
        number = next;
    }
    steps
}

/// Returns the numbers of a list within a line: `(1) …; (2) …`.
fn inline_checks(line: &str) -> Vec<String> {
    (1..100_u32)
        .take_while(|number| line.contains(&format!("({number}) ")))
        .map(|number| number.to_string())
        .collect()
}

/// Returns the ids of a first cell: one, or all of a range such as `F1–F6`.
fn expand(cell: &str) -> Vec<String> {
    let cell: String = cell.chars().filter(|character| !"†‡*` ".contains(*character)).collect();
    let separator = ["…", "–", ".."].into_iter().find(|separator| cell.contains(separator));
    if let Some((first, last)) = separator.and_then(|separator| cell.split_once(separator)) {
        return expand_range(first, last).unwrap_or_default();
    }
    if is_id(&cell) { vec![cell] } else { Vec::new() }
}

/// Returns the ids from `first` to `last`, or `None` if they are not a range.
pub(super) fn expand_range(first: &str, last: &str) -> Option<Vec<String>> {
    let (prefix, low) = split_number(first)?;
    let (last_prefix, high) = split_number(last).unwrap_or(("", last));
    let is_same = last_prefix.is_empty() || last_prefix == prefix;
    let (from, to) = (low.parse::<u16>().ok()?, high.parse::<u16>().ok()?);
    let width = low.len();
    (is_same && from < to)
        .then(|| (from..=to).map(|number| format!("{prefix}{number:0width$}")).collect())
}

/// Splits `RM-26` into `RM-` and `26`.
pub(super) fn split_number(id: &str) -> Option<(&str, &str)> {
    let prefix = id.trim_end_matches(|character: char| character.is_ascii_digit());
    let number = &id[prefix.len()..];
    (!prefix.is_empty() && !number.is_empty()).then_some((prefix, number))
}

/// Returns whether the text has the form of a case id: `A3`, `BUD-4`, `C12b`.
pub(super) fn is_id(text: &str) -> bool {
    let is_part = |character: char| character.is_ascii_alphanumeric() || ".-".contains(character);
    let stem = text.strip_suffix(|last: char| last.is_ascii_lowercase()).unwrap_or(text);
    stem.len() > 1
        && stem.starts_with(|first: char| first.is_ascii_uppercase())
        && stem.ends_with(|last: char| last.is_ascii_digit())
        && stem.chars().all(is_part)
}
