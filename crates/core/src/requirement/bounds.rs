//! Inclusive integer bounds on a label value.

use super::Operator;

/// `gte..=lte`, open where a side is absent.
///
/// Invariant: the two sides do not cross; a range without any integer is not a `Bounds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Bounds {
    pub(super) gte: Option<i64>,
    pub(super) lte: Option<i64>,
}

impl Bounds {
    pub(super) const NONE: Self = Self { gte: None, lte: None };

    /// Returns the bounds of a numeric operator, or `None` if no integer satisfies it.
    ///
    /// Integers have 64 bits. Other operators have no bounds.
    pub(super) fn from_operator(operator: Operator, n: i64) -> Option<Self> {
        let (gte, lte) = match operator {
            Operator::Gt => (Some(n.checked_add(1)?), None),
            Operator::Gte => (Some(n), None),
            Operator::Lt => (None, Some(n.checked_sub(1)?)),
            Operator::Lte => (None, Some(n)),
            Operator::In | Operator::NotIn | Operator::Exists | Operator::DoesNotExist => {
                (None, None)
            }
        };
        Some(Self { gte, lte })
    }

    /// Returns whether a value is within the bounds.
    ///
    /// With any bound set, only integers are.
    pub(super) fn contains(self, value: &str) -> bool {
        if self == Self::NONE {
            return true;
        }
        value.parse().is_ok_and(|n: i64| {
            self.gte.is_none_or(|gte| gte <= n) && self.lte.is_none_or(|lte| n <= lte)
        })
    }

    /// The tighter of both on each side, or none when they cross.
    pub(super) fn intersection(self, other: Self) -> Option<Self> {
        let gte = self.gte.max(other.gte);
        let lte = match (self.lte, other.lte) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let crossed = gte.zip(lte).is_some_and(|(gte, lte)| gte > lte);
        (!crossed).then_some(Self { gte, lte })
    }
}
