//! Go's decimal integers.

use std::num::{IntErrorKind, ParseIntError};

/// Parses a decimal 64-bit integer, as `strconv.Atoi` does.
pub fn parse_int(text: &str) -> Result<i64, IntError> {
    text.parse().map_err(|error: ParseIntError| IntError {
        text: text.to_owned(),
        problem: match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        },
    })
}

/// A text that is no 64-bit integer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("strconv.Atoi: parsing {text:?}: {problem}")]
pub struct IntError {
    text: String,
    problem: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_errors_have_the_text_of_go() {
        assert_eq!(parse_int("+5"), Ok(5));
        assert_eq!(parse_int("-0"), Ok(0));
        for (text, expected) in [
            ("5a", r#"strconv.Atoi: parsing "5a": invalid syntax"#),
            ("", r#"strconv.Atoi: parsing "": invalid syntax"#),
            (
                "9223372036854775808",
                r#"strconv.Atoi: parsing "9223372036854775808": value out of range"#,
            ),
        ] {
            assert_eq!(parse_int(text).unwrap_err().to_string(), expected, "{text:?}");
        }
    }
}
