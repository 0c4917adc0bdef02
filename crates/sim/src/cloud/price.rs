//! Applies changed prices to the catalog that the product sees and launches use.

use std::sync::Arc;

use karpenter_api::labels;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_core::catalog::{InstanceType, InstanceTypes, Offering};
use kube::ResourceExt as _;

use super::shortage::offering_matches;

/// Offerings with a changed price. Texts are patterns in which `*` stands for anything.
#[derive(Debug, Clone, PartialEq)]
pub struct PriceChange {
    pub instance_type: String,
    pub zone: String,
    pub capacity_type: String,
    /// What the usual price is multiplied by.
    pub factor: f64,
}

impl PriceChange {
    fn covers(&self, instance_type: &str, offering: &Offering) -> bool {
        let patterns = [&*self.instance_type, &*self.zone, &*self.capacity_type];
        offering_matches(patterns, instance_type, offering)
    }
}

/// Returns the instance types with their prices changed.
pub(super) fn apply_price_changes(types: InstanceTypes, changes: &[PriceChange]) -> InstanceTypes {
    if changes.is_empty() {
        return types;
    }
    let priced = |known: &Arc<InstanceType>| {
        let price = |offering: &Offering| {
            let own = changes.iter().filter(|change| change.covers(&known.name, offering));
            let factor: f64 = own.map(|change| change.factor).product();
            Offering { price: offering.price * factor, ..offering.clone() }
        };
        Arc::new(known.with_offerings(known.offerings.iter().map(price).collect::<Vec<_>>()))
    };
    types.iter().map(priced).collect()
}

/// Returns the hourly price of a claim's instance; `None` if it is unknown.
pub(super) fn hourly_price(node_claim: &NodeClaim, types: &InstanceTypes) -> Option<f64> {
    let label = |key| node_claim.labels().get(key).map(String::as_str);
    let (name, zone, capacity_type) =
        (label(labels::INSTANCE_TYPE)?, label(labels::ZONE)?, label(labels::CAPACITY_TYPE)?);
    let of_type = types.iter().find(|known| known.name == name)?;
    let has = |offering: &Offering, key: &str, value: &str| {
        offering.requirements.get(key).is_none_or(|requirement| requirement.has(value))
    };
    let is_it = |offering: &&Offering| {
        has(offering, labels::ZONE, zone) && has(offering, labels::CAPACITY_TYPE, capacity_type)
    };
    of_type.offerings.iter().find(is_it).map(|offering| offering.price)
}
