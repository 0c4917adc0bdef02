//! What a launch with some requirements may cost, by instance type.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::catalog::{
    CAPACITY_TYPE, Catalog, InstanceType, InstanceTypes, SPOT, worst_launch_price,
};
use crate::labels::ZONE;
use crate::requirement::{Requirement, Requirements};

/// What a launch of one instance type may cost; infinite if nothing can be launched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LaunchPrice {
    /// The least.
    pub(super) cheapest: f64,
    /// The most.
    pub(super) worst: f64,
    /// Whether a spot instance can be launched.
    pub(super) has_spot: bool,
}

/// The launch prices of all instance types, by zone.
type PricesByZone = Arc<[(String, Arc<[LaunchPrice]>)]>;

/// A cache of launch prices by NodePool and requirements.
/// Many candidates lead to the same replacement.
pub(super) struct LaunchPrices<'a> {
    catalog: &'a Catalog,
    by_pool: FxHashMap<(String, Arc<Requirements>), Arc<[LaunchPrice]>>,
    by_zone: FxHashMap<(String, Arc<Requirements>), PricesByZone>,
}

impl<'a> LaunchPrices<'a> {
    pub(super) fn new(catalog: &'a Catalog) -> Self {
        Self { catalog, by_pool: FxHashMap::default(), by_zone: FxHashMap::default() }
    }

    /// Returns the instance types of a NodePool.
    pub(super) fn instance_types(&self, pool: &str) -> &'a [Arc<InstanceType>] {
        self.catalog.pools.get(pool).map_or(&[][..], |types: &InstanceTypes| types)
    }

    /// Returns the launch prices of a NodePool's instance types with requirements.
    pub(super) fn launch_prices(
        &mut self,
        pool: &str,
        requirements: &Arc<Requirements>,
    ) -> Arc<[LaunchPrice]> {
        let key = (pool.to_owned(), Arc::clone(requirements));
        if let Some(known) = self.by_pool.get(&key) {
            return Arc::clone(known);
        }
        let types = self.instance_types(pool).iter();
        let prices: Arc<[_]> =
            types.map(|one| self.compute_launch_price(one, requirements)).collect();
        self.by_pool.insert(key, Arc::clone(&prices));
        prices
    }

    /// The same for each zone of them, by name.
    pub(super) fn by_zone(&mut self, pool: &str, requirements: &Arc<Requirements>) -> PricesByZone {
        let key = (pool.to_owned(), Arc::clone(requirements));
        if let Some(known) = self.by_zone.get(&key) {
            return Arc::clone(known);
        }
        let sold = self.instance_types(pool).iter().flat_map(|one| &*one.offerings);
        let zones = sold.filter_map(|offering| offering.requirements.get(ZONE));
        let zones: BTreeSet<&String> = zones.flat_map(Requirement::values).collect();
        let is_allowed = |zone: &&&String| requirements.get(ZONE).is_none_or(|all| all.has(zone));
        let priced = zones.iter().filter(is_allowed).map(|&zone| {
            let mut narrowed = Requirements::clone(requirements);
            narrowed.add(Requirement::in_values(ZONE, [zone]));
            (zone.clone(), self.launch_prices(pool, &Arc::new(narrowed)))
        });
        let priced: Arc<[_]> = priced.collect();
        self.by_zone.insert(key, Arc::clone(&priced));
        priced
    }

    fn compute_launch_price(&self, of: &InstanceType, requirements: &Requirements) -> LaunchPrice {
        let well_known = &*self.catalog.well_known;
        let launchable: Vec<_> = of
            .offerings
            .iter()
            .filter(|offering| offering.is_launchable())
            .filter(|offering| requirements.compatible(&offering.requirements, well_known).is_ok())
            .collect();
        let prices = launchable.iter().map(|offering| offering.price);
        let is_spot = |types: &Requirement| types.has(SPOT);
        let worst = worst_launch_price(launchable.iter().copied(), requirements, well_known);
        LaunchPrice {
            cheapest: prices.min_by(f64::total_cmp).unwrap_or(f64::INFINITY),
            worst: worst.unwrap_or(f64::INFINITY),
            has_spot: launchable
                .iter()
                .any(|offering| offering.requirements.get(CAPACITY_TYPE).is_none_or(is_spot)),
        }
    }
}
