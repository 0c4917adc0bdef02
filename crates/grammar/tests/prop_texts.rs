//! No text, however wrong, causes a panic in a parser.

use karpenter_grammar::{Amount, format_duration, names, parse_duration, parse_int};
use proptest::prelude::*;

/// Anything, or something made of the characters that the notations are made of.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[-+0-9a-zA-Z.*?,/%@ µ]{0,24}",
        "[-+]?[0-9.]{1,30}(ns|µs|m|h|%)?",
        "[-+0-9.eEinumkKMGTP]{0,12}",
    ]
}

proptest! {
    #[test]
    fn parsing_any_text_gives_a_value_or_an_error(text in text()) {
        match parse_duration(&text) {
            Ok(duration) => {
                prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
            }
            Err(error) => prop_assert!(error.to_string().starts_with("time: ")),
        }
        if let Err(error) = parse_int(&text) {
            prop_assert!(error.to_string().starts_with("strconv.Atoi: parsing "));
        }
        if let Ok(amount) = Amount::parse(&text) {
            let printed = amount.canonical_text(&text).into_owned();
            prop_assert_eq!(Amount::parse(&printed), Ok(amount));
        }
    }

    #[test]
    fn checking_any_name_gives_a_list_of_errors(text in text()) {
        let is_label = names::dns_label_errors(&text).is_empty();
        prop_assert!(!is_label || names::dns_subdomain_errors(&text).is_empty());
        prop_assert!(!is_label || names::qualified_name_errors(&text).is_empty());
        prop_assert!(!is_label || names::label_value_errors(&text).is_empty());
        let is_dns_1035_label = names::dns_1035_label_errors(&text).is_empty();
        prop_assert!(!is_dns_1035_label || is_label);
    }
}
