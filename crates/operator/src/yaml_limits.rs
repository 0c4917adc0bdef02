//! The limits of YAML texts: what a text may expand to through its aliases.
//!
//! An alias costs three bytes of text and stands for everything below its anchor, so a file of 1 MB
//! can stand for many GB. The parser counts values and text while it expands aliases.

use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Error, Options};

/// Values that aliases may stand for: enough for people, not for a bomb.
pub const ALIASED_VALUES_MAX: usize = 200_000;
/// Bytes of text that aliases may stand for.
pub const ALIASED_TEXT_BYTES_MAX: usize = 16 << 20;

/// Returns parser options for one text: the parser's default limits, with bounded aliases.
pub fn parser_options(text: &str) -> Options {
    let text_bytes_max = text.len().saturating_add(ALIASED_TEXT_BYTES_MAX);
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_total_scalar_bytes: text_bytes_max,
            max_recorded_anchor_events: ALIASED_VALUES_MAX,
            max_recorded_anchor_bytes: text_bytes_max,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: ALIASED_VALUES_MAX },
    }
}

/// Returns what a text stands for beyond the limits; None for other errors.
pub fn describe_excess(error: &Error) -> Option<String> {
    let mib = ALIASED_TEXT_BYTES_MAX >> 20;
    match error.without_snippet() {
        Error::AliasError { error, .. } => describe_excess(error),
        Error::AliasReplayLimitExceeded { .. } => {
            Some(format!("its aliases stand for more than {ALIASED_VALUES_MAX} values"))
        }
        Error::Budget { breach: BudgetBreach::ScalarBytes { .. }, .. } => {
            Some(format!("its aliases stand for more than {mib} MiB of text"))
        }
        Error::Budget { .. } => Some("it has too many or too deeply nested values".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Returns a text whose aliases stand for `count` copies of a string of 100 kB.
    fn aliased_text(count: usize) -> String {
        let anchors: Vec<_> = (0..100).map(|n| format!("&a{n} x")).collect();
        let list = vec!["*long"; count].join(",");
        format!(
            "anchors: [{}]\nlong: &long {}\nall: [{list}]\n",
            anchors.join(","),
            "x".repeat(100_000)
        )
    }

    #[test]
    fn aliases_may_stand_for_a_limited_amount_of_text() {
        let parse = |text: &str| -> Result<Value, _> {
            serde_saphyr::from_str_with_options(text, parser_options(text))
        };
        assert_eq!(parse(&aliased_text(100)).unwrap()["all"].as_array().unwrap().len(), 100);
        let error = parse(&aliased_text(200)).unwrap_err();
        let found = describe_excess(&error);
        assert_eq!(found.as_deref(), Some("its aliases stand for more than 16 MiB of text"));
    }
}
