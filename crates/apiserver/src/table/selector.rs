//! Labels and selectors as text.

use serde_json::Value;

/// Formats labels as `a=b,c=d`, or `<none>`.
pub(super) fn format_labels(labels: &Value) -> String {
    let mut pairs: Vec<(&str, &str)> = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
        .collect();
    pairs.sort_unstable();
    let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

/// Formats the selector of an object, or `<none>` when it is empty.
pub(super) fn format_selector(selector: &Value) -> String {
    match format_requirements(selector) {
        Some(text) if text.is_empty() => "<none>".to_owned(),
        Some(text) => text,
        None => "<error>".to_owned(),
    }
}

/// Formats the requirements of a selector, by key.
///
/// Returns `None` when one has an unknown operator.
pub(super) fn format_requirements(selector: &Value) -> Option<String> {
    let mut all: Vec<(&str, String)> = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        all.push((key, format!("{key}={}", value.as_str().unwrap_or_default())));
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let values = expression["values"].as_array().into_iter().flatten();
        let mut values: Vec<&str> = values.filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let text = match expression["operator"].as_str()? {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        };
        all.push((key, text));
    }
    all.sort_by_key(|(key, _)| *key);
    let texts: Vec<String> = all.into_iter().map(|(_, text)| text).collect();
    Some(texts.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selector_requirements_are_sorted_by_key() {
        for (value, expected) in [
            (json!(null), "<none>"),
            (json!({}), "<none>"),
            (json!({"matchLabels": {"b": "2", "a": "1"}}), "a=1,b=2"),
            (
                json!({"matchLabels": {"m": "1"}, "matchExpressions": [
                    {"key": "z", "operator": "In", "values": ["y", "x"]},
                    {"key": "n", "operator": "NotIn", "values": ["x"]},
                    {"key": "a", "operator": "DoesNotExist"},
                    {"key": "b", "operator": "Exists"},
                ]}),
                "!a,b,m=1,n notin (x),z in (x,y)",
            ),
            (json!({"matchExpressions": [{"key": "a", "operator": "Near"}]}), "<error>"),
        ] {
            assert_eq!(format_selector(&value), expected, "{value}");
        }
    }
}
