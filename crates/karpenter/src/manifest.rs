//! Reads and writes Kubernetes manifests: files, directories and stdin with YAML and JSON documents
//! and lists.
//!
//! [`read`] turns them into [`Object`]s that remember where they came from, [`mod@write`] prints
//! objects, [`replace`] puts new objects into an existing file and leaves the rest of it alone.
//! Nothing here knows what an object means.
//!
//! The dialect is kubectl's, so that a file means here what it means there: plain `yes`, `no`,
//! `on`, `off`, `y` and `n` are booleans, `0777` is octal, `1e3` and `1.0` are the integers 1000
//! and 1, dates are texts, merge keys (`<<`) and aliases work. Stricter than kubectl: a key that is
//! given twice in one YAML mapping is an error (in JSON the last one counts). Unlike there, keys
//! are the text that was written: `on: x` has the key `on`, not `true`.
//!
//! Every input is bounded, see [`InputLimits`] and the constants below it, so that no file can
//! exhaust memory or stack.

mod input;
mod locate;
mod object;
mod parse;
mod path;
pub(crate) mod replace;
mod split;
pub(crate) mod write;

use std::cell::OnceCell;
use std::path::PathBuf;

use serde_json::Value;

pub(crate) use input::Input;
use parse::AliasBudget;
pub(crate) use path::{FieldPath, describe_value};

use crate::diagnostic::{Diagnostic, Location};

/// The limits of inputs; no real input is larger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InputLimits {
    /// Largest file or stream.
    file_bytes: u64,
    /// Largest sum of all inputs, which are held in memory together.
    input_bytes: u64,
    /// Documents in one file.
    documents: usize,
    /// Values in one document.
    values: usize,
}

impl InputLimits {
    /// Limits of manually written files. Manifests of a whole company are far below them.
    pub(crate) const MANIFESTS: Self = Self {
        file_bytes: 64 << 20,
        input_bytes: 256 << 20,
        documents: 100_000,
        values: 2_000_000,
    };
    /// Snapshots of clusters: 100,000 pods as kubectl prints them are some 500 MB, 60 values each
    /// at the least, in a single list.
    pub(crate) const SNAPSHOT: Self = Self {
        file_bytes: 1 << 30,
        input_bytes: 2 << 30,
        documents: 2_000_000,
        values: 50_000_000,
    };
}

/// Nesting of mappings and lists. Objects have 15 levels, CRDs 40; each takes some stack.
const DEPTH_MAX: usize = 64;

/// Everything that was read, with what could not be read.
#[derive(Debug, Default)]
pub(crate) struct Manifests {
    pub(crate) sources: Vec<Source>,
    pub(crate) objects: Vec<Object>,
    pub(crate) problems: Vec<Problem>,
    /// Documents of directories that are no Kubernetes objects.
    pub(crate) non_objects: Vec<Location>,
}

/// One file or stream.
#[derive(Debug)]
pub(crate) struct Source {
    /// What messages call it.
    pub(crate) name: String,
    /// Nothing for stdin.
    pub(crate) path: Option<PathBuf>,
    /// Whether a directory walk found it, so that it may hold no manifests.
    is_from_directory: bool,
    /// Its text without a byte order mark.
    text: String,
    had_byte_order_mark: bool,
    pub(crate) format: Format,
    documents: Vec<Document>,
}

/// How a text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Yaml,
    Json,
}

/// One document of a source.
#[derive(Debug)]
struct Document {
    segment: split::Segment,
    /// Lines of its fields, found when the first of them is needed.
    lines: OnceCell<Option<locate::Lines>>,
}

/// A mapping with an `apiVersion` and a `kind`.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// Where an object was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) source: usize,
    pub(crate) document: usize,
    /// Inside the document: nothing, or `items[2]` for an item of a list.
    pub(crate) path: FieldPath,
}

/// Something that could not be read.
#[derive(Debug)]
pub(crate) struct Problem {
    /// Nothing where not even the file could be opened.
    pub(crate) source: Option<usize>,
    pub(crate) diagnostic: Box<Diagnostic>,
}

/// Reads every object of the inputs, in order. What cannot be read becomes a problem and does not
/// keep the rest from being read.
pub(crate) fn read(inputs: &[Input], bounds: &InputLimits) -> Manifests {
    let mut manifests = Manifests::default();
    let mut bytes_left = bounds.input_bytes;
    let mut aliases = AliasBudget::default();
    for file in input::expand_inputs(inputs, &mut manifests.problems) {
        let number = manifests.sources.len();
        match input::load_text(&file, bounds, &mut bytes_left) {
            Ok(text) => {
                let problems = &mut manifests.problems;
                let (source, values) =
                    parse::parse_source(&file, text, number, bounds, &mut aliases, problems);
                object::extract_objects(&source, number, values, &mut manifests);
                manifests.sources.push(source);
            }
            Err(diagnostic) => manifests.problems.push(Problem { source: None, diagnostic }),
        }
    }
    manifests
}

/// Reads one document in kubectl's dialect, within the limits of manifests; None for `null`.
pub(crate) fn parse_single_document(text: &str) -> Result<Option<Value>, serde_saphyr::Error> {
    parse::parse_document(text, &InputLimits::MANIFESTS, &mut AliasBudget::default())
}

/// Reads a text as if it were a file of that name.
#[cfg(test)]
pub(crate) fn read_text(name: &str, text: &str) -> Manifests {
    let mut manifests = Manifests::default();
    let file = input::InputFile { path: Some(name.into()), is_from_directory: false };
    let (bounds, aliases) = (&InputLimits::MANIFESTS, &mut AliasBudget::default());
    let problems = &mut manifests.problems;
    let (source, values) =
        parse::parse_source(&file, text.to_owned(), 0, bounds, aliases, problems);
    object::extract_objects(&source, 0, values, &mut manifests);
    manifests.sources.push(source);
    manifests
}

impl Manifests {
    /// Returns file and line of a field, or of the nearest written parent.
    pub(crate) fn location(&self, origin: &Origin, field: &FieldPath) -> Location {
        let source = &self.sources[origin.source];
        let line = source.line(origin.document, &origin.path.join(field));
        Location::file(&source.name).line(line)
    }

    /// Returns the location if finding it is quick, else file and path.
    /// In a document as large as a cluster, finding a line takes longer than a plan takes to make.
    pub(crate) fn quick_location(&self, origin: &Origin, field: &FieldPath) -> Location {
        const BYTES_MAX: usize = 1 << 20;
        let source = &self.sources[origin.source];
        let path = origin.path.join(field);
        if path.is_root() || source.documents[origin.document].segment.bytes.len() <= BYTES_MAX {
            return self.location(origin, field);
        }
        Location::file(&source.name).field(path.to_string())
    }
}

impl Source {
    pub(crate) fn document_count(&self) -> usize {
        self.documents.len()
    }

    fn line(&self, document: usize, field: &FieldPath) -> usize {
        let document = &self.documents[document];
        let text = &self.text[document.segment.bytes.clone()];
        let lines = || document.lines.get_or_init(|| locate::field_lines(text)).as_ref();
        let found = || lines().and_then(|lines| locate::line_of(lines, field));
        let inside = if field.is_root() { None } else { found() };
        let first =
            inside.unwrap_or_else(|| text[..document.segment.head].matches('\n').count() + 1);
        document.segment.line + first - 1
    }
}

#[cfg(test)]
mod tests;
