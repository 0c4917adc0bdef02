//! The one number of a numeric requirement.

/// The bound of `Gt`, `Lt`, `Gte` and `Lte`: a decimal integer from 0 that fits 64 bits.
///
/// A sign is tolerated as upstream tolerates it, so `+5` and `-0` are bounds.
pub fn parse_bound(text: &str) -> Option<i64> {
    text.parse().ok().filter(|&bound: &i64| bound >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_integers_from_zero() {
        for (text, bound) in [
            ("0", Some(0)),
            ("+5", Some(5)),
            ("007", Some(7)),
            ("-0", Some(0)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("-1", None),
            ("a", None),
            ("", None),
            ("+", None),
            ("1.5", None),
            (" 1", None),
            ("1_000", None),
            ("0x10", None),
        ] {
            assert_eq!(parse_bound(text), bound, "{text:?}");
        }
    }
}
