//! Filters a response to the parts that a step shows.

use serde_json::Value;

use super::normalize::{Content, StepResponse, name_list_version};
use super::script::{ShownParts, Step};

/// Returns the value at a dotted path; numbers are indexes of lists.
pub(super) fn value_at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').filter(|key| !key.is_empty()).try_fold(value, |value, key| match value {
        Value::Array(list) => list.get(key.parse::<usize>().ok()?),
        other => other.get(key),
    })
}

/// Returns only those parts of the response that the step shows.
pub(super) fn filter_response(mut answer: StepResponse, step: &Step) -> StepResponse {
    for content in &mut answer.contents {
        let Content::Json(value) = content else { continue };
        name_list_version(value);
        for (path, only) in &step.only {
            retain_items(value, path, &|item| {
                let name = value_at(item, &only.key).and_then(Value::as_str);
                name.is_some_and(|name| only.values.iter().any(|value| value == name))
            });
        }
        match &step.show {
            Some(ShownParts::Keyword(word)) if word == "shape" => *value = value_types(value),
            Some(ShownParts::Keyword(word)) => {
                assert_eq!(word, "code", "`show` knows no such word");
            }
            Some(ShownParts::Paths(paths)) => {
                let found = paths.iter().map(|path| (path.clone(), values_at(value, path)));
                *value = Value::Object(found.filter(|(_, value)| !value.is_null()).collect());
            }
            None => {}
        }
    }
    if matches!(&step.show, Some(ShownParts::Keyword(word)) if word == "code") {
        answer.contents.clear();
    }
    answer
}

/// Drops unwanted items from the lists at a path; `*` is every item.
fn retain_items(value: &mut Value, path: &str, wanted: &impl Fn(&Value) -> bool) {
    let (key, rest) = path.split_once('.').unwrap_or((path, ""));
    match (key, value) {
        ("", Value::Array(list)) => list.retain(|item| wanted(item)),
        ("*", Value::Array(list)) => {
            for item in list {
                retain_items(item, rest, wanted);
            }
        }
        (key, Value::Object(map)) => {
            if let Some(value) = map.get_mut(key) {
                retain_items(value, rest, wanted);
            }
        }
        _ => {}
    }
}

/// Returns the value at a path; `*` gives a list of the items' values.
fn values_at(value: &Value, path: &str) -> Value {
    let (key, rest) = path.split_once('.').unwrap_or((path, ""));
    match (key, value) {
        ("", value) => value.clone(),
        ("*", Value::Array(list)) => list.iter().map(|item| values_at(item, rest)).collect(),
        (key, value) => value_at(value, key).map_or(Value::Null, |value| values_at(value, rest)),
    }
}

fn value_types(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.clone(), value_types(value))).collect()
        }
        Value::Array(list) => list.iter().take(1).map(value_types).collect(),
        Value::String(_) => "<text>".into(),
        Value::Number(_) => "<number>".into(),
        Value::Bool(_) => "<bool>".into(),
        Value::Null => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{retain_items, value_at, value_types, values_at};

    #[test]
    fn paths_resolve_into_maps_and_lists() {
        let value = json!({"a": [{"b": 1}, {"b": 2}, {}]});
        assert_eq!(value_at(&value, "a.1.b"), Some(&json!(2)));
        assert_eq!(value_at(&value, "."), Some(&value));
        assert_eq!(value_at(&value, "a.x"), None);
        assert_eq!(values_at(&value, "a.*.b"), json!([1, 2, null]));
        assert_eq!(values_at(&value, "c"), json!(null));
    }

    #[test]
    fn only_selected_items_are_kept() {
        let mut value = json!({"a": [{"l": [1, 2]}, {"l": [2, 3]}]});
        retain_items(&mut value, "a.*.l", &|item| item == 2);
        assert_eq!(value, json!({"a": [{"l": [2]}, {"l": [2]}]}));
    }

    #[test]
    fn shape_replaces_values_by_their_types() {
        let value = json!({"a": "x", "b": [1, 2], "c": true});
        assert_eq!(value_types(&value), json!({"a": "<text>", "b": ["<number>"], "c": "<bool>"}));
    }
}
