//! The parts of an answer that a step wants to show.

use serde_json::Value;

use super::normal::{Answer, Content, name_list_version};
use super::script::{Show, Step};

/// The value at a dotted path; numbers are places in lists.
pub(super) fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').filter(|key| !key.is_empty()).try_fold(value, |value, key| match value {
        Value::Array(list) => list.get(key.parse::<usize>().ok()?),
        other => other.get(key),
    })
}

/// The answer with no more in it than the step wants to show.
pub(super) fn restricted(mut answer: Answer, step: &Step) -> Answer {
    for content in &mut answer.contents {
        let Content::Json(value) = content else { continue };
        name_list_version(value);
        for (path, only) in &step.only {
            keep(value, path, &|item| {
                let name = at(item, &only.key).and_then(Value::as_str);
                name.is_some_and(|name| only.values.iter().any(|value| value == name))
            });
        }
        match &step.show {
            Some(Show::Word(word)) if word == "shape" => *value = shape(value),
            Some(Show::Word(word)) => assert_eq!(word, "code", "`show` knows no such word"),
            Some(Show::Paths(paths)) => {
                let found = paths.iter().map(|path| (path.clone(), all_at(value, path)));
                *value = Value::Object(found.filter(|(_, value)| !value.is_null()).collect());
            }
            None => {}
        }
    }
    if matches!(&step.show, Some(Show::Word(word)) if word == "code") {
        answer.contents.clear();
    }
    answer
}

/// Drops the items that are not wanted from the lists at a path, where `*` stands for every item.
fn keep(value: &mut Value, path: &str, wanted: &impl Fn(&Value) -> bool) {
    let (key, rest) = path.split_once('.').unwrap_or((path, ""));
    match (key, value) {
        ("", Value::Array(list)) => list.retain(|item| wanted(item)),
        ("*", Value::Array(list)) => list.iter_mut().for_each(|item| keep(item, rest, wanted)),
        (key, Value::Object(map)) => {
            if let Some(value) = map.get_mut(key) {
                keep(value, rest, wanted);
            }
        }
        _ => {}
    }
}

/// The value at a path, or a list of values where `*` stands for every item of a list.
fn all_at(value: &Value, path: &str) -> Value {
    let (key, rest) = path.split_once('.').unwrap_or((path, ""));
    match (key, value) {
        ("", value) => value.clone(),
        ("*", Value::Array(list)) => list.iter().map(|item| all_at(item, rest)).collect(),
        (key, value) => at(value, key).map_or(Value::Null, |value| all_at(value, rest)),
    }
}

fn shape(value: &Value) -> Value {
    match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), shape(value))).collect(),
        Value::Array(list) => list.iter().take(1).map(shape).collect(),
        Value::String(_) => "<text>".into(),
        Value::Number(_) => "<number>".into(),
        Value::Bool(_) => "<bool>".into(),
        Value::Null => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{all_at, at, keep, shape};

    #[test]
    fn paths_lead_into_maps_and_lists() {
        let value = json!({"a": [{"b": 1}, {"b": 2}, {}]});
        assert_eq!(at(&value, "a.1.b"), Some(&json!(2)));
        assert_eq!(at(&value, "."), Some(&value));
        assert_eq!(at(&value, "a.x"), None);
        assert_eq!(all_at(&value, "a.*.b"), json!([1, 2, null]));
        assert_eq!(all_at(&value, "c"), json!(null));
    }

    #[test]
    fn only_wanted_items_are_kept() {
        let mut value = json!({"a": [{"l": [1, 2]}, {"l": [2, 3]}]});
        keep(&mut value, "a.*.l", &|item| item == 2);
        assert_eq!(value, json!({"a": [{"l": [2]}, {"l": [2]}]}));
    }

    #[test]
    fn a_shape_has_types_for_values() {
        let value = json!({"a": "x", "b": [1, 2], "c": true});
        assert_eq!(shape(&value), json!({"a": "<text>", "b": ["<number>"], "c": "<bool>"}));
    }
}
