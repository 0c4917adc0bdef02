//! Adds the demo's cluster to the text of a kubeconfig, and removes it.
//!
//! The text is edited line by line, so that comments, order and notation stay. An edit counts only
//! if the edited text means exactly what was wanted; otherwise (JSON, flow notation, aliases) the
//! whole kubeconfig is written anew, with all its data and without comments.

use serde_json::{Map, Value, json};
use serde_saphyr::{MessageFormatter as _, UserMessageFormatter};

use crate::manifest::{self, write};

/// The name of the demo's cluster, context and user.
pub(in crate::demo) const NAME: &str = "karpenter-demo";

/// How clients reach the API of a demo.
#[derive(Clone, Debug)]
pub(in crate::demo) struct DemoCluster {
    pub(in crate::demo) url: String,
    /// The certificate authority: PEM in base64, as kubeconfigs have it.
    pub(in crate::demo) ca_data: String,
    pub(in crate::demo) token: String,
}

/// Why the demo cannot be added to a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TextError {
    /// It is no kubeconfig.
    #[error("{0}")]
    NotAKubeconfig(String),
    /// It has an entry of the demo's name that no demo has written.
    #[error("{0}")]
    NameTaken(String),
}

/// A kubeconfig with the demo's cluster.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Merged {
    pub(super) text: String,
    /// The text without entries of a demo: those of an earlier one are removed.
    pub(super) before: String,
    /// Whether the text held entries of an earlier demo and nothing else.
    pub(super) was_demo_only: bool,
}

/// The lists of a kubeconfig that the demo adds an entry to.
const LISTS: [&str; 3] = ["clusters", "contexts", "users"];
const CURRENT_CONTEXT: &str = "current-context";
const PREVIOUS_CONTEXT: &str = "previousContext";

/// Returns the kubeconfig with the cluster as its current context.
pub(super) fn merge(old: &str, cluster: &DemoCluster) -> Result<Merged, TextError> {
    let config = parse(old)?;
    check_name_is_free(&config)?;
    let has_entries = LISTS.iter().any(|list| position(&config, list).is_some());
    let is_current = current_context(&config) == Some(NAME);
    let before =
        if has_entries || is_current { without_entries(old, config) } else { old.to_owned() };
    let mut wanted = parse(&before)?;
    let mut edited = Some(before.clone());
    if wanted.is_empty() {
        for (key, value) in [("apiVersion", "v1"), ("kind", "Config")] {
            wanted.insert(key.to_owned(), value.into());
            edited = edited.map(|text| append(&text, &format!("{key}: {value}\n")));
        }
    }
    let previous = current_context(&wanted).map(str::to_owned);
    for (list, entry) in LISTS.into_iter().zip(entries(cluster, previous.as_deref())) {
        edited = edited.and_then(|text| with_entry(&text, list, &entry));
        let entries = wanted.entry(list).or_insert(Value::Null);
        match entries.as_array_mut() {
            Some(entries) => entries.insert(0, entry),
            None => *entries = json!([entry]),
        }
    }
    edited = edited.map(|text| with_current_context(&text, NAME));
    wanted.insert(CURRENT_CONTEXT.to_owned(), NAME.into());
    let was_demo_only = has_entries && is_blank(&before);
    Ok(Merged { text: edited_or_rendered(edited, &before, wanted), before, was_demo_only })
}

/// Returns the kubeconfig without the entries of this cluster, or None if it has none.
pub(super) fn remove(old: &str, cluster: &DemoCluster) -> Result<Option<String>, TextError> {
    let config = parse(old)?;
    let field = |list, pointer| {
        config[list].as_array()?.get(position(&config, list)?)?.pointer(pointer)?.as_str()
    };
    let has_entry = |list| position(&config, list).is_some();
    let is_own = (has_entry("users") && field("users", "/user/token") == Some(&cluster.token))
        || (has_entry("clusters") && field("clusters", "/cluster/server") == Some(&cluster.url));
    Ok(is_own.then(|| without_entries(old, config)))
}

/// Returns whether a kubeconfig has no entry, no comment and nothing else of a user.
pub(super) fn is_blank(text: &str) -> bool {
    let is_empty = |(key, value): (&String, &Value)| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty() || matches!(key.as_str(), "apiVersion" | "kind"),
        _ => false,
    };
    !text.contains('#') && parse(text).is_ok_and(|config| config.iter().all(is_empty))
}

/// Returns the kubeconfig without entries of a demo, and with the context that was current before.
fn without_entries(old: &str, config: Map<String, Value>) -> String {
    let mut wanted = config;
    let mut edited = Some(old.to_owned());
    if current_context(&wanted) == Some(NAME) {
        let previous = previous_context(&wanted).unwrap_or_default();
        edited = edited.map(|text| with_current_context(&text, &previous));
        wanted.insert(CURRENT_CONTEXT.to_owned(), previous.into());
    }
    for list in LISTS {
        while let Some(index) = position(&wanted, list) {
            let Some(entries) = wanted.get_mut(list).and_then(Value::as_array_mut) else { break };
            edited = edited.and_then(|text| without_entry(&text, list, index, entries.len()));
            entries.remove(index);
        }
    }
    edited_or_rendered(edited, old, wanted)
}

/// Returns the edited text if it has the wanted meaning, else the wanted kubeconfig as new text.
fn edited_or_rendered(edited: Option<String>, old: &str, wanted: Map<String, Value>) -> String {
    match edited {
        Some(text) if parse(&text).as_ref() == Ok(&wanted) => text,
        _ if serde_json::from_str::<Value>(old).is_ok() => write::json(&wanted.into()),
        _ => write::yaml(&wanted.into()),
    }
}

/// Parses a kubeconfig; a text without content is an empty one.
fn parse(text: &str) -> Result<Map<String, Value>, TextError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.lines().all(|line| is_blank_line(line) || line.trim_end() == "---") {
        return Ok(Map::new());
    }
    let value = manifest::parse_single_document(text).map_err(|error| {
        let message = UserMessageFormatter.format_message(error.without_snippet()).into_owned();
        let line = error.location().map(|place| format!("line {}: ", place.line()));
        TextError::NotAKubeconfig(format!("{}{message}", line.unwrap_or_default()))
    })?;
    let config = match value {
        None => Map::new(),
        Some(Value::Object(config)) => config,
        Some(_) => return Err(TextError::NotAKubeconfig("it is not a mapping".to_owned())),
    };
    check(&config).map_err(|problem| TextError::NotAKubeconfig(problem.to_owned()))?;
    Ok(config)
}

fn check(config: &Map<String, Value>) -> Result<(), &'static str> {
    let is_or_missing = |key: &str, text: &str| config.get(key).is_none_or(|value| value == text);
    if !is_or_missing("kind", "Config") || !is_or_missing("apiVersion", "v1") {
        return Err("its kind is not Config of v1");
    }
    let is_known = |key: &str| key == "kind" || key == CURRENT_CONTEXT || LISTS.contains(&key);
    if !config.is_empty() && !config.keys().any(|key| is_known(key)) {
        return Err("it has none of clusters, contexts and users");
    }
    let is_named = |entry: &Value| entry["name"].is_string();
    let is_list = |value: &Value| match value {
        Value::Null => true,
        Value::Array(entries) => entries.iter().all(is_named),
        _ => false,
    };
    if !LISTS.iter().all(|list| config.get(*list).is_none_or(is_list)) {
        return Err("its clusters, contexts and users are not lists of named entries");
    }
    let current = config.get(CURRENT_CONTEXT).unwrap_or(&Value::Null);
    if !current.is_null() && !current.is_string() {
        return Err("its current-context is not a text");
    }
    Ok(())
}

/// Returns the index of a demo's entry in a list.
fn position(config: &Map<String, Value>, list: &str) -> Option<usize> {
    let entries = config.get(list)?.as_array()?;
    entries.iter().position(|entry| entry["name"] == NAME && is_of_demo(list, entry))
}

/// Returns an error if an entry has the demo's name and is not a demo's: it belongs to the user.
fn check_name_is_free(config: &Map<String, Value>) -> Result<(), TextError> {
    for list in LISTS {
        let mut entries = config.get(list).and_then(Value::as_array).into_iter().flatten();
        let is_of_user = |entry: &&Value| entry["name"] == NAME && !is_of_demo(list, entry);
        if let Some(entry) = entries.find(is_of_user) {
            let kind = list.trim_end_matches('s');
            let server = entry.pointer("/cluster/server").and_then(Value::as_str);
            let server = server.map(|server| format!(", whose server is {server}"));
            let server = server.unwrap_or_default();
            let text = format!("it has a {kind} `{NAME}` that no demo has written{server}");
            return Err(TextError::NameTaken(text));
        }
    }
    Ok(())
}

/// Returns whether an entry looks like those that a demo writes, by the fields that it has.
fn is_of_demo(list: &str, entry: &Value) -> bool {
    let has_only = |value: &Value, keys: &[&str]| {
        value.as_object().is_some_and(|fields| fields.keys().all(|key| keys.contains(&&**key)))
    };
    match list {
        "clusters" => {
            let server = entry.pointer("/cluster/server").and_then(Value::as_str);
            server.is_some_and(|server| server.starts_with("https://127.0.0.1:"))
                && has_only(&entry["cluster"], &["server", "certificate-authority-data"])
        }
        "contexts" => {
            let context = &entry["context"];
            (&context["cluster"], &context["user"]) == (&NAME.into(), &NAME.into())
        }
        _ => has_only(&entry["user"], &["token"]),
    }
}

fn current_context(config: &Map<String, Value>) -> Option<&str> {
    config.get(CURRENT_CONTEXT)?.as_str().filter(|name| !name.is_empty())
}

/// Returns the context that was current before the demo, which the demo's context remembers.
fn previous_context(config: &Map<String, Value>) -> Option<String> {
    let context = config.get("contexts")?.as_array()?.get(position(config, "contexts")?)?;
    let extensions = context.pointer("/context/extensions")?.as_array()?;
    let own = extensions.iter().find(|extension| extension["name"] == NAME)?;
    own["extension"][PREVIOUS_CONTEXT].as_str().map(str::to_owned)
}

/// Returns the demo's entries of all lists.
fn entries(cluster: &DemoCluster, previous_context: Option<&str>) -> [Value; 3] {
    let mut context = json!({ "cluster": NAME, "user": NAME });
    if let Some(previous) = previous_context {
        let extension = json!({ PREVIOUS_CONTEXT: previous });
        context["extensions"] = json!([{ "name": NAME, "extension": extension }]);
    }
    let endpoint = json!({ "server": cluster.url, "certificate-authority-data": cluster.ca_data });
    [
        json!({ "name": NAME, "cluster": endpoint }),
        json!({ "name": NAME, "context": context }),
        json!({ "name": NAME, "user": { "token": cluster.token } }),
    ]
}

/// Inserts an entry at the head of a list; None if the list is not in block notation.
fn with_entry(text: &str, list: &str, entry: &Value) -> Option<String> {
    let items = write::yaml(&json!([entry]));
    let lines: Vec<_> = text.split_inclusive('\n').collect();
    let Some(block) = ListBlock::find(&lines, list) else {
        return Some(append(text, &format!("{list}:\n{items}")));
    };
    let (value, comment) = inline_value(lines[block.head], list)?;
    let head = match value {
        "" => lines[block.head].to_owned(),
        "[]" | "null" | "~" => format!("{list}:{comment}"),
        _ => return None,
    };
    let margin = " ".repeat(block.indent);
    let items: Vec<_> = items.lines().map(|line| format!("{margin}{line}\n")).collect();
    let head = append(&head, &with_line_ends_of(text, &items.concat()));
    Some([lines[..block.head].concat(), head, lines[block.head + 1..].concat()].concat())
}

/// Removes the entry at `index` of a list of `count`; None if the lines do not show it.
fn without_entry(text: &str, list: &str, index: usize, count: usize) -> Option<String> {
    let lines: Vec<_> = text.split_inclusive('\n').collect();
    let block = ListBlock::find(&lines, list)?;
    if block.items.len() != count {
        return None;
    }
    let start = *block.items.get(index)?;
    let next = block.items.get(index + 1).copied().unwrap_or(block.end);
    // Comments above the next entry belong to that one.
    let content = lines[start..next].iter().rposition(|line| !is_blank_line(line))?;
    let mut head = lines[block.head].to_owned();
    if count == 1 {
        let (_, comment) = inline_value(&head, list)?;
        head = format!("{list}: []{comment}");
    }
    let rest = lines[start + content + 1..].concat();
    let between = lines[block.head + 1..start].concat();
    Some([lines[..block.head].concat(), head, between, rest].concat())
}

/// Sets the current context.
fn with_current_context(text: &str, name: &str) -> String {
    let name = write::yaml(&name.into());
    let name = name.trim_end();
    let mut lines: Vec<_> = text.split_inclusive('\n').collect();
    let Some(line) = lines.iter().position(|line| inline_value(line, CURRENT_CONTEXT).is_some())
    else {
        return append(text, &format!("{CURRENT_CONTEXT}: {name}\n"));
    };
    let (_, rest) = inline_value(lines[line], CURRENT_CONTEXT).unwrap_or_default();
    let new = format!("{CURRENT_CONTEXT}: {name}{rest}");
    lines[line] = &new;
    lines.concat()
}

/// The lines of a list in block notation.
struct ListBlock {
    /// The line of its key.
    head: usize,
    /// The first lines of its entries.
    items: Vec<usize>,
    /// How far the entries are indented.
    indent: usize,
    /// The line after its last one.
    end: usize,
}

impl ListBlock {
    fn find(lines: &[&str], key: &str) -> Option<Self> {
        let head = lines.iter().position(|line| inline_value(line, key).is_some())?;
        let is_outside = |line: &&str| {
            !is_blank_line(line) && !line.starts_with([' ', '-']) || line.starts_with("---")
        };
        let length = lines[head + 1..].iter().position(is_outside);
        let end = length.map_or(lines.len(), |length| head + 1 + length);
        let indent_of = |line: &str| line.len() - line.trim_start_matches(' ').len();
        let content = lines[head + 1..end].iter().find(|line| !is_blank_line(line));
        let indent = content.map_or(0, |line| indent_of(line));
        let is_item = |line: &str| {
            indent_of(line) == indent && line[indent..].starts_with('-') && !is_blank_line(line)
        };
        let items = (head + 1..end).filter(|number| is_item(lines[*number])).collect();
        Some(Self { head, items, indent, end })
    }
}

/// Returns the value on the line of a key of the top level, and what follows it: a comment and the
/// line end.
fn inline_value<'a>(line: &'a str, key: &str) -> Option<(&'a str, &'a str)> {
    let line = line.strip_prefix('\u{feff}').unwrap_or(line);
    let rest = line.strip_prefix(key)?.strip_prefix(':')?;
    if !rest.is_empty() && !rest.starts_with([' ', '\t', '\r', '\n']) {
        return None;
    }
    let value = rest.trim_start_matches([' ', '\t']);
    let length = match value.chars().next() {
        Some('#') => 0,
        Some(quote @ ('"' | '\'')) => value[1..].find(quote).map_or(value.len(), |end| end + 2),
        _ => value.find(" #").unwrap_or(value.len()),
    };
    let length = value[..length].trim_end().len();
    // A comment needs a space before it.
    let before = &rest[..rest.len() - value.len()];
    if length == 0 && value.starts_with('#') {
        return Some(("", &rest[before.len().saturating_sub(1)..]));
    }
    Some(value.split_at(length))
}

fn is_blank_line(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

/// Appends lines, after a line break if the text has none at its end.
fn append(text: &str, lines: &str) -> String {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    [text, &with_line_ends_of(text, end), &with_line_ends_of(text, lines)].concat()
}

/// Returns the lines with line ends as in `text`.
fn with_line_ends_of(text: &str, lines: &str) -> String {
    let is_windows = text.split_inclusive('\n').next().is_some_and(|line| line.ends_with("\r\n"));
    if is_windows { lines.replace("\r\n", "\n").replace('\n', "\r\n") } else { lines.to_owned() }
}

#[cfg(test)]
mod tests;
