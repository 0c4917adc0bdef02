//! Resource quantities (`500m`, `1.5Gi`, `12e6`) as Go's type reads and writes them.
//!
//! Exact to 1e-9. Magnitudes above about 1.7e29 are held at that bound, so that no text causes
//! computations with a million digits.

use std::fmt;

/// Nano units of one.
const ONE: i128 = 1_000_000_000;

/// Decimal suffixes by their power of ten, smallest first.
const DECIMAL_SUFFIXES: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

/// Binary suffixes by their power of two, smallest first.
const BINARY_SUFFIXES: [(&str, u32); 6] =
    [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// The family of suffixes that a quantity was written in, which canonical text keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// `12M`
    Decimal,
    /// `12Mi`
    Binary,
    /// `12e6`
    Exponent,
}

/// Why a text is not a quantity, in the words of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QuantityError {
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The number of a quantity, with the suffix format of its text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    nanos: i128,
    format: Format,
}

impl Quantity {
    /// Reads a quantity text without blanks around it.
    pub(crate) fn parse(text: &str) -> Result<Self, QuantityError> {
        let parts = split(text)?;
        if !parts.has_number && !parts.is_small_number() {
            return Err(QuantityError::Numeric);
        }
        let (nanos, format) = match parts.scale {
            SuffixScale::Ten { power, format } => (decimal_nanos(&parts, power), format),
            SuffixScale::Two { power } => (binary_nanos(&parts, power), Format::Binary),
        };
        Ok(Self { nanos: if parts.negative { -nanos } else { nanos }, format })
    }

    /// In units of 1e-9.
    pub(crate) fn nanos(self) -> i128 {
        self.nanos
    }

    /// The sum, in the suffixes of `self`.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos), ..self }
    }

    /// Rounded away from zero to a multiple of 1e-3, as resource lists are.
    pub(crate) fn round_up_to_milli(self) -> Self {
        const MILLI: i128 = ONE / 1000;
        let rest = self.nanos % MILLI;
        let up = if rest == 0 { 0 } else { MILLI * rest.signum() - rest };
        Self { nanos: self.nanos.saturating_add(up), ..self }
    }

    /// Whether it is a whole number.
    pub(crate) fn is_integer(self) -> bool {
        self.nanos % ONE == 0
    }
}

/// Returns the text that Go's `Quantity` writes after it has parsed `text`.
pub(crate) fn canonical_text(text: &str) -> Result<String, QuantityError> {
    let text = text.trim();
    let amount = Quantity::parse(text)?;
    let keeps = is_printed_unchanged(text) || amount.nanos.abs() == i128::MAX;
    Ok(if keeps { text.to_owned() } else { amount.to_string() })
}

/// Canonical text: no fraction, the largest suffix of the family that leaves an integer.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        match self.format {
            Format::Decimal => write_decimal(self.nanos, f),
            Format::Exponent => write_exponent(self.nanos, f),
            // Below 1Ki a binary suffix has nothing to say, and a fraction would be lost.
            Format::Binary if self.nanos.abs() < 1024 * ONE || self.nanos % ONE != 0 => {
                write_decimal(self.nanos, f)
            }
            Format::Binary => write_binary(self.nanos / ONE, f),
        }
    }
}

fn write_decimal(nanos: i128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    // Kubernetes drops the suffix above `E` and so prints 1000E as 1. We stop at `E`.
    let largest = DECIMAL_SUFFIXES.len() - 1;
    let (number, thousands) = strip(nanos, 1000, largest);
    write!(f, "{number}{}", DECIMAL_SUFFIXES[thousands].0)
}

fn write_exponent(nanos: i128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (number, thousands) = strip(nanos, 1000, usize::MAX);
    match 3 * thousands {
        9 => write!(f, "{number}"),
        power if power < 9 => write!(f, "{number}e-{}", 9 - power),
        power => write!(f, "{number}e{}", power - 9),
    }
}

fn write_binary(number: i128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (number, kibis) = strip(number, 1024, BINARY_SUFFIXES.len());
    let suffix = kibis.checked_sub(1).map_or("", |index| BINARY_SUFFIXES[index].0);
    write!(f, "{number}{suffix}")
}

/// Divides `number` by `factor` as often as it leaves an integer, at most `limit` times.
fn strip(mut number: i128, factor: i128, limit: usize) -> (i128, usize) {
    let mut times = 0;
    while times < limit && number % factor == 0 {
        number /= factor;
        times += 1;
    }
    (number, times)
}

/// The parts of a quantity text.
struct QuantityParts<'a> {
    negative: bool,
    /// Digits before the point, without leading zeros; `0` if none are left.
    whole: &'a str,
    /// Digits after the point.
    fraction: &'a str,
    /// Whether anything stood before the suffix.
    has_number: bool,
    scale: SuffixScale,
}

/// The factor of a suffix: a power of ten or of two.
#[derive(Clone, Copy)]
enum SuffixScale {
    Ten { power: i64, format: Format },
    Two { power: u32 },
}

/// Returns whether Kubernetes prints `text` unchanged although it may not be canonical (`+5`,
/// `1.500`, `007`). It keeps short numbers whose exponent happens to be a valid one.
fn is_printed_unchanged(text: &str) -> bool {
    let Ok(parts) = split(text) else { return false };
    let digits = || parts.whole.bytes().chain(parts.fraction.bytes());
    match parts.scale {
        _ if !parts.is_small_number() => false,
        SuffixScale::Ten { power, .. } => {
            let places = i64::try_from(parts.fraction.len()).unwrap_or(i64::MAX);
            let power = power.saturating_sub(places);
            let ends_in_000 = digits().count() >= 3 && digits().rev().take(3).all(|d| d == b'0');
            power >= -9 && power % 3 == 0 && !ends_in_000 && !parts.whole.starts_with('0')
        }
        SuffixScale::Two { .. } => parts.whole.parse::<u64>().is_ok_and(|number| number % 8 != 0),
    }
}

impl QuantityParts<'_> {
    /// Returns whether Kubernetes parses this with its fast path for small numbers. That path
    /// neither parses the text of the number again nor rewrites it.
    fn is_small_number(&self) -> bool {
        let digits = self.whole.len() + self.fraction.len();
        match self.scale {
            SuffixScale::Ten { power, .. } => {
                let places = i64::try_from(self.fraction.len()).unwrap_or(i64::MAX);
                digits <= 18 && power.saturating_sub(places) >= -9
            }
            SuffixScale::Two { power } => {
                self.fraction.is_empty() && digits + (power * 3 / 10) as usize <= 14
            }
        }
    }
}

fn split(text: &str) -> Result<QuantityParts<'_>, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    let (negative, unsigned) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (whole, rest) = split_digits(unsigned);
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    let significant = whole.trim_start_matches('0');
    Ok(QuantityParts {
        negative,
        whole: if significant.is_empty() { "0" } else { significant },
        fraction,
        has_number: !whole.is_empty() || !fraction.is_empty(),
        scale: parse_suffix(suffix)?,
    })
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn parse_suffix(suffix: &str) -> Result<SuffixScale, QuantityError> {
    if let Some((_, power)) = DECIMAL_SUFFIXES.into_iter().find(|(name, _)| *name == suffix) {
        return Ok(SuffixScale::Ten { power: power.into(), format: Format::Decimal });
    }
    if let Some((_, power)) = BINARY_SUFFIXES.into_iter().find(|(name, _)| *name == suffix) {
        return Ok(SuffixScale::Two { power });
    }
    let letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let unsigned = letters.strip_prefix(['+', '-']).unwrap_or(letters);
    if !unsigned.bytes().all(|c| c.is_ascii_digit()) {
        return Err(QuantityError::Format);
    }
    let exponent = suffix.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
    let power = exponent.parse().map_err(|_| QuantityError::Suffix)?;
    Ok(SuffixScale::Ten { power, format: Format::Exponent })
}

/// The number times 10^`power`, in nano units. Works on the digits, so that neither a long number
/// nor a large power costs more than one pass.
fn decimal_nanos(parts: &QuantityParts<'_>, power: i64) -> i128 {
    let digits = parts.whole.bytes().chain(parts.fraction.bytes());
    // How many digits stand before the point once the number is in nano units.
    let whole_len = i64::try_from(parts.whole.len()).unwrap_or(i64::MAX);
    let mut places = whole_len.saturating_add(power).saturating_add(9);
    let mut nanos: i128 = 0;
    for digit in digits {
        if places <= 0 {
            if digit != b'0' {
                return nanos.saturating_add(1); // something is left over: round up
            }
            continue;
        }
        nanos = nanos.saturating_mul(10).saturating_add(i128::from(digit - b'0'));
        places -= 1;
    }
    while places > 0 && nanos != 0 && nanos != i128::MAX {
        nanos = nanos.saturating_mul(10);
        places -= 1;
    }
    nanos
}

/// The number times 2^`power`, in nano units.
fn binary_nanos(parts: &QuantityParts<'_>, power: u32) -> i128 {
    const LIMIT: i128 = i64::MAX as i128 * 1_000_000_000;
    let unit = (1i128 << power) * 1_000_000_000;
    // From the last digit to the first, so that no digit is lost whatever their number: dividing
    // the truncated remainder again gives what dividing the exact one would.
    let mut below: i128 = 0;
    let mut exact = true;
    for digit in parts.fraction.bytes().rev() {
        let sum = i128::from(digit - b'0') * unit + below;
        exact &= sum % 10 == 0;
        below = sum / 10;
    }
    let whole = parts
        .whole
        .bytes()
        .fold(0i128, |n, digit| n.saturating_mul(10).saturating_add(i128::from(digit - b'0')));
    let nanos = whole.saturating_mul(unit).saturating_add(below + i128::from(!exact));
    nanos.min(LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_formatted_as_go_formats_them() {
        #[rustfmt::skip]
        let cases = [
            ("1000m", "1"), ("0.5", "500m"), ("100m", "100m"), ("1", "1"), ("1000", "1k"), ("1.5Gi", "1536Mi"),
            ("1024", "1024"), ("1024Ki", "1Mi"), ("0", "0"), ("-1", "-1"), ("1e3", "1e3"), ("12E", "12E"),
            ("0.0000000001", "1n"), ("0.1Ki", "102400m"),
        ];
        for (read, expected) in cases {
            assert_eq!(canonical_text(read).as_deref(), Ok(expected), "{read}");
        }
    }

    #[test]
    fn invalid_quantities_are_rejected_with_a_reason() {
        assert_eq!(Quantity::parse("").unwrap_err(), QuantityError::Format);
        assert_eq!(Quantity::parse("one").unwrap_err(), QuantityError::Format);
        assert_eq!(Quantity::parse("1Zi").unwrap_err(), QuantityError::Format);
        assert_eq!(Quantity::parse("1mm").unwrap_err(), QuantityError::Suffix);
    }

    #[test]
    fn resource_lists_round_quantities_up_to_milli() {
        for (text, expected) in [("1u", "1m"), ("1500u", "2m"), ("-1u", "-1m"), ("2", "2")] {
            let amount = Quantity::parse(text).unwrap().round_up_to_milli();
            assert_eq!(amount.to_string(), expected, "{text}");
        }
    }
}
