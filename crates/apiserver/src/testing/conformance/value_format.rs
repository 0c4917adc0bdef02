//! Formats JSON values as text for line-by-line comparison: short values stay on one line.

use serde_json::Value;

const WIDTH: usize = 100;

/// Returns a value as text of one or more lines.
pub(super) fn format_value(value: &Value) -> String {
    let mut lines = Vec::new();
    write(value, 0, "", &mut lines);
    lines.join("\n")
}

fn write(value: &Value, indent: usize, lead: &str, lines: &mut Vec<String>) {
    let flat = flat(value);
    let fits = indent + lead.len() + flat.len() <= WIDTH;
    let items: Vec<(String, &Value)> = match value {
        Value::Object(map) if !fits => {
            map.iter().map(|(key, value)| (format!("{}: ", format_string(key)), value)).collect()
        }
        Value::Array(list) if !fits => list.iter().map(|value| ("- ".to_owned(), value)).collect(),
        _ => Vec::new(),
    };
    if items.is_empty() {
        lines.push(format!("{}{lead}{flat}", " ".repeat(indent)));
        return;
    }
    // The first line of a list's item is on the line of its mark.
    let marked = lead == "- ";
    if !lead.is_empty() && !marked {
        lines.push(format!("{}{}", " ".repeat(indent), lead.trim_end()));
    }
    let inner = if lead.is_empty() { indent } else { indent + 2 };
    let first = lines.len();
    for (lead, value) in items {
        write(value, inner, &lead, lines);
    }
    if marked {
        lines[first].replace_range(indent..=indent, "-");
    }
}

fn flat(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let pairs =
                map.iter().map(|(key, value)| format!("{}: {}", format_string(key), flat(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
        Value::Array(list) => {
            format!("[{}]", list.iter().map(flat).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) => format_string(text),
        other => other.to_string(),
    }
}

/// Returns a string, in quotes if it could be read as another value.
fn format_string(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:<>*@%+ ".contains(c);
    let parses_as_scalar = text.parse::<f64>().is_ok() || matches!(text, "true" | "false" | "null");
    let clear = !text.is_empty()
        && text.chars().all(is_plain)
        && text.trim() == text
        && !text.starts_with('-')
        && !text.contains(": ")
        && !text.ends_with(':')
        && !parses_as_scalar;
    if clear { text.to_owned() } else { Value::String(text.to_owned()).to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn short_values_stay_on_one_line_and_ambiguous_strings_are_quoted() {
        let long = "x".repeat(90);
        let value = json!({
            "a": {"b": ["1", 1, "true", true, null, "", "x: y"]},
            "c": [{"d": 1}, {"e": long, "f": 1}],
        });
        let expected = format!(
            "a: {{b: [\"1\", 1, \"true\", true, null, \"\", \"x: y\"]}}\n\
             c:\n  - {{d: 1}}\n  - e: {long}\n    f: 1"
        );
        assert_eq!(super::format_value(&value), expected);
    }
}
