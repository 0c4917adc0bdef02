//! Times as Go reads and writes them.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use karpenter_cel::go_text;

/// A part of a layout: how many digits, and how Go's layout writes it.
const PARTS: [(usize, &str); 11] = [
    (4, "2006"),
    (0, "-"),
    (2, "01"),
    (0, "-"),
    (2, "02"),
    (0, "T"),
    (2, "15"),
    (0, ":"),
    (2, "04"),
    (0, ":"),
    (2, "05"),
];

/// Converts an RFC 3339 time to UTC with whole seconds. Errors are those of Go.
pub(super) fn normalize_seconds(text: &str) -> Result<String, String> {
    parse_go_time(text, false).map(write_seconds)
}

/// As [`normalize_seconds`], with exactly six digits after the seconds.
pub(super) fn normalize_micros(text: &str) -> Result<String, String> {
    parse_go_time(text, true).map(write_micros)
}

/// A time of protobuf, which leaves fractions out. `None` beyond what JSON can say.
pub(in crate::type_model) fn unix_seconds(seconds: i64, _nanos: i32) -> Option<String> {
    Timestamp::from_second(seconds).ok().and_then(within_years).map(write_seconds)
}

/// Returns the same with microseconds; smaller digits are dropped.
pub(in crate::type_model) fn unix_micros(seconds: i64, nanos: i32) -> Option<String> {
    let micros = seconds.checked_mul(1_000_000)?.checked_add(i64::from(nanos / 1000))?;
    Timestamp::from_microsecond(micros).ok().and_then(within_years).map(write_micros)
}

fn within_years(time: Timestamp) -> Option<Timestamp> {
    (time.to_zoned(TimeZone::UTC).year() >= 0).then_some(time)
}

fn write_seconds(time: Timestamp) -> String {
    format_time(time, "%Y-%m-%dT%H:%M:%SZ")
}

fn write_micros(time: Timestamp) -> String {
    format_time(time, "%Y-%m-%dT%H:%M:%S%.6fZ")
}

fn format_time(time: Timestamp, format: &str) -> String {
    time.to_zoned(TimeZone::UTC).strftime(format).to_string()
}

fn parse_go_time(text: &str, micros: bool) -> Result<Timestamp, String> {
    let layout =
        if micros { "2006-01-02T15:04:05.000000Z07:00" } else { "2006-01-02T15:04:05Z07:00" };
    let failed = |rest: &str, part: &str| {
        let (text, rest) = (go_text::quote(text), go_text::quote(rest));
        format!("parsing time {text} as \"{layout}\": cannot parse {rest} as \"{part}\"")
    };
    let out_of_range =
        |unit: &str| format!("parsing time {}: {unit} out of range", go_text::quote(text));
    let mut rest = text;
    for (digits, part) in PARTS {
        rest = match digits {
            0 => rest.strip_prefix(part),
            digits => rest.get(..digits).and_then(|found| {
                found.bytes().all(|byte| byte.is_ascii_digit()).then(|| &rest[digits..])
            }),
        }
        .ok_or_else(|| failed(rest, part))?;
    }
    let digits = rest
        .strip_prefix('.')
        .map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
    if micros {
        if digits < 6 {
            return Err(failed(rest, ".000000"));
        }
        rest = &rest[7..];
    } else if digits > 0 {
        rest = &rest[1 + digits..];
    }
    let zone = rest;
    let is_zone = zone == "Z" || {
        let parts = zone.as_bytes();
        matches!(parts.first(), Some(b'+' | b'-'))
            && parts.len() == 6
            && parts[3] == b':'
            && [1, 2, 4, 5].iter().all(|at| parts[*at].is_ascii_digit())
    };
    if !is_zone {
        return Err(match zone.strip_prefix('Z') {
            Some(extra) => format!(
                "parsing time {}: extra text: {}",
                go_text::quote(text),
                go_text::quote(extra)
            ),
            None => failed(zone, "Z07:00"),
        });
    }
    let number = |from: usize| text[from..from + 2].parse::<u32>().unwrap_or(u32::MAX);
    for (from, range, unit) in
        [(5, 1..=12, "month"), (11, 0..=23, "hour"), (14, 0..=59, "minute"), (17, 0..=59, "second")]
    {
        if !range.contains(&number(from)) {
            return Err(out_of_range(unit));
        }
    }
    if let [b'+' | b'-', h1, h2, _, m1, m2] = zone.as_bytes() {
        let number = |tens: u8, ones: u8| (tens - b'0') * 10 + (ones - b'0');
        if number(*h1, *h2) > 24 {
            return Err(out_of_range("time zone offset hour"));
        }
        if number(*m1, *m2) > 60 {
            return Err(out_of_range("time zone offset minute"));
        }
    }
    text.parse().map_err(|_| out_of_range("day"))
}
