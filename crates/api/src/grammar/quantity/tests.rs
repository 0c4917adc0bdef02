//! Tests of quantities: parsing, comparison and canonical text.

use karpenter_grammar::QuantityFormat;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn amount(text: &str) -> Amount {
    Quantity::parse(text).value().unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

#[test]
fn quantities_compare_as_numbers() {
    #[rustfmt::skip]
    let cases = [
        ("10/DU-6", "1000m",        Ordering::Equal,   "1"),
        ("10/DU-6", "1024Mi",       Ordering::Equal,   "1Gi"),
        ("10/DU-6", "1G",           Ordering::Less,    "1Gi"),
        ("",        "0.5",          Ordering::Equal,   "500m"),
        ("",        "1e3",          Ordering::Equal,   "1k"),
        ("",        "-1",           Ordering::Less,    "0"),
        ("",        "10",           Ordering::Greater, "9"), // as texts it would be less
        ("",        "1.0000000001", Ordering::Equal,   "1000000001n"), // rounds up
        ("",        "1e999999999",  Ordering::Greater, "1Ei"),
    ];
    for (id, left, order, right) in cases {
        let got = Quantity::parse(left).cmp(&Quantity::parse(right));
        assert_eq!(got, order, "{id}: {left} against {right}");
    }
}

/// Expected texts were printed by k8s.io/apimachinery v0.36.3.
#[test]
fn canonical_text_is_that_of_kubernetes() {
    #[rustfmt::skip]
    let cases = [
        ("0", "0"), ("-0", "0"), ("+", "0"), ("-", "0"), (".", "0"), ("m", "0"), ("Ki", "0"),
        ("1000", "1k"), ("1024Mi", "1Gi"), ("0.5", "500m"), ("-.5", "-500m"), ("0.500", "500m"),
        ("1.5Gi", "1536Mi"), ("100.5Ki", "102912"), ("0.1Ki", "102400m"), ("1.1Ki", "1126400m"),
        ("1000Ki", "1000Ki"), ("1023", "1023"), ("12e6", "12e6"), ("1e-20", "1e-9"),
        ("0.0000000001", "1n"), ("-0.0000000001", "-1n"),
        ("8Ei", "9223372036854775807"), ("-9Ei", "-9223372036854775807"),
        ("999999999999999999999", "999999999999999999999"),
        // Short texts stay as they are, even when another text would be canonical.
        ("+5", "+5"), ("1.500", "1.500"), ("007", "007"), ("1E3", "1E3"),
        (" 1 ", "1"),
    ];
    for (text, canonical) in cases {
        assert_eq!(Quantity::parse(text).canonical(), canonical, "{text:?}");
    }
}

#[test]
fn an_invalid_quantity_is_kept_and_reported() {
    #[rustfmt::skip]
    let cases = [
        ("",       QuantityError::Format),
        ("1..2",   QuantityError::Format),
        ("1 Gi",   QuantityError::Format),
        ("vcpus*2", QuantityError::Format),
        ("5i",     QuantityError::Suffix),
        ("12e",    QuantityError::Suffix),
        ("1ee3",   QuantityError::Suffix),
        ("1kk",    QuantityError::Suffix),
        ("1e99999999999999999999", QuantityError::Suffix),
        ("Pi",     QuantityError::Numeric), // although "Ki" is zero
        ("e-20",   QuantityError::Numeric),
    ];
    for (text, error) in cases {
        let quantity = Quantity::parse(text);
        assert_eq!(quantity.value(), Err(error), "{text:?}");
        assert_eq!(serde_json::to_value(&quantity).unwrap(), json!(text));
        assert_eq!(quantity.canonical(), text);
    }
}

#[test]
fn quantities_round_trip_through_json_unchanged() {
    for value in [json!("1000m"), json!(" 1"), json!(1000), json!(-3), json!(0.5), json!("bad")] {
        let quantity: Quantity = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(&quantity).unwrap(), value);
    }
    assert_eq!(serde_json::from_str::<Quantity>("1000").unwrap(), Quantity::parse("1k"));
    assert!(serde_json::from_str::<Quantity>("[]").is_err());
}

#[test]
fn amounts_built_in_code_are_canonical() {
    assert_eq!(Quantity::from(0).to_string(), "0");
    assert_eq!(Quantity::from(1000).to_string(), "1k");
    let memory = Amount::from_nanos((3 << 30) * 1_000_000_000, QuantityFormat::Binary);
    assert_eq!(Quantity::new(memory).to_string(), "3Gi");
    assert!((amount("1500m").to_f64() - 1.5).abs() < f64::EPSILON);
    assert_eq!(amount("1n").as_nanos(), 1);
}

#[test]
fn too_large_quantities_saturate() {
    let long = "9".repeat(100_000);
    for text in ["1e2147483648", "1e9223372036854775807", "2e29", &long] {
        assert!(amount(text).is_saturated(), "{text:.20}");
        assert_eq!(Quantity::parse(text).canonical(), text);
    }
    assert_eq!(amount("-1e40").as_nanos(), -i128::MAX);
    assert_eq!(amount("1e-9223372036854775808").as_nanos(), 1);
    assert_eq!(amount("0e9223372036854775807").as_nanos(), 0);
    assert_eq!(amount(&format!("{long}Ki")), amount("8Ei"));
}

proptest! {
    #[test]
    fn no_text_makes_the_quantity_parser_panic(text in "\\PC*") {
        let quantity = Quantity::parse(text.clone());
        let _ = (quantity.canonical(), quantity.value());
        prop_assert_eq!(quantity.as_str(), text);
    }

    #[test]
    fn no_number_like_text_makes_the_parser_panic(text in "[-+0-9.eEinumkKMGTP]{0,12}") {
        let _ = Quantity::parse(text).canonical();
    }

    #[test]
    fn canonical_text_means_the_same_number(text in "[-+]?[0-9]{1,12}(\\.[0-9]{0,12})?([numkMGTP]|[KMGTP]i|e-?[0-9])?") {
        let quantity = Quantity::parse(text);
        let again = Quantity::parse(quantity.canonical());
        prop_assert_eq!(again.value(), quantity.value());
    }

    #[test]
    fn printed_amounts_read_back(nanos in any::<i64>(), format in 0..3usize) {
        let format = [QuantityFormat::Decimal, QuantityFormat::Binary, QuantityFormat::Exponent][format];
        let amount = Amount::from_nanos(nanos.into(), format);
        prop_assert_eq!(Quantity::parse(amount.to_string()).value(), Ok(amount));
    }
}
