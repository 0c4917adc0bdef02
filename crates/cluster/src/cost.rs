//! Calculates what the nodes of each NodePool cost per hour (spec 40 §5.7).
//!
//! A NodeClaim counts once, under its zone, capacity type and instance type. The tracker requests
//! the price of such an offering when it first occurs, and again when the caller updates the
//! prices.

use std::collections::BTreeMap;

use karpenter_api::labels;
use karpenter_api::nodeclaim::NodeClaim;

/// The zone, capacity type and instance type that determine the price of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OfferingKey {
    /// The zone.
    pub zone: String,
    /// The capacity type.
    pub capacity_type: String,
    /// The instance type.
    pub instance_type: String,
}

impl OfferingKey {
    /// Returns the NodePool and the offering key of a NodeClaim; none if a label is missing.
    pub fn from_node_claim(claim: &NodeClaim) -> Option<(String, Self)> {
        let labels = claim.metadata.labels.as_ref()?;
        let label = |key: &str| labels.get(key).filter(|value| !value.is_empty()).cloned();
        let kind = Self {
            zone: label(labels::ZONE)?,
            capacity_type: label(labels::CAPACITY_TYPE)?,
            instance_type: label(labels::INSTANCE_TYPE)?,
        };
        Some((label(labels::NODEPOOL)?, kind))
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct OfferingCost {
    count: u32,
    price: f64,
}

/// The nodes of all pools, and their prices.
#[derive(Debug, Default)]
pub struct CostTracker {
    pools: BTreeMap<String, BTreeMap<OfferingKey, OfferingCost>>,
    claims: BTreeMap<String, (String, OfferingKey)>,
}

impl CostTracker {
    /// Counts a NodeClaim once. Calls `price` if the offering is new. Returns whether the price was
    /// found: a missing one counts as 0.
    pub fn add(
        &mut self,
        claim: &str,
        pool: &str,
        kind: OfferingKey,
        price: impl FnOnce(&OfferingKey) -> Option<f64>,
    ) -> bool {
        if self.is_counted(claim, pool, &kind) {
            return true;
        }
        self.remove(claim);
        self.claims.insert(claim.to_owned(), (pool.to_owned(), kind.clone()));
        let kinds = self.pools.entry(pool.to_owned()).or_default();
        let mut is_found = true;
        let priced = kinds.entry(kind).or_insert_with_key(|kind| {
            let price = price(kind);
            is_found = price.is_some();
            OfferingCost { count: 0, price: price.unwrap_or_default() }
        });
        priced.count += 1;
        is_found
    }

    /// Whether a NodeClaim is counted under this NodePool and offering.
    pub fn is_counted(&self, claim: &str, pool: &str, kind: &OfferingKey) -> bool {
        self.claims.get(claim).is_some_and(|known| known.0 == pool && known.1 == *kind)
    }

    /// Takes a NodeClaim out that is gone. Returns its pool, if it was counted.
    pub fn remove(&mut self, claim: &str) -> Option<String> {
        let (pool, kind) = self.claims.remove(claim)?;
        let kinds = self.pools.get_mut(&pool)?;
        if let Some(priced) = kinds.get_mut(&kind) {
            priced.count = priced.count.saturating_sub(1);
            if priced.count == 0 {
                kinds.remove(&kind);
            }
        }
        if kinds.is_empty() {
            self.pools.remove(&pool);
        }
        Some(pool)
    }

    /// Takes everything of a pool out that is gone.
    pub fn remove_pool(&mut self, pool: &str) {
        self.pools.remove(pool);
        self.claims.retain(|_, (of, _)| of != pool);
    }

    /// Asks for all prices of a pool anew. Returns the kinds without one, which count as 0.
    pub fn reprice(
        &mut self,
        pool: &str,
        mut price: impl FnMut(&OfferingKey) -> Option<f64>,
    ) -> Vec<OfferingKey> {
        let mut unknown = Vec::new();
        for (kind, priced) in self.pools.get_mut(pool).into_iter().flatten() {
            let price = price(kind);
            if price.is_none() {
                unknown.push(kind.clone());
            }
            priced.price = price.unwrap_or_default();
        }
        unknown
    }

    /// Returns what the nodes of a NodePool cost per hour; none if it has none.
    pub fn pool_cost(&self, pool: &str) -> Option<f64> {
        let kinds = self.pools.get(pool)?;
        Some(kinds.values().map(|priced| f64::from(priced.count) * priced.price).sum())
    }

    /// The pools that have nodes.
    pub fn pools(&self) -> impl Iterator<Item = &str> {
        self.pools.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offering(capacity_type: &str) -> OfferingKey {
        let [zone, capacity_type, instance_type] =
            ["a", capacity_type, "m"].map(|text: &str| text.to_owned());
        OfferingKey { zone, capacity_type, instance_type }
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the tracker asks for it")]
    fn price(kind: &OfferingKey) -> Option<f64> {
        Some(if kind.capacity_type == "spot" { 0.25 } else { 1.0 })
    }

    #[test]
    fn the_cost_of_a_pool_follows_its_claims_and_prices() {
        let mut costs = CostTracker::default();
        let id = "40/CS-38";
        assert!(costs.add("a", "pool", offering("spot"), price), "{id}");
        assert!(costs.add("b", "pool", offering("on-demand"), price), "{id}");
        assert_eq!(costs.pool_cost("pool"), Some(1.25), "{id}");
        assert!(
            costs.add("a", "pool", offering("spot"), |_| panic!("is known")),
            "{id}: duplicate"
        );
        assert_eq!(costs.pool_cost("pool"), Some(1.25), "{id}: duplicate");
        assert_eq!(costs.remove("b").as_deref(), Some("pool"), "{id}: one deleted");
        assert_eq!(costs.pool_cost("pool"), Some(0.25), "{id}: one deleted");
        assert_eq!(costs.reprice("pool", |_| Some(0.5)), [], "{id}: repriced");
        assert_eq!(costs.pool_cost("pool"), Some(0.5), "{id}: repriced");
        costs.remove("a");
        assert_eq!(
            (costs.pool_cost("pool"), costs.pools().count()),
            (None, 0),
            "{id}: last deleted"
        );
        assert!(costs.add("c", "pool", offering("spot"), price), "30/CC-1: again");
        assert!(costs.add("d", "other", offering("on-demand"), price), "30/CC-1: another pool");
        let both = ["pool", "other"].map(|pool| costs.pool_cost(pool));
        assert_eq!(both, [Some(0.25), Some(1.0)], "30/CC-1");
        assert_eq!(costs.reprice("pool", |_| Some(0.75)), [], "30/CC-2");
        let both = ["pool", "other"].map(|pool| costs.pool_cost(pool));
        assert_eq!(both, [Some(0.75), Some(1.0)], "30/CC-2: only what was asked about");
    }

    #[test]
    fn an_offering_without_a_price_costs_nothing_and_is_reported() {
        let mut costs = CostTracker::default();
        assert!(!costs.add("a", "pool", offering("spot"), |_| None));
        assert_eq!(costs.pool_cost("pool"), Some(0.0));
        assert_eq!(costs.reprice("pool", |_| None), [offering("spot")]);
    }

    #[test]
    fn removing_a_nodepool_removes_its_nodeclaims() {
        let mut costs = CostTracker::default();
        costs.add("a", "pool", offering("spot"), price);
        costs.add("b", "other", offering("spot"), price);
        costs.remove_pool("pool");
        assert_eq!(costs.pools().collect::<Vec<_>>(), ["other"]);
        assert_eq!(costs.remove("a"), None);
    }

    #[test]
    fn a_nodeclaim_that_changes_its_offering_is_counted_once() {
        let mut costs = CostTracker::default();
        costs.add("a", "pool", offering("spot"), price);
        costs.add("a", "pool", offering("on-demand"), price);
        assert_eq!(costs.pool_cost("pool"), Some(1.0));
    }
}
