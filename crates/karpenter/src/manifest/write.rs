//! Prints objects as YAML or JSON.
//!
//! YAML is written for the oldest reader of all: texts that YAML 1.1 would take for a number, a
//! boolean, a date or nothing are quoted. Long and multi-line texts keep their lines (`|`), keys
//! keep their order, so equal objects give equal bytes.

use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use serde_saphyr::DoubleQuoted;

/// An object as one YAML document without markers, ending in a line break.
pub(crate) fn yaml(object: &Value) -> String {
    let options = serde_saphyr::ser_options! {
        // Never folded: `>` would hide where a line of user data ends.
        folded_wrap_chars: usize::MAX,
    };
    let mut text = serde_saphyr::to_string_with_options(&YamlValue(object), options)
        .expect("a JSON value has text keys and finite numbers only");
    if !text.ends_with('\n') {
        text.push('\n');
    }
    strip_blank_indents(&text)
}

/// A value that serializes in the form of this module.
struct YamlValue<'a>(&'a Value);

impl Serialize for YamlValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(items) => serializer.collect_seq(items.iter().map(YamlValue)),
            Value::Object(fields) => {
                serializer.collect_map(fields.iter().map(|(key, value)| (key, YamlValue(value))))
            }
            // kubectl rejects a block scalar whose first line begins with a tab.
            Value::String(text) if text.trim_start_matches('\n').starts_with('\t') => {
                DoubleQuoted(text.as_str()).serialize(serializer)
            }
            other => other.serialize(serializer),
        }
    }
}

/// Empties the lines of block scalars that hold only indentation, which version control would mark
/// as trailing white space.
fn strip_blank_indents(yaml: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let is_blank = |line: &str| indent(line) == line.len();
    let mut text = String::with_capacity(yaml.len());
    let mut lines = yaml.lines().peekable();
    while let Some(line) = lines.next() {
        text.push_str(line);
        text.push('\n');
        let Some(block) = LiteralBlock::after_header(line) else { continue };
        let is_inside = |next: &&str| is_blank(next) || indent(next) >= block.indent_min;
        let content: Vec<_> = std::iter::from_fn(|| lines.next_if(is_inside)).collect();
        let first = content.iter().find(|line| !is_blank(line));
        let blank = " ".repeat(first.map_or(0, |line| indent(line)));
        for line in content {
            let is_empty = block.is_measured && line == blank;
            text.push_str(if is_empty { "" } else { line });
            text.push('\n');
        }
    }
    text
}

/// The indentation of a literal block scalar.
struct LiteralBlock {
    /// Its lines are indented at least this far.
    indent_min: usize,
    /// Whether its first line sets the indentation, not a number in the header.
    is_measured: bool,
}

impl LiteralBlock {
    /// Returns the block after a header line: `key: |`, `- |-`, `- - key: |2+`.
    fn after_header(line: &str) -> Option<Self> {
        let mut node = line.trim_start_matches(' ');
        while let Some(item) = node.strip_prefix("- ") {
            node = item;
        }
        let column = line.len() - node.len();
        let (header, indent_min) = match node.rsplit_once(": ") {
            Some((_, value)) => (value, column + 1),
            None => (node, column.saturating_sub(1)), // deeper than the dash
        };
        let marks = header.strip_prefix('|')?;
        let is_header = marks.chars().all(|mark| matches!(mark, '1'..='9' | '-' | '+'));
        let measured = !marks.contains(|mark: char| mark.is_ascii_digit());
        is_header.then_some(Self { indent_min, is_measured: measured })
    }
}

/// Comment lines, in front of an object.
pub(crate) fn comments<'a>(lines: impl IntoIterator<Item = &'a str>) -> String {
    lines.into_iter().map(|line| format!("# {line}").trim_end().to_owned() + "\n").collect()
}

/// Objects as a JSON `List`, which kubectl takes like any other object.
pub(crate) fn json_list<'a>(objects: impl IntoIterator<Item = &'a Value>) -> String {
    let items: Vec<_> = objects.into_iter().collect();
    json(&json!({ "apiVersion": "v1", "kind": "List", "items": items }))
}

/// An object as JSON, indented, ending in a line break.
pub(crate) fn json(object: &Value) -> String {
    format!("{object:#}\n")
}
