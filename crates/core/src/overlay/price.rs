//! What an overlay does to a price.

use std::error::Error;
use std::fmt;

/// A price or a change of one (spec 10 §4.4.5).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PriceChange {
    /// The price stays as it is.
    Keep,
    /// This price instead.
    Absolute(f64),
    /// So much more, or less if negative.
    Add(f64),
    /// So many percent more, or less if negative.
    Percent(f64),
}

impl PriceChange {
    /// Reads `spec.price` or `spec.priceAdjustment`: nothing, `0.5`, `+0.5`, `-0.5`, `+10%`,
    /// `-10%`.
    pub fn parse(text: &str) -> Result<Self, PriceError> {
        let error = || PriceError { text: text.to_owned() };
        if text.is_empty() {
            return Ok(Self::Keep);
        }
        let (number, is_percent) = match text.strip_suffix('%') {
            Some(number) => (number, true),
            None => (text, false),
        };
        let unsigned = number.strip_prefix(['+', '-']);
        if !is_decimal(unsigned.unwrap_or(number)) {
            return Err(error());
        }
        let value = number.parse().map_err(|_| error())?;
        match (unsigned.is_some(), is_percent) {
            (false, false) => Ok(Self::Absolute(value)),
            (true, false) => Ok(Self::Add(value)),
            (true, true) => Ok(Self::Percent(value)),
            (false, true) => Err(error()),
        }
    }

    /// The price after the change, never below zero.
    pub fn apply(self, price: f64) -> f64 {
        let changed = match self {
            Self::Keep => return price,
            Self::Absolute(price) => price,
            Self::Add(amount) => price + amount,
            Self::Percent(percent) => price * (1.0 + percent / 100.0),
        };
        // Also turns the NaN of nothing times infinity into zero.
        if changed >= 0.0 { changed } else { 0.0 }
    }
}

/// Digits with at most one dot before the last of them. Exponents, `inf` and `nan`, which Rust and
/// Go read as numbers too, are no prices.
fn is_decimal(text: &str) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or(("", text));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    is_digits(whole) && is_digits(fraction) && !fraction.is_empty()
}

/// A text that is no price and no change of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceError {
    /// The text.
    pub text: String,
}

impl fmt::Display for PriceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is neither a price nor a price adjustment", self.text)
    }
}

impl Error for PriceError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn price_changes_set_add_or_scale_and_never_go_below_zero() {
        #[rustfmt::skip]
        let cases = [
            ("10/NO-16",   1.0,  "-150",      0.0),
            ("40/OV-11",   10.0, "-10%",      9.0),
            ("40/OV-11",   10.0, "+10%",      11.0),
            ("40/OV-11",   10.0, "-200%",     0.0),
            ("40/OV-11",   10.0, "+5",        15.0),
            ("40/OV-11",   10.0, "-15",       0.0),
            ("40/OV-11",   10.0, "3",         3.0),
            ("empty",      10.0, "",          10.0),
            ("fraction",   10.0, "34.43",     34.43),
            ("no whole",   10.0, "+.5",       10.5),
            ("fraction %", 10.0, "+100.5%",   20.05),
            ("all of it",  10.0, "-100%",     0.0),
        ];
        for (case, price, change, expected) in cases {
            let got = PriceChange::parse(change).unwrap().apply(price);
            assert!((got - expected).abs() < 1e-9, "{case}: {price} {change} gives {got}");
        }
    }

    #[test]
    fn extreme_price_changes_give_comparable_prices() {
        let huge = format!("+{}", "9".repeat(400));
        for (change, price) in [(format!("{huge}%"), 0.0), (huge.clone(), 1.0), (huge, 0.0)] {
            let got = PriceChange::parse(&change).unwrap().apply(price);
            assert!(got >= 0.0, "{price} {change} gives {got}");
        }
    }

    #[test]
    fn malformed_price_texts_are_errors() {
        for text in [
            "42%",
            "42.",
            ".",
            "+",
            "-",
            "%",
            "+%",
            "3,14",
            "1e10",
            "0x42",
            "forty-two",
            "42 ",
            " 42",
            "42.0.0",
            "--1",
            "+-1",
            "inf",
            "+inf",
            "nan",
            "1%%",
            "٣",
        ] {
            assert_eq!(PriceChange::parse(text), Err(PriceError { text: text.to_owned() }));
        }
    }
}
