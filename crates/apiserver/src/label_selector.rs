//! `LabelSelector` as it stands in objects: `matchLabels` and `matchExpressions`.

use serde_json::Value;

/// Whether the labels are selected. An empty selector selects everything, a missing one nothing.
pub(crate) fn matches(selector: &Value, labels: &Value) -> bool {
    if !selector.is_object() {
        return false;
    }
    let wanted = selector["matchLabels"].as_object().into_iter().flatten();
    let mut expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    wanted.into_iter().all(|(key, value)| labels.get(key) == Some(value))
        && expressions.all(|expression| matches_expression(expression, labels))
}

fn matches_expression(expression: &Value, labels: &Value) -> bool {
    let value = expression["key"].as_str().and_then(|key| labels.get(key));
    let values = expression["values"].as_array();
    let contains = |value: &Value| values.is_some_and(|values| values.contains(value));
    match expression["operator"].as_str() {
        Some("In") => value.is_some_and(contains),
        Some("NotIn") => value.is_none_or(|value| !contains(value)),
        Some("Exists") => value.is_some(),
        Some("DoesNotExist") => value.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn label_selectors_match_labels_and_expressions() {
        let labels = json!({"app": "web"});
        for (selector, expected) in [
            (json!({}), true),
            (json!(null), false),
            (json!({"matchLabels": {"app": "web"}}), true),
            (json!({"matchLabels": {"app": "db"}}), false),
            (
                json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["y"]}]}),
                true,
            ),
            (json!({"matchExpressions": [{"key": "x", "operator": "Exists"}]}), false),
        ] {
            assert_eq!(matches(&selector, &labels), expected, "{selector}");
        }
    }
}
