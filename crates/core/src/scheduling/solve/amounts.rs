//! Resources as arrays of numbers.
//!
//! Only resources that some pod or daemon of the solve requests, or some NodePool limits, have a
//! column: no other resource matters, except that a total which is below zero in one takes
//! no pod at all ([`ResourceColumns::is_overdrawn`]).

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::resources::{Quantity, Resources};

/// An amount of each resource that matters, in billionths.
pub(super) type Amounts = SmallVec<[i128; 4]>;

/// The resources that a solve considers, each with a column.
#[derive(Clone, Debug, Default)]
pub(super) struct ResourceColumns {
    names: Vec<String>,
    by_name: FxHashMap<String, usize>,
}

impl ResourceColumns {
    pub(super) fn add(&mut self, resources: &Resources) {
        for (name, _) in resources.iter() {
            if !self.by_name.contains_key(name) {
                self.by_name.insert(name.to_owned(), self.names.len());
                self.names.push(name.to_owned());
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn zero(&self) -> Amounts {
        SmallVec::from_elem(0, self.len())
    }

    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub(super) fn amounts(&self, resources: &Resources) -> Amounts {
        let mut amounts = self.zero();
        for (name, quantity) in resources.iter() {
            if let Some(column) = self.position(name) {
                amounts[column] = quantity.nanos();
            }
        }
        amounts
    }

    /// Returns whether a resource without a column is below zero.
    pub(super) fn is_overdrawn(&self, total: &Resources) -> bool {
        total
            .iter()
            .any(|(name, quantity)| quantity < Quantity::ZERO && self.position(name).is_none())
    }
}

pub(super) fn add(to: &mut Amounts, other: &Amounts) {
    for (sum, &amount) in to.iter_mut().zip(other) {
        *sum = sum.saturating_add(amount);
    }
}

/// The sum of two amounts.
pub(super) fn sum(a: &Amounts, b: &Amounts) -> Amounts {
    let mut sum = a.clone();
    add(&mut sum, b);
    sum
}

pub(super) fn subtract(from: &mut Amounts, other: &Amounts) {
    for (rest, &amount) in from.iter_mut().zip(other) {
        *rest = rest.saturating_sub(amount);
    }
}

/// Returns whether each amount is at most its bound.
pub(super) fn fits_within(amounts: &[i128], bounds: &[i128]) -> bool {
    amounts.iter().zip(bounds).all(|(amount, bound)| amount <= bound)
}

/// Raises each bound to at least its amount.
pub(super) fn widen(bounds: &mut Amounts, amounts: &Amounts) {
    for (bound, &amount) in bounds.iter_mut().zip(amounts) {
        *bound = amount.max(*bound);
    }
}
