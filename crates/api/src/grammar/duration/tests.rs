//! Tests of durations: parsing, printing and invalid texts.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::hash::nodepool_hash;
use crate::nodepool::NodePoolSpec;

fn seconds(n: i64) -> SignedDuration {
    SignedDuration::from_secs(n)
}

#[test]
fn durations_are_parsed_as_go_parses_them() {
    #[rustfmt::skip]
    let cases = [
        ("0", 0), ("+0", 0), ("0s", 0), ("30s", 30_000_000_000), ("1h30m5s", 5_405_000_000_000),
        ("5s1h", 3_605_000_000_000), ("1m1m", 120_000_000_000), ("-1.5h", -5_400_000_000_000),
        (".5s", 500_000_000), ("1.s", 1_000_000_000), ("1us", 1_000), ("1\u{b5}s", 1_000), ("1\u{3bc}s", 1_000),
        ("300ms", 300_000_000), ("0.3333333333333333333h", 1_200_000_000_000), ("0.1ns", 0),
        ("9223372036854775807ns", i64::MAX), ("-9223372036854775808ns", i64::MIN),
        ("2562047h47m16.854775807s", i64::MAX),
    ];
    for (text, nanos) in cases {
        assert_eq!(parse_duration(text), Ok(SignedDuration::from_nanos(nanos)), "{text:?}");
    }
}

#[test]
fn invalid_durations_return_the_error_of_go() {
    #[rustfmt::skip]
    let cases = [
        ("",                      r#"time: invalid duration """#),
        ("-",                     r#"time: invalid duration "-""#),
        ("Never",                 r#"time: invalid duration "Never""#),
        (".s",                    r#"time: invalid duration ".s""#),
        (" 1s",                   r#"time: invalid duration " 1s""#),
        ("5",                     r#"time: missing unit in duration "5""#),
        ("1h5",                   r#"time: missing unit in duration "1h5""#),
        ("1hr",                   r#"time: unknown unit "hr" in duration "1hr""#),
        ("1d",                    r#"time: unknown unit "d" in duration "1d""#),
        ("9999999h",              r#"time: invalid duration "9999999h""#),
        ("9223372036854775808ns", r#"time: invalid duration "9223372036854775808ns""#),
        ("2562047h47m16.854775808s", r#"time: invalid duration "2562047h47m16.854775808s""#),
        ("99999999999999999999",  r#"time: invalid duration "99999999999999999999""#),
    ];
    for (text, error) in cases {
        assert_eq!(parse_duration(text).unwrap_err().to_string(), error, "{text:?}");
    }
}

#[test]
fn durations_are_printed_in_go_form() {
    #[rustfmt::skip]
    let cases = [
        (0, "0s"), (1, "1ns"), (1_100, "1.1\u{b5}s"), (2_200_000, "2.2ms"), (3_300_000_000, "3.3s"),
        (300_000_000_000, "5m0s"), (5_405_000_000_000, "1h30m5s"), (720 * 3_600_000_000_000, "720h0m0s"),
        (-90_000_000_000, "-1m30s"), (i64::MAX, "2562047h47m16.854775807s"), (i64::MIN, "-2562047h47m16.854775808s"),
    ];
    for (nanos, text) in cases {
        assert_eq!(format_duration(SignedDuration::from_nanos(nanos)), text);
    }
}

/// A pool with these durations, read from JSON.
fn pool(expire_after: &str, other: &str) -> NodePoolSpec {
    serde_json::from_value(json!({
        "template": {"spec": {
            "nodeClassRef": {"group": "g", "kind": "k", "name": "n"},
            "requirements": [],
            "expireAfter": expire_after,
            "terminationGracePeriod": other,
        }},
        "disruption": {"budgets": [{"nodes": "1", "schedule": "@daily", "duration": other}]},
    }))
    .unwrap()
}

#[test]
fn expire_after_keeps_its_text_and_compares_by_value() {
    let texts = ["90m", "1h30m", "5400s"];
    let first = pool(texts[0], "1m");
    for text in texts {
        let pool = pool(text, "1m");
        let expire_after = pool.template.spec.expire_after.clone().unwrap();
        assert_eq!(expire_after.value(), Ok(Some(seconds(5400))), "10/DU-1: {text}");
        assert_eq!(pool, first, "10/DU-1: {text}");
        assert_eq!(nodepool_hash(&pool), nodepool_hash(&first), "10/DU-1");
        let written = serde_json::to_value(&pool).unwrap();
        assert_eq!(written["template"]["spec"]["expireAfter"], text, "10/DU-1");
    }
}

#[test]
fn never_is_no_duration() {
    let pool = pool("Never", "1m");
    let never = pool.template.spec.expire_after.clone().unwrap();
    assert_eq!(never.value(), Ok(None), "10/DU-2");
    let written = serde_json::to_value(&pool).unwrap();
    assert_eq!(written["template"]["spec"]["expireAfter"], "Never", "10/DU-2");
    assert_eq!(never, NillableDuration::from(None));
    assert!(NillableDuration::parse("never").value().is_err());
}

#[test]
fn durations_built_in_code_are_written_in_go_form() {
    assert_eq!(NillableDuration::from(seconds(720 * 3600)).to_string(), "720h0m0s");
    assert_eq!(Duration::from(seconds(300)).to_string(), "5m0s");
}

#[test]
fn other_durations_are_written_in_go_form() {
    let crds = crate::crds::crds(crate::crds::CrdSet::Aws);
    let node_pool = crds.iter().find(|crd| crd["spec"]["names"]["kind"] == "NodePool").unwrap();
    let pattern = node_pool.pointer(
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/disruption/properties\
         /budgets/items/properties/duration/pattern",
    );
    let budget = regex::Regex::new(pattern.and_then(|text| text.as_str()).unwrap()).unwrap();
    for (text, go_form) in [("90m", "1h30m0s"), ("8h", "8h0m0s"), ("20m", "20m0s")] {
        let written = serde_json::to_value(pool("Never", text)).unwrap();
        assert_eq!(written["template"]["spec"]["terminationGracePeriod"], go_form, "10/DU-3");
        assert_eq!(written["disruption"]["budgets"][0]["duration"], go_form, "10/DU-4");
        // The pattern of a budget's duration admits what we write back.
        assert!(budget.is_match(go_form), "10/DU-4: {go_form}");
    }
}

#[test]
fn an_invalid_duration_is_kept_and_reported() {
    for text in ["9999999h", "soon", ""] {
        let plain: Duration = serde_json::from_value(json!(text)).unwrap();
        let nillable: NillableDuration = serde_json::from_value(json!(text)).unwrap();
        assert!(plain.value().is_err() && nillable.value().is_err(), "{text:?}");
        assert_eq!(serde_json::to_value(&plain).unwrap(), json!(text));
        assert_eq!(serde_json::to_value(&nillable).unwrap(), json!(text));
        assert_eq!(nillable, NillableDuration::parse(text));
        assert_ne!(nillable, NillableDuration::never());
    }
}

proptest! {
    #[test]
    fn printed_durations_read_back(nanos in any::<i64>()) {
        let duration = SignedDuration::from_nanos(nanos);
        prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
    }

    #[test]
    fn no_text_makes_the_duration_parser_panic(text in "\\PC*") {
        let _ = parse_duration(&text);
    }

    #[test]
    fn no_duration_like_text_makes_the_parser_panic(text in "[-+]?([0-9.]{0,22}(ns|us|\u{b5}s|ms|s|m|h|x)?){0,4}") {
        let _ = parse_duration(&text);
        let _ = NillableDuration::parse(text).to_string();
    }
}
