//! The fields of a record, and how it is written.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::fmt::Write as _;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, Scope};

use super::span_fields::SpanFields;
use crate::harness::ReconcileError;

/// Marks a text that is JSON. No text of ours begins with it.
const JSON_MARK: &str = "\u{1e}json:";

/// A value that is logged as JSON: `nodes = ?json(&list)`.
pub struct JsonField(String);

/// A value that a record shows as JSON: `nodes = ?json(&list)`. What cannot be JSON is null.
pub fn json(value: &impl Serialize) -> JsonField {
    JsonField(serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned()))
}

impl fmt::Debug for JsonField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{JSON_MARK}{}", self.0)
    }
}

/// The fields of an event, or those of a span for a record, in their order.
#[derive(Debug, Default)]
pub(super) struct LogFields(Vec<(Cow<'static, str>, Value)>);

impl LogFields {
    pub(super) fn message(&self) -> &str {
        self.text("message")
    }

    fn text(&self, key: &str) -> &str {
        let found = self.0.iter().find(|(name, _)| name == key);
        found.and_then(|(_, value)| value.as_str()).unwrap_or_default()
    }

    /// Returns the names and values.
    pub(super) fn into_values(self) -> Vec<(Cow<'static, str>, Value)> {
        self.0
    }

    fn insert(&mut self, field: &Field, value: impl Into<Value>) {
        let name = field.name();
        self.set(name.into(), object_value(name, value.into()));
    }

    /// Sets a field to a text, or to the JSON that the text holds.
    pub(super) fn insert_text(&mut self, name: Cow<'static, str>, text: &str) {
        let value = match text.strip_prefix(JSON_MARK).map(serde_json::from_str) {
            Some(Ok(json)) => json,
            _ => object_value(&name, text.into()),
        };
        self.set(name, value);
    }

    /// Sets a field; the last value of a name counts.
    pub(super) fn set(&mut self, name: Cow<'static, str>, value: Value) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name, value)),
        }
    }
}

impl Visit for LogFields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field, value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.insert(field, value.to_string());
        for (key, value) in error_values(value) {
            if !self.0.iter().any(|(known, _)| *known == key) {
                self.0.push((Cow::Owned(key), value));
            }
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.insert_text(field.name().into(), &format!("{value:?}"));
    }
}

/// The values that errors in a chain carry; those of one key become a list under its plural.
fn error_values(error: &(dyn Error + 'static)) -> Vec<(String, Value)> {
    let chain = std::iter::successors(Some(error), |&error| error.source());
    let errors = chain.filter_map(|error| error.downcast_ref::<ReconcileError>());
    let mut values: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for (key, value) in errors.flat_map(ReconcileError::fields) {
        values.entry(key).or_default().push(object_value(key, value.into()));
    }
    let one = |(key, mut values): (&str, Vec<Value>)| match (values.len(), values.pop()) {
        (1, Some(value)) => (key.to_owned(), value),
        (_, last) => {
            values.extend(last);
            (format!("{key}s"), Value::Array(values))
        }
    };
    values.into_iter().map(one).collect()
}

/// Returns a value as JSON; a key with a capital letter names an object.
fn object_value(key: &str, value: Value) -> Value {
    match value {
        Value::String(text) if key.starts_with(|c: char| c.is_ascii_uppercase()) => object(&text),
        value => value,
    }
}

fn object(text: &str) -> Value {
    let (namespace, name) = text.split_once('/').unwrap_or(("", text));
    let mut object = Map::new();
    object.insert("name".to_owned(), name.into());
    if !namespace.is_empty() {
        object.insert("namespace".to_owned(), namespace.into());
    }
    Value::Object(object)
}

/// A log record with its fields, for log layers.
pub struct LogRecord(LogLine);

impl LogRecord {
    /// Creates a record from an event, with the fields of its spans.
    ///
    /// The subscriber needs a [`SpanFieldsLayer`](super::SpanFieldsLayer) for the latter.
    pub fn from_event<S>(event: &Event<'_>, context: &Context<'_, S>) -> Self
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let mut line = LogLine(Map::new());
        line.add_spans(event, context);
        let mut fields = LogFields::default();
        event.record(&mut fields);
        line.fields(fields);
        Self(line)
    }

    /// The constant phrase.
    pub fn message(&self) -> &str {
        self.0.text_of("message")
    }

    /// Returns a field as text; an object as `namespace/name`.
    pub fn field(&self, key: &str) -> Option<String> {
        self.0.0.get(key).map(plain_text)
    }
}

/// The message, and the fields that people need.
impl fmt::Display for LogRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message_and_fields())
    }
}

impl fmt::Debug for LogRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LogRecord").field(&self.0.message_and_fields()).finish()
    }
}

/// A log record as an ordered JSON object.
pub(super) struct LogLine(Map<String, Value>);

/// Fields that the terminal output hides: shown elsewhere, or only for programs.
const HIDDEN_FIELDS: [&str; 10] = [
    "level",
    "time",
    "logger",
    "message",
    "commit",
    "namespace",
    "name",
    "controllerGroup",
    "controllerKind",
    "reconcileID",
];

/// Returns a text without quotes, an object as `namespace/name`, others as JSON.
fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(object) if object.contains_key("name") => {
            let part = |part: &str| object.get(part).and_then(Value::as_str);
            let namespace = part("namespace").map(|text| format!("{text}/"));
            format!("{}{}", namespace.unwrap_or_default(), part("name").unwrap_or_default())
        }
        value => value.to_string(),
    }
}

impl LogLine {
    pub(super) fn new(metadata: &Metadata<'_>, now: Timestamp, commit: Option<&str>) -> Self {
        let mut line = Map::new();
        line.insert("level".to_owned(), metadata.level().as_str().into());
        let time = now.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string();
        line.insert("time".to_owned(), time.into());
        line.insert("logger".to_owned(), "controller".into());
        line.insert("message".to_owned(), "".into());
        if let Some(commit) = commit {
            line.insert("commit".to_owned(), commit.into());
        }
        Self(line)
    }

    /// Where it was written: the file with its folder, and the line.
    pub(super) fn caller(&mut self, metadata: &Metadata<'_>) {
        let (Some(file), Some(number)) = (metadata.file(), metadata.line()) else { return };
        let parts: Vec<_> = file.rsplitn(3, '/').take(2).collect();
        let place: Vec<_> = parts.into_iter().rev().collect();
        self.0.insert("caller".to_owned(), format!("{}:{number}", place.join("/")).into());
    }

    /// Adds the fields of the event's spans, the outermost first.
    pub(super) fn add_spans<S>(&mut self, event: &Event<'_>, context: &Context<'_, S>)
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        for span in context.event_scope(event).into_iter().flat_map(Scope::from_root) {
            if let Some(fields) = span.extensions().get::<SpanFields>() {
                self.add_span(&fields.to_log_fields());
            }
        }
    }

    /// Adds the fields of a span, with the object of a reconcile in the form of other object
    /// fields.
    fn add_span(&mut self, span: &LogFields) {
        let kind = span.text("controllerKind");
        for (key, value) in &span.0 {
            if key.starts_with("controller") && value.as_str().is_some_and(str::is_empty) {
                continue;
            }
            self.0.insert(key.to_string(), value.clone());
            if key == "controllerKind" {
                let (namespace, name) = (span.text("namespace"), span.text("name"));
                self.0.insert(kind.to_owned(), object(&format!("{namespace}/{name}")));
            }
        }
    }

    pub(super) fn fields(&mut self, fields: LogFields) {
        self.0.extend(fields.0.into_iter().map(|(key, value)| (key.into_owned(), value)));
    }

    pub(super) fn json(&self) -> String {
        let line = serde_json::to_string(&self.0).unwrap_or_default();
        format!("{line}\n")
    }

    /// For people: time, level and message first, and no more than they need.
    pub(super) fn text(&self) -> String {
        let (time, level) = (self.text_of("time"), self.text_of("level"));
        format!("{time} {level:5} {}\n", self.message_and_fields())
    }

    fn text_of(&self, key: &str) -> &str {
        self.0.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    fn message_and_fields(&self) -> String {
        let mut words = self.text_of("message").to_owned();
        for (key, value) in self.0.iter().filter(|(key, _)| !HIDDEN_FIELDS.contains(&key.as_str()))
        {
            let _ = match value {
                Value::String(text) if text.contains([' ', '"', '\n']) => {
                    write!(words, " {key}={value}")
                }
                value => write!(words, " {key}={}", plain_text(value)),
            };
        }
        words
    }
}
