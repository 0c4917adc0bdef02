//! Gives typed access to untyped objects: a value of the wrong type becomes a finding with its path
//! and counts as absent. `null` is absent too, as it is for the API server.

use serde_json::{Map, Value};

use super::notes::{Note, Notes};
use crate::manifest::{FieldPath, describe_value};

/// A mapping somewhere in an object. One that is not there has no fields.
#[derive(Clone, Debug)]
pub(super) struct Section<'a> {
    fields: Option<&'a Map<String, Value>>,
    pub(super) path: FieldPath,
}

/// A value with its path: an item of a list or a field of a mapping.
#[derive(Clone, Debug)]
pub(super) struct FieldValue<'a> {
    pub(super) value: &'a Value,
    pub(super) path: FieldPath,
}

impl<'a> Section<'a> {
    pub(super) fn root(object: &'a Value) -> Self {
        Self { fields: object.as_object(), path: FieldPath::default() }
    }

    pub(super) fn get(&self, key: &str) -> Option<FieldValue<'a>> {
        let value = self.fields?.get(key).filter(|value| !value.is_null())?;
        Some(FieldValue { value, path: self.path.key(key) })
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_none_or(Map::is_empty)
    }

    pub(super) fn section(&self, key: &str, notes: &mut Notes) -> Section<'a> {
        let found = self.get(key).and_then(|at| at.section(notes));
        found.unwrap_or(Section { fields: None, path: self.path.key(key) })
    }

    pub(super) fn string(&self, key: &str, notes: &mut Notes) -> Option<&'a str> {
        self.get(key)?.string(notes)
    }

    pub(super) fn boolean(&self, key: &str, notes: &mut Notes) -> Option<bool> {
        let at = self.get(key)?;
        at.value.as_bool().or_else(|| at.report_unexpected_type("true or false", notes))
    }

    pub(super) fn integer(&self, key: &str, notes: &mut Notes) -> Option<i64> {
        let at = self.get(key)?;
        at.value.as_i64().or_else(|| at.report_unexpected_type("an integer", notes))
    }

    /// The items of a list; none where it is absent.
    pub(super) fn list(&self, key: &str, notes: &mut Notes) -> Vec<FieldValue<'a>> {
        let Some(at) = self.get(key) else { return Vec::new() };
        match at.value.as_array() {
            Some(items) => {
                let item = |(index, value)| FieldValue { value, path: at.path.index(index) };
                items.iter().enumerate().map(item).collect()
            }
            None => at.report_unexpected_type("a list", notes).unwrap_or_default(),
        }
    }

    /// Every field that is set, in the order in which they were written.
    pub(super) fn entries(&self) -> Vec<(&'a str, FieldValue<'a>)> {
        let keys = self.fields.into_iter().flat_map(Map::keys);
        keys.filter_map(|key| Some((key.as_str(), self.get(key)?))).collect()
    }

    /// Returns the entries of a mapping from text to text.
    pub(super) fn string_entries(&self, notes: &mut Notes) -> Vec<(&'a str, &'a str)> {
        let text = |(key, at): (&'a str, FieldValue<'a>)| Some((key, at.string(notes)?));
        self.entries().into_iter().filter_map(text).collect()
    }

    /// Adds a finding for every field that is not in `known`.
    pub(super) fn report_unknown_fields(&self, known: &[&str], notes: &mut Notes) {
        for (key, at) in self.entries() {
            if !known.contains(&key) {
                notes.add(&at.path, Note::UnknownField);
            }
        }
    }

    /// Copies the given fields that are set, unchanged.
    pub(super) fn copy_fields(&self, keys: &[&str], into: &mut Map<String, Value>) {
        for key in keys {
            if let Some(at) = self.get(key) {
                into.insert((*key).to_owned(), at.value.clone());
            }
        }
    }
}

impl<'a> FieldValue<'a> {
    pub(super) fn section(&self, notes: &mut Notes) -> Option<Section<'a>> {
        match self.value.as_object() {
            Some(fields) => Some(Section { fields: Some(fields), path: self.path.clone() }),
            None => self.report_unexpected_type("a mapping", notes),
        }
    }

    pub(super) fn string(&self, notes: &mut Notes) -> Option<&'a str> {
        self.value.as_str().or_else(|| self.report_unexpected_type("a text", notes))
    }

    /// Adds a finding about a wrong type. Returns `None` in the caller's type.
    pub(super) fn report_unexpected_type<T>(
        &self,
        expected: &'static str,
        notes: &mut Notes,
    ) -> Option<T> {
        notes.add(&self.path, Note::UnexpectedType { expected, found: describe_value(self.value) });
        None
    }
}
