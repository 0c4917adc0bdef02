//! Bounds on quantities.
//!
//! The library computes with `mantissa * 10^scale` in 128 bits and does not look for overflow: a
//! build with checks panics, one without goes on with a wrong number. It cannot overflow while all
//! quantities have at most [`MAX_DECIMALS`] decimals and are less than [`MAX_VALUE`], because
//! 10^15 * 10^22, also twice for a sum, fits into 127 bits. Others are an error.
//!
//! The API server takes them: it rounds to nine decimals and cuts off at 2^63 - 1.

use std::borrow::Cow;

use super::{Error, Val, call, extreme_value_error};

const MAX_DECIMALS: i64 = 15;
const MAX_VALUE: f64 = 1e22;
/// So many digits fit into the mantissa.
const MAX_LENGTH: usize = 38;
/// Far above what [`MAX_VALUE`] allows, and far below where the library adds up exponents wrongly.
const MAX_EXPONENT: i64 = 64;

/// Refuses a text that must not become a quantity.
pub(super) fn check_operands(function: &str, args: &mut [Val<'_>]) -> Result<(), Error> {
    match (function, args) {
        ("quantity", [Val::String(text)]) if is_out_of_bounds(text) => {
            Err(extreme_value_error(function))
        }
        // An exponent of any size is one; the library would compute with it.
        ("isQuantity", [Val::String(text)]) => {
            let (number, suffix) = split_suffix(text);
            if parse_exponent(suffix).is_some() {
                *text = Cow::Owned(format!("{number}e0"));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Refuses a quantity that is too big.
pub(super) fn check_result(function: &str, result: &Val<'_>) -> Result<(), Error> {
    let ("quantity" | "add" | "sub", Val::Library(value)) = (function, result) else {
        return Ok(());
    };
    match call("asApproximateFloat", Some(Val::Library(value.clone())), Vec::new())? {
        Val::Double(value) if value.abs() < MAX_VALUE => Ok(()),
        _ => Err(extreme_value_error(function)),
    }
}

/// Returns the API server's error for a malformed quantity.
pub(super) fn malformed_quantity_error() -> Error {
    Error::new(
        "quantities must match the regular expression \
         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    )
}

fn is_out_of_bounds(text: &str) -> bool {
    let (number, suffix) = split_suffix(text);
    let exponent = match suffix {
        "n" => -9,
        "u" => -6,
        "m" => -3,
        // A suffix for something bigger does not add decimals.
        _ => parse_exponent(suffix).unwrap_or(0),
    };
    let fraction = number.split_once('.').map_or("", |(_, fraction)| fraction);
    let decimals = i64::try_from(fraction.trim_end_matches('0').len()).unwrap_or(i64::MAX);
    number.len() > MAX_LENGTH
        || exponent > MAX_EXPONENT
        || decimals.saturating_sub(exponent) > MAX_DECIMALS
}

/// Splits a quantity into number and suffix, as the library does.
fn split_suffix(text: &str) -> (&str, &str) {
    let text = text.trim();
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '+' | '-');
    text.split_at(text.find(|c| !is_number(c)).unwrap_or(text.len()))
}

/// Parses an exponent such as `e3`, but neither `E` nor `Ei`.
fn parse_exponent(suffix: &str) -> Option<i64> {
    suffix.strip_prefix(['e', 'E'])?.parse().ok()
}
