//! Finds the items of a list of type `map` by their keys.

use std::collections::HashMap;

use serde_json::Value;

use crate::ListType;

/// The items of a list by their keys.
///
/// It is empty unless the list has type `map`.
#[derive(Debug)]
pub struct ItemIndex<'a> {
    keys: &'a [String],
    by_key: HashMap<Vec<ScalarKey<'a>>, &'a Value>,
}

impl<'a> ItemIndex<'a> {
    pub fn new(list_type: &'a ListType, items: &'a [Value]) -> Self {
        let mut index = Self { keys: &[], by_key: HashMap::new() };
        let ListType::Map(keys) = list_type else { return index };
        index.keys = keys;
        for item in items {
            if let Some(key) = index.key_of(item) {
                index.by_key.entry(key).or_insert(item); // of duplicates, the first counts
            }
        }
        index
    }

    /// Returns the indexed item with the keys of `item`.
    pub fn find(&self, item: &'a Value) -> Option<&'a Value> {
        if self.keys.is_empty() {
            return None;
        }
        self.by_key.get(&self.key_of(item)?).copied()
    }

    /// Returns `None` if a key is missing or is no scalar: such items correspond to nothing.
    fn key_of(&self, item: &'a Value) -> Option<Vec<ScalarKey<'a>>> {
        let item = item.as_object()?;
        self.keys.iter().map(|key| ScalarKey::from_value(item.get(key)?)).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum ScalarKey<'a> {
    Bool(bool),
    Number(String),
    String(&'a str),
}

impl<'a> ScalarKey<'a> {
    fn from_value(value: &'a Value) -> Option<Self> {
        match value {
            Value::Bool(value) => Some(Self::Bool(*value)),
            Value::Number(value) => Some(Self::Number(value.to_string())),
            Value::String(value) => Some(Self::String(value)),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}
