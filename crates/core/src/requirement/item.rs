//! What a spec says about a label: key, operator, values.

use std::error::Error;
use std::fmt;

/// How a requirement relates its key to its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// One of the values.
    In,
    /// None of the values; a node without the label is fine.
    NotIn,
    /// Any value.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// An integer above the value.
    Gt,
    /// An integer below the value.
    Lt,
    /// An integer not below the value.
    Gte,
    /// An integer not above the value.
    Lte,
}

impl Operator {
    /// All eight, in the order of the CRD's enum.
    pub const ALL: [Self; 8] = [
        Self::In,
        Self::NotIn,
        Self::Exists,
        Self::DoesNotExist,
        Self::Gt,
        Self::Lt,
        Self::Gte,
        Self::Lte,
    ];

    /// The name as specs spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
            Self::Gte => "Gte",
            Self::Lte => "Lte",
        }
    }

    /// Returns the operator with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operator| operator.name() == name)
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One item of a `requirements` list or a match expression, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequirementItem {
    /// The label key, possibly an alias.
    pub key: String,
    /// How key and values relate.
    pub operator: Operator,
    /// The values; exactly one integer for the numeric operators, ignored for the existence ones.
    pub values: Vec<String>,
    /// How many distinct values the candidate instance types must offer.
    pub min_values: Option<u32>,
}

impl RequirementItem {
    /// An item without minValues.
    pub fn new(key: &str, operator: Operator, values: &[&str]) -> Self {
        let values = values.iter().map(|&value| value.to_owned()).collect();
        Self { key: key.to_owned(), operator, values, min_values: None }
    }

    /// Parses an item of a `requirements` list or a match expression.
    ///
    /// Admission rejects a `minValues` out of range; here it becomes the nearest number in range,
    /// so a negative one is 0.
    pub fn parse(
        key: &str,
        operator: &str,
        values: Option<&[String]>,
        min_values: Option<i64>,
    ) -> Result<Self, OperatorError> {
        let Some(known) = Operator::from_name(operator) else {
            return Err(OperatorError { key: key.to_owned(), operator: operator.to_owned() });
        };
        Ok(Self {
            key: key.to_owned(),
            operator: known,
            values: values.unwrap_or_default().to_vec(),
            min_values: min_values.map(|count| u32::try_from(count.max(0)).unwrap_or(u32::MAX)),
        })
    }

    /// Parses the single integer among the normalized values of a numeric operator.
    pub(super) fn parse_bound(
        &self,
        mut values: impl Iterator<Item = String>,
    ) -> Result<i64, BoundError> {
        match (values.next().map(|value| value.parse()), values.next()) {
            (Some(Ok(bound)), None) => Ok(bound),
            _ => Err(BoundError { item: self.clone() }),
        }
    }
}

/// An operator that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorError {
    key: String,
    operator: String,
}

impl fmt::Display for OperatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, operator } = self;
        write!(f, "key {key} has an unsupported operator {operator}")
    }
}

impl Error for OperatorError {}

/// A numeric operator without exactly one value that is a 64-bit integer.
///
/// Admission and runtime validation (spec 10 §11.2) stop these on NodePools. NodeClaims and what
/// other tools write are not validated, so the set says it as well instead of guessing a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundError {
    /// The item as it was written.
    pub item: RequirementItem,
}

impl fmt::Display for BoundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RequirementItem { key, operator, values, .. } = &self.item;
        write!(f, "key {key} with operator {operator} must have a single integer value, ")?;
        write!(f, "got [{}]", values.join(" "))
    }
}

impl Error for BoundError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn min_values_out_of_range_become_the_nearest_number() {
        for (written, expected) in [
            (None, None),
            (Some(-1), Some(0)),
            (Some(i64::MIN), Some(0)),
            (Some(0), Some(0)),
            (Some(50), Some(50)),
            (Some(i64::MAX), Some(u32::MAX)),
        ] {
            let item = RequirementItem::parse("a", "Exists", None, written).unwrap();
            assert_eq!(item.min_values, expected, "{written:?}");
        }
    }

    #[test]
    fn an_unknown_operator_is_an_error() {
        let error = RequirementItem::parse("a", "Is", None, None).unwrap_err();
        assert_eq!(error.to_string(), "key a has an unsupported operator Is");
    }
}
