//! Go's notation for durations: reading and printing it.

use std::fmt::Write as _;

use jiff::SignedDuration;

/// Nanoseconds of each unit, which is all that the notation knows.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),  // micro sign
    ("\u{3bc}s", 1_000), // Greek letter mu
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Largest magnitude in nanoseconds; only a negative duration may reach it.
const LIMIT: u64 = 1 << 63;

/// Why a text is not a duration. The wording is Go's, which users already search for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not a list of numbers with units, or too large for 64-bit nanoseconds.
    #[error("time: invalid duration {}", quoted(.0))]
    Invalid(String),
    /// A number without a unit.
    #[error("time: missing unit in duration {}", quoted(.0))]
    MissingUnit(String),
    /// A unit that does not exist.
    #[error("time: unknown unit {} in duration {}", quoted(.unit), quoted(.text))]
    UnknownUnit {
        /// The unit as written.
        unit: String,
        /// The whole text.
        text: String,
    },
}

/// In quotes, with every byte that is not printable ASCII in hex, as Go's time package quotes.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='\u{7f}' => out.push(c),
            _ => {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    // Writing to a text cannot fail.
                    let _ = write!(out, "\\x{byte:02x}");
                }
            }
        }
    }
    out.push('"');
    out
}

/// Reads a duration: an optional sign, then numbers with units that add up; `0` needs no unit.
pub fn parse_duration(text: &str) -> Result<SignedDuration, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (nanos, tail) = parse_term(rest, text)?;
        total = total.checked_add(nanos).filter(|&sum| sum <= LIMIT).ok_or_else(invalid)?;
        rest = tail;
    }
    let nanos = match i64::try_from(total) {
        Ok(nanos) if negative => -nanos,
        Ok(nanos) => nanos,
        Err(_) if negative => i64::MIN,
        Err(_) => return Err(invalid()),
    };
    Ok(SignedDuration::from_nanos(nanos))
}

/// Reads one number with its unit and returns its nanoseconds and what follows it.
fn parse_term<'a>(rest: &'a str, text: &str) -> Result<(u64, &'a str), DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let (whole, tail) = split_while(rest, |c| c.is_ascii_digit());
    let (fraction, tail) = match tail.strip_prefix('.') {
        Some(tail) => split_while(tail, |c| c.is_ascii_digit()),
        None => ("", tail),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(invalid());
    }
    let (unit, tail) = split_while(tail, |c| c != '.' && !c.is_ascii_digit());
    if unit.is_empty() {
        // Go notices an overflowing number before it looks for the unit.
        whole_number(whole).ok_or_else(invalid)?;
        return Err(DurationError::MissingUnit(text.to_owned()));
    }
    let whole = whole_number(whole).ok_or_else(invalid)?;
    let Some((_, scale)) = UNITS.into_iter().find(|(name, _)| *name == unit) else {
        return Err(DurationError::UnknownUnit { unit: unit.to_owned(), text: text.to_owned() });
    };
    let nanos = whole
        .checked_mul(scale)
        .and_then(|nanos| nanos.checked_add(fraction_nanos(fraction, scale)))
        .filter(|&nanos| nanos <= LIMIT)
        .ok_or_else(invalid)?;
    Ok((nanos, tail))
}

fn split_while(text: &str, accept: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !accept(c)).unwrap_or(text.len()))
}

/// The digits as a number, unless it is above [`LIMIT`]. No digits are zero.
fn whole_number(digits: &str) -> Option<u64> {
    digits.bytes().try_fold(0u64, |number, digit| {
        number
            .checked_mul(10)?
            .checked_add(u64::from(digit - b'0'))
            .filter(|&number| number <= LIMIT)
    })
}

/// What the digits after the point are worth. Digits below a nanosecond are cut off.
///
/// The arithmetic is in floating point on purpose: it is Go's, so that both read one text as the
/// same number of nanoseconds.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn fraction_nanos(digits: &str, unit: u64) -> u64 {
    let mut number: u64 = 0;
    let mut scale = 1.0;
    for digit in digits.bytes() {
        let next = number.checked_mul(10).and_then(|n| n.checked_add(u64::from(digit - b'0')));
        match next {
            Some(next) if number <= (LIMIT - 1) / 10 && next <= LIMIT => number = next,
            _ => break, // more digits than count
        }
        scale *= 10.0;
    }
    (number as f64 * (unit as f64 / scale)) as u64
}

/// Writes a duration as Go does: hours, minutes and seconds from the largest non-zero unit down
/// (`1h30m0s`), or one of ms, µs and ns below a second.
pub fn format_duration(duration: SignedDuration) -> String {
    let nanos = duration.as_nanos().unsigned_abs();
    if nanos == 0 {
        return "0s".to_owned();
    }
    let sign = if duration.is_negative() { "-" } else { "" };
    let text = match nanos {
        0..1_000 => format!("{nanos}ns"),
        1_000..1_000_000 => format!("{}\u{b5}s", decimal(nanos, 3)),
        1_000_000..1_000_000_000 => format!("{}ms", decimal(nanos, 6)),
        _ => {
            let (minutes, seconds) = (nanos / 60_000_000_000, nanos % 60_000_000_000);
            let seconds = decimal(seconds, 9);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{seconds}s"),
                (0, minutes) => format!("{minutes}m{seconds}s"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
            }
        }
    };
    format!("{sign}{text}")
}

/// `number` divided by 10^`places`, without trailing zeros.
fn decimal(number: u128, places: u32) -> String {
    let one = 10u128.pow(places);
    let (whole, fraction) = (number / one, number % one);
    if fraction == 0 {
        return whole.to_string();
    }
    let fraction = format!("{fraction:0width$}", width = places as usize);
    format!("{whole}.{}", fraction.trim_end_matches('0'))
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
}
