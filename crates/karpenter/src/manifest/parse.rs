//! Parses YAML and JSON texts into values.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;

use karpenter_operator::yaml_limits::{ALIASED_TEXT_BYTES_MAX, ALIASED_VALUES_MAX};
use serde_json::{Number, Value};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Error, MessageFormatter as _, UserMessageFormatter};

use super::input::InputFile;
use super::split::{self, Segment};
use super::{DEPTH_MAX, Document, Format, InputLimits, Problem, Source};
use crate::diagnostic::{Diagnostic, Location};

/// What aliases may still add to the documents of one run.
///
/// A document without aliases holds about as much as its text; what it holds beyond that counts.
/// The budget is of all documents together: many small documents are as harmful as a large one.
#[derive(Debug)]
pub(super) struct AliasBudget {
    values: usize,
    text_bytes: usize,
}

impl Default for AliasBudget {
    fn default() -> Self {
        Self { values: ALIASED_VALUES_MAX, text_bytes: ALIASED_TEXT_BYTES_MAX }
    }
}

impl AliasBudget {
    /// Returns how many values a document may hold.
    fn values_max(&self, text: &str, bounds: &InputLimits) -> usize {
        bounds.values.min(values_without_aliases(text).saturating_add(self.values))
    }

    /// Returns how many bytes of text a document may hold.
    fn text_bytes_max(&self, text: &str, bounds: &InputLimits) -> usize {
        let file_bytes = usize::try_from(bounds.file_bytes).unwrap_or(usize::MAX);
        file_bytes.min(text.len().saturating_add(self.text_bytes))
    }

    /// Subtracts what a document holds, or has held when it was refused.
    fn charge(&mut self, text: &str, (values, text_bytes): (usize, usize)) {
        let added = values.saturating_sub(values_without_aliases(text));
        self.values = self.values.saturating_sub(added);
        self.text_bytes = self.text_bytes.saturating_sub(text_bytes.saturating_sub(text.len()));
    }
}

/// Returns how many values a text holds at most without aliases; an item such as `1,` is two bytes.
fn values_without_aliases(text: &str) -> usize {
    text.len() / 2 + 1
}

/// Reads every document of a text. Returns its documents' values in order; a document that holds
/// only comments, or that is broken, has none.
pub(super) fn parse_source(
    file: &InputFile,
    text: String,
    number: usize,
    bounds: &InputLimits,
    aliases: &mut AliasBudget,
    problems: &mut Vec<Problem>,
) -> (Source, Vec<Option<Value>>) {
    let (text, had_byte_order_mark) = match text.strip_prefix('\u{feff}') {
        Some(rest) => (rest.to_owned(), true),
        None => (text, false),
    };
    let place = Location::file(file.name());
    let (format, parts) = match parse_json_stream(&text, bounds) {
        JsonStream::Complete(parts) => (Format::Json, Ok(parts)),
        JsonStream::Invalid(error) => (Format::Json, Err(json_diagnostic(&place, &error))),
        JsonStream::NotJson => {
            (Format::Yaml, parse_yaml_documents(&text, &place, number, bounds, aliases, problems))
        }
    };
    let parts = parts.unwrap_or_else(|diagnostic| {
        problems.push(Problem { source: Some(number), diagnostic });
        Vec::new()
    });
    let document = |(segment, value)| (Document { segment, lines: OnceCell::new() }, value);
    let (documents, values) = parts.into_iter().map(document).unzip();
    let source = Source {
        name: file.name(),
        path: file.path.clone(),
        is_from_directory: file.is_from_directory,
        text,
        had_byte_order_mark,
        format,
        documents,
    };
    (source, values)
}

/// A segment of the text with its value.
type ParsedDocument = (Segment, Option<Value>);

/// The result of reading a text as a stream of JSON objects.
enum JsonStream {
    Complete(Vec<ParsedDocument>),
    /// It starts as a stream of objects and then has an error.
    Invalid(serde_json::Error),
    /// YAML, or a text that the YAML parser can explain better.
    NotJson,
}

/// Reads a text as a stream of JSON objects.
/// JSON is YAML, except that objects may follow each other without a separator (`kubectl get -o
/// json` in a loop), and that its own parser is much faster on large files.
fn parse_json_stream(text: &str, bounds: &InputLimits) -> JsonStream {
    if !may_be_json(text, bounds) {
        return JsonStream::NotJson;
    }
    let mut parts = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut line = 1;
    let mut start = 0;
    while let Some(item) = stream.next() {
        let end = stream.byte_offset();
        match item {
            Ok(mut value) => {
                normalize_numbers(&mut value);
                let head = text[start..end].len() - text[start..end].trim_start().len();
                parts.push((Segment { bytes: start..end, line, head }, Some(value)));
            }
            Err(error) if !parts.is_empty() && !text.contains("\n---") => {
                return JsonStream::Invalid(error);
            }
            Err(_) => return JsonStream::NotJson,
        }
        line += text[start..end].matches('\n').count();
        start = end;
    }
    JsonStream::Complete(parts)
}

/// Whether a text begins like a JSON object and is within bounds. The number of values is counted
/// generously; the YAML parser counts them exactly and refuses.
fn may_be_json(text: &str, bounds: &InputLimits) -> bool {
    let punctuation = |byte: &u8| matches!(byte, b',' | b':' | b'[' | b'{');
    text.trim_start().starts_with('{') && text.bytes().filter(punctuation).count() <= bounds.values
}

fn json_diagnostic(place: &Location, error: &serde_json::Error) -> Box<Diagnostic> {
    // The text of the error ends in the position, which `place` shows already.
    let text = error.to_string();
    let summary = text.split(" at line ").next().unwrap_or(&text);
    let place = place.clone().line(error.line()).column(error.column());
    Diagnostic::new(format!("not valid JSON: {summary}"))
        .at(place)
        .fix("check the quotes, commas and brackets of this line and the ones above it")
        .into()
}

/// Reads each document on its own; a broken one does not hide the others.
fn parse_yaml_documents(
    text: &str,
    place: &Location,
    number: usize,
    bounds: &InputLimits,
    aliases: &mut AliasBudget,
    problems: &mut Vec<Problem>,
) -> Result<Vec<ParsedDocument>, Box<Diagnostic>> {
    let segments = split::segments(text, bounds.documents);
    if segments.len() > bounds.documents {
        return Err(Diagnostic::new(format!(
            "more than {} documents in one file",
            bounds.documents
        ))
        .at(place.clone())
        .fix("split the file")
        .into());
    }
    let mut read = |segment: Segment| {
        let part = &text[segment.bytes.clone()];
        let value = if segment.head == part.len() {
            None
        } else {
            let content = &part[segment.head..];
            let value = match parse_json_document(content, bounds) {
                Some(value) => Ok(Some(value)),
                None => parse_document(part, bounds, aliases),
            };
            value.unwrap_or_else(|error| {
                let diagnostic = yaml_diagnostic(place, &segment, part, &error, bounds).into();
                problems.push(Problem { source: Some(number), diagnostic });
                None
            })
        };
        (segment, value)
    };
    Ok(segments.into_iter().map(&mut read).collect())
}

/// Returns the value of a YAML document written as JSON. `None` if the YAML parser has to read it,
/// which is much slower.
fn parse_json_document(text: &str, bounds: &InputLimits) -> Option<Value> {
    let text = text.strip_prefix("---").unwrap_or(text);
    if !may_be_json(text, bounds) {
        return None;
    }
    let mut value = serde_json::from_str(text).ok()?;
    normalize_numbers(&mut value);
    Some(value)
}

/// Returns the value of one document; `None` for `null`.
pub(super) fn parse_document(
    text: &str,
    bounds: &InputLimits,
    aliases: &mut AliasBudget,
) -> Result<Option<Value>, Error> {
    let held = Rc::new(Cell::new((0, 0)));
    let counts = Rc::clone(&held);
    let options = yaml_options(text, bounds, aliases)
        .with_budget_report(move |report| counts.set((report.nodes, report.total_scalar_bytes)));
    let parsed = serde_saphyr::from_str_with_options(text, options);
    aliases.charge(text, held.get());
    let mut value: Value = parsed?;
    normalize_numbers(&mut value);
    Ok(Some(value).filter(|value| !value.is_null()))
}

/// Returns the options of kubectl's YAML dialect, with limits. They count what aliases expand to.
pub(super) fn yaml_options(
    text: &str,
    bounds: &InputLimits,
    aliases: &AliasBudget,
) -> serde_saphyr::Options {
    let text_bytes_max = aliases.text_bytes_max(text, bounds);
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            max_nodes: aliases.values_max(text, bounds),
            max_events: 3 * bounds.values,
            max_total_scalar_bytes: text_bytes_max,
            max_recorded_anchor_events: ALIASED_VALUES_MAX,
            max_recorded_anchor_bytes: text_bytes_max,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: ALIASED_VALUES_MAX },
        emit_comments: false,
        legacy_octal_numbers: true,
        with_snippet: false,
    }
}

/// Converts whole numbers to integers: kubectl sends `1.0` and `1e3` as `1` and `1000`.
fn normalize_numbers(value: &mut Value) {
    /// Up to here a float names exactly one integer.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Array(items) => items.iter_mut().for_each(normalize_numbers),
        Value::Object(fields) => fields.values_mut().for_each(normalize_numbers),
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            if float.fract() == 0.0 && float.abs() <= EXACT_MAX {
                #[expect(clippy::cast_possible_truncation, reason = "whole and within bounds")]
                let whole = float as i64;
                *number = Number::from(whole);
            }
        }
        _ => {}
    }
}

fn yaml_diagnostic(
    place: &Location,
    segment: &Segment,
    text: &str,
    error: &Error,
    bounds: &InputLimits,
) -> Diagnostic {
    let mut place = place.clone();
    if let Some(location) = error.location() {
        let line = usize::try_from(location.line()).unwrap_or(usize::MAX);
        place = place.line(line.saturating_add(segment.line).saturating_sub(1));
        place = place.column(usize::try_from(location.column()).unwrap_or(usize::MAX));
    } else {
        place = place.line(segment.line);
    }
    let (summary, fix) = explain_yaml_error(error.without_snippet(), text, bounds);
    let diagnostic = Diagnostic::new(summary).at(place);
    if fix.is_empty() { diagnostic } else { diagnostic.fix(fix) }
}

/// Returns the problem and its fix, in YAML terms.
fn explain_yaml_error(error: &Error, text: &str, bounds: &InputLimits) -> (String, String) {
    match error {
        Error::AliasError { error, .. } => explain_yaml_error(error, text, bounds),
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().unwrap_or("a key");
            (format!("`{key}` is given twice in one mapping"), "keep one of the two".into())
        }
        Error::UnknownAnchor { .. } => (
            "alias (`*name`) without its anchor (`&name`)".into(),
            "define the anchor above it in the same document".into(),
        ),
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            ("alias (`*name`) inside its own anchor (`&name`)".into(), "write the value out".into())
        }
        Error::NonFiniteFloat { .. } => {
            ("not a number that JSON can hold".into(), "put it in quotes if it is a text".into())
        }
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => too_deep(),
        Error::AliasReplayLimitExceeded { .. } => too_many_aliased_values(),
        Error::Budget { breach: BudgetBreach::Nodes { nodes }, .. } if *nodes <= bounds.values => {
            too_many_aliased_values()
        }
        Error::Budget { breach: BudgetBreach::RecordedAnchorEvents { .. }, .. } => {
            too_many_aliased_values()
        }
        Error::Budget { breach: BudgetBreach::ScalarBytes { total_scalar_bytes }, .. }
            if u64::try_from(*total_scalar_bytes).is_ok_and(|bytes| bytes <= bounds.file_bytes) =>
        {
            let summary =
                format!("aliases stand for more than {} MiB of text", ALIASED_TEXT_BYTES_MAX >> 20);
            (summary, "write the values out".into())
        }
        Error::Budget { .. } => {
            let summary = format!(
                "document holds more than {} values or {} MiB of text",
                bounds.values,
                bounds.file_bytes >> 20
            );
            (summary, "split the document, and look for aliases that multiply".into())
        }
        other => {
            let message = UserMessageFormatter.format_message(other).into_owned();
            // The scanner has a limit of its own, which it may reach first.
            if message.contains("recursion limit") {
                return too_deep();
            }
            (format!("not valid YAML: {message}"), yaml_fix(&message, text).into())
        }
    }
}

fn too_many_aliased_values() -> (String, String) {
    let summary = format!("aliases stand for more than {ALIASED_VALUES_MAX} values");
    (summary, "write the values out".into())
}

fn too_deep() -> (String, String) {
    (format!("nested deeper than {DEPTH_MAX} levels"), "no Kubernetes object is".into())
}

fn yaml_fix(message: &str, text: &str) -> &'static str {
    if message.contains("tab") {
        "indent with spaces"
    } else if text.contains("{{") {
        "this looks like a template: render it first (`helm template`) and pass the result"
    } else {
        "check the indentation, quotes and brackets of this line and the ones above it"
    }
}
