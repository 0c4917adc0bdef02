//! Tests of cron schedules: parsing, errors and the next firing.

use jiff::Timestamp;

use super::*;

#[track_caller]
fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn schedules_fire_next_when_their_fields_match() {
    // A Thursday.
    const NOW: &str = "2000-06-15T12:30:30Z";
    #[rustfmt::skip]
    let cases = [
        // schedule              after                     next
        ("* * * * *",            NOW,                      "2000-06-15T12:31:00Z"),
        ("* * * * *",            "2000-06-15T12:30:00Z",   "2000-06-15T12:31:00Z"), // strictly after
        ("* * * * *",            "2000-06-15T12:30:59.5Z", "2000-06-15T12:31:00Z"),
        ("30 12 * * *",          "2000-06-15T12:29:59Z",   "2000-06-15T12:30:00Z"),
        ("30 12 * * *",          NOW,                      "2000-06-16T12:30:00Z"),
        ("15,45 8-10 * * *",     NOW,                      "2000-06-16T08:15:00Z"),
        ("*/20 * * * *",         NOW,                      "2000-06-15T12:40:00Z"),
        ("5/20 * * * *",         NOW,                      "2000-06-15T12:45:00Z"), // 5 to 59
        ("0-30/15 * * * *",      NOW,                      "2000-06-15T13:00:00Z"),
        ("0 0 ? * SUN",          NOW,                      "2000-06-18T00:00:00Z"),
        ("0 0 * * mon-Wed",      NOW,                      "2000-06-19T00:00:00Z"),
        ("0 0 1 Feb *",          NOW,                      "2001-02-01T00:00:00Z"),
        ("0 0 31 * *",           NOW,                      "2000-07-31T00:00:00Z"),
        ("0 0 29 2 *",           NOW,                      "2004-02-29T00:00:00Z"),
        ("0 0 13 * fri",         NOW,                      "2000-06-16T00:00:00Z"), // either day field
        ("0 0 20 * *",           NOW,                      "2000-06-20T00:00:00Z"), // a star: both
        ("0 0 */20 * fri",       NOW,                      "2000-06-16T00:00:00Z"), // no plain star: either
        ("0 0 */1 * fri",        NOW,                      "2000-06-16T00:00:00Z"),
        ("0 0 20 * */1",         NOW,                      "2000-06-20T00:00:00Z"), // */1 is a star
        ("0 0 20 * */6",         NOW,                      "2000-06-17T00:00:00Z"), // */6: Sunday, Saturday
        ("0 0 *-5 * *",          NOW,                      "2000-06-16T00:00:00Z"), // after a star, ignored
        ("1,,2 * * * *",         NOW,                      "2000-06-15T13:01:00Z"), // empty parts
        ("+5 * * * *",           NOW,                      "2000-06-15T13:05:00Z"),
        (" 0  0\t1 1 * ",        NOW,                      "2001-01-01T00:00:00Z"),
        ("@yearly",              NOW,                      "2001-01-01T00:00:00Z"),
        ("@annually",            NOW,                      "2001-01-01T00:00:00Z"),
        ("@monthly",             NOW,                      "2000-07-01T00:00:00Z"),
        ("@weekly",              NOW,                      "2000-06-18T00:00:00Z"),
        ("@daily",               NOW,                      "2000-06-16T00:00:00Z"),
        ("@midnight",            NOW,                      "2000-06-16T00:00:00Z"),
        ("@hourly",              NOW,                      "2000-06-15T13:00:00Z"),
        ("@yearly",              "0999-12-31T23:59:59Z",   "1000-01-01T00:00:00Z"),
    ];
    for (schedule, after, next) in cases {
        let got = Schedule::parse(schedule).unwrap().next_after(time(after));
        assert_eq!(got, Some(time(next)), "{schedule:?} after {after}");
    }
}

#[test]
fn the_next_firing_is_searched_for_five_years() {
    #[rustfmt::skip]
    let cases = [
        ("0 0 30 2 *",  "2000-06-15T12:30:30Z", None), // there is no such day
        (", * * * *",   "2000-06-15T12:30:30Z", None),
        ("0 0 29 2 *",  "2096-03-01T00:00:00Z", None), // 2100 is no leap year, 2104 is too far
        ("0 0 29 2 *",  "2098-12-31T23:59:58Z", None),
        ("0 0 29 2 *",  "2098-12-31T23:59:59Z", Some("2104-02-29T00:00:00Z")), // starts in 2099
        ("* * * * *",   "9999-12-30T22:00:00Z", None), // the end of time
    ];
    for (schedule, after, next) in cases {
        let got = Schedule::parse(schedule).unwrap().next_after(time(after));
        assert_eq!(got, next.map(time), "{schedule:?} after {after}");
    }
}

#[test]
fn invalid_schedules_return_the_upstream_error() {
    #[rustfmt::skip]
    let cases = [
        ("",                  "expected exactly 5 fields, found 0: []"),
        ("0 0 * *",           "expected exactly 5 fields, found 4: [0 0 * *]"),
        ("* * * * * *",       "expected exactly 5 fields, found 6: [* * * * * *]"),
        ("@wrongly",          "unrecognized descriptor: @wrongly"),
        ("@annuallyfoo",      "unrecognized descriptor: @annuallyfoo"),
        ("@Daily",            "unrecognized descriptor: @Daily"),
        ("@every 1h",         "unrecognized descriptor: @every 1h"),
        ("TZ=UTC 0 0 * * *",  "expected exactly 5 fields, found 6: [TZ=UTC 0 0 * * *]"),
        ("0 0 * * tue-mon",   "beginning of range (2) beyond end of range (1): tue-mon"),
        ("60 * * * *",        "end of range (60) above maximum (59): 60"),
        ("70/2 * * * *",      "beginning of range (70) beyond end of range (59): 70/2"),
        ("* 24 * * *",        "end of range (24) above maximum (23): 24"),
        ("* * 0 * *",         "beginning of range (0) below minimum (1): 0"),
        ("* * 32 * *",        "end of range (32) above maximum (31): 32"),
        ("* * * 13 *",        "end of range (13) above maximum (12): 13"),
        ("* * * * 7",         "end of range (7) above maximum (6): 7"),
        ("*/0 * * * *",       "step of range should be a positive number: */0"),
        ("*/-5 * * * *",      "negative number (-5) not allowed: -5"),
        ("-5 * * * *",        r#"failed to parse int from : strconv.Atoi: parsing "": invalid syntax"#),
        ("a * * * *",         r#"failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax"#),
        ("jan * * * *",       r#"failed to parse int from jan: strconv.Atoi: parsing "jan": invalid syntax"#),
        ("1-2-3 * * * *",     "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *",     "too many slashes: 1/2/3"),
        ("99999999999999999999 * * * *",
            r#"failed to parse int from 99999999999999999999: strconv.Atoi: parsing "99999999999999999999": value out of range"#),
    ];
    for (schedule, error) in cases {
        let got = Schedule::parse(schedule).unwrap_err().to_string();
        assert_eq!(got, error, "{schedule:?}");
    }
}
