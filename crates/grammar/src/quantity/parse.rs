//! Reading quantities exactly as Kubernetes reads them, odd texts included: `+`, `.` and `m` are
//! all zero there, and whether a kubelet reservation is a quantity or an expression depends on it.

use super::QuantityError;
use super::amount::{Amount, BINARY_SUFFIXES, DECIMAL_SUFFIXES, QuantityFormat};

/// The parts of a quantity text.
struct Parts<'a> {
    negative: bool,
    /// Digits before the point, without leading zeros; `0` if none are left.
    whole: &'a str,
    /// Digits after the point.
    fraction: &'a str,
    /// Whether anything stood before the suffix.
    has_number: bool,
    scale: Scale,
}

/// What the suffix multiplies by.
#[derive(Clone, Copy)]
enum Scale {
    Ten { power: i64, format: QuantityFormat },
    Two { power: u32 },
}

/// Parses a quantity.
/// Digits below 1e-9 round away from zero, so that a small request never becomes zero; binary
/// quantities stop at the largest 64-bit number.
pub(super) fn parse(text: &str) -> Result<Amount, QuantityError> {
    let parts = split_parts(text)?;
    if !parts.has_number && !parts.uses_fast_path() {
        return Err(QuantityError::Numeric);
    }
    let (nanos, format) = match parts.scale {
        Scale::Ten { power, format } => (decimal_nanos(&parts, power), format),
        Scale::Two { power } => (binary_nanos(&parts, power), QuantityFormat::Binary),
    };
    Ok(Amount::from_nanos(if parts.negative { -nanos } else { nanos }, format))
}

/// Whether Kubernetes prints `text` as it stands although it may not be canonical (`+5`, `1.500`,
/// `007`). It keeps short numbers whose exponent happens to be in order.
pub(super) fn prints_verbatim(text: &str) -> bool {
    let Ok(parts) = split_parts(text) else { return false };
    let digits = || parts.whole.bytes().chain(parts.fraction.bytes());
    match parts.scale {
        _ if !parts.uses_fast_path() => false,
        Scale::Ten { power, .. } => {
            let places = i64::try_from(parts.fraction.len()).unwrap_or(i64::MAX);
            let power = power.saturating_sub(places);
            let ends_in_000 = digits().count() >= 3 && digits().rev().take(3).all(|d| d == b'0');
            power >= -9 && power % 3 == 0 && !ends_in_000 && !parts.whole.starts_with('0')
        }
        Scale::Two { .. } => parts.whole.parse::<u64>().is_ok_and(|number| number % 8 != 0),
    }
}

impl Parts<'_> {
    /// Whether Kubernetes parses the number on its fast path.
    /// That one neither checks the text of the number again nor rewrites it.
    fn uses_fast_path(&self) -> bool {
        let digits = self.whole.len() + self.fraction.len();
        match self.scale {
            Scale::Ten { power, .. } => {
                let places = i64::try_from(self.fraction.len()).unwrap_or(i64::MAX);
                digits <= 18 && power.saturating_sub(places) >= -9
            }
            Scale::Two { power } => {
                self.fraction.is_empty() && digits + (power * 3 / 10) as usize <= 14
            }
        }
    }
}

fn split_parts(text: &str) -> Result<Parts<'_>, QuantityError> {
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
    Ok(Parts {
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

fn parse_suffix(suffix: &str) -> Result<Scale, QuantityError> {
    if let Some((_, power)) = DECIMAL_SUFFIXES.into_iter().find(|(name, _)| *name == suffix) {
        return Ok(Scale::Ten { power: power.into(), format: QuantityFormat::Decimal });
    }
    if let Some((_, power)) = BINARY_SUFFIXES.into_iter().find(|(name, _)| *name == suffix) {
        return Ok(Scale::Two { power });
    }
    let letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let unsigned = letters.strip_prefix(['+', '-']).unwrap_or(letters);
    if !unsigned.bytes().all(|c| c.is_ascii_digit()) {
        return Err(QuantityError::Format);
    }
    let exponent = suffix.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
    let power = exponent.parse().map_err(|_| QuantityError::Suffix)?;
    Ok(Scale::Ten { power, format: QuantityFormat::Exponent })
}

/// The number times 10^`power`, in nano units. Works on the digits, so that neither a long number
/// nor a large power costs more than one pass.
fn decimal_nanos(parts: &Parts<'_>, power: i64) -> i128 {
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
fn binary_nanos(parts: &Parts<'_>, power: u32) -> i128 {
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
