//! Converts in-flight NodeClaims to a plan (spec 20 §3.24).

use rustc_hash::FxHashMap;
use std::sync::Arc;

use super::Solver;
use super::requirement_store::{SetId, UndefinedLabels, number};
use crate::bit_set::BitSet;
use crate::catalog::{CAPACITY_TYPE, RESERVED};
use crate::plan::{Plan, PlannedNodeClaim};
use crate::rejection::PodRejection;
use crate::requirement::{Requirement, Requirements};
use crate::resources::Resources;
use crate::scheduling::dra::CandidateId;
use crate::scheduling::{Fuel, truncation};

/// The most lists of instance types that are kept between requests.
const MOST_LISTED: usize = 4096;

/// Results that many NodeClaims share, calculated once for each requirement set.
#[derive(Clone, Debug, Default)]
pub(super) struct PlanCache {
    requirements: FxHashMap<(SetId, Vec<String>), (SetId, Arc<Requirements>)>,
    /// By list of types and final set: the types in the order of their price.
    orders: FxHashMap<(usize, SetId), Arc<[u32]>>,
    /// By final set and types: the types that are listed, and the lowest price.
    listed: FxHashMap<(usize, SetId, BitSet), ListedTypes>,
}

/// Instance types, cheapest first, and the lowest price.
type ListedTypes = (Arc<[u32]>, Option<f64>);

impl PlanCache {
    /// Clears the lists if requests have left too many.
    fn trim(&mut self) {
        if self.listed.len() > MOST_LISTED {
            self.listed.clear();
        }
    }
}

impl Solver<'_> {
    pub(super) fn finish(&mut self, fuel: &mut Fuel<'_>) -> Plan {
        let (mut rejected, explanations) = self.rejections(fuel);
        let mut shared = std::mem::take(&mut self.plan_cache);
        let mut claims = Vec::with_capacity(self.claims.len());
        for index in 0..self.claims.len() {
            match self.finish_claim(index, &mut shared) {
                Ok(claim) => claims.push(claim),
                Err(rejection) => {
                    let rejection = Arc::new(rejection);
                    for &pod in &self.claims[index].pods {
                        rejected.insert(pod, rejection.clone());
                    }
                }
            }
        }
        shared.trim();
        self.plan_cache = shared;
        Plan {
            claims,
            existing_nodes: self.existing.drain_placements().collect(),
            rejected,
            explanations,
            unusable_pools: self.unusable_pools.clone(),
            effective_zones: std::mem::take(&mut self.effective_zones),
            was_cut_short: fuel.is_used_up(),
        }
    }

    fn finish_claim(
        &mut self,
        index: usize,
        shared: &mut PlanCache,
    ) -> Result<PlannedNodeClaim, PodRejection> {
        let reservations = self.reservations.held_by(index);
        let (set, requirements) = self.final_requirements(index, &reservations, shared);
        let claim = &self.claims[index];
        let list = self.templates[claim.template].types;
        let key = (list, set, claim.variants.clone());
        let (instance_types, cheapest) = if let Some(known) = shared.listed.get(&key) {
            known.clone()
        } else {
            let listed = self.listed(index, set, shared);
            shared.listed.insert(key, listed.clone());
            listed
        };
        let claim = &self.claims[index];
        let template = &self.templates[claim.template];
        let list = &self.types[list].list;
        let offered = instance_types.iter().map(|&position| &*list[position as usize].requirements);
        truncation::check_min_values(offered, &requirements, self.input.options.min_values)
            .map_err(|unmet| PodRejection::MinValuesMissedAfterTruncation {
                pool: template.pool.name.clone(),
                unmet,
            })?;
        let mut requests = Resources::default();
        for pod in &claim.pods {
            let class = self.class_of(*pod);
            requests.add(self.classes[class].plain_requests);
        }
        let groups =
            template.groups.iter().filter(|group| group.variants.intersects(&claim.variants));
        requests.add(&Resources::min(groups.filter_map(|group| group.overhead.as_ref())));
        let candidate = CandidateId::InFlight(number(index));
        let dynamic_drivers = self.allocator.as_ref().map(|own| own.drivers(candidate));
        let dynamic_drivers = dynamic_drivers.unwrap_or_default();
        let claim = &mut self.claims[index];
        Ok(PlannedNodeClaim {
            pool: self.templates[claim.template].pool_id,
            pods: std::mem::take(&mut claim.pods),
            instance_types,
            requirements,
            requests,
            reservations,
            min_values_relaxed: claim.min_values_relaxed,
            lowest_price: cheapest,
            dynamic_drivers,
        })
    }

    /// Returns the requirements of the created NodeClaim, pinned to its reservations.
    fn final_requirements(
        &mut self,
        index: usize,
        reservations: &[String],
        shared: &mut PlanCache,
    ) -> (SetId, Arc<Requirements>) {
        let key = (self.claims[index].set, reservations.to_vec());
        if let Some(known) = shared.requirements.get(&key) {
            return known.clone();
        }
        let mut set = key.0;
        if !reservations.is_empty() {
            let reserved = Requirement::in_values(CAPACITY_TYPE, [RESERVED]);
            let reserved = self.store.requirement(&reserved);
            set = self.store.replace(set, reserved);
            if let Some(label) = &self.input.catalog.reservation_id_label {
                let ids = Requirement::in_values(label, reservations.iter().cloned());
                let ids = self.store.requirement(&ids);
                set = self.store.tighten(set, ids);
            }
        }
        let known = (set, Arc::new(self.store.plain(set)));
        shared.requirements.insert(key, known.clone());
        known
    }

    /// Returns all types of a list by price, then by name.
    ///
    /// The price is the lowest of the launchable offerings that suit.
    fn price_order(&mut self, list: usize, set: SetId) -> Vec<u32> {
        let mut prices = Vec::with_capacity(self.types[list].list.len());
        let types = &self.types[list];
        for (instance_type, sets) in types.list.iter().zip(&types.offerings) {
            let mut lowest = f64::INFINITY;
            let offerings = instance_type.offerings.iter().zip(sets);
            for (offering, &required) in offerings.filter(|(offering, _)| offering.is_launchable())
            {
                if self.store.compatible(set, required, UndefinedLabels::WellKnown) {
                    lowest = if offering.price.total_cmp(&lowest).is_lt() {
                        offering.price
                    } else {
                        lowest
                    };
                }
            }
            prices.push(lowest);
        }
        let names = &self.types[list].list;
        let mut order: Vec<usize> = (0..prices.len()).collect();
        order.sort_by(|&a, &b| {
            truncation::compare_prices((prices[a], &names[a].name), (prices[b], &names[b].name))
        });
        order.into_iter().map(number).collect()
    }

    /// Returns the types that a NodeClaim lists, cheapest first, and the lowest price.
    ///
    /// The price is the lowest of their available offerings that suit.
    fn listed(&mut self, index: usize, set: SetId, shared: &mut PlanCache) -> ListedTypes {
        let list = self.templates[self.claims[index].template].types;
        let order = if let Some(order) = shared.orders.get(&(list, set)) {
            order.clone()
        } else {
            let order: Arc<[u32]> = Arc::from(self.price_order(list, set));
            shared.orders.insert((list, set), order.clone());
            order
        };
        let types = &self.types[list];
        let mut is_left = vec![false; types.list.len()];
        for kept in types.types_of(&self.claims[index].variants) {
            is_left[kept as usize] = true;
        }
        let left = order.iter().copied().filter(|&position| is_left[position as usize]);
        let listed: Arc<[u32]> = left.take(self.sizes.listed_types).collect();
        let cheapest = self.cheapest(list, set, &listed);
        (listed, cheapest)
    }

    /// Returns the lowest price among the available offerings of some types that suit.
    fn cheapest(&mut self, list: usize, set: SetId, listed: &[u32]) -> Option<f64> {
        let types = &self.types[list];
        let mut lowest: Option<f64> = None;
        for &position in listed {
            let position = position as usize;
            let offerings = types.list[position].offerings.iter().zip(&types.offerings[position]);
            for (offering, &required) in offerings.filter(|(offering, _)| offering.available) {
                let is_lower = lowest.is_none_or(|price| offering.price.total_cmp(&price).is_lt());
                if is_lower && self.store.compatible(set, required, UndefinedLabels::WellKnown) {
                    lowest = Some(offering.price);
                }
            }
        }
        lowest
    }
}
