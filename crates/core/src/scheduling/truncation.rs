//! Keeps the cheapest instance types of a NodeClaim (spec 20 §3.11, §3.12, §3.24).
//!
//! The scheduler lists up to 600 instance types for a NodeClaim, and a provider may keep fewer of
//! them when it launches. Both use this order, and the kept types must reach every minValues.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::MinValuesPolicy;
use super::min_values::{self, MinValuesUnmet};
use crate::catalog::InstanceType;
use crate::requirement::Requirements;

#[cfg(test)]
mod tests;

/// Sorts instance types by their launch price, then by name.
///
/// The price is that of the cheapest launchable offering that the requirements allow. Instance
/// types without such an offering are last.
pub fn order_by_price<'c, T>(
    types: &mut [T],
    instance_type: impl Fn(&T) -> &'c InstanceType,
    requirements: &Requirements,
    well_known: &BTreeSet<String>,
) {
    types.sort_by_cached_key(|item| {
        let of = instance_type(item);
        let price = of.cheapest_launch_price(requirements, well_known);
        PriceKey { price: price.unwrap_or(f64::INFINITY), name: of.name.clone() }
    });
}

/// Keeps the cheapest `limit` instance types, cheapest first.
///
/// It is an error under [`MinValuesPolicy::Strict`] if the kept types miss a minValues;
/// [`MinValuesPolicy::BestEffort`] does not check them.
pub fn truncate<'c, T>(
    types: &mut Vec<T>,
    instance_type: impl Fn(&T) -> &'c InstanceType,
    requirements: &Requirements,
    well_known: &BTreeSet<String>,
    limit: usize,
    policy: MinValuesPolicy,
) -> Result<(), MinValuesUnmet> {
    order_by_price(types, &instance_type, requirements, well_known);
    types.truncate(limit);
    check_min_values(
        types.iter().map(|item| &*instance_type(item).requirements),
        requirements,
        policy,
    )
}

/// Checks that instance types reach every minValues, if the policy requires it.
pub fn check_min_values<'a>(
    instance_types: impl IntoIterator<Item = &'a Requirements>,
    requirements: &Requirements,
    policy: MinValuesPolicy,
) -> Result<(), MinValuesUnmet> {
    match policy {
        MinValuesPolicy::Strict => {
            min_values::required_type_count(requirements, instance_types).map(|_| ())
        }
        MinValuesPolicy::BestEffort => Ok(()),
    }
}

/// Compares the launch prices of two instance types; equal prices by name.
pub fn compare_prices(one: (f64, &str), other: (f64, &str)) -> Ordering {
    one.0.total_cmp(&other.0).then_with(|| one.1.cmp(other.1))
}

/// The place of an instance type in the order of prices.
struct PriceKey {
    price: f64,
    name: String,
}

impl PriceKey {
    fn price_and_name(&self) -> (f64, &str) {
        (self.price, &self.name)
    }
}

impl Ord for PriceKey {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_prices(self.price_and_name(), other.price_and_name())
    }
}

impl PartialOrd for PriceKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PriceKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PriceKey {}
