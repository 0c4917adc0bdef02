//! The offerings of resolved instance types (spec 51 §7, spec 55 §3).
//!
//! [`OfferingScope`] has what all instance types of one node class share. It computes the
//! offerings of one instance type at a time: spot and on-demand in every zone of the region, then
//! reservations, then a copy for each partition of a placement group. An offering that cannot be
//! launched now is listed as unavailable, so that explanations can name it.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_api::labels::{self, aws};
use karpenter_core::catalog::Offering;
use karpenter_core::copy_on_write::CopyOnWrite;
use karpenter_core::requirement::{Requirement, Requirements};

use crate::instance_types::{
    ClassReservation, ClassSettings, Discovered, ResolvedType, is_compatible,
};
use crate::prices::PriceList;
use crate::reservations::ReservationCounts;
use crate::unavailable::{OfferingKey, PlacementScope, UnavailableOfferings};

mod overlay_prices;

pub use overlay_prices::overlay_prices;

/// The price of a reserved instance is the on-demand price divided by this.
///
/// So reservations win against everything that costs money, and cheaper types among themselves.
pub const RESERVED_PRICE_DIVISOR: f64 = 10_000_000.0;

/// A placement group that launches go into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementGroup {
    /// The id.
    pub id: String,
    /// `cluster`, `partition` or `spread`.
    pub strategy: String,
    /// The number of partitions of strategy `partition`.
    pub partition_count: Option<u32>,
}

impl PlacementGroup {
    /// Returns the names of the partitions.
    pub fn partitions(&self) -> impl Iterator<Item = String> + use<> {
        let count = self.partition_count.filter(|_| self.strategy == "partition");
        (1..=count.unwrap_or_default()).map(|number| number.to_string())
    }
}

/// The state outside of node class and discovery that changes offerings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OfferingContext {
    /// The placement group of the node class, if it is resolved.
    pub placement_group: Option<PlacementGroup>,
    /// The ids of zones from which traffic is shifted away.
    pub shifted_zone_ids: BTreeSet<String>,
    /// Prices that NodeOverlays set on instance types without one.
    pub overlay_prices: BTreeMap<String, f64>,
}

/// Where prices, marks and counts come from.
#[derive(Clone, Copy, Debug)]
pub struct OfferingSources<'a> {
    /// The prices.
    pub prices: &'a PriceList,
    /// The offerings that EC2 has refused.
    pub unavailable: &'a UnavailableOfferings,
    /// The instances left in reservations.
    pub reservations: &'a ReservationCounts,
}

/// What the offerings of all instance types of a node class have in common.
#[derive(Debug)]
pub struct OfferingScope<'a> {
    settings: &'a ClassSettings,
    context: &'a OfferingContext,
    zones: Vec<ZoneScope<'a>>,
    /// Requirements by zone and capacity type.
    requirements: BTreeMap<(&'a str, &'static str), CopyOnWrite<Requirements>>,
}

#[derive(Debug)]
struct ZoneScope<'a> {
    name: &'a str,
    subnets: &'a [String],
    is_shifted: bool,
}

impl<'a> OfferingScope<'a> {
    /// Prepares the zones and the requirements of offerings.
    pub fn new(
        discovered: &'a Discovered,
        settings: &'a ClassSettings,
        context: &'a OfferingContext,
    ) -> Self {
        let zones: Vec<_> = discovered
            .all_zones
            .iter()
            .map(|name| {
                let own = settings.zone(name);
                let id = own.and_then(|zone| zone.zone_id.as_deref());
                ZoneScope {
                    name,
                    subnets: own.map_or(&[][..], |zone| &zone.subnets),
                    is_shifted: id.is_some_and(|id| context.shifted_zone_ids.contains(id)),
                }
            })
            .collect();
        let mut requirements = BTreeMap::new();
        for zone in &discovered.all_zones {
            for capacity_type in [labels::ON_DEMAND, labels::SPOT] {
                let made = base_requirements(zone, capacity_type, settings);
                requirements.insert((zone.as_str(), capacity_type), made.into());
            }
        }
        Self { settings, context, zones, requirements }
    }

    /// Returns the offerings of an instance type.
    pub fn offerings(
        &self,
        resolved: &ResolvedType,
        sources: OfferingSources<'_>,
    ) -> Vec<Offering> {
        let group = self.context.placement_group.as_ref();
        let is_compatible = is_compatible(&resolved.info, self.settings, group);
        let mut offerings = self.base_offerings(resolved, sources, is_compatible);
        let own = self.settings.reservations_of(&resolved.info.name);
        offerings.extend(own.map(|known| self.reserved(resolved, known, sources, is_compatible)));
        let partitions: Vec<_> = group.into_iter().flat_map(PlacementGroup::partitions).collect();
        if partitions.is_empty() {
            return offerings;
        }
        let in_partition = |offering: &Offering, partition: &String| {
            self.in_partition(resolved, offering, partition, sources)
        };
        let copies = offerings.iter().flat_map(|offering| {
            partitions.iter().map(move |partition| in_partition(offering, partition))
        });
        copies.collect()
    }

    /// Returns the spot and on-demand offerings in every zone of the region.
    fn base_offerings(
        &self,
        resolved: &ResolvedType,
        sources: OfferingSources<'_>,
        is_compatible: bool,
    ) -> Vec<Offering> {
        let requirements = &resolved.instance_type.requirements;
        let name = resolved.info.name.as_str();
        let sold = requirements.get(labels::CAPACITY_TYPE);
        let own_zones = requirements.get(labels::ZONE);
        let is_sold = |capacity_type: &&&str| sold.is_some_and(|sold| sold.has(capacity_type));
        let capacity_types = [labels::ON_DEMAND, labels::SPOT];
        let capacity_types: Vec<_> = capacity_types.iter().filter(is_sold).copied().collect();
        let mut offerings = Vec::with_capacity(self.zones.len() * capacity_types.len());
        for zone in &self.zones {
            let is_own = own_zones.is_some_and(|zones| zones.has(zone.name));
            for &capacity_type in &capacity_types {
                let Some(known) = self.requirements.get(&(zone.name, capacity_type)) else {
                    continue;
                };
                let price = self.price(name, capacity_type, zone.name, sources.prices);
                let mut offering = Offering::new(known.clone(), price.unwrap_or_default());
                offering.available = is_compatible
                    && is_own
                    && !zone.is_shifted
                    && price.is_some()
                    && !self.is_refused(name, capacity_type, zone, sources.unavailable);
                offerings.push(offering);
            }
        }
        offerings
    }

    fn price(
        &self,
        instance_type: &str,
        capacity_type: &str,
        zone: &str,
        prices: &PriceList,
    ) -> Option<f64> {
        let price = match capacity_type {
            labels::SPOT => prices.spot(instance_type, zone),
            _ => prices.on_demand(instance_type),
        };
        price.or_else(|| self.context.overlay_prices.get(instance_type).copied())
    }

    /// Returns whether EC2 has refused the offering, for all launches or for the placement group.
    fn is_refused(
        &self,
        instance_type: &str,
        capacity_type: &str,
        zone: &ZoneScope<'_>,
        unavailable: &UnavailableOfferings,
    ) -> bool {
        let mut key = OfferingKey {
            instance_type: instance_type.to_owned(),
            capacity_type: capacity_type.to_owned(),
            zone: zone.name.to_owned(),
            scope: None,
        };
        if unavailable.is_unavailable(&key, zone.subnets) {
            return true;
        }
        let Some(group) = &self.context.placement_group else { return false };
        key.scope = Some(PlacementScope { placement_group: group.id.clone(), partition: None });
        unavailable.is_unavailable(&key, zone.subnets)
    }

    /// Returns the offering of a reservation; a full one is available without capacity.
    fn reserved(
        &self,
        resolved: &ResolvedType,
        reservation: &ClassReservation,
        sources: OfferingSources<'_>,
        is_compatible: bool,
    ) -> Offering {
        let zone_id = self.settings.zone(&reservation.zone).and_then(|own| own.zone_id.as_ref());
        let is_shifted = zone_id.is_some_and(|id| self.context.shifted_zone_ids.contains(id));
        let zones = resolved.instance_type.requirements.get(labels::ZONE);
        let requirements: Requirements = [
            Requirement::in_values(labels::CAPACITY_TYPE, [labels::RESERVED]),
            Requirement::in_values(labels::ZONE, [&reservation.zone]),
            Requirement::in_values(aws::CAPACITY_RESERVATION_ID, [&reservation.id]),
            Requirement::in_values(aws::CAPACITY_RESERVATION_TYPE, [&reservation.kind]),
            Requirement::in_values(
                aws::CAPACITY_RESERVATION_INTERRUPTIBLE,
                [reservation.interruptible.to_string()],
            ),
        ]
        .into_iter()
        .chain(zone_id.map(|id| Requirement::in_values(aws::ZONE_ID, [id])))
        .collect();
        let price = sources.prices.on_demand(&resolved.info.name).unwrap_or_default();
        let mut offering = Offering::new(requirements, price / RESERVED_PRICE_DIVISOR);
        offering.reservation_capacity = sources.reservations.available(&reservation.id);
        offering.available = is_compatible
            && !reservation.is_expiring
            && !is_shifted
            && zones.is_some_and(|zones| zones.has(&reservation.zone));
        offering
    }

    /// Returns the copy of an offering for one partition of the placement group.
    fn in_partition(
        &self,
        resolved: &ResolvedType,
        offering: &Offering,
        partition: &str,
        sources: OfferingSources<'_>,
    ) -> Offering {
        let mut copy = offering.clone();
        copy.requirements.add(Requirement::in_values(aws::PLACEMENT_GROUP_PARTITION, [partition]));
        let single = |key| {
            let values = offering.requirements.get(key).map(Requirement::values);
            values.and_then(|values| values.first()).cloned().unwrap_or_default()
        };
        let group = self.context.placement_group.as_ref();
        let key = OfferingKey {
            instance_type: resolved.info.name.clone(),
            capacity_type: single(labels::CAPACITY_TYPE),
            zone: single(labels::ZONE),
            scope: group.map(|group| PlacementScope {
                placement_group: group.id.clone(),
                partition: Some(partition.to_owned()),
            }),
        };
        // The marks of capacity types and subnets are part of the copied availability.
        copy.available &= offering.is_reserved() || !sources.unavailable.is_marked(&key);
        copy
    }
}

/// Returns the labels that a placement group adds to every instance type.
pub fn placement_labels(group: &PlacementGroup) -> Vec<Requirement> {
    let partitions: Vec<_> = group.partitions().collect();
    let mut labels = vec![Requirement::in_values(aws::PLACEMENT_GROUP_ID, [&group.id])];
    if !partitions.is_empty() {
        labels.push(Requirement::in_values(aws::PLACEMENT_GROUP_PARTITION, partitions));
    }
    labels
}

fn base_requirements(zone: &str, capacity_type: &str, settings: &ClassSettings) -> Requirements {
    let zone_id = settings.zone(zone).and_then(|own| own.zone_id.as_ref());
    [
        Requirement::in_values(labels::CAPACITY_TYPE, [capacity_type]),
        Requirement::in_values(labels::ZONE, [zone]),
        Requirement::does_not_exist(aws::CAPACITY_RESERVATION_ID),
        Requirement::does_not_exist(aws::CAPACITY_RESERVATION_TYPE),
        Requirement::does_not_exist(aws::CAPACITY_RESERVATION_INTERRUPTIBLE),
    ]
    .into_iter()
    .chain(zone_id.map(|id| Requirement::in_values(aws::ZONE_ID, [id])))
    .collect()
}
