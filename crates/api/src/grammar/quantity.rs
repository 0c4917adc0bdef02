//! Resource quantities: `500m`, `1.5Gi`, `12e6` (spec 10 §1.1, §15.2).
//!
//! [`Quantity`] is the field type: it keeps the text. [`Amount`] is the number that the text stands
//! for, exact to 1e-9, together with the family of suffixes that it was written in.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use karpenter_grammar::{Amount, QuantityError};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What the API server admits as a quantity (spec 10 §1.1).
const PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// A quantity field. It keeps what was read, so that it is written back unchanged; equality and
/// order are those of the number, so `1000m` is `1`.
#[derive(Clone)]
pub struct Quantity {
    text: String,
    amount: Result<Amount, QuantityError>,
    /// Whether the text was a bare JSON number and has to become one again.
    is_json_number: bool,
}

impl Quantity {
    /// Takes any text; [`Self::value`] returns whether it is a quantity.
    pub fn parse(text: impl Into<String>) -> Self {
        Self::from_text(text.into(), false)
    }

    /// A quantity built in code, written in canonical form.
    pub fn new(amount: Amount) -> Self {
        Self { text: amount.to_string(), amount: Ok(amount), is_json_number: false }
    }

    /// The number, or why the text is none.
    pub fn value(&self) -> Result<Amount, QuantityError> {
        self.amount
    }

    /// The text as it was read.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text that Kubernetes' own quantity type prints for this one. A text that is no quantity,
    /// or a number beyond [`Amount`], is returned as it was read.
    pub fn canonical(&self) -> Cow<'_, str> {
        let text = self.text.trim();
        self.amount.map_or(text.into(), |amount| amount.canonical_text(text))
    }

    fn from_text(text: String, bare: bool) -> Self {
        // Kubernetes' decoder tolerates blanks around the text, although no schema admits them.
        let amount = text.trim().parse();
        Self { text, amount, is_json_number: bare }
    }
}

impl From<Amount> for Quantity {
    fn from(amount: Amount) -> Self {
        Self::new(amount)
    }
}

impl From<i64> for Quantity {
    fn from(number: i64) -> Self {
        Self::new(Amount::from(number))
    }
}

impl From<&str> for Quantity {
    fn from(text: &str) -> Self {
        Self::parse(text)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.amount {
            Ok(_) => write!(f, "Quantity({})", self.text),
            Err(_) => write!(f, "Quantity(not a quantity: {:?})", self.text),
        }
    }
}

impl Default for Quantity {
    fn default() -> Self {
        Self::from(0)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Texts that are no quantities come first, in the order of the texts.
impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.amount, other.amount) {
            (Ok(a), Ok(b)) => a.cmp(&b),
            (Ok(_), Err(_)) => Ordering::Greater,
            (Err(_), Ok(_)) => Ordering::Less,
            (Err(_), Err(_)) => self.text.cmp(&other.text),
        }
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_json_number {
            if let Ok(number) = self.text.parse::<i64>() {
                return serializer.serialize_i64(number);
            }
            if let Ok(number) = self.text.parse::<f64>() {
                return serializer.serialize_f64(number);
            }
        }
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyScalar)
    }
}

/// Reads a JSON string or number; the schema admits only strings and integers, but objects stored
/// before a schema existed may hold anything that Go's decoder takes.
struct AnyScalar;

impl Visitor<'_> for AnyScalar {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity as a string or a number")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        Ok(Quantity::from_text(text.to_owned(), false))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Quantity, E> {
        Ok(Quantity::from_text(text, false))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
        Ok(Quantity::from_text(number.to_string(), true))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
        Ok(Quantity::from_text(number.to_string(), true))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
        Ok(Quantity::from_text(number.to_string(), true))
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": PATTERN,
            "x-kubernetes-int-or-string": true,
        })
    }
}

#[cfg(test)]
mod tests;
