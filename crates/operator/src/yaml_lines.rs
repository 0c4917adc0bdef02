//! On which lines of a YAML document its fields are, for messages.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

/// The lines of a document's fields, counted from 1, deserialized in place of its values.
#[derive(Debug)]
pub enum Lines {
    /// A single value.
    Scalar,
    /// Items, each with its line.
    List(Vec<(usize, Lines)>),
    /// Fields, each with its line.
    Mapping(BTreeMap<String, (usize, Lines)>),
}

impl Lines {
    /// An item of a list, and its line.
    pub fn item(&self, index: usize) -> Option<(usize, &Self)> {
        let Self::List(items) = self else { return None };
        items.get(index).map(|(line, inner)| (*line, inner))
    }

    /// A field of a mapping, and its line.
    pub fn field(&self, name: &str) -> Option<(usize, &Self)> {
        let Self::Mapping(fields) = self else { return None };
        fields.get(name).map(|(line, inner)| (*line, inner))
    }
}

impl<'de> Deserialize<'de> for Lines {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Positions)
    }
}

struct Positions;

impl<'de> Visitor<'de> for Positions {
    type Value = Lines;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Lines, E> {
        Ok(Lines::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Lines, E> {
        Ok(Lines::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Lines, E> {
        Ok(Lines::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Lines, E> {
        Ok(Lines::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Lines, E> {
        Ok(Lines::Scalar)
    }

    fn visit_unit<E>(self) -> Result<Lines, E> {
        Ok(Lines::Scalar)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Lines, A::Error> {
        let mut lines = Vec::new();
        while let Some(item) = items.next_element::<Spanned<Lines>>()? {
            lines.push((line(&item.referenced), item.value));
        }
        Ok(Lines::List(lines))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Lines, A::Error> {
        let mut lines = BTreeMap::new();
        while let Some(key) = fields.next_key::<Spanned<String>>()? {
            lines.insert(key.value, (line(&key.referenced), fields.next_value()?));
        }
        let _: Option<(IgnoredAny, IgnoredAny)> = fields.next_entry()?;
        Ok(Lines::Mapping(lines))
    }
}

/// The line of a place in a text.
pub fn line(location: &Location) -> usize {
    usize::try_from(location.line()).unwrap_or(usize::MAX)
}
