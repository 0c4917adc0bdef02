//! Deserializes the scenario file. Its times and counts report the allowed values when they have
//! another type.

use std::fmt;
use std::time::Duration;

use karpenter_api::grammar::{self, DurationError};
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use serde_json::Value;

use super::faults::FileFaults;
use super::{Claims, Launch, Scale, ScenarioError, problem};

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    rename_all = "camelCase",
    expecting = "a scenario: a map with `name`, `objects` and `steps`"
)]
pub(super) struct File {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    pub(super) start: Option<String>,
    #[serde(default)]
    pub(super) objects: Vec<Value>,
    pub(super) faults: Option<FileFaults>,
    #[serde(default)]
    pub(super) steps: Vec<FileStep>,
    pub(super) duration: Option<FileTime>,
    pub(super) settle: Option<FileTime>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct FileStep {
    pub(super) at: FileTime,
    #[serde(rename = "say")]
    pub(super) message: Option<String>,
    pub(super) apply: Option<Vec<Value>>,
    pub(super) delete: Option<Vec<Value>>,
    pub(super) scale: Option<Scale>,
    pub(super) launch: Option<Launch>,
    pub(super) remove: Option<Claims>,
    pub(super) silence: Option<Claims>,
    pub(super) faults: Option<FileFaults>,
    pub(super) restart: Option<FileRestart>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct FileRestart {
    pub(super) down: Option<FileTime>,
}

/// More instances in one step are a typing error.
pub(super) const MOST_LAUNCHED: u32 = 10_000;

/// The most that Kubernetes counts to.
pub(super) const MOST_REPLICAS: u32 = i32::MAX as u32;

/// The description of times in errors.
const TIMES: &str = "a time such as 90s, 5m or 1h30m";

/// Longer times are typing errors.
const LONGEST: Duration = Duration::from_hours(LONGEST_HOURS);
const LONGEST_HOURS: u64 = 366 * 24;

/// A time as it is written. A number without a unit is read too, to reject it with a better
/// message.
#[derive(Debug, Clone)]
pub(super) struct FileTime(pub(super) String);

impl<'de> Deserialize<'de> for FileTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = FileTime;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(TIMES)
            }

            fn visit_str<E>(self, text: &str) -> Result<FileTime, E> {
                Ok(FileTime(text.to_owned()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<FileTime, E> {
                Ok(FileTime(number.to_string()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<FileTime, E> {
                Ok(FileTime(number.to_string()))
            }

            fn visit_f64<E>(self, number: f64) -> Result<FileTime, E> {
                Ok(FileTime(number.to_string()))
            }
        }

        deserializer.deserialize_any(Text)
    }
}

/// Reads a whole number within bounds; any other value is an error with the bounds.
pub(super) fn whole<'de, D, const LEAST: u32, const MOST: u32>(
    deserializer: D,
) -> Result<u32, D::Error>
where
    D: Deserializer<'de>,
{
    struct Whole<const LEAST: u32, const MOST: u32>;

    impl<const LEAST: u32, const MOST: u32> Visitor<'_> for Whole<LEAST, MOST> {
        type Value = u32;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a whole number from {LEAST} to {MOST}")
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<u32, E> {
            let found = u32::try_from(number).ok();
            let found = found.filter(|found| (LEAST..=MOST).contains(found));
            found.ok_or_else(|| E::invalid_value(de::Unexpected::Signed(number), &self))
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<u32, E> {
            match i64::try_from(number) {
                Ok(number) => self.visit_i64(number),
                Err(_) => Err(E::invalid_value(de::Unexpected::Unsigned(number), &self)),
            }
        }
    }

    deserializer.deserialize_any(Whole::<LEAST, MOST>)
}

pub(super) fn parse_duration(
    place: &str,
    FileTime(text): &FileTime,
) -> Result<Duration, ScenarioError> {
    let wrong = |found: String| problem(place, found).with_fix(format!("use {TIMES}"));
    let too_long = || {
        let fix = format!("use {LONGEST_HOURS}h (a year) at most");
        problem(place, format!("is {text}, which is too long")).with_fix(fix)
    };
    match grammar::parse_duration(text) {
        Ok(found) if found.is_negative() => Err(wrong(format!("is {text}, which is negative"))),
        Ok(found) => {
            Duration::try_from(found).ok().filter(|found| *found <= LONGEST).ok_or_else(too_long)
        }
        Err(DurationError::MissingUnit(_)) => Err(wrong(format!("is {text}, without a unit"))),
        Err(DurationError::UnknownUnit { unit, .. }) => {
            let found = format!("is {text}; there is no unit `{unit}`");
            Err(problem(place, found).with_fix("use h, m, s and ms, such as 36h or 1h30m"))
        }
        // Digits and a unit that are no time are more than can be counted.
        Err(DurationError::Invalid(_)) if is_number_with_unit(text) => Err(too_long()),
        Err(DurationError::Invalid(_)) => Err(wrong(format!("is `{text}`, which is no time"))),
    }
}

fn is_number_with_unit(text: &str) -> bool {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < text.len() && matches!(rest, "h" | "m" | "s" | "ms" | "us" | "ns" | "")
}
