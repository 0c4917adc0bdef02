//! Formats durations for tables, with two or three significant digits.

use jiff::Timestamp;

/// Formats the time between two timestamps, as Kubernetes does.
pub(super) fn format_between(from: Timestamp, to: Timestamp) -> String {
    // Clocks differ: almost now is now.
    let nanoseconds = to.as_nanosecond() - from.as_nanosecond();
    let seconds = i64::try_from(nanoseconds / 1_000_000_000).unwrap_or(i64::MAX);
    match seconds {
        ..=-2 => "<invalid>".to_owned(),
        -1..=0 => "0s".to_owned(),
        _ => format_seconds(seconds),
    }
}

fn format_seconds(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let years = days / 365;
    if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        format_two_units(minutes, 'm', seconds % 60, 's')
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        format_two_units(hours, 'h', minutes % 60, 'm')
    } else if hours < 48 {
        format!("{hours}h")
    } else if days < 8 {
        format_two_units(days, 'd', hours % 24, 'h')
    } else if days < 730 {
        format!("{days}d")
    } else if years < 8 {
        format_two_units(years, 'y', days % 365, 'd')
    } else {
        format!("{years}y")
    }
}

/// Formats two units of time, without the second if it is 0.
fn format_two_units(large: i64, large_unit: char, small: i64, small_unit: char) -> String {
    match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit}{small}{small_unit}"),
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn long_durations_omit_small_units() {
        const DAY: i64 = 86_400;
        #[rustfmt::skip]
        let rows = [
            (-2, "<invalid>"), (-1, "0s"), (0, "0s"), (1, "1s"), (119, "119s"), (120, "2m"),
            (121, "2m1s"), (599, "9m59s"), (600, "10m"), (3 * 3600 - 1, "179m"), (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"), (8 * 3600 - 1, "7h59m"), (8 * 3600, "8h"), (2 * DAY - 1, "47h"),
            (2 * DAY, "2d"), (2 * DAY + 3600, "2d1h"), (8 * DAY - 1, "7d23h"), (8 * DAY, "8d"),
            (730 * DAY - 1, "729d"), (730 * DAY, "2y"), (731 * DAY, "2y1d"),
            (8 * 365 * DAY - 1, "7y364d"), (8 * 365 * DAY, "8y"),
        ];
        for (seconds, expected) in rows {
            let from: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
            let to = from + SignedDuration::from_secs(seconds);
            assert_eq!(format_between(from, to), expected, "{seconds}");
        }
    }

    #[test]
    fn fractional_seconds_are_truncated() {
        let from: Timestamp = "2026-01-01T00:00:02Z".parse().unwrap();
        assert_eq!(format_between(from, "2026-01-01T00:00:00.1Z".parse().unwrap()), "0s");
        assert_eq!(format_between(from, "2026-01-01T00:00:03.9Z".parse().unwrap()), "1s");
    }
}
