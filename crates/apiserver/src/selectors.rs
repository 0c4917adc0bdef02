//! Label and field selectors of list, watch and deletecollection.

use karpenter_grammar::names;

use crate::status::StatusError;
use crate::store::{ObjectKey, StoredObject};

/// The label and field selectors of a request. Empty: all objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ObjectSelector {
    labels: Vec<SelectorRequirement>,
    fields: Vec<SelectorRequirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct SelectorRequirement {
    key: String,
    operator: SelectorOperator,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum SelectorOperator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
    GreaterThan(i64),
    LessThan(i64),
}

impl ObjectSelector {
    /// Parses both selectors. `check` returns an error for an unknown field besides `metadata.name`
    /// and `metadata.namespace`.
    pub(crate) fn parse(
        labels: &str,
        fields: &str,
        check: impl Fn(&str) -> Result<(), String>,
    ) -> Result<Self, StatusError> {
        let bad = |problem: String| StatusError::bad_request(problem);
        let labels = LabelSelectorParser::new(labels).requirements().map_err(bad)?;
        let fields = field_requirements(fields).map_err(bad)?;
        for term in &fields {
            if !matches!(term.key.as_str(), "metadata.name" | "metadata.namespace") {
                check(&term.key).map_err(bad)?;
            }
        }
        Ok(Self { labels, fields })
    }

    /// Restricts the selector to the object with that name, unless it is empty.
    pub(crate) fn with_name(mut self, name: &str) -> Self {
        if !name.is_empty() {
            let operator = SelectorOperator::In(vec![name.to_owned()]);
            self.fields.push(SelectorRequirement { key: "metadata.name".to_owned(), operator });
        }
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, key: &ObjectKey, stored: &StoredObject) -> bool {
        let label = |wanted: &str| stored.labels.get(wanted);
        let field = |wanted: &str| match wanted {
            "metadata.name" => Some(key.name()),
            "metadata.namespace" => Some(key.namespace()),
            // A field that the kind has and the object has not is empty.
            _ => Some(stored.fields.get(wanted).unwrap_or_default()),
        };
        self.labels.iter().all(|term| term.operator.matches(label(&term.key)))
            && self.fields.iter().all(|term| term.operator.matches(field(&term.key)))
    }
}

impl SelectorOperator {
    fn matches(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::In(values) => value.is_some_and(|value| values.iter().any(|v| v == value)),
            Self::NotIn(values) => value.is_none_or(|value| values.iter().all(|v| v != value)),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
            Self::GreaterThan(bound) => number().is_some_and(|number| number > *bound),
            Self::LessThan(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

/// Parses a field selector, `a=b,c!=d`. A backslash escapes the next character.
fn field_requirements(text: &str) -> Result<Vec<SelectorRequirement>, String> {
    let mut terms = Vec::new();
    for part in split_unescaped(text) {
        if part.is_empty() {
            continue;
        }
        let (key, value, equal) = if let Some((key, value)) = part.split_once("!=") {
            (key, value, false)
        } else if let Some((key, value)) = part.split_once("==") {
            (key, value, true)
        } else if let Some((key, value)) = part.split_once('=') {
            (key, value, true)
        } else {
            return Err(format!("invalid selector: '{text}'; can't understand '{part}'"));
        };
        if key.is_empty() && value.is_empty() {
            continue;
        }
        let values = vec![unescape(value)?];
        let test_of = if equal { SelectorOperator::In } else { SelectorOperator::NotIn };
        terms.push(SelectorRequirement { key: key.to_owned(), operator: test_of(values) });
    }
    Ok(terms)
}

fn split_unescaped(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, character) in text.char_indices() {
        match character {
            '\\' if !escaped => escaped = true,
            ',' if !escaped => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => escaped = false,
        }
    }
    parts.push(&text[start..]);
    parts
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        out.push(match character {
            '\\' => characters
                .next()
                .ok_or("invalid field selector: invalid escape sequence: \\".to_owned())?,
            other => other,
        });
    }
    Ok(out)
}

/// Parses a label selector, `a=b, c in (d,e), !f, g, h>1`.
struct LabelSelectorParser<'a> {
    rest: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Sign(&'a str),
    End,
}

impl<'a> LabelSelectorParser<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    fn requirements(mut self) -> Result<Vec<SelectorRequirement>, String> {
        let mut terms = Vec::new();
        match self.peek() {
            Token::End => return Ok(terms),
            Token::Word(_) | Token::Sign("!") => {}
            Token::Sign(found) => {
                let expected = "!, identifier, or 'end of string'";
                return Err(format!("found '{found}', expected: {expected}"));
            }
        }
        loop {
            let term = self.requirement();
            terms.push(term.map_err(|problem| format!("unable to parse requirement: {problem}"))?);
            match self.next() {
                Token::End => return Ok(terms),
                Token::Sign(",") => match self.peek() {
                    Token::Word(_) | Token::Sign("!") => {}
                    found => {
                        return Err(format!(
                            "found '{}', expected: identifier after ','",
                            found.text()
                        ));
                    }
                },
                found => {
                    return Err(format!(
                        "found '{}', expected: ',' or 'end of string'",
                        found.text()
                    ));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<SelectorRequirement, String> {
        let missing = self.peek() == Token::Sign("!");
        if missing {
            self.next();
        }
        let key = match self.next() {
            Token::Word(key) => key,
            found => return Err(format!("found '{}', expected: identifier", found.text())),
        };
        if let Some(problem) = names::qualified_name_errors(key).first() {
            return Err(format!("<nil>: Invalid value: {key:?}: {problem}"));
        }
        let key = key.to_owned();
        if missing {
            return Ok(SelectorRequirement { key, operator: SelectorOperator::DoesNotExist });
        }
        let operator = match self.peek() {
            Token::End | Token::Sign(",") => SelectorOperator::Exists,
            _ => self.operator(&key)?,
        };
        Ok(SelectorRequirement { key, operator })
    }

    fn operator(&mut self, key: &str) -> Result<SelectorOperator, String> {
        match self.next() {
            Token::Sign("=" | "==") => Ok(SelectorOperator::In(vec![self.value(key)?])),
            Token::Sign("!=") => Ok(SelectorOperator::NotIn(vec![self.value(key)?])),
            Token::Sign(">") => self.bound(key).map(SelectorOperator::GreaterThan),
            Token::Sign("<") => self.bound(key).map(SelectorOperator::LessThan),
            Token::Word("in") => self.values(key).map(SelectorOperator::In),
            Token::Word("notin") => self.values(key).map(SelectorOperator::NotIn),
            found => {
                Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", found.text()))
            }
        }
    }

    fn bound(&mut self, key: &str) -> Result<i64, String> {
        let value = self.value(key)?;
        value.parse().map_err(|_| {
            format!("values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer")
        })
    }

    /// One value; nothing at all is the empty one.
    fn value(&mut self, key: &str) -> Result<String, String> {
        match self.peek() {
            Token::End | Token::Sign(",") => Ok(String::new()),
            Token::Word(value) => {
                self.next();
                check_value(key, value)
            }
            Token::Sign(found) => Err(format!("found '{found}', expected: identifier")),
        }
    }

    fn values(&mut self, key: &str) -> Result<Vec<String>, String> {
        match self.next() {
            Token::Sign("(") => {}
            found => return Err(format!("found '{}' expected: '('", found.text())),
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                Token::Word(value) => {
                    values.push(check_value(key, value)?);
                    match self.next() {
                        Token::Sign(",") if self.peek() == Token::Sign(")") => {
                            values.push(String::new());
                        }
                        Token::Sign(",") => {}
                        Token::Sign(")") => return Ok(values),
                        found => {
                            return Err(format!("found '{}', expected: ',' or ')'", found.text()));
                        }
                    }
                }
                Token::Sign(",") => values.push(String::new()),
                Token::Sign(")") => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    return Ok(values);
                }
                found => {
                    return Err(format!("found '{}', expected: ',', or identifier", found.text()));
                }
            }
        }
    }

    fn peek(&mut self) -> Token<'a> {
        let rest = self.rest;
        let token = self.next();
        self.rest = rest;
        token
    }

    fn next(&mut self) -> Token<'a> {
        let text = self.rest.trim_start();
        if text.is_empty() {
            return Token::End;
        }
        for sign in ["!=", "==", "=", "!", ",", "(", ")", "<", ">"] {
            if let Some(rest) = text.strip_prefix(sign) {
                self.rest = rest;
                return Token::Sign(&text[..sign.len()]);
            }
        }
        let is_end = |c: char| c.is_whitespace() || "=!,()<>".contains(c);
        let end = text.find(is_end).unwrap_or(text.len());
        self.rest = &text[end..];
        Token::Word(&text[..end])
    }
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Word(text) | Self::Sign(text) => text,
            Self::End => "",
        }
    }
}

fn check_value(key: &str, value: &str) -> Result<String, String> {
    match names::label_value_errors(value).first() {
        None => Ok(value.to_owned()),
        Some(problem) => Err(format!("values[0][{key}]: Invalid value: {value:?}: {problem}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::{ObjectText, StringPairs};

    fn selects(labels: &str) -> bool {
        let object = json!({"metadata": {"labels": {"app": "web", "tier": "2"}}});
        let stored = StoredObject::new(object, 1, StringPairs::default(), ObjectText::unshared);
        let selection = ObjectSelector::parse(labels, "", |_| Ok(())).unwrap();
        selection.matches(&ObjectKey::new("default", "x"), &stored)
    }

    #[test]
    fn label_selectors_support_every_operator() {
        for (selector, expected) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier", true),
            ("app!=web", false),
            ("app in (db, web)", true),
            ("app notin (db,web)", false),
            ("other notin (db)", true),
            ("!other", true),
            ("!app", false),
            ("tier>1,tier<3", true),
            ("tier>2", false),
            ("app=", false),
        ] {
            assert_eq!(selects(selector), expected, "{selector}");
        }
    }

    #[test]
    fn field_selectors_reject_unsupported_fields() {
        let failure = ObjectSelector::parse("", "spec.color=red", |field| {
            Err(format!("field label not supported: {field}"))
        })
        .unwrap_err();
        assert_eq!(failure.message, "field label not supported: spec.color");
    }

    #[test]
    fn an_absent_field_matches_an_empty_field_selector() {
        let stored = StoredObject::new(
            json!({"metadata": {}}),
            1,
            StringPairs::default(),
            ObjectText::unshared,
        );
        let selection = ObjectSelector::parse("", "spec.nodeName=", |_| Ok(())).unwrap();
        assert!(selection.matches(&ObjectKey::new("default", "x"), &stored));
    }
}
