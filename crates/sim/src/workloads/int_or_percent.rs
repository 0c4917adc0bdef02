//! Converts counts and percentages to the numbers of the API.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// A count; the API has no larger ones.
pub(super) fn int(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Returns a count for a field that is absent when it is zero.
pub(super) fn nonzero_count(number: usize) -> Option<i32> {
    nonzero(int(number))
}

pub(super) fn nonzero(number: i32) -> Option<i32> {
    (number != 0).then_some(number)
}

/// Returns a number, or a percentage such as `25%` of `total`.
/// `None` for any other text.
pub(super) fn scaled_value(value: &IntOrString, total: i32, round_up: bool) -> Option<i32> {
    match value {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(text) => {
            let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
            let product = percent.checked_mul(i64::from(total))?;
            let rounded = if round_up { product.checked_add(99)? } else { product };
            i32::try_from(rounded.div_euclid(100)).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_rounded_up_or_down() {
        for (value, total, up, expected) in [
            ("25%", 10, true, Some(3)),
            ("25%", 10, false, Some(2)),
            ("100%", 7, true, Some(7)),
            ("0%", 7, true, Some(0)),
            ("10%", 0, true, Some(0)),
            ("ten", 7, true, None),
            ("99999999999999999999%", 7, true, None),
        ] {
            let found = scaled_value(&IntOrString::String(value.to_owned()), total, up);
            assert_eq!(found, expected, "{value} of {total}");
        }
        assert_eq!(scaled_value(&IntOrString::Int(4), 0, true), Some(4));
    }
}
