//! Durations in Go's notation: `1h30m`, `300ms`, `-1.5h` (spec 10 §15.1).
//!
//! The two field types differ in the text that they write back.

use std::borrow::Cow;
use std::fmt;

use jiff::SignedDuration;
use karpenter_grammar::{DurationError, format_duration, parse_duration};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration field that is written in Go form whatever form was read, such as
/// `terminationGracePeriod`: `90m` is written as `1h30m0s`.
#[derive(Clone, Debug)]
pub struct Duration {
    value: Result<SignedDuration, DurationError>,
    /// The text that was read; it is all there is when `value` is an error.
    text: String,
}

impl Duration {
    /// Takes any text; [`Self::value`] returns whether it is a duration.
    pub fn parse(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { value: parse_duration(&text), text }
    }

    /// The duration, or why the text is none.
    pub fn value(&self) -> Result<SignedDuration, DurationError> {
        self.value.clone()
    }
}

impl From<&str> for Duration {
    fn from(text: &str) -> Self {
        Self::parse(text)
    }
}

impl From<SignedDuration> for Duration {
    fn from(value: SignedDuration) -> Self {
        Self { value: Ok(value), text: format_duration(value) }
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Ok(value) => f.write_str(&format_duration(*value)),
            Err(_) => f.write_str(&self.text),
        }
    }
}

impl PartialEq for Duration {
    fn eq(&self, other: &Self) -> bool {
        match (&self.value, &other.value) {
            (Ok(a), Ok(b)) => a == b,
            (Err(_), Err(_)) => self.text == other.text,
            _ => false,
        }
    }
}

impl Eq for Duration {}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::parse)
    }
}

impl JsonSchema for Duration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

/// A duration field that can also say `Never`, such as `expireAfter`.
///
/// The text that was read is written back as it was, because GitOps tools compare it; only values
/// built in code are written in Go form.
#[derive(Clone, Debug)]
pub struct NillableDuration {
    value: Result<Option<SignedDuration>, DurationError>,
    text: String,
}

/// What stands for "no duration".
const NEVER: &str = "Never";

impl NillableDuration {
    /// Takes any text; [`Self::value`] returns whether it is a duration.
    pub fn parse(text: impl Into<String>) -> Self {
        let text = text.into();
        let value = if text == NEVER { Ok(None) } else { parse_duration(&text).map(Some) };
        Self { value, text }
    }

    /// The value that stands for "no duration".
    pub fn never() -> Self {
        Self::parse(NEVER)
    }

    /// The duration, `None` for `Never`, or why the text is neither.
    pub fn value(&self) -> Result<Option<SignedDuration>, DurationError> {
        self.value.clone()
    }

    /// The text as it was read.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl From<&str> for NillableDuration {
    fn from(text: &str) -> Self {
        Self::parse(text)
    }
}

impl From<SignedDuration> for NillableDuration {
    fn from(value: SignedDuration) -> Self {
        Self { value: Ok(Some(value)), text: format_duration(value) }
    }
}

impl From<Option<SignedDuration>> for NillableDuration {
    fn from(value: Option<SignedDuration>) -> Self {
        value.map_or_else(Self::never, Self::from)
    }
}

impl fmt::Display for NillableDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Equal durations are equal whatever their texts: `90m` is `1h30m`.
impl PartialEq for NillableDuration {
    fn eq(&self, other: &Self) -> bool {
        match (&self.value, &other.value) {
            (Ok(a), Ok(b)) => a == b,
            (Err(_), Err(_)) => self.text == other.text,
            _ => false,
        }
    }
}

impl Eq for NillableDuration {}

impl Serialize for NillableDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for NillableDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::parse)
    }
}

impl JsonSchema for NillableDuration {
    fn schema_name() -> Cow<'static, str> {
        "NillableDuration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

#[cfg(test)]
mod tests;
