//! Go's texts, where users write or read them: integers, durations and what Go says about bad ones.
//!
//! Error texts reach events and conditions that tools match on, so they are Go's to the letter.

use std::error::Error;
use std::fmt;
use std::num::{IntErrorKind, ParseIntError};

use jiff::SignedDuration;

/// Nanoseconds per unit of a duration. The two micro signs are different characters.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The largest magnitude that a duration may reach while it is read: that of the lowest i64.
const MAGNITUDE_MAX: u128 = 1 << 63;

/// Reads a decimal 64-bit integer, as `strconv.Atoi` does.
pub fn parse_int(text: &str) -> Result<i64, IntError> {
    text.parse().map_err(|error: ParseIntError| IntError {
        text: text.to_owned(),
        out_of_range: matches!(error.kind(), IntErrorKind::PosOverflow | IntErrorKind::NegOverflow),
    })
}

/// A text that is no 64-bit integer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntError {
    text: String,
    out_of_range: bool,
}

impl fmt::Display for IntError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = if self.out_of_range { "value out of range" } else { "invalid syntax" };
        write!(f, "strconv.Atoi: parsing {:?}: {why}", self.text)
    }
}

impl Error for IntError {}

/// Reads a duration such as `1h30m`, `-1.5s` or `0`, as `time.ParseDuration` does (spec 10 §15.1).
///
/// Fractions of a nanosecond are cut off.
pub fn parse_duration(text: &str) -> Result<SignedDuration, DurationError> {
    let fail = |problem| DurationError { text: text.to_owned(), problem };
    let invalid = || fail(DurationProblem::Invalid);

    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut magnitude: u128 = 0;
    while !rest.is_empty() {
        let (nanos, after) = leading_term(rest).map_err(fail)?;
        magnitude += nanos;
        if magnitude > MAGNITUDE_MAX {
            return Err(invalid());
        }
        rest = after;
    }
    let nanos = i128::try_from(magnitude).map_err(|_| invalid())?;
    let nanos = i64::try_from(if negative { -nanos } else { nanos }).map_err(|_| invalid())?;
    Ok(SignedDuration::from_nanos(nanos))
}

/// Writes a duration as Go does: hours, minutes and seconds from the largest non-zero unit down
/// (`1h30m0s`), or one of ms, µs and ns below a second.
pub fn format_duration(duration: SignedDuration) -> String {
    let nanos = duration.as_nanos().unsigned_abs();
    let sign = if duration.is_negative() { "-" } else { "" };
    let text = match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{nanos}ns"),
        1_000..1_000_000 => format!("{}\u{b5}s", decimal(nanos, 3)),
        1_000_000..1_000_000_000 => format!("{}ms", decimal(nanos, 6)),
        _ => {
            let (minutes, nanos) = (nanos / 60_000_000_000, nanos % 60_000_000_000);
            let seconds = decimal(nanos, 9);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{seconds}s"),
                (0, minutes) => format!("{minutes}m{seconds}s"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
            }
        }
    };
    format!("{sign}{text}")
}

/// The number with the point so many places from its end, without zeros after it.
fn decimal(number: u128, places: usize) -> String {
    let digits = format!("{number:0width$}", width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    match fraction.trim_end_matches('0') {
        "" => whole.to_owned(),
        fraction => format!("{whole}.{fraction}"),
    }
}

/// The nanoseconds of the first `<number><unit>` and what follows it.
fn leading_term(text: &str) -> Result<(u128, &str), DurationProblem> {
    let (whole, after) = leading_digits(text);
    let (fraction, after) = match after.strip_prefix('.') {
        Some(after) => leading_digits(after),
        None => ("", after),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(DurationProblem::Invalid);
    }
    // Checked before the unit, as Go does: a number that is too large is no duration in any unit.
    let whole = magnitude(whole).ok_or(DurationProblem::Invalid)?;

    let unit_end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
    let (unit, after) = after.split_at(unit_end);
    if unit.is_empty() {
        return Err(DurationProblem::MissingUnit);
    }
    let Some(&(_, per_unit)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(DurationProblem::UnknownUnit(unit.to_owned()));
    };
    Ok((whole * u128::from(per_unit) + fraction_of(per_unit, fraction), after))
}

/// The digits that a text starts with, and the rest.
fn leading_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// The number of a run of digits; none when it is beyond all durations.
fn magnitude(digits: &str) -> Option<u128> {
    digits.bytes().try_fold(0, |number: u128, digit| {
        let number = number * 10 + u128::from(digit - b'0');
        (number <= MAGNITUDE_MAX).then_some(number)
    })
}

/// `0.<digits>` of a unit, in whole nanoseconds.
///
/// In floating point on purpose: it is Go's arithmetic, so that both read a text as the same number
/// of nanoseconds.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "Go rounds here, too; the result is below one unit and never negative"
)]
fn fraction_of(per_unit: u64, digits: &str) -> u128 {
    let (mut number, mut scale) = (0_u64, 1.0);
    for digit in digits.bytes() {
        let next = number.checked_mul(10).and_then(|n| n.checked_add(u64::from(digit - b'0')));
        match next.filter(|next| u128::from(*next) <= MAGNITUDE_MAX) {
            Some(next) => number = next,
            None => break, // more digits than count
        }
        scale *= 10.0;
    }
    (number as f64 * (per_unit as f64 / scale)) as u128
}

/// A text that is no duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurationError {
    text: String,
    problem: DurationProblem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum DurationProblem {
    Invalid,
    MissingUnit,
    UnknownUnit(String),
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = Quoted(&self.text);
        match &self.problem {
            DurationProblem::Invalid => write!(f, "time: invalid duration {text}"),
            DurationProblem::MissingUnit => write!(f, "time: missing unit in duration {text}"),
            DurationProblem::UnknownUnit(unit) => {
                write!(f, "time: unknown unit {} in duration {text}", Quoted(unit))
            }
        }
    }
}

impl Error for DurationError {}

/// In quotes, with every byte that is not printable ASCII in hex, as Go's time package quotes.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                ' '..='\u{7f}' => write!(f, "{c}")?,
                _ => {
                    for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                        write!(f, "\\x{byte:02x}")?;
                    }
                }
            }
        }
        f.write_str("\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_follow_gos_grammar() {
        const SECOND: i64 = 1_000_000_000;
        #[rustfmt::skip]
        let cases: [(&str, Result<i64, &str>); 28] = [
            ("0",                       Ok(0)),
            ("-0",                      Ok(0)),
            ("0s",                      Ok(0)),
            ("5m",                      Ok(300 * SECOND)),
            ("1h30m",                   Ok(5400 * SECOND)),
            ("30m1h",                   Ok(5400 * SECOND)), // any order
            ("1s1s",                    Ok(2 * SECOND)),    // repeats add up
            ("-1.5s",                   Ok(-1_500_000_000)),
            ("+.5s",                    Ok(500_000_000)),
            ("1.s",                     Ok(SECOND)),
            ("1ns2us3µs4μs5ms",         Ok(5_009_001)),
            ("0.3333333333333333333h",  Ok(1_200_000_000_000)), // as Go rounds
            ("9223372036854775807ns",   Ok(i64::MAX)),
            ("-9223372036854775808ns",  Ok(i64::MIN)),
            ("2562047h47m16.854775807s", Ok(i64::MAX)),
            ("2562047h47m16.854775808s", Err(r#"time: invalid duration "2562047h47m16.854775808s""#)),
            ("9223372036854775808ns",   Err(r#"time: invalid duration "9223372036854775808ns""#)),
            ("9999999h",                Err(r#"time: invalid duration "9999999h""#)),
            ("99999999999999999999x",   Err(r#"time: invalid duration "99999999999999999999x""#)),
            ("",                        Err(r#"time: invalid duration """#)),
            ("-",                       Err(r#"time: invalid duration "-""#)),
            (".s",                      Err(r#"time: invalid duration ".s""#)),
            ("yes",                     Err(r#"time: invalid duration "yes""#)),
            ("5",                       Err(r#"time: missing unit in duration "5""#)),
            ("1h5",                     Err(r#"time: missing unit in duration "1h5""#)),
            ("5d",                      Err(r#"time: unknown unit "d" in duration "5d""#)),
            ("5 m",                     Err(r#"time: unknown unit " m" in duration "5 m""#)),
            ("5\"é\n",                  Err(r#"time: unknown unit "\"\xc3\xa9\x0a" in duration "5\"\xc3\xa9\x0a""#)),
        ];
        for (text, expected) in cases {
            let got = parse_duration(text)
                .map(|duration| duration.as_nanos())
                .map_err(|error| error.to_string());
            assert_eq!(got, expected.map(i128::from).map_err(str::to_owned), "{text:?}");
        }
    }

    #[test]
    fn durations_are_written_as_go_writes_them() {
        #[rustfmt::skip]
        let cases = [
            ("0s", "0s"), ("5m", "5m0s"), ("90m", "1h30m0s"), ("1.5s", "1.5s"), ("1h1.05s", "1h0m1.05s"),
            ("300ms", "300ms"), ("1500us", "1.5ms"), ("1001ns", "1.001\u{b5}s"), ("7ns", "7ns"), ("-90s", "-1m30s"),
        ];
        for (text, expected) in cases {
            assert_eq!(format_duration(parse_duration(text).unwrap()), expected, "{text}");
        }
    }

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
