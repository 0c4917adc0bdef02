//! NodeOverlays: prices and extended resources on top of what the cloud reports (spec 10 §4.4).
//!
//! One [evaluation](evaluate()) goes over all overlays, [heaviest
//! first](crate::weight::order_by_weight), and [records](Overrides::record) each one for what it
//! [selects](matching_offerings) in every pool. An overlay that conflicts with an accepted one is
//! applied nowhere.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;

use crate::requirement::Requirements;
use crate::resources::{Quantity, Resources};

mod evaluate;
mod price;
#[cfg(test)]
mod tests;

pub use evaluate::{Evaluation, NamedOverlay, OverlayStatus, evaluate};
pub use price::{PriceChange, PriceError};

/// What an overlay puts on top of what it selects.
#[derive(Clone, Debug, PartialEq)]
pub struct Overlay {
    /// `spec.weight`; absent counts as 0.
    pub weight: Option<i32>,
    /// `spec.price` or `spec.priceAdjustment`.
    pub price: Option<PriceChange>,
    /// `spec.capacity`: extended resources.
    pub capacity: Resources,
}

/// An instance type as one pool sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypeKey {
    /// The NodePool's name.
    pub pool: String,
    /// The instance type's name.
    pub instance_type: String,
}

/// An instance type that an overlay selects, with the offerings that match it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The instance type, in a pool.
    pub instance_type: TypeKey,
    /// The offerings, each by the text of its requirements; never empty.
    pub offerings: Vec<String>,
}

/// Returns the offerings of an instance type that an overlay selects, by index.
///
/// Without any of them the instance type is not selected at all.
///
/// `node_side` are the labels of every node of this pool and type: the pool's name and template
/// labels and the type's own requirements. It must meet the overlay strictly, while an offering may
/// leave `well_known` labels open.
pub fn matching_offerings<'a>(
    overlay: &Requirements,
    node_side: &Requirements,
    offerings: impl IntoIterator<Item = &'a Requirements>,
    well_known: &BTreeSet<String>,
) -> Vec<usize> {
    if node_side.compatible(overlay, &BTreeSet::new()).is_err() {
        return Vec::new();
    }
    let matches = |offering: &Requirements| overlay.compatible(offering, well_known).is_ok();
    let matching = offerings.into_iter().enumerate().filter(|(_, offering)| matches(offering));
    matching.map(|(index, _)| index).collect()
}

/// What the accepted overlays say, by instance type and offering.
///
/// Invariant: overlays are recorded in the order of their weight, so the first recorded value
/// stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    by_type: BTreeMap<TypeKey, TypeOverrides>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct TypeOverrides {
    prices: BTreeMap<String, RecordedValue<PriceChange>>,
    capacity: BTreeMap<String, RecordedValue<Quantity>>,
}

/// The first overlay's value, with the weight of the last overlay.
#[derive(Clone, Copy, Debug, PartialEq)]
struct RecordedValue<T> {
    value: T,
    last_weight: i32,
}

impl Overrides {
    /// Records an overlay for everything that it selects, or for nothing if it conflicts.
    pub fn record(
        &mut self,
        overlay: &Overlay,
        selections: &[Selection],
    ) -> Result<(), OverlayConflict> {
        if selections.iter().any(|selection| self.has_conflict(overlay, selection)) {
            return Err(OverlayConflict);
        }
        if overlay.price.is_none() && overlay.capacity.is_empty() {
            return Ok(());
        }
        let weight = overlay.weight.unwrap_or(0);
        for selection in selections {
            let overrides = self.by_type.entry(selection.instance_type.clone()).or_default();
            if let Some(price) = overlay.price {
                for offering in &selection.offerings {
                    record_first(&mut overrides.prices, offering, price, weight);
                }
            }
            for (resource, quantity) in overlay.capacity.iter() {
                record_first(&mut overrides.capacity, resource, quantity, weight);
            }
        }
        Ok(())
    }

    /// Returns whether an accepted overlay of the same weight sets the same value.
    ///
    /// That is the price of the same offering, or the same resource of the same instance type.
    /// Equal values conflict as well.
    ///
    /// Upstream compares resources with the last accepted overlay only, so of three overlays the
    /// third may repeat the first's resource unnoticed. Here all of the weight count (spec 40 Q11).
    fn has_conflict(&self, overlay: &Overlay, selection: &Selection) -> bool {
        let Some(overrides) = self.by_type.get(&selection.instance_type) else {
            return false;
        };
        let weight = overlay.weight.unwrap_or(0);
        let price = overlay.price.is_some()
            && selection
                .offerings
                .iter()
                .any(|name| is_recorded_with_weight(&overrides.prices, name, weight));
        price
            || overlay
                .capacity
                .iter()
                .any(|(name, _)| is_recorded_with_weight(&overrides.capacity, name, weight))
    }

    /// Returns whether any overlay changes an instance type.
    pub fn applies_to(&self, instance_type: &TypeKey) -> bool {
        self.by_type.contains_key(instance_type)
    }

    /// Returns whether any overlay changes a price of an instance type.
    pub fn has_price_changes(&self, instance_type: &TypeKey) -> bool {
        self.by_type.get(instance_type).is_some_and(|overrides| !overrides.prices.is_empty())
    }

    /// Returns the price change of an offering, if an overlay sets one.
    pub fn price_change(&self, instance_type: &TypeKey, offering: &str) -> Option<PriceChange> {
        Some(self.by_type.get(instance_type)?.prices.get(offering)?.value)
    }

    /// The resources that overlays set on an instance type.
    pub fn capacity(&self, instance_type: &TypeKey) -> Resources {
        let overrides = self.by_type.get(instance_type).into_iter();
        let recorded = overrides.flat_map(|overrides| &overrides.capacity);
        recorded.map(|(name, recorded)| (name.clone(), recorded.value)).collect()
    }
}

fn is_recorded_with_weight<T>(
    recorded: &BTreeMap<String, RecordedValue<T>>,
    name: &str,
    weight: i32,
) -> bool {
    recorded.get(name).is_some_and(|recorded| recorded.last_weight == weight)
}

fn record_first<T>(
    recorded: &mut BTreeMap<String, RecordedValue<T>>,
    name: &str,
    value: T,
    weight: i32,
) {
    let first = RecordedValue { value, last_weight: weight };
    recorded.entry(name.to_owned()).or_insert(first).last_weight = weight;
}

/// The error that another overlay of equal weight sets the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverlayConflict;

impl fmt::Display for OverlayConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("conflict with another overlay")
    }
}

impl Error for OverlayConflict {}
