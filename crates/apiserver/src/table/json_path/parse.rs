//! Reads a path.

use serde_json::Value;

use super::{Comparison, Filter, JsonPath, Slice, SliceEnd, Step};

/// Filters and unions hold paths themselves.
const MAX_DEPTH: usize = 8;

pub(super) fn parse_path(text: &str) -> Option<JsonPath> {
    Parser { rest: text, depth: 0 }.path()
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn path(mut self) -> Option<JsonPath> {
        if self.depth > MAX_DEPTH {
            return None;
        }
        let mut steps = Vec::new();
        while let Some(first) = self.rest.chars().next() {
            if let Some(rest) = self.rest.strip_prefix("[?(") {
                self.rest = rest;
                steps.push(self.filter()?);
            } else if let Some(rest) = self.rest.strip_prefix("..") {
                if steps.last() == Some(&Step::Recursive) {
                    return None;
                }
                self.rest = rest;
                steps.push(Step::Recursive);
                if self.rest.starts_with(|c: char| c == '_' || c.is_alphanumeric()) {
                    steps.push(self.field());
                }
            } else {
                match first {
                    ' ' | '@' | '$' => self.rest = &self.rest[1..],
                    '[' => {
                        let (inner, rest) = self.rest[1..].split_once(']')?;
                        self.rest = rest;
                        steps.extend(self.brackets(inner)?);
                    }
                    '"' | '\'' => steps.push(self.quoted(first)?),
                    '.' => {
                        self.rest = &self.rest[1..];
                        steps.push(self.field());
                    }
                    '+' | '-' | '0'..='9' => steps.push(self.number()?),
                    _ => steps.push(self.boolean()?),
                }
            }
        }
        Some(JsonPath { steps })
    }

    fn nested_path(&self, text: &'a str) -> Option<JsonPath> {
        Parser { rest: text, depth: self.depth + 1 }.path()
    }

    /// Up to the next sign that ends a name and is not escaped.
    fn field(&mut self) -> Step {
        let mut name = String::new();
        let mut chars = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((at, c)) = chars.next() {
            if c == '\\' {
                // Signs of escape are dropped, even one that is escaped itself.
                name.extend(chars.next().map(|(_, c)| c).filter(|c| *c != '\\'));
            } else if is_terminator(c) {
                end = at;
                break;
            } else {
                name.push(c);
            }
        }
        self.rest = &self.rest[end..];
        if name == "*" { Step::Wildcard } else { Step::Field(name) }
    }

    fn brackets(&self, inner: &'a str) -> Option<Vec<Step>> {
        let inner = if inner == "*" { ":" } else { inner };
        if inner.contains(',') {
            let one =
                |text: &'a str| Some(JsonPath { steps: self.subscript(text.trim_matches(' '))? });
            return Some(vec![Step::Union(inner.split(',').map(one).collect::<Option<_>>()?)]);
        }
        self.subscript(inner)
    }

    fn subscript(&self, inner: &'a str) -> Option<Vec<Step>> {
        let inner = if inner == "*" { ":" } else { inner };
        let key = inner.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
        if let Some(key) = key.filter(|key| !key.is_empty() && !key.contains('\'')) {
            let mut parser = Parser { rest: key, depth: self.depth + 1 };
            let mut steps = vec![parser.field()];
            steps.extend(parser.path()?.steps);
            return Some(steps);
        }
        let mut parts = inner.split(':');
        let index = |part: Option<&str>| match part {
            None | Some("") => Some(None),
            Some(text) => text.parse::<i64>().ok().map(Some),
        };
        let start = index(parts.next())?;
        let end = match parts.next() {
            None if start.is_none() => return None,
            None => SliceEnd::AfterStart,
            Some(text) => index(Some(text))?.map_or(SliceEnd::ListEnd, SliceEnd::Index),
        };
        let step = index(parts.next())?;
        if parts.next().is_some() {
            return None;
        }
        Some(vec![Step::Slice(Slice { start, end, step })])
    }

    fn filter(&mut self) -> Option<Step> {
        let (inner, rest) = split_filter(self.rest)?;
        self.rest = rest.strip_prefix(']')?;
        let is_sign = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let filter = match inner.find(is_sign) {
            Some(at) if at > 0 => {
                let (left, rest) = inner.split_at(at);
                let signs = rest.find(|c| !is_sign(c))?;
                let comparison = match &rest[..signs] {
                    "==" => Comparison::Equal,
                    "!=" => Comparison::NotEqual,
                    "<" => Comparison::Less,
                    "<=" => Comparison::LessOrEqual,
                    ">" => Comparison::Greater,
                    ">=" => Comparison::GreaterOrEqual,
                    _ => return None,
                };
                let right = self.nested_path(&rest[signs..])?;
                Filter { left: self.nested_path(left)?, comparison: Some((comparison, right)) }
            }
            _ => Filter { left: self.nested_path(inner)?, comparison: None },
        };
        Some(Step::Filter(Box::new(filter)))
    }

    fn quoted(&mut self, quote: char) -> Option<Step> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        loop {
            match chars.next()? {
                (_, '\\') => text.push(match chars.next()?.1 {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    c => c,
                }),
                (_, '\n') => return None,
                (at, c) if c == quote => {
                    self.rest = &self.rest[at + c.len_utf8()..];
                    return Some(Step::Literal(text.into()));
                }
                (_, c) => text.push(c),
            }
        }
    }

    fn number(&mut self) -> Option<Step> {
        let digits = self.rest[1..].find(|c: char| c != '.' && !c.is_ascii_digit());
        let (number, rest) = self.rest.split_at(digits.map_or(self.rest.len(), |at| at + 1));
        self.rest = rest;
        let value = match number.parse::<i64>() {
            Ok(number) => Value::from(number),
            Err(_) => number.parse::<f64>().ok().map(Value::from)?,
        };
        Some(Step::Literal(value))
    }

    fn boolean(&mut self) -> Option<Step> {
        let end = self.rest.find(is_terminator).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.parse::<bool>().ok().map(|value| Step::Literal(value.into()))
    }
}

/// Splits at the bracket that ends a filter: one that is not in quotes.
fn split_filter(text: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match (c, quote) {
            ('\n', _) => return None,
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(q)) if c == q && !escaped => quote = None,
            (')', None) => return Some((&text[..at], &text[at + 1..])),
            _ => {}
        }
        escaped = c == '\\';
    }
    None
}

fn is_terminator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}
