//! Finds citations of the specification in a text: `20/A3`, `spec 30 §4.2`, `45 §17 #8`.
//!
//! Lists and ranges continue a citation: `20/C1–C5, C8`, `spec 20 §3.4, §3.8`, `§3.21, cases B17`.
//! Deliberately does not know what exists: see [`super::index`].

use super::index;

#[cfg(test)]
mod tests;

/// Words between a section and a numbered step or row of it.
const ITEM_WORDS: &[&str] =
    &["step", "steps", "rule", "rules", "item", "items", "row", "rows", "check", "checks"];
/// Words before a list of cases.
const CASE_WORDS: &[&str] = &["case", "cases", "quirk", "quirks"];

/// The part of the specification that a citation names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// A case, or another table row: `A3`.
    Row(String),
    /// A heading, with or without the number of a step: `3.17.2`.
    Section(String),
    /// A numbered step or a table row of a section.
    Item { section: String, item: String },
    /// A file of the specification that does not exist.
    UnknownFile,
}

/// A place that names a part of the specification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Citation {
    /// The numbers of the files that may be meant; empty if the text names none.
    pub(super) files: Vec<String>,
    pub(super) target: Target,
    /// Where the citation is in the text, in bytes.
    pub(super) at: usize,
    /// Whether the text can mean nothing else, so that the target must exist.
    pub(super) is_certain: bool,
}

/// Returns the citations in a text. `numbers` are the numbers of the specification's files.
pub(super) fn citations(text: &str, numbers: &[String]) -> Vec<Citation> {
    let cursor = Cursor { text, at: 0 };
    let mut parser = Parser { cursor, numbers, named: Vec::new(), citations: Vec::new() };
    parser.parse();
    parser.citations
}

/// The element of a list that the next element continues.
enum Element {
    Row(String),
    Section(String),
    Item(String),
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    numbers: &'a [String],
    /// The files that the text has named so far.
    named: Vec<String>,
    citations: Vec<Citation>,
}

impl Parser<'_> {
    fn parse(&mut self) {
        while let Some(character) = self.cursor.rest().chars().next() {
            let start = self.cursor.at;
            if character == '§' {
                let named = self.named.clone();
                self.sections(&named);
            } else if character.is_ascii_digit() && self.cursor.starts_word() {
                self.number();
            }
            if self.cursor.at == start {
                self.cursor.at += character.len_utf8();
            }
        }
    }

    /// Parses what may be the number of a file and the parts that follow it.
    fn number(&mut self) {
        let (start, follows_spec) = (self.cursor.at, self.cursor.follows_word("spec"));
        let number = self.cursor.digits();
        if number.len() != 2 {
            return;
        }
        if !self.numbers.contains(&number) {
            if follows_spec {
                self.push(start, &[number], Target::UnknownFile, true);
            }
            return;
        }
        let files = vec![number.clone()];
        let has_slash = self.cursor.eat("/");
        if has_slash && !self.cursor.rest().starts_with('§') {
            if let Some(id) = self.cursor.row_id() {
                self.remember(number);
                self.push(start, &files, Target::Row(id.clone()), true);
                self.list(&files, Element::Row(id));
            }
            return;
        }
        self.cursor.spaces();
        if self.cursor.rest().starts_with('§') {
            self.remember(number);
            self.sections(&files);
        } else if follows_spec {
            self.remember(number);
            let is_case_list = self.cursor.word(CASE_WORDS);
            if let Some(id) = self.cursor.case_id() {
                self.push(start, &files, Target::Row(id.clone()), true);
                self.list(&files, Element::Row(id));
            } else if !is_case_list {
                self.cursor.at = start + 2;
            }
        }
    }

    /// Parses a section sign with its path, and the list that follows.
    fn sections(&mut self, files: &[String]) {
        let start = self.cursor.at;
        while self.cursor.eat("§") {}
        if let Some(path) = self.cursor.path() {
            self.push(start, files, Target::Section(path.clone()), true);
            let element = self.item_after_section(files, path);
            self.list(files, element);
        }
    }

    /// Parses the `#15`, `step 4` or `Q16` that may follow a section.
    fn item_after_section(&mut self, files: &[String], section: String) -> Element {
        let before = self.cursor.at;
        self.cursor.spaces();
        let start = self.cursor.at;
        let is_numbered = self.cursor.eat("#") || self.cursor.word(ITEM_WORDS);
        let item = if is_numbered { self.cursor.item() } else { self.cursor.case_id() };
        let Some(item) = item else {
            self.cursor.at = before;
            return Element::Section(section);
        };
        let target = Target::Item { section: section.clone(), item };
        self.push(start, files, target, is_numbered);
        Element::Item(section)
    }

    /// Parses the elements that continue a citation: a further section, `–C5`, ` and C8`.
    fn list(&mut self, files: &[String], first: Element) {
        let (mut files, mut last, mut has_case_word) = (files.to_vec(), first, false);
        loop {
            let before = self.cursor.at;
            self.cursor.spaces();
            let Some(is_range) = self.cursor.separator() else {
                self.cursor.at = before;
                return;
            };
            self.cursor.spaces();
            if self.cursor.word(CASE_WORDS) {
                // The cases of all sections that were named before.
                files.clone_from(&self.named);
                has_case_word = true;
            }
            let Some(next) = self.element(&files, &last, is_range, has_case_word) else {
                self.cursor.at = before;
                return;
            };
            last = next;
        }
    }

    fn element(
        &mut self,
        files: &[String],
        last: &Element,
        is_range: bool,
        has_case_word: bool,
    ) -> Option<Element> {
        let start = self.cursor.at;
        if self.cursor.rest().starts_with('§') {
            while self.cursor.eat("§") {}
            let path = self.cursor.path()?;
            self.push(start, files, Target::Section(path.clone()), true);
            return Some(self.item_after_section(files, path));
        }
        if let Some(id) = self.cursor.case_id() {
            return Some(self.continued_row(start, files, last, (id, is_range, has_case_word)));
        }
        match last {
            Element::Section(_) if is_range => {
                let path = self.cursor.path()?;
                self.push(start, files, Target::Section(path.clone()), true);
                Some(Element::Section(path))
            }
            Element::Section(section) | Element::Item(section) => {
                let is_item = self.cursor.eat("#") || self.cursor.word(ITEM_WORDS);
                let is_item = is_item || (is_range && matches!(last, Element::Item(_)));
                let item = self.cursor.item().filter(|_| is_item)?;
                let target = Target::Item { section: section.clone(), item };
                self.push(start, files, target, true);
                Some(Element::Item(section.clone()))
            }
            Element::Row(_) => None,
        }
    }

    /// Adds a further row of a list; of a range, also the rows between.
    fn continued_row(
        &mut self,
        start: usize,
        files: &[String],
        last: &Element,
        (id, is_range, has_case_word): (String, bool, bool),
    ) -> Element {
        let prefix = |id: &str| index::split_number(id).map(|(prefix, _)| prefix.to_owned());
        let mut is_certain = has_case_word;
        if let Element::Row(last) = last {
            is_certain |= prefix(last) == prefix(&id);
            let between = is_range.then(|| index::expand_range(last, &id)).flatten();
            for id in between.into_iter().flatten() {
                self.push(start, files, Target::Row(id), false);
            }
        }
        self.push(start, files, Target::Row(id.clone()), is_certain);
        Element::Row(id)
    }

    fn remember(&mut self, number: String) {
        if !self.named.contains(&number) {
            self.named.push(number);
        }
    }

    fn push(&mut self, at: usize, files: &[String], target: Target, is_certain: bool) {
        self.citations.push(Citation { files: files.to_vec(), target, at, is_certain });
    }
}

/// A place in a text, with the small words of citations.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Returns whether the character before is no part of a number, word or path.
    fn starts_word(&self) -> bool {
        let before = self.text.get(..self.at).and_then(|before| before.chars().next_back());
        !before.is_some_and(|c| c.is_alphanumeric() || "_/.-§$".contains(c))
    }

    /// Returns whether the word before, across spaces, is `word`.
    fn follows_word(&self, word: &str) -> bool {
        let before = self.text.get(..self.at).unwrap_or_default();
        let stem = before.trim_end().strip_suffix(word);
        stem.is_some_and(|stem| !stem.ends_with(|c: char| c.is_alphanumeric() || "_.".contains(c)))
            && before.ends_with(char::is_whitespace)
    }

    fn eat(&mut self, token: &str) -> bool {
        let is_next = self.rest().starts_with(token);
        self.at += if is_next { token.len() } else { 0 };
        is_next
    }

    fn spaces(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn take(&mut self, length: usize) -> String {
        let taken = self.rest().get(..length).unwrap_or_default().to_owned();
        self.at += taken.len();
        taken
    }

    fn digits(&mut self) -> String {
        self.take(self.rest().bytes().take_while(u8::is_ascii_digit).count())
    }

    /// Takes one of the words and the spaces after it.
    fn word(&mut self, words: &[&str]) -> bool {
        let length = self.rest().bytes().take_while(u8::is_ascii_alphabetic).count();
        let is_word = words.contains(&self.rest().get(..length).unwrap_or_default());
        if is_word {
            self.at += length;
            self.spaces();
        }
        is_word
    }

    /// Takes what stands between two elements; returns whether they are the ends of a range.
    fn separator(&mut self) -> Option<bool> {
        if ["–", "…", "..", "to "].into_iter().any(|range| self.eat(range)) {
            return Some(true);
        }
        [", and ", ", or ", ",", "; ", "and ", "or "]
            .into_iter()
            .any(|separator| self.eat(separator))
            .then_some(false)
    }

    /// Takes the path of a section: `3.17.2`, `A5`.
    fn path(&mut self) -> Option<String> {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'.';
        let length = self.rest().bytes().take_while(is_part).count();
        let path = self.rest().get(..length)?.trim_end_matches('.');
        let is_path = path.starts_with(|c: char| c.is_ascii_digit() || c.is_ascii_uppercase());
        is_path.then(|| self.take(path.len()))
    }

    /// Takes the id of a case; the longest that no letter or digit follows.
    fn case_id(&mut self) -> Option<String> {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b".-".contains(byte);
        let length = self.rest().bytes().take_while(is_part).count();
        let ends_word = |end: &usize| {
            let after = self.rest().get(*end..).and_then(|after| after.chars().next());
            !after.is_some_and(|c| c.is_alphanumeric() || c == '_')
        };
        let is_id = |end: &usize| self.rest().get(..*end).is_some_and(index::is_id);
        let end = (1..=length).rev().find(|end| is_id(end) && ends_word(end))?;
        Some(self.take(end))
    }

    /// Takes the id of a case, or one without a number, such as `TG`.
    fn row_id(&mut self) -> Option<String> {
        if let Some(id) = self.case_id() {
            return Some(id);
        }
        let length = self.rest().bytes().take_while(u8::is_ascii_uppercase).count();
        let after = self.rest().get(length..).and_then(|after| after.chars().next());
        let ends_word = !after.is_some_and(|c| c.is_alphanumeric() || c == '_');
        (length > 0 && ends_word).then(|| self.take(length))
    }

    /// Takes the number of a step or row: `15`, `2`, `Q16`.
    fn item(&mut self) -> Option<String> {
        if let Some(id) = self.case_id() {
            return Some(id);
        }
        let digits = self.digits();
        (!digits.is_empty()).then_some(digits)
    }
}
