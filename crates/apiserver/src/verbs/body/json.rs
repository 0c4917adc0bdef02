//! Parses JSON as the API server does: reports duplicate fields, and fails with Go's messages.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::path_stack::PathStack;

/// A parsed value, and the paths of its duplicate fields.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ParsedBody {
    pub(crate) value: Value,
    pub(crate) duplicates: Vec<String>,
}

/// The error is what Go's decoder says.
pub(crate) fn parse(bytes: &[u8]) -> Result<ParsedBody, String> {
    // Go replaces invalid UTF-8 by the replacement character.
    let text = String::from_utf8_lossy(bytes);
    let mut duplicates = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_str(&text);
    let seed = ValueReader { path: PathStack::Root, duplicates: &mut duplicates };
    let read = seed.deserialize(&mut deserializer);
    match read.and_then(|value| deserializer.end().map(|()| value)) {
        Ok(value) => Ok(ParsedBody { value, duplicates }),
        Err(_) => Err(syntax_error(bytes).unwrap_or_else(|| "exceeded max depth".to_owned())),
    }
}

struct ValueReader<'a> {
    path: PathStack<'a>,
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for ValueReader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueReader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let path = PathStack::Item(&self.path, list.len());
            match items.next_element_seed(ValueReader { path, duplicates: self.duplicates })? {
                Some(item) => list.push(item),
                None => return Ok(list.into()),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let path = PathStack::Field(&self.path, &key);
            let value =
                entries.next_value_seed(ValueReader { path, duplicates: self.duplicates })?;
            if map.contains_key(&key) {
                self.duplicates.push(path.to_string());
            }
            // A repeated field is merged into the earlier one.
            match (map.get_mut(&key), value) {
                (Some(Value::Object(old)), Value::Object(new)) => old.extend(new),
                (_, value) => {
                    map.insert(key, value);
                }
            }
        }
        Ok(map.into())
    }
}

/// What the scanner of Go's JSON package says of the first wrong byte; `None` for none.
fn syntax_error(bytes: &[u8]) -> Option<String> {
    let mut scanner = Scanner { bytes, position: 0, open_containers: Vec::new() };
    scanner.document().err().map(|wrong| match wrong {
        SyntaxError::UnexpectedEnd => "unexpected end of JSON input".to_owned(),
        SyntaxError::InvalidByte(place) => {
            let byte = bytes.get(scanner.position).copied().unwrap_or_default();
            format!("invalid character {} {place}", quoted(byte))
        }
    })
}

fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        0x20..=0x7e | 0xa0.. => format!("'{}'", char::from(byte)),
        0x80..=0x9f => format!("'\\u{byte:04x}'"),
        _ => format!("'\\x{byte:02x}'"),
    }
}

enum SyntaxError {
    /// The text ends too early.
    UnexpectedEnd,
    /// The byte at the scanner's position is invalid in this context.
    InvalidByte(&'static str),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum JsonContainer {
    List,
    Object,
}

struct Scanner<'a> {
    bytes: &'a [u8],
    position: usize,
    open_containers: Vec<JsonContainer>,
}

impl Scanner<'_> {
    /// Reads one value with its content; lists and objects are on a stack, so depth costs little.
    fn document(&mut self) -> Result<(), SyntaxError> {
        self.value()?;
        while let Some(open) = self.open_containers.last().copied() {
            self.skip_whitespace();
            match (open, self.peek()?) {
                (JsonContainer::List, b']') | (JsonContainer::Object, b'}') => {
                    self.position += 1;
                    self.open_containers.pop();
                }
                (JsonContainer::List, b',') => {
                    self.position += 1;
                    self.value()?;
                }
                (JsonContainer::Object, b',') => {
                    self.position += 1;
                    self.entry()?;
                }
                (JsonContainer::List, _) => {
                    return Err(SyntaxError::InvalidByte("after array element"));
                }
                (JsonContainer::Object, _) => {
                    return Err(SyntaxError::InvalidByte("after object key:value pair"));
                }
            }
        }
        self.skip_whitespace();
        if self.position < self.bytes.len() {
            return Err(SyntaxError::InvalidByte("after top-level value"));
        }
        Ok(())
    }

    /// A whole simple value, or the start of a list or object up to its first value.
    fn value(&mut self) -> Result<(), SyntaxError> {
        loop {
            self.skip_whitespace();
            match self.peek()? {
                b'[' => {
                    self.position += 1;
                    self.open_containers.push(JsonContainer::List);
                    self.skip_whitespace();
                    if self.peek()? == b']' {
                        return Ok(());
                    }
                }
                b'{' => {
                    self.position += 1;
                    self.open_containers.push(JsonContainer::Object);
                    self.skip_whitespace();
                    if self.peek()? == b'}' {
                        return Ok(());
                    }
                    self.key()?;
                }
                b'"' => return self.string(),
                b'-' | b'0'..=b'9' => return self.number(),
                b't' => return self.word(b"true"),
                b'f' => return self.word(b"false"),
                b'n' => return self.word(b"null"),
                _ => return Err(SyntaxError::InvalidByte("looking for beginning of value")),
            }
        }
    }

    fn entry(&mut self) -> Result<(), SyntaxError> {
        self.key()?;
        self.value()
    }

    fn key(&mut self) -> Result<(), SyntaxError> {
        self.skip_whitespace();
        if self.peek()? != b'"' {
            return Err(SyntaxError::InvalidByte("looking for beginning of object key string"));
        }
        self.string()?;
        self.skip_whitespace();
        if self.peek()? != b':' {
            return Err(SyntaxError::InvalidByte("after object key"));
        }
        self.position += 1;
        Ok(())
    }

    fn string(&mut self) -> Result<(), SyntaxError> {
        self.position += 1;
        loop {
            match self.peek()? {
                b'"' => {
                    self.position += 1;
                    return Ok(());
                }
                b'\\' => {
                    self.position += 1;
                    self.escape()?;
                }
                0..0x20 => return Err(SyntaxError::InvalidByte("in string literal")),
                _ => self.position += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), SyntaxError> {
        match self.peek()? {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => self.position += 1,
            b'u' => {
                self.position += 1;
                for _ in 0..4 {
                    if !self.peek()?.is_ascii_hexdigit() {
                        return Err(SyntaxError::InvalidByte(
                            "in \\u hexadecimal character escape",
                        ));
                    }
                    self.position += 1;
                }
            }
            _ => return Err(SyntaxError::InvalidByte("in string escape code")),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), SyntaxError> {
        if self.peek()? == b'-' {
            self.position += 1;
        }
        if self.peek()? == b'0' {
            self.position += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.skip_one_of(b".") {
            self.digits("after decimal point in numeric literal")?;
        }
        if self.skip_one_of(b"eE") {
            self.skip_one_of(b"+-");
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn digits(&mut self, place: &'static str) -> Result<(), SyntaxError> {
        if !self.peek()?.is_ascii_digit() {
            return Err(SyntaxError::InvalidByte(place));
        }
        while self.bytes.get(self.position).is_some_and(u8::is_ascii_digit) {
            self.position += 1;
        }
        Ok(())
    }

    fn skip_one_of(&mut self, any: &[u8]) -> bool {
        let is = self.bytes.get(self.position).is_some_and(|byte| any.contains(byte));
        self.position += usize::from(is);
        is
    }

    fn word(&mut self, word: &'static [u8]) -> Result<(), SyntaxError> {
        for (index, expected) in word.iter().enumerate() {
            if self.peek()? != *expected {
                return Err(SyntaxError::InvalidByte(match (word, index) {
                    (b"true", 1) => "in literal true (expecting 'r')",
                    (b"true", 2) => "in literal true (expecting 'u')",
                    (b"true", _) => "in literal true (expecting 'e')",
                    (b"false", 1) => "in literal false (expecting 'a')",
                    (b"false", 2) => "in literal false (expecting 'l')",
                    (b"false", 3) => "in literal false (expecting 's')",
                    (b"false", _) => "in literal false (expecting 'e')",
                    (_, 1) => "in literal null (expecting 'u')",
                    (_, _) => "in literal null (expecting 'l')",
                }));
            }
            self.position += 1;
        }
        Ok(())
    }

    fn skip_whitespace(&mut self) {
        while self.skip_one_of(b" \t\r\n") {}
    }

    fn peek(&self) -> Result<u8, SyntaxError> {
        self.bytes.get(self.position).copied().ok_or(SyntaxError::UnexpectedEnd)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_syntax_errors_match_go_messages() {
        for (text, expected) in [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("{a: b}", "invalid character 'a' looking for beginning of object key string"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            (r#"{"a" 1}"#, "invalid character '1' after object key"),
            (r#"{"a":1 2}"#, "invalid character '2' after object key:value pair"),
            ("tru?", "invalid character '?' in literal true (expecting 'e')"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            (r#""\q""#, "invalid character 'q' in string escape code"),
            ("\"\n\"", r"invalid character '\n' in string literal"),
            ("'", r"invalid character '\'' looking for beginning of value"),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn too_deeply_nested_json_is_rejected() {
        let deep = "[".repeat(300) + &"]".repeat(300);
        assert_eq!(parse(deep.as_bytes()).unwrap_err(), "exceeded max depth");
    }

    #[test]
    fn invalid_utf8_becomes_the_replacement_character() {
        let parsed = parse(b"{\"a\": \"caf\xe9\"}").unwrap();
        assert_eq!(parsed.value, serde_json::json!({"a": "caf\u{fffd}"}));
        let outside = parse(b"\xff{}").unwrap_err();
        assert!(outside.starts_with("invalid character"), "{outside}");
    }

    #[test]
    fn duplicate_fields_are_reported_and_merged() {
        let text = r#"{"data": {"k": "v"}, "l": [{"a": 1, "a": 2}], "data": {"l": "w"}}"#;
        let parsed = parse(text.as_bytes()).unwrap();
        assert_eq!(parsed.value, json!({"data": {"k": "v", "l": "w"}, "l": [{"a": 2}]}));
        assert_eq!(parsed.duplicates, ["l[0].a", "data"]);
    }
}
