//! The number behind a quantity, and its canonical text.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use super::{QuantityError, parse};

/// Nano units of one.
const ONE: i128 = 1_000_000_000;

/// Decimal suffixes by their power of ten, smallest first.
pub(super) const DECIMAL_SUFFIXES: [(&str, i32); 10] = [
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
pub(super) const BINARY_SUFFIXES: [(&str, u32); 6] =
    [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// The family of suffixes that a quantity was written in, which canonical text keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum QuantityFormat {
    /// `12M`
    #[default]
    Decimal,
    /// `12Mi`
    Binary,
    /// `12e6`
    Exponent,
}

/// An exact decimal number in units of 1e-9.
///
/// Magnitudes above about 1.7e29 are held at that bound: enough to say "no limit", and no text can
/// make us compute with a million digits.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    nanos: i128,
    format: QuantityFormat,
}

impl Amount {
    /// The amount of that many nano units.
    pub fn from_nanos(nanos: i128, format: QuantityFormat) -> Self {
        // The smallest i128 has no positive counterpart; keeping it out makes negation safe.
        Self { nanos: nanos.max(-i128::MAX), format }
    }

    /// Parses a quantity. Blanks around it are an error.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        parse::parse(text)
    }

    /// The amount in nano units: `1` is 1,000,000,000.
    pub fn as_nanos(self) -> i128 {
        self.nanos
    }

    /// The family of suffixes that canonical text uses.
    pub fn format(self) -> QuantityFormat {
        self.format
    }

    /// The nearest floating point number.
    #[allow(clippy::cast_precision_loss)] // what "nearest" says
    pub fn to_f64(self) -> f64 {
        if self.nanos % ONE == 0 { (self.nanos / ONE) as f64 } else { self.nanos as f64 / 1e9 }
    }

    /// The number as a 64-bit integer, if it is one.
    pub fn to_i64(self) -> Option<i64> {
        if self.is_integer() { i64::try_from(self.nanos / ONE).ok() } else { None }
    }

    /// Returns whether it is a whole number.
    pub fn is_integer(self) -> bool {
        self.nanos % ONE == 0
    }

    /// The sum, at most the bound, in the format of `self`.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self::from_nanos(self.nanos.saturating_add(other.nanos), self.format)
    }

    /// The difference, at least the negative bound, in the format of `self`.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self::from_nanos(self.nanos.saturating_sub(other.nanos), self.format)
    }

    /// Rounds away from zero to a multiple of 1e-3, as resource lists are rounded.
    #[must_use]
    pub fn round_up_to_milli(self) -> Self {
        const MILLI: i128 = ONE / 1000;
        let rest = self.nanos % MILLI;
        let up = if rest == 0 { 0 } else { MILLI * rest.signum() - rest };
        Self::from_nanos(self.nanos.saturating_add(up), self.format)
    }

    /// The text that Kubernetes prints for an amount that it parsed from `text`.
    ///
    /// Kubernetes keeps some texts that are not canonical. A number beyond the bound keeps its
    /// text, too.
    pub fn canonical_text(self, text: &str) -> Cow<'_, str> {
        if self.is_saturated() || parse::prints_verbatim(text) {
            text.into()
        } else {
            self.to_string().into()
        }
    }

    /// Whether the number was too large and stands at the bound.
    pub fn is_saturated(self) -> bool {
        self.nanos.abs() == i128::MAX
    }
}

impl From<i64> for Amount {
    fn from(number: i64) -> Self {
        Self::from_nanos(i128::from(number) * ONE, QuantityFormat::Decimal)
    }
}

impl FromStr for Amount {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text)
    }
}

impl PartialEq for Amount {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Amount {}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The format does not count: `1Ki` is `1024`.
impl Ord for Amount {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

/// Canonical text: no fraction, the largest suffix of the family that leaves an integer.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        match self.format {
            QuantityFormat::Decimal => write_decimal(self.nanos, f),
            QuantityFormat::Exponent => write_exponent(self.nanos, f),
            // Below 1Ki a binary suffix has nothing to say, and a fraction would be lost.
            QuantityFormat::Binary if self.nanos.abs() < 1024 * ONE || self.nanos % ONE != 0 => {
                write_decimal(self.nanos, f)
            }
            QuantityFormat::Binary => write_binary(self.nanos / ONE, f),
        }
    }
}

fn write_decimal(nanos: i128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    // Kubernetes drops the suffix above `E` and so prints 1000E as 1. We stop at `E`.
    let largest = DECIMAL_SUFFIXES.len() - 1;
    let (number, thousands) = divide_out(nanos, 1000, largest);
    write!(f, "{number}{}", DECIMAL_SUFFIXES[thousands].0)
}

fn write_exponent(nanos: i128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (number, thousands) = divide_out(nanos, 1000, usize::MAX);
    match 3 * thousands {
        9 => write!(f, "{number}"),
        power if power < 9 => write!(f, "{number}e-{}", 9 - power),
        power => write!(f, "{number}e{}", power - 9),
    }
}

fn write_binary(number: i128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (number, kibis) = divide_out(number, 1024, BINARY_SUFFIXES.len());
    let suffix = kibis.checked_sub(1).map_or("", |index| BINARY_SUFFIXES[index].0);
    write!(f, "{number}{suffix}")
}

/// Divides `number` by `factor` as often as it leaves an integer, at most `limit` times.
fn divide_out(mut number: i128, factor: i128, limit: usize) -> (i128, usize) {
    let mut times = 0;
    while times < limit && number % factor == 0 {
        number /= factor;
        times += 1;
    }
    (number, times)
}
