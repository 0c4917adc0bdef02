//! Decodes quoted-printable text (RFC 2045), as lenient as Go's decoder.

/// Returns the decoded bytes; `None` if a byte or an escape cannot be part of such a text.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut lines = text.split('\n').peekable();
    while let Some(raw) = lines.next() {
        let is_last = lines.peek().is_none();
        let line = raw.trim_end_matches([' ', '\t', '\r']);
        let Some(continued) = line.strip_suffix('=') else {
            decode_line(line.as_bytes(), &mut decoded)?;
            if !is_last {
                decoded.push(b'\n');
            }
            continue;
        };
        // A soft line break: nothing but the line's end may follow the `=`.
        let rest = raw.strip_prefix(line)?;
        if !matches!(rest, "" | "\r") || (is_last && continued.is_empty()) {
            return None;
        }
        decode_line(continued.as_bytes(), &mut decoded)?;
    }
    Some(decoded)
}

fn decode_line(mut line: &[u8], decoded: &mut Vec<u8>) -> Option<()> {
    while let [first, rest @ ..] = line {
        line = match (*first, rest) {
            (b'=', [high, low, rest @ ..]) if is_hex(*high) && is_hex(*low) => {
                decoded.push(hex_value(*high) << 4 | hex_value(*low));
                rest
            }
            // Something else after the `=`: the character itself, which many writers leave.
            (b'=', [_, ..]) => {
                decoded.push(b'=');
                rest
            }
            (byte @ (b'\t' | b'\r' | b' '..=b'~' | 0x80..), _) if byte != b'=' => {
                decoded.push(byte);
                rest
            }
            _ => return None,
        };
    }
    Some(())
}

fn is_hex(byte: u8) -> bool {
    byte.is_ascii_hexdigit()
}

fn hex_value(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'f' => byte - b'a' + 10,
        _ => byte.saturating_sub(b'A') + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_soft_line_breaks_are_decoded() {
        #[rustfmt::skip]
        let cases = [
            ("a=3Db",             Some("a=b")),
            ("a=3db",             Some("a=b")),
            ("long=\nline\n",     Some("longline\n")),
            ("trailing  \nx",     Some("trailing\nx")),
            ("=C3=A9",            Some("é")),
            ("é",                 Some("é")),
            ("a=b",               Some("a=b")), // no escape
            ("a=zz",              Some("a=zz")),
            ("a=\n",              Some("a")),
            ("a=",                Some("a")),
            ("=",                 None),
            ("a= \nb",            None),
            ("a\u{1}b",           None),
        ];
        for (text, want) in cases {
            let found = decode(text).map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(found.as_deref(), want, "{text:?}");
        }
    }
}
