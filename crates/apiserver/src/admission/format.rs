//! The `format` of numbers and strings.
//!
//! The API server ignores a format it does not know, so does this. Left out on purpose, and
//! therefore ignored as well: `isbn`, `isbn10`, `isbn13`, `creditcard`, `ssn`, `bsonobjectid`,
//! `hexcolor` and `rgbcolor`, which have no place in a cluster.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

use karpenter_cel::re2;
use karpenter_grammar::{names, parse_duration};
use regex::Regex;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Int32,
    Int64,
    Float,
    Double,
    String(StringFormat),
}

impl Format {
    /// The name as messages show it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float => "float",
            Self::Double => "double",
            Self::String(format) => format.name(),
        }
    }
}

macro_rules! string_formats {
    ($($variant:ident $name:literal),* $(,)?) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum StringFormat { $($variant),* }

        impl StringFormat {
            pub(crate) fn named(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }

            fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}

// The registry of the API server takes names with and without dashes; messages show the name
// that the schema used, and CEL knows only the spellings with a dash.
string_formats! {
    Byte "byte", Cidr "cidr", Date "date", DateTime "date-time", DateTimePlain "datetime",
    Duration "duration", Email "email", Hostname "hostname", Ipv4 "ipv4", Ipv6 "ipv6", Mac "mac",
    Password "password", ShortName "k8s-short-name", LongName "k8s-long-name", Uri "uri",
    Uuid "uuid", Uuid3 "uuid3", Uuid4 "uuid4", Uuid5 "uuid5",
}

macro_rules! patterns {
    ($($name:ident = $pattern:expr;)*) => {
        $(static $name: LazyLock<Regex> = LazyLock::new(|| {
            re2::compile($pattern).expect("the pattern is a constant that compiles")
        });)*
    };
}

patterns! {
    BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$";
    CLOCK = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
    DURATION_PARTS = r"(\d+)\s*([A-Za-zµ]+)";
    EMAIL = r#"^(?:[^<>@]*<)?[^\s@<>(),:;"\[\]\\]+@[^\s@<>(),:;"\[\]\\]+>?$"#;
    HOSTNAME = r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$";
    MAC = r"(?i)^(?:([0-9a-f]{2})(?::[0-9a-f]{2}){5}((?::[0-9a-f]{2}){2}((?::[0-9a-f]{2}){12})?)?|([0-9a-f]{2})(?:-[0-9a-f]{2}){5}((?:-[0-9a-f]{2}){2}((?:-[0-9a-f]{2}){12})?)?|([0-9a-f]{4})(?:\.[0-9a-f]{4}){2}((?:\.[0-9a-f]{4})((?:\.[0-9a-f]{4}){6})?)?)$";
    UUID = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    UUID3 = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    UUID4 = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
    UUID5 = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
}

impl StringFormat {
    /// Returns the format as CEL knows it, if it gives a string another type.
    pub(crate) fn to_cel(self) -> Option<karpenter_cel::StringFormat> {
        match self {
            Self::Byte => Some(karpenter_cel::StringFormat::Byte),
            Self::Date => Some(karpenter_cel::StringFormat::Date),
            Self::DateTime => Some(karpenter_cel::StringFormat::DateTime),
            Self::Duration => Some(karpenter_cel::StringFormat::Duration),
            _ => None,
        }
    }

    pub(crate) fn accepts(self, text: &str) -> bool {
        match self {
            Self::Byte => BASE64.is_match(text),
            Self::Cidr => is_cidr(text),
            Self::Date => is_date(text),
            Self::DateTime | Self::DateTimePlain => is_date_time(text),
            Self::Duration => is_duration(text),
            Self::Email => EMAIL.is_match(text),
            Self::Hostname => is_hostname(text),
            Self::Ipv4 => text.contains('.') && parse_ip(text).is_some(),
            Self::Ipv6 => text.contains(':') && parse_ip(text).is_some(),
            Self::Mac => MAC.is_match(text),
            Self::Password => true,
            Self::ShortName => names::dns_label_errors(text).is_empty(),
            Self::LongName => names::dns_subdomain_errors(text).is_empty(),
            Self::Uri => is_request_uri(text),
            Self::Uuid => UUID.is_match(text),
            Self::Uuid3 => UUID3.is_match(text),
            Self::Uuid4 => UUID4.is_match(text),
            Self::Uuid5 => UUID5.is_match(text),
        }
    }
}

/// A full date of RFC 3339 that exists in the calendar.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else { return false };
    let number = |text: &str, width: usize| {
        (text.len() == width && text.bytes().all(|b| b.is_ascii_digit()))
            .then(|| text.parse::<u32>().ok())
            .flatten()
    };
    let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2))
    else {
        return false;
    };
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => return false,
    };
    (1..=days).contains(&day)
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    // Only the first two parts count: the API server looks no further.
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let Some(clock) = CLOCK.captures(time) else { return false };
    is_date(date) && &clock[1] <= "23" && &clock[2] <= "59" && &clock[3] <= "59"
}

/// A duration of Go (`1h30m`), or a looser form that the format also takes: any number with a
/// word for a unit somewhere in the text (`2 days`).
fn is_duration(text: &str) -> bool {
    parse_duration(text).is_ok()
        || DURATION_PARTS.captures_iter(text).any(|part| {
            let unit = part[2].to_lowercase();
            let exact = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
            let prefixes = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
            exact.contains(&unit.as_str()) || prefixes.iter().any(|p| unit.starts_with(p))
        })
}

fn is_hostname(text: &str) -> bool {
    HOSTNAME.is_match(text) && text.len() <= 255 && text.split('.').all(|label| label.len() <= 63)
}

/// An address, with leading zeros allowed in IPv4 as the API server still does.
fn parse_ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    let octets: Vec<u8> = text
        .split('.')
        .map(|octet| {
            let digits = !octet.is_empty() && octet.bytes().all(|b| b.is_ascii_digit());
            digits.then(|| octet.parse().ok()).flatten()
        })
        .collect::<Option<_>>()?;
    <[u8; 4]>::try_from(octets).ok().map(IpAddr::from)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let max = match parse_ip(address) {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
        None => return false,
    };
    !bits.is_empty()
        && bits.bytes().all(|b| b.is_ascii_digit())
        && bits.parse::<u32>().is_ok_and(|bits| bits <= max)
}

/// Returns whether the text is an absolute URI or an absolute path.
///
/// It checks the parts that it can separate.
fn is_request_uri(text: &str) -> bool {
    let before_query = text.split('?').next().unwrap_or_default();
    if text.bytes().any(|b| b.is_ascii_control() || b == b' ') || !has_valid_escapes(before_query) {
        return false;
    }
    if text.starts_with('/') || text == "*" {
        return true;
    }
    let Some((scheme, rest)) = before_query.split_once(':') else { return false };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    let has_valid_port = match rest.strip_prefix("//") {
        None => true,
        Some(rest) => {
            let host = rest.split('/').next().unwrap_or_default();
            let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
            let after_address = host.rsplit_once(']').map_or(host, |(_, port)| port);
            let port = after_address.split_once(':').map_or("", |(_, port)| port);
            port.bytes().all(|b| b.is_ascii_digit())
        }
    };
    is_scheme && !rest.is_empty() && has_valid_port
}

/// A percent sign is followed by two hexadecimal digits.
fn has_valid_escapes(text: &str) -> bool {
    text.split('%')
        .skip(1)
        .all(|rest| rest.len() >= 2 && rest.bytes().take(2).all(|digit| digit.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_formats_accept_the_same_texts_as_the_api_server() {
        #[rustfmt::skip]
        let cases = [
            ("byte",      &["YQ==", "YWJj"][..],                       &["", "YQ", "Y Q="][..]),
            ("cidr",      &["10.0.0.0/8", "010.0.0.0/8", "::/0"],      &["10.0.0.0", "10.0.0.0/33", "x/1", "::/129"]),
            ("date",      &["2024-02-29"],                             &["2023-02-29", "2024-13-01", "24-1-1", ""]),
            ("date-time", &["2024-01-02T03:04:05Z", "2024-01-02t03:04:05.5+02:00"],
                                                                       &["2024-01-02", "2024-01-02T25:00:00Z", "2024-01-02T03:04:05", "now"]),
            ("duration",  &["1h30m", "-1.5s", "0", "2 days", "5m"],    &["", "1", "abc", "1x"]),
            ("email",     &["a@example.com"],                          &["a", "a@", "@b"]),
            ("hostname",  &["example.com", "a-b", "localhost"],        &["-a", "a..b", "a_b"]),
            ("ipv4",      &["1.2.3.4", "01.2.3.4"],                    &["1.2.3", "1.2.3.256", "::1"]),
            ("ipv6",      &["::1", "fe80::1"],                         &["1.2.3.4", "g::"]),
            ("mac",       &["01:23:45:67:89:ab", "0123.4567.89ab"],    &["01:23:45", "01-23:45-67-89-ab"]),
            ("k8s-short-name", &["a-b"],                               &["A", "a.b", ""]),
            ("k8s-long-name",  &["a-b.c"],                             &["a..b", "-a"]),
            ("uri",       &["https://example.com/a", "/a", "urn:x"],   &["", "a b", "nope", "http://a:b", "http://%zz"]),
            ("uuid",      &["123e4567-e89b-12d3-a456-426614174000"],   &["123e4567", ""]),
            ("uuid4",     &["123e4567-e89b-42d3-a456-426614174000"],   &["123e4567-e89b-12d3-a456-426614174000"]),
            ("password",  &["", "anything"],                           &[]),
        ];
        for (name, good, bad) in cases {
            let format = StringFormat::named(name).unwrap();
            for text in good {
                assert!(format.accepts(text), "{name} accepts {text:?}");
            }
            for text in bad {
                assert!(!format.accepts(text), "{name} rejects {text:?}");
            }
        }
    }
}
