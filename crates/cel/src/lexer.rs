//! Tokens of an expression.

use crate::Val;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    /// A name. Reserved words are names too; where they may not stand, the parser says so.
    Name(String),
    Literal(Literal),
    /// An operator or a bracket.
    Symbol(&'static str),
    End,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    /// The digits of an integer: whether they fit depends on the sign before them.
    Int(u64),
    UInt(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
}

impl Literal {
    /// The value, or `None` for an integer that does not fit.
    pub(crate) fn value(self, negative: bool) -> Option<Val<'static>> {
        Some(match self {
            Self::Null => Val::Null,
            Self::Bool(value) => Val::Bool(value),
            Self::Int(digits) => {
                let value = i128::from(digits);
                Val::Int(i64::try_from(if negative { -value } else { value }).ok()?)
            }
            Self::UInt(value) => Val::UInt(value),
            Self::Double(value) => Val::Double(if negative { -value } else { value }),
            Self::String(text) => Val::text(text),
            Self::Bytes(bytes) => Val::Bytes(bytes.into()),
        })
    }
}

/// Longer symbols first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 27] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "-", "+", "*", "/", "%", "?", ":", ".", ",",
    "(", ")", "[", "]", "{", "}", "&", "|", "=",
];

pub(crate) struct Lexer<'a> {
    source: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(source: &'a str) -> Self {
        Self { source, at: 0 }
    }

    /// Where the next token starts.
    pub(crate) fn offset(&mut self) -> usize {
        self.skip_space();
        self.at
    }

    /// An offset as line and column from 1.
    pub(crate) fn position(&self, offset: usize) -> (usize, usize) {
        let before = &self.source[..offset];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        (line, column)
    }

    pub(crate) fn next(&mut self) -> Result<Token, String> {
        self.skip_space();
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(Token::End) };
        if let Some(literal) = self.string()? {
            return Ok(Token::Literal(literal));
        }
        if first.is_ascii_digit() || (first == '.' && starts_with_digit(&rest[1..])) {
            return self.number().map(Token::Literal);
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let name = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
            return Ok(match name {
                "true" => Token::Literal(Literal::Bool(true)),
                "false" => Token::Literal(Literal::Bool(false)),
                "null" => Token::Literal(Literal::Null),
                "in" => Token::Symbol("in"),
                name => Token::Name(name.to_owned()),
            });
        }
        match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            Some(symbol) => {
                self.at += symbol.len();
                Ok(Token::Symbol(symbol))
            }
            None => Err(format!("unexpected character '{first}'")),
        }
    }

    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn take_while(&mut self, holds: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|c| !holds(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// White space and comments.
    fn skip_space(&mut self) {
        loop {
            self.take_while(char::is_whitespace);
            if !self.rest().starts_with("//") {
                return;
            }
            self.take_while(|c| c != '\n');
        }
    }

    fn number(&mut self) -> Result<Literal, String> {
        let too_big = |_| "a number that is too big".to_owned();
        if let Some(hex) = self.rest().strip_prefix("0x") {
            let digits = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
            self.at += 2 + digits;
            let value = u64::from_str_radix(&hex[..digits], 16).map_err(too_big)?;
            return Ok(if self.skip_unsigned_suffix() {
                Literal::UInt(value)
            } else {
                Literal::Int(value)
            });
        }
        let start = self.at;
        self.take_while(|c| c.is_ascii_digit());
        let mut is_float = false;
        if self.rest().starts_with('.') && starts_with_digit(&self.rest()[1..]) {
            is_float = true;
            self.at += 1;
            self.take_while(|c| c.is_ascii_digit());
        }
        if let Some(exponent) = self.rest().strip_prefix(['e', 'E']) {
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if starts_with_digit(digits) {
                is_float = true;
                self.at += 1 + exponent.len() - digits.len();
                self.take_while(|c| c.is_ascii_digit());
            }
        }
        let text = &self.source[start..self.at];
        if is_float {
            return text.parse().map(Literal::Double).map_err(|_| "a bad number".to_owned());
        }
        let value = text.parse().map_err(too_big)?;
        Ok(if self.skip_unsigned_suffix() { Literal::UInt(value) } else { Literal::Int(value) })
    }

    fn skip_unsigned_suffix(&mut self) -> bool {
        let found = self.rest().starts_with(['u', 'U']);
        self.at += usize::from(found);
        found
    }

    /// A string or byte string, if one starts here.
    fn string(&mut self) -> Result<Option<Literal>, String> {
        let after_bytes = self.rest().strip_prefix(['b', 'B']);
        let after_bytes = after_bytes
            .filter(|rest| rest.strip_prefix(['r', 'R']).unwrap_or(rest).starts_with(['\'', '"']));
        let rest = after_bytes.unwrap_or(self.rest());
        let after_raw = rest.strip_prefix(['r', 'R']).filter(|rest| rest.starts_with(['\'', '"']));
        let text = after_raw.unwrap_or(rest);
        let Some(quote) = text.chars().next().filter(|c| matches!(c, '\'' | '"')) else {
            return Ok(None);
        };
        let triple = String::from(quote).repeat(3);
        let (open, is_triple) = if text.starts_with(&triple) { (3, true) } else { (1, false) };
        let is_bytes = after_bytes.is_some();
        let mut bytes = Vec::new();
        let mut body = &text[open..];
        loop {
            let closing =
                if is_triple { body.starts_with(&triple) } else { body.starts_with(quote) };
            if closing {
                break;
            }
            let Some(c) = body.chars().next().filter(|c| is_triple || !matches!(c, '\n' | '\r'))
            else {
                return Err("a string that is not closed".to_owned());
            };
            body = if c == '\\' && after_raw.is_none() {
                escape(&body[1..], is_bytes, &mut bytes)?
            } else {
                push(c, &mut bytes);
                &body[c.len_utf8()..]
            };
        }
        self.at = self.source.len() - body.len() + open;
        Ok(Some(if is_bytes {
            Literal::Bytes(bytes)
        } else {
            // Only whole characters went in.
            Literal::String(String::from_utf8(bytes).map_err(|_| "a bad string".to_owned())?)
        }))
    }
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

fn push(c: char, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Reads the escape after a backslash and returns what follows it. A number stands for a character
/// in a string, and for a byte in a byte string.
fn escape<'a>(text: &'a str, is_bytes: bool, bytes: &mut Vec<u8>) -> Result<&'a str, String> {
    let bad = || "a bad escape in a string".to_owned();
    let c = text.chars().next().ok_or_else(bad)?;
    let (radix, start, length) = match c {
        'x' | 'X' => (16, 1, 2),
        'u' if !is_bytes => (16, 1, 4),
        'U' if !is_bytes => (16, 1, 8),
        '0'..='3' => (8, 0, 3),
        _ => {
            push(
                match c {
                    'a' => '\u{07}',
                    'b' => '\u{08}',
                    'f' => '\u{0c}',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    'v' => '\u{0b}',
                    '\\' | '\'' | '"' | '`' | '?' => c,
                    _ => return Err(bad()),
                },
                bytes,
            );
            return Ok(&text[1..]);
        }
    };
    let end = start + length;
    let digits = text.get(start..end).filter(|d| d.chars().all(|c| c.is_digit(radix)));
    let code = digits.and_then(|d| u32::from_str_radix(d, radix).ok()).ok_or_else(bad)?;
    if is_bytes {
        bytes.push(u8::try_from(code).map_err(|_| bad())?);
    } else {
        push(char::from_u32(code).ok_or_else(bad)?, bytes);
    }
    Ok(&text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(source: &str) -> Result<Token, String> {
        Lexer::new(source).next()
    }

    #[test]
    fn the_lexer_reads_every_kind_of_cel_literal() {
        let text = |text: &str| Literal::String(text.to_owned());
        #[rustfmt::skip]
        let cases = [
            ("12",                Literal::Int(12)),
            ("0xff",              Literal::Int(255)),
            ("12u",               Literal::UInt(12)),
            ("1.5",               Literal::Double(1.5)),
            (".5",                Literal::Double(0.5)),
            ("1e3",               Literal::Double(1000.0)),
            ("1.5E-2",            Literal::Double(0.015)),
            ("'a\"b'",            text("a\"b")),
            (r#""it\'s""#,        text("it's")),
            (r"'it\'s \\ \n'",    text("it's \\ \n")),
            (r"'\x41\u00e9\101'", text("AéA")),
            (r"r'\d\'",           text(r"\d\")),
            ("'''it's\n'''",      text("it's\n")),
            (r#"R"""a"b""""#,     text("a\"b")),
            (r"b'\xffé'",         Literal::Bytes(vec![0xff, 0xc3, 0xa9])),
            ("br'\\x'",           Literal::Bytes(b"\\x".to_vec())),
        ];
        for (source, expected) in cases {
            assert_eq!(literal(source), Ok(Token::Literal(expected)), "{source}");
        }
        for source in
            ["'a", "'a\nb'", r"'\q'", r"'\u12'", r"b'\u0041'", "99999999999999999999", "#"]
        {
            assert!(literal(source).is_err(), "{source}");
        }
    }

    #[test]
    fn a_dot_after_an_integer_selects_a_member_unless_digits_follow() {
        let mut lexer = Lexer::new("1.size() // end\n <= bar");
        let mut tokens = Vec::new();
        loop {
            match lexer.next().unwrap() {
                Token::End => break,
                token => tokens.push(token),
            }
        }
        let name = |name: &str| Token::Name(name.to_owned());
        assert_eq!(
            tokens,
            [
                Token::Literal(Literal::Int(1)),
                Token::Symbol("."),
                name("size"),
                Token::Symbol("("),
                Token::Symbol(")"),
                Token::Symbol("<="),
                name("bar"),
            ]
        );
    }
}
