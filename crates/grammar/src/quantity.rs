//! Resource quantities: `500m`, `1.5Gi`, `12e6` (spec 10 §1.1, §15.2).

mod amount;
mod parse;

pub use amount::{Amount, QuantityFormat};

/// Why a text is not a quantity. The wording is Kubernetes' own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a number followed by a suffix.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// No digits where a number should be.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// A suffix that does not exist.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the canonical text, or the error.
    fn canonical(text: &str) -> Result<String, QuantityError> {
        Ok(text.parse::<Amount>()?.canonical_text(text).into_owned())
    }

    #[test]
    fn quantities_are_formatted_as_go_formats_them() {
        #[rustfmt::skip]
        let cases = [
            ("1000m", "1"), ("0.5", "500m"), ("100m", "100m"), ("1", "1"), ("1000", "1k"), ("1.5Gi", "1536Mi"),
            ("1024", "1024"), ("1024Ki", "1Mi"), ("0", "0"), ("-1", "-1"), ("1e3", "1e3"), ("12E", "12E"),
            ("0.0000000001", "1n"), ("0.1Ki", "102400m"),
        ];
        for (read, expected) in cases {
            assert_eq!(canonical(read).as_deref(), Ok(expected), "{read}");
        }
    }

    #[test]
    fn invalid_quantities_are_rejected_with_a_reason() {
        #[rustfmt::skip]
        let cases = [
            ("",    QuantityError::Format),
            ("one", QuantityError::Format),
            ("1Zi", QuantityError::Format),
            (" 1",  QuantityError::Format),
            ("1mm", QuantityError::Suffix),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<Amount>(), Err(error), "{text:?}");
        }
    }

    #[test]
    fn resource_lists_round_quantities_up_to_milli() {
        for (text, expected) in [("1u", "1m"), ("1500u", "2m"), ("-1u", "-1m"), ("2", "2")] {
            let amount: Amount = text.parse().unwrap();
            assert_eq!(amount.round_up_to_milli().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn only_whole_64_bit_numbers_are_integers() {
        #[rustfmt::skip]
        let cases = [
            ("9223372036854775807",  Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808",  None),
            ("1Ki",                  Some(1024)),
            ("1500m",                None),
            ("2000m",                Some(2)),
            ("1e40",                 None),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Amount>().unwrap().to_i64(), expected, "{text}");
        }
    }

    #[test]
    fn sums_and_differences_stop_at_the_bound() {
        let amount = |text: &str| text.parse::<Amount>().unwrap();
        let (huge, one) = (amount("1e40"), amount("1"));
        assert_eq!(huge.saturating_add(one), huge);
        assert_eq!(amount("-1e40").saturating_sub(one), amount("-1e40"));
        assert_eq!(one.saturating_sub(amount("1500m")).to_string(), "-500m");
    }
}
