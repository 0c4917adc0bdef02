//! Finds the old value that corresponds to a new one.
//!
//! Admission of an update compares the new object with the stored one: it ignores an error in a
//! part that did not change (the API server calls this ratcheting), and a transition rule reads the
//! old value of its own field. Fields of objects and entries of maps correspond by name, items of a
//! list only when it has list type `map`, by their keys.

use karpenter_cel::{ItemIndex, ListType};
use serde_json::Value;

use super::schema::Schema;

/// A new value with its old one and the schema that correlates their parts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CorrelatedPair<'a> {
    pub(crate) new: &'a Value,
    pub(crate) old: &'a Value,
    pub(crate) schema: &'a Schema,
}

impl<'a> CorrelatedPair<'a> {
    /// The pair of a field, when both sides have it and the schema knows it.
    pub(crate) fn field(&self, name: &str) -> Option<CorrelatedPair<'a>> {
        let (new, old) = (self.new.get(name)?, self.old.get(name)?);
        Some(CorrelatedPair { new, old, schema: self.schema.child(name)? })
    }

    /// The pairs of the items of a list, looked up through one index over the old list.
    pub(crate) fn items(&self) -> ItemCorrelation<'a> {
        let old = self.old.as_array().map_or(&[][..], Vec::as_slice);
        let old = ItemIndex::new(&self.schema.structure.list_type, old);
        ItemCorrelation { old, schema: self.schema.items.as_deref() }
    }

    /// Whether nothing changed. Lists of type `map` may change their order; data without a schema
    /// never counts as unchanged, as in the API server.
    pub(crate) fn is_unchanged(&self) -> bool {
        match (self.new, self.old) {
            (Value::Array(new), Value::Array(old)) => {
                if new.len() != old.len() {
                    return false;
                }
                if !matches!(self.schema.structure.list_type, ListType::Map(_)) {
                    return new == old;
                }
                let pairs = self.items();
                new.iter().all(|item| pairs.pair_of(item).is_some_and(|pair| pair.is_unchanged()))
            }
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len()
                    && new
                        .keys()
                        .all(|name| self.field(name).is_some_and(|pair| pair.is_unchanged()))
            }
            (new, old) => new == old,
        }
    }
}

/// Finds the old items of a list. See [`CorrelatedPair::items`].
pub(crate) struct ItemCorrelation<'a> {
    old: ItemIndex<'a>,
    schema: Option<&'a Schema>,
}

impl<'a> ItemCorrelation<'a> {
    pub(crate) fn pair_of(&self, new: &'a Value) -> Option<CorrelatedPair<'a>> {
        Some(CorrelatedPair { new, old: self.old.find(new)?, schema: self.schema? })
    }
}
