//! Regular expressions as the API server reads them.
//!
//! Go speaks the RE2 dialect. The `regex` crate is its close relative, linear in time too, but
//! differs in details that patterns of CRDs do meet: `\d`, `\w`, `\s` and `\b` are ASCII in Go
//! and Unicode here; `[` is an ordinary character inside a Go class and opens a nested class
//! here, where `&&`, `--` and `~~` are operators as well; and a `{` that starts no repetition is
//! itself in Go and an error here. So a pattern is rewritten before it is compiled.

use std::fmt::Write;

use regex::Regex;

/// Compiles a pattern of Go's `regexp`. A match is unanchored, as there.
pub fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    Regex::new(&translate(pattern))
}

const WORD: &str = "0-9A-Za-z_";
const SPACE: &str = r"\t\n\x0C\r ";

fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        rest = match c {
            '\\' => translate_escape(rest, &mut out),
            '[' => translate_class(rest, &mut out),
            '{' if !is_repetition(rest) => {
                out.push_str(r"\{");
                &rest[1..]
            }
            c => {
                out.push(c);
                &rest[c.len_utf8()..]
            }
        };
    }
    out
}

/// Returns whether a brace is a repetition: `{2}`, `{2,}` or `{2,5}`.
///
/// Go takes any other brace literally.
fn is_repetition(text: &str) -> bool {
    let Some((bounds, _)) = text[1..].split_once('}') else { return false };
    let (min, max) = bounds.split_once(',').unwrap_or((bounds, ""));
    !min.is_empty() && [min, max].iter().all(|n| n.bytes().all(|b| b.is_ascii_digit()))
}

/// Translates the escape at the start of `text` and returns the rest.
fn translate_escape<'a>(text: &'a str, out: &mut String) -> &'a str {
    let mut chars = text[1..].chars();
    let Some(c) = chars.next() else {
        out.push('\\'); // a trailing backslash: let the compiler complain
        return "";
    };
    let rest = chars.as_str();
    match c {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        'w' => push_class(out, "", WORD),
        'W' => push_class(out, "^", WORD),
        's' => push_class(out, "", SPACE),
        'S' => push_class(out, "^", SPACE),
        'b' => out.push_str(r"(?-u:\b)"),
        'Q' => return translate_quoted(rest, out),
        'p' | 'P' | 'x' => return copy_braced_escape(c, rest, out),
        '0'..='7' => return translate_octal(c, rest, out),
        c => push_escaped(c, out),
    }
    rest
}

/// Copies an escape whose braces repeat nothing: `\p{Greek}` or `\x{10FFFF}`.
fn copy_braced_escape<'a>(c: char, text: &'a str, out: &mut String) -> &'a str {
    out.push('\\');
    out.push(c);
    match text.find('}') {
        Some(end) if text.starts_with('{') => {
            out.push_str(&text[..=end]);
            &text[end + 1..]
        }
        _ => text,
    }
}

fn push_class(out: &mut String, negation: &str, members: &str) {
    let _ = write!(out, "[{negation}{members}]");
}

/// Punctuation stands for itself in both dialects, but not all of it may be escaped here.
fn push_escaped(c: char, out: &mut String) {
    if c.is_ascii() && !c.is_ascii_alphanumeric() {
        let _ = write!(out, r"\x{{{:x}}}", u32::from(c));
    } else {
        out.push('\\');
        out.push(c);
    }
}

/// Translates `\Q...\E`, which quotes everything between.
fn translate_quoted<'a>(text: &'a str, out: &mut String) -> &'a str {
    let (quoted, rest) = text.split_once(r"\E").unwrap_or((text, ""));
    out.push_str(&regex::escape(quoted));
    rest
}

/// Translates an octal escape: `\123` is a character by its octal code.
///
/// `\1` alone would be a back reference and is an error in both dialects.
fn translate_octal<'a>(first: char, text: &'a str, out: &mut String) -> &'a str {
    let more = text.bytes().take(2).take_while(|b| matches!(b, b'0'..=b'7')).count();
    if first != '0' && more == 0 {
        out.push('\\');
        out.push(first);
        return text;
    }
    let mut code = u32::from(first) - u32::from('0');
    for digit in text[..more].bytes() {
        code = code * 8 + u32::from(digit - b'0');
    }
    let _ = write!(out, r"\x{{{code:x}}}");
    &text[more..]
}

/// Translates the class at the start of `text` and returns the rest.
fn translate_class<'a>(text: &'a str, out: &mut String) -> &'a str {
    let mut rest = &text[1..];
    out.push('[');
    if let Some(after) = rest.strip_prefix('^') {
        out.push('^');
        rest = after;
    }
    let mut first = true;
    let mut last = LastClassItem::Other;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let is_dash = c == '-' && last == LastClassItem::Character && !after.starts_with(']');
        let end_of_range = if last == LastClassItem::Dash {
            LastClassItem::Other
        } else {
            LastClassItem::Character
        };
        (rest, last) = match c {
            ']' if !first => {
                out.push(']');
                return after;
            }
            '[' if after.starts_with(':') && after[1..].contains(":]") => {
                let end = after.find(":]").map_or(after.len(), |at| at + 2);
                out.push('[');
                out.push_str(&after[..end]);
                (&after[end..], LastClassItem::Other)
            }
            _ if is_dash => {
                out.push('-');
                (after, LastClassItem::Dash)
            }
            '\\' if after.starts_with(['d', 'D', 'w', 'W', 's', 'S', 'p', 'P']) => {
                (translate_class_escape(after, out), LastClassItem::Other)
            }
            '\\' => (translate_class_escape(after, out), end_of_range),
            c if c.is_ascii_punctuation() => {
                push_escaped(c, out);
                (after, end_of_range)
            }
            c => {
                out.push(c);
                (after, end_of_range)
            }
        };
        first = false;
    }
    rest // unclosed: let the compiler complain
}

/// The last item of a class that was translated.
///
/// A dash makes a range only after a single character that does not end a range itself; `[\w-.]`
/// and `[a-z-9]` hold a dash.
#[derive(Clone, Copy, PartialEq)]
enum LastClassItem {
    Character,
    Dash,
    Other,
}

/// Translates an escape inside a class, like [`translate_escape`].
fn translate_class_escape<'a>(text: &'a str, out: &mut String) -> &'a str {
    let Some(c) = text.chars().next() else { return "" };
    let rest = &text[c.len_utf8()..];
    match c {
        'd' => out.push_str("0-9"),
        'w' => out.push_str(WORD),
        's' => out.push_str(SPACE),
        'D' => out.push_str("[^0-9]"),
        'W' => push_class(out, "^", WORD),
        'S' => push_class(out, "^", SPACE),
        'p' | 'P' | 'x' => return copy_braced_escape(c, rest, out),
        '0'..='7' => return translate_octal(c, rest, out),
        c => push_escaped(c, out),
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn translated_patterns_match_like_go_regexp() {
        #[rustfmt::skip]
        let cases = [
            // pattern                 matches                   does not match
            (r"^\d+$",                 &["12"][..],              &["٣", ""][..]), // ASCII digits only
            (r"^\w$",                  &["a", "_"],              &["é", "-"]),
            (r"^\s$",                  &[" ", "\n"],             &["\u{a0}", "\u{b}"]),
            (r"^\W\D\S$",              &["éé\u{a0}"],            &["a11"]),
            (r"^[\w.-]+$",             &["a.b-c"],               &["a/b", "é"]),
            (r"^[^\s]$",               &["x"],                   &[" "]),
            (r"\bfoo\b",               &["a foo b", "éfoo"],     &["afoo"]),
            (r"^[[]$",                 &["["],                   &["]", "[["]),
            (r"^[]a]$",                &["]", "a"],              &["b"]),
            (r"^[a&&b]+$",             &["a&b"],                 &["c"]),
            (r"^[[:alpha:]-]$",        &["a", "-"],              &["1"]),
            (r"^[-a]$",                &["-", "a"],              &["b"]),
            (r"^[!-/]$",               &["#", "/"],              &["0"]),
            (r"^[\w-.]$",              &["a", "-", "."],         &["/"]),
            (r"^[a-c-9]$",             &["b", "-", "9"],         &["d", "5"]),
            (r"^\p{Greek}\x{41}$",      &["αA"],                  &["aA"]),
            (r"^[\p{Greek}\x{41}]$",    &["α", "A"],              &["a", "p"]),
            (r"^[\pL-]$",              &["é", "-"],              &["1"]),
            (r"^a{2}$",                &["aa"],                  &["a"]),
            (r"^{a}$",                 &["{a}"],                 &["a"]),
            (r"^a{,2}$",               &["a{,2}"],               &["a", "aa"]),
            (r"^\/\-\_\@\<$",          &["/-_@<"],               &["x"]),
            (r"^\Qa.b\E$",             &["a.b"],                 &["axb"]),
            (r"^\101$",                &["A"],                   &["1"]),
            (r"^[^/]+",                &["abc/d"],               &["/abc"]),
            (r"abc",                   &["xabcx"],               &["ab"]), // unanchored
            (r"^(?i)a$",               &["A"],                   &["b"]),
            (r"a$",                    &["a"],                   &["a\n"]), // only at the very end
        ];
        for (pattern, matching, other) in cases {
            let regex = compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            for text in matching {
                assert!(regex.is_match(text), "{pattern} matches {text:?}");
            }
            for text in other {
                assert!(!regex.is_match(text), "{pattern} does not match {text:?}");
            }
        }
    }

    #[test]
    fn invalid_patterns_do_not_compile() {
        for pattern in ["(", "[a", r"a\", r"\1", "(?=a)", "*a"] {
            assert!(compile(pattern).is_err(), "{pattern}");
        }
    }
}
