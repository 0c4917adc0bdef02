//! Finds the line of a field, for messages.
//!
//! Done on demand, by reading the document once more with positions: most documents never need
//! it, and values with positions would take several times the memory.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::path::{FieldPath, Step};
use super::{Bounds, parse};

/// The lines of a document's fields, counted from 1 inside the document.
#[derive(Debug)]
pub(super) enum Lines {
    Scalar,
    List(Vec<(usize, Lines)>),
    Mapping(BTreeMap<String, (usize, Lines)>),
}

/// Positions of a document that has been read before, within bounds; nothing where the parser disagrees.
pub(super) fn lines(text: &str) -> Option<Lines> {
    serde_saphyr::from_str_with_options(text, parse::options(&Bounds::SNAPSHOT)).ok()
}

impl Lines {
    /// Line of a field, or of the innermost thing around it that exists.
    pub(super) fn of(&self, field: &FieldPath) -> Option<usize> {
        let mut here = self;
        let mut line = None;
        for step in field.steps() {
            let next = match (here, step) {
                (Self::List(items), Step::Index(index)) => {
                    items.get(*index).map(|(line, inner)| (*line, inner))
                }
                (Self::Mapping(fields), Step::Key(key)) => {
                    fields.get(key).map(|(line, inner)| (*line, inner))
                }
                _ => None,
            };
            let Some((found, inner)) = next else { break };
            line = Some(found);
            here = inner;
        }
        line
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

fn line(location: &serde_saphyr::Location) -> usize {
    usize::try_from(location.line()).unwrap_or(usize::MAX)
}
