//! One object on its way into a table: what cells are made of.

use jiff::Timestamp;
use serde_json::Value;

use super::human_duration;

#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) object: &'a Value,
    pub(super) now: Timestamp,
}

/// Returns the value at a path of field names, or null.
pub(super) fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(value, |value, field| value.get(field).unwrap_or(&Value::Null))
}

pub(super) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    at(value, path).as_str().unwrap_or_default()
}

pub(super) fn number(value: &Value, path: &str) -> i64 {
    at(value, path).as_i64().unwrap_or_default()
}

pub(super) fn items<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    at(value, path).as_array().map_or(&[], Vec::as_slice)
}

impl<'a> Row<'a> {
    pub(super) fn at(self, path: &str) -> &'a Value {
        at(self.object, path)
    }

    pub(super) fn text(self, path: &str) -> &'a str {
        text(self.object, path)
    }

    /// The text at a path, or another when there is none.
    pub(super) fn text_or(self, path: &str, other: &'a str) -> &'a str {
        match self.text(path) {
            "" => other,
            text => text,
        }
    }

    pub(super) fn number(self, path: &str) -> i64 {
        number(self.object, path)
    }

    pub(super) fn flag(self, path: &str) -> bool {
        self.at(path) == true
    }

    pub(super) fn items(self, path: &str) -> &'a [Value] {
        items(self.object, path)
    }

    /// How many entries a list or map has.
    pub(super) fn count(self, path: &str) -> i64 {
        let count = match self.at(path) {
            Value::Array(items) => items.len(),
            Value::Object(entries) => entries.len(),
            _ => 0,
        };
        i64::try_from(count).unwrap_or(i64::MAX)
    }

    /// The texts of a list.
    pub(super) fn texts(self, path: &str) -> Vec<&'a str> {
        self.items(path).iter().filter_map(Value::as_str).collect()
    }

    pub(super) fn name(self) -> Value {
        self.text("metadata.name").into()
    }

    pub(super) fn is_terminating(self) -> bool {
        !self.at("metadata.deletionTimestamp").is_null()
    }

    /// Returns an annotation or label, by its name with dots.
    pub(super) fn metadata_entry(self, map: &str, name: &str) -> &'a str {
        self.object["metadata"][map][name].as_str().unwrap_or_default()
    }

    pub(super) fn age(self) -> Value {
        self.age_since("metadata.creationTimestamp").into()
    }

    pub(super) fn age_since(self, path: &str) -> String {
        self.age_since_time(self.text(path))
    }

    /// Returns the age of a time, as text.
    pub(super) fn age_since_time(self, time: &str) -> String {
        match time.parse() {
            Ok(time) => human_duration::format_between(time, self.now),
            Err(_) => "<unknown>".to_owned(),
        }
    }
}

/// Whether the first condition of that type has the status `True`.
pub(super) fn has_condition(conditions: &[Value], kind: &str) -> bool {
    let found = conditions.iter().find(|condition| condition["type"] == kind);
    found.is_some_and(|condition| condition["status"] == "True")
}

/// Returns the names and the images of containers, each joined by commas.
pub(super) fn container_names_and_images(containers: &[Value]) -> [Value; 2] {
    let join = |field: &str| {
        let texts: Vec<&str> = containers.iter().map(|container| text(container, field)).collect();
        Value::from(texts.join(","))
    };
    [join("name"), join("image")]
}
