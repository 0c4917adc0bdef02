//! Values as Go prints them.
//!
//! The messages of the API server carry values in the text forms of Go's `fmt`, `strconv` and
//! `encoding/json`. They are part of its interface: people and tools match on them.

use std::fmt::Write;

use serde_json::{Number, Value};

/// A string in double quotes with Go's escapes (`%q`).
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{07}' => out.push_str("\\a"),
            '\u{08}' => out.push_str("\\b"),
            '\u{0c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{0b}' => out.push_str("\\v"),
            c if is_printable(c) => out.push(c),
            c => {
                let code = u32::from(c);
                // Writing to a String cannot fail.
                let _ = match code {
                    0..=0x7f => write!(out, "\\x{code:02x}"),
                    0x80..=0xffff => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push('"');
    out
}

/// Whether Go prints the character as it is inside quotes.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    // The standard library knows the same classes, but only applies them in its escapes. A letter
    // in front keeps it from escaping a combining mark for being the first character.
    let mut pair = String::from("a");
    pair.push(c);
    pair.escape_debug().nth(1) == Some(c)
}

/// A float as `%v` prints it: shortest digits, and an exponent from 1e+06 on or below 1e-04.
pub fn float(value: f64) -> String {
    format_float(value, -4, 6)
}

/// A number as the default `%v` of its Go type: JSON integers arrive there as `int64`, all other
/// numbers as `float64`.
pub fn number(value: &Number) -> String {
    match value.as_i64() {
        Some(integer) => integer.to_string(),
        None => float(value.as_f64().unwrap_or(f64::NAN)),
    }
}

/// A value as `json.Marshal` writes it: keys sorted, and `<`, `>`, `&` escaped for HTML.
pub fn json(value: &Value) -> String {
    let mut out = String::new();
    write_json(value, &mut out);
    out
}

/// Formats a value as Go's `%v` does: `map[a:1 b:[x y]]`, without quotes.
pub fn default_format(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(value) => number(value),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(default_format).collect::<Vec<_>>().join(" "))
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            let entries: Vec<_> = entries
                .iter()
                .map(|(key, value)| format!("{key}:{}", default_format(value)))
                .collect();
            format!("map[{}]", entries.join(" "))
        }
    }
}

/// The Go type that decoded JSON has (`%T`).
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Depth is that of the value, which a JSON parser has bounded.
fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => out.push_str(&integer.to_string()),
            None => out.push_str(&json_float(number.as_f64().unwrap_or(f64::NAN))),
        },
        Value::String(text) => write_json_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            out.push('{');
            for (i, key) in keys.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json_string(key, out);
                out.push(':');
                write_json(&map[key], out);
            }
            out.push('}');
        }
    }
}

fn write_json_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{08}' => out.push_str("\\b"),
            '\u{0c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// `encoding/json` keeps plain digits for small exponents longer, and writes `1e-9` for `1e-09`.
fn json_float(value: f64) -> String {
    let text = format_float(value, -6, 21);
    match text.split_once("e-0") {
        Some((digits, exponent)) => format!("{digits}e-{exponent}"),
        None => text,
    }
}

/// Shortest digits that read back as the same float; exponent form below `10^low` and from
/// `10^high` on.
fn format_float(value: f64, low: i32, high: i32) -> String {
    if !value.is_finite() {
        return match (value.is_nan(), value > 0.0) {
            (true, _) => "NaN".to_owned(),
            (false, true) => "+Inf".to_owned(),
            (false, false) => "-Inf".to_owned(),
        };
    }
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value == 0.0 || (low..high).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn strings_are_quoted_like_go() {
        #[rustfmt::skip]
        let cases = [
            ("",                 r#""""#),
            ("plain",            r#""plain""#),
            ("a\"b\\c",          r#""a\"b\\c""#),
            ("\n\t\u{7}\u{b}",   r#""\n\t\a\v""#),
            ("\u{1}\u{7f}",      r#""\x01\x7f""#),
            ("é日本",            r#""é日本""#),
            ("e\u{301}",         "\"e\u{301}\""),    // a combining mark is printable
            ("\u{a0}\u{200b}",   r#""\u00a0\u200b""#),
            ("\u{e0001}",        r#""\U000e0001""#),
        ];
        for (text, expected) in cases {
            assert_eq!(quote(text), expected, "{text:?}");
        }
    }

    #[test]
    fn floats_use_exponents_at_the_same_limits_as_go() {
        #[rustfmt::skip]
        let cases = [
            (0.0,      "0",        "0"),
            (1.5,      "1.5",      "1.5"),
            (100.0,    "100",      "100"),
            (999_999.0, "999999",   "999999"),
            (1e6,      "1e+06",    "1000000"),
            (123_456_789.0, "1.23456789e+08", "123456789"),
            (0.0001,   "0.0001",   "0.0001"),
            (0.00001,  "1e-05",    "0.00001"),
            (1e-7,     "1e-07",    "1e-7"),
            (1e20,     "1e+20",    "100000000000000000000"),
            (1e21,     "1e+21",    "1e+21"),
            (-2.5e-12, "-2.5e-12", "-2.5e-12"),
        ];
        for (value, plain, in_json) in cases {
            assert_eq!(float(value), plain, "{value}");
            assert_eq!(json(&json!(value)), in_json, "{value}");
        }
    }

    #[test]
    fn json_has_sorted_keys_and_html_escapes() {
        let value = json!({"b": [1, null, true], "a": "<&>", "c": {"z": 1, "y": "\u{1}"}});
        assert_eq!(
            json(&value),
            r#"{"a":"\u003c\u0026\u003e","b":[1,null,true],"c":{"y":"\u0001","z":1}}"#
        );
    }
}
