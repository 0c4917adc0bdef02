//! Replaces random values by stable names, so that the responses of two servers can be compared.
//!
//! - the check's namespace and own name: `$id`, as in the script;
//! - uids: `<uid-1>`, by first occurrence; generated names `prefix<gen-1>`; addresses `<ip-1>`.
//! - resource versions of objects: `<rv-1>`, by rank among those of the check, so that equal,
//!   changed and newer stay visible. A list's version is `<list-rv>`: it moves with all writes of
//!   the server, but may not be older than its items. A bookmark's likewise.
//! - times: `<time>`, or `<micro-time>` with a fraction; ages in tables: `<age>`; years before 2024
//!   are the script's own and stay.
//! - Left out: the descriptions of a table's columns, which are prose; the dump of a pod's internal
//!   form that ends some status errors.
//! - Lists that the real server orders randomly are sorted: managed fields (by time there) and the
//!   causes of a status error.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::LazyLock;

use http::{HeaderMap, StatusCode};
use regex::{Captures, Regex};
use serde_json::{Map, Value};

use super::value_format;

/// The response to a step, with the title of the step.
#[derive(Debug)]
pub(super) struct StepRecord {
    pub(super) title: String,
    pub(super) response: Result<StepResponse, String>,
}

#[derive(Debug)]
pub(super) struct StepResponse {
    /// 0 for events from an open watch.
    pub(super) code: u16,
    headers: Vec<String>,
    pub(super) contents: Vec<Content>,
}

impl fmt::Display for StepResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        for content in &self.contents {
            match content {
                Content::Json(value) => write!(f, " {value}")?,
                Content::Text(text) => write!(f, " {text}")?,
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(super) enum Content {
    Json(Value),
    Text(String),
}

impl Content {
    pub(super) fn json(&self) -> Option<&Value> {
        match self {
            Self::Json(value) => Some(value),
            Self::Text(_) => None,
        }
    }
}

/// The headers that clients act on.
const HEADERS: [&str; 4] = ["content-type", "location", "retry-after", "warning"];

impl StepResponse {
    pub(super) fn new(code: StatusCode, headers: &HeaderMap, content: Option<Content>) -> Self {
        let shown = HEADERS.into_iter().flat_map(|name| {
            let values = headers.get_all(name).into_iter();
            values
                .map(move |value| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
        });
        // The usual one would be noise.
        let shown = shown.filter(|header| header != "content-type: application/json");
        Self {
            code: code.as_u16(),
            headers: shown.collect(),
            contents: content.into_iter().collect(),
        }
    }

    pub(super) fn from_events(contents: Vec<Content>) -> Self {
        Self { code: 0, headers: Vec::new(), contents }
    }
}

/// Returns the steps of one check as normalized texts.
pub(super) fn normalize_steps(notes: Vec<StepRecord>, id: &str) -> Vec<String> {
    let mut names = StableNames { id: id.to_owned(), ..StableNames::default() };
    for note in &notes {
        for content in note.response.iter().flat_map(|answer| &answer.contents) {
            match content {
                Content::Json(value) => names.collect(value, ""),
                Content::Text(text) => names.collect_uids(text),
            }
        }
    }
    names.rank();
    notes.into_iter().map(|note| names.step_text(note)).collect()
}

static UID: LazyLock<Regex> = LazyLock::new(|| regex("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"));
static TIME: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(\d{4})-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( \+0000 UTC|Z)"));
static AGE: LazyLock<Regex> = LazyLock::new(|| regex(r"^(\d+[smhdy]){1,2}$"));
static HASH: LazyLock<Regex> = LazyLock::new(|| regex("hash=[0-9A-F]{16,}"));
/// What a pod's refusal ends with: how its spec looks inside the real server, before and after.
static DIFF: LazyLock<Regex> = LazyLock::new(|| regex(r"(?s)\n@@ .*"));
/// Versions in messages, where the text says that they are.
static VERSION: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?i)(resource ?version[^0-9]{0,40}|\(|current: )(\d+)"));

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("it is one of a few constants")
}

#[derive(Default)]
struct StableNames {
    /// The check's own name and namespace.
    id: String,
    uids: BTreeMap<String, String>,
    versions: BTreeSet<u64>,
    ranks: BTreeMap<u64, usize>,
    generated: BTreeMap<String, String>,
    addresses: BTreeMap<String, String>,
}

impl StableNames {
    fn collect(&mut self, value: &Value, key: &str) {
        match value {
            Value::Object(map) => {
                self.collect_generated_name(map);
                // By key, since servers write fields in different orders.
                let sorted: BTreeMap<_, _> = map.iter().collect();
                for (key, value) in sorted {
                    self.collect(value, key);
                }
            }
            Value::Array(list) => list.iter().for_each(|item| self.collect(item, key)),
            Value::String(text) => {
                self.collect_uids(text);
                match last(key) {
                    "resourceVersion" => self.versions.extend(text.parse::<u64>()),
                    "clusterIP" | "clusterIPs" if text.contains(['.', ':']) => {
                        let next = format!("<ip-{}>", self.addresses.len() + 1);
                        self.addresses.entry(text.clone()).or_insert(next);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn collect_uids(&mut self, text: &str) {
        for uid in UID.find_iter(text) {
            let next = format!("<uid-{}>", self.uids.len() + 1);
            self.uids.entry(uid.as_str().to_owned()).or_insert(next);
        }
    }

    /// Collects the name of an object whose name the server generated.
    fn collect_generated_name(&mut self, metadata: &Map<String, Value>) {
        let text = |key: &str| metadata.get(key).and_then(Value::as_str);
        if let (Some(prefix), Some(name)) = (text("generateName"), text("name"))
            && let Some(suffix) = name.strip_prefix(prefix)
            && !suffix.is_empty()
        {
            let next = self.generated.len() + 1;
            // Five letters are always added; a long prefix is cut before.
            let stable = format!("{prefix}<gen-{next}, {} characters>", suffix.len());
            self.generated.entry(name.to_owned()).or_insert(stable);
        }
    }

    fn rank(&mut self) {
        self.ranks =
            self.versions.iter().zip(1..).map(|(version, rank)| (*version, rank)).collect();
    }

    fn step_text(&self, note: StepRecord) -> String {
        let mut lines = vec![format!("> {}", note.title)];
        match note.response {
            Err(problem) => lines.push(self.normalize_text(&problem)),
            Ok(answer) => {
                if answer.code > 0 {
                    lines.push(format!("< {}", answer.code));
                }
                lines.extend(
                    answer
                        .headers
                        .iter()
                        .map(|header| format!("< {}", self.normalize_text(header))),
                );
                for content in answer.contents {
                    match content {
                        Content::Text(text) => {
                            lines.extend(
                                text.lines().map(|line| format!("| {}", self.normalize_text(line))),
                            );
                        }
                        Content::Json(value) => {
                            let mut value = self.value(value, "");
                            if answer.code == 0 {
                                lines.push(format!("* {}", take_event_type(&mut value)));
                            }
                            lines.push(value_format::format_value(&value));
                        }
                    }
                }
            }
        }
        lines.join("\n")
    }

    fn value(&self, value: Value, key: &str) -> Value {
        match value {
            Value::Object(map) => self.object(map),
            Value::Array(list) => {
                let list = list.into_iter().map(|item| self.value(item, key));
                let mut list: Vec<_> = list.collect();
                if last(key) == "managedFields" {
                    list.sort_by_key(manager);
                }
                Value::Array(list)
            }
            Value::String(text) => Value::String(self.string(&text, key)),
            Value::Number(_) if matches!(last(key), "nodePort" | "healthCheckNodePort") => {
                "<port>".into()
            }
            other => other,
        }
    }

    fn object(&self, mut map: Map<String, Value>) -> Value {
        if is_status(&map) {
            sort_causes(&mut map);
        }
        for column in
            map.get_mut("columnDefinitions").and_then(Value::as_array_mut).into_iter().flatten()
        {
            column.as_object_mut().map(|column| column.shift_remove("description"));
        }
        let mut pairs: Vec<_> = map.into_iter().collect();
        pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
        let named = pairs.into_iter().map(|(key, value)| {
            let value = self.value(value, &key);
            (self.normalize_text(&key), value)
        });
        Value::Object(named.collect())
    }

    fn string(&self, text: &str, key: &str) -> String {
        match (last(key), text.parse::<u64>()) {
            ("resourceVersion", Ok(version)) => self.version(version),
            ("continue", _) if !text.is_empty() => "<continue>".to_owned(),
            ("storageVersionHash", _) => "<hash>".to_owned(),
            ("cells", _) if AGE.is_match(text) => "<age>".to_owned(),
            _ => self.normalize_text(text),
        }
    }

    fn version(&self, version: u64) -> String {
        match self.ranks.get(&version) {
            Some(rank) => format!("<rv-{rank}>"),
            None => "<rv>".to_owned(),
        }
    }

    /// Replaces random values anywhere in a text by their stable names.
    fn normalize_text(&self, text: &str) -> String {
        let uid = |found: &Captures<'_>| self.uids.get(&found[0]).cloned().unwrap_or_default();
        let text = UID.replace_all(text, uid);
        let text = TIME.replace_all(&text, |found: &Captures<'_>| {
            match (&found[1] < "2024", found.get(2)) {
                (true, _) => found[0].to_owned(),
                (false, None) => "<time>".to_owned(),
                (false, Some(_)) => "<micro-time>".to_owned(),
            }
        });
        let text = DIFF.replace(&text, "");
        let mut text = HASH.replace_all(&text, "hash=<hash>").into_owned();
        let lower = text.to_lowercase();
        if lower.contains("resource version") || lower.contains("resourceversion") {
            text = VERSION
                .replace_all(&text, |found: &Captures<'_>| {
                    let version = found[2].parse().unwrap_or_default();
                    // A small number is the script's own.
                    if version < 10 {
                        return found[0].to_owned();
                    }
                    format!("{}{}", &found[1], self.version(version))
                })
                .into_owned();
        }
        for (name, stable) in self.generated.iter().chain(&self.addresses) {
            text = text.replace(name, stable);
        }
        text.replace(&self.id, "$id")
    }
}

/// Removes the type from an event and returns it; the transcript shows it first.
fn take_event_type(event: &mut Value) -> String {
    let kind = event.as_object_mut().and_then(|event| event.shift_remove("type"));
    kind.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Gives the version of a list or bookmark a stable name: it moves with all writes of the server.
/// Call it while the list is whole: the version may not be older than the items.
pub(super) fn name_list_version(value: &mut Value) {
    let is_event = value.get("type").is_some() && value.get("object").is_some();
    let is_bookmark = value.get("type").is_some_and(|kind| kind == "BOOKMARK");
    let list = if is_event { &mut value["object"] } else { value };
    if !is_bookmark && !list.as_object().is_some_and(is_list) {
        return;
    }
    let newest = list.as_object().and_then(newest).unwrap_or_default();
    let Some(version) = list.pointer_mut("/metadata/resourceVersion") else { return };
    match version.as_str().and_then(|version| version.parse::<u64>().ok()) {
        Some(found) if found >= newest => *version = "<list-rv>".into(),
        Some(_) => *version = "<list-rv, older than its items>".into(),
        None => {}
    }
}

/// The last part of a key that may be a path.
fn last(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

fn is_list(map: &Map<String, Value>) -> bool {
    let kind = map.get("kind").and_then(Value::as_str).unwrap_or_default();
    map.contains_key("items") || kind == "Table" || (kind.ends_with("List") && kind != "List")
}

fn is_status(map: &Map<String, Value>) -> bool {
    map.get("kind").is_some_and(|kind| kind == "Status") && map.contains_key("details")
}

/// The newest version among a list's items.
fn newest(map: &Map<String, Value>) -> Option<u64> {
    let items = map.get("items")?.as_array()?.iter();
    items.filter_map(|item| item["metadata"]["resourceVersion"].as_str()?.parse().ok()).max()
}

fn manager(entry: &Value) -> [String; 4] {
    ["operation", "manager", "apiVersion", "subresource"]
        .map(|key| entry[key].as_str().unwrap_or_default().to_owned())
}

/// Sorts the causes of a status error, also in its message.
fn sort_causes(status: &mut Map<String, Value>) {
    let Some(causes) = status.get_mut("details").and_then(|details| details.get_mut("causes"))
    else {
        return;
    };
    let Some(causes) = causes.as_array_mut() else { return };
    let text = |cause: &Value| {
        let text = |key: &str| cause[key].as_str().unwrap_or_default().to_owned();
        format!("{}: {}", text("field"), text("message"))
    };
    // The message lists equal causes once.
    let joined_causes = |causes: &[Value]| {
        let mut seen = BTreeSet::new();
        let texts = causes.iter().map(text).filter(|text| seen.insert(text.clone()));
        texts.collect::<Vec<_>>().join(", ")
    };
    let listed = joined_causes(causes);
    causes.sort_by_key(text);
    let sorted = joined_causes(causes);
    if let Some(Value::String(message)) = status.get_mut("message") {
        *message = message.replace(&format!("[{listed}]"), &format!("[{sorted}]"));
    }
}

#[cfg(test)]
mod tests;
