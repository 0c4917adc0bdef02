//! What the cloud offers: instance types and offerings (spec 40 §9.3, spec 45 §3).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::copy_on_write::CopyOnWrite;
use crate::requirement::{Aliases, Requirements};
use crate::resources::{MEMORY, Quantity, Resources};
use crate::scheduling::dra::DynamicResources;

#[cfg(test)]
mod tests;

/// Instance types by NodePool, and the labels that the provider knows.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// What each NodePool can launch, by its name, overlays applied. Pools often share a list. A
    /// pool that is absent, or has an empty list, launches nothing.
    pub pools: BTreeMap<String, InstanceTypes>,
    /// The labels that pods may require although no NodePool defines them (spec 20 §1.8).
    pub well_known: Arc<BTreeSet<String>>,
    /// The label that names the reservation of a reserved offering.
    pub reservation_id_label: Option<String>,
    /// Other spellings of labels.
    pub aliases: Arc<Aliases>,
}

/// A shared list of instance types.
pub type InstanceTypes = Arc<[Arc<InstanceType>]>;

/// An instance type of the provider.
///
/// Copies share the large fields, so that a new price or availability costs only new offerings.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceType {
    /// The value of the instance-type label.
    pub name: String,
    /// The labels that its nodes may have. Every well-known label is defined; DoesNotExist where it
    /// makes no sense.
    pub requirements: CopyOnWrite<Requirements>,
    /// The ways to buy it, unavailable ones included.
    pub offerings: Arc<[Offering]>,
    /// The resources of the instance.
    pub capacity: CopyOnWrite<Resources>,
    /// What kubelet, system and eviction threshold keep, summed.
    pub overhead: CopyOnWrite<Resources>,
    /// How many volumes of a CSI driver a node can attach. An absent driver is unknown.
    pub volume_limits: BTreeMap<String, u32>,
    /// Devices that a node of this type will publish.
    pub dynamic_resources: DynamicResources,
    /// Whether a NodeOverlay changed the capacity.
    pub has_capacity_overlay: bool,
}

/// One way to buy an instance type: zone, capacity type, maybe a reservation.
#[derive(Clone, Debug, PartialEq)]
pub struct Offering {
    /// At least zone and capacity type. Shared by the offerings of many instance types.
    pub requirements: CopyOnWrite<Requirements>,
    /// US dollars per hour.
    pub price: f64,
    /// Whether it can be used at all. A full reservation is available.
    pub available: bool,
    /// Instances left in the reservation; 0 for offerings that are not reserved.
    pub reservation_capacity: u32,
    /// Replaces the type's capacity by key.
    pub capacity_override: Resources,
    /// Replaces the type's overhead by key.
    pub overhead_override: Resources,
    /// Whether a NodeOverlay changed the price.
    pub has_price_overlay: bool,
}

/// The capacity type of offerings that are paid for already.
pub const RESERVED: &str = "reserved";
/// The capacity type of offerings that may be taken back.
pub const SPOT: &str = "spot";
/// The capacity type of offerings that may not.
pub const ON_DEMAND: &str = "on-demand";
/// The label of the capacity type.
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

/// What a node gets when it is bought in one of some offerings.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocatableGroup {
    /// What pods can use.
    pub allocatable: Resources,
    /// Positions in [`InstanceType::offerings`]; available ones only.
    pub offerings: Vec<usize>,
}

impl InstanceType {
    /// Returns a copy with other offerings, which shares all else.
    #[must_use]
    pub fn with_offerings(&self, offerings: impl Into<Arc<[Offering]>>) -> Self {
        Self { offerings: offerings.into(), ..self.clone() }
    }

    /// What pods can use of a node bought in an offering without overrides.
    pub fn allocatable(&self) -> Resources {
        allocatable(&self.capacity, &self.overhead)
    }

    /// Available offerings by what they give. The first group is the type's own, maybe without any
    /// offering; the others are in order of appearance (spec 20 §3.11).
    pub fn allocatable_groups(&self) -> Vec<AllocatableGroup> {
        let base = AllocatableGroup { allocatable: self.allocatable(), offerings: Vec::new() };
        let mut overrides = vec![(Resources::default(), Resources::default())];
        let mut groups = vec![base];
        for (position, offering) in self.offerings.iter().enumerate().filter(|(_, o)| o.available) {
            let own = (offering.capacity_override.clone(), offering.overhead_override.clone());
            let group = overrides.iter().position(|known| *known == own).unwrap_or_else(|| {
                groups.push(AllocatableGroup {
                    allocatable: allocatable(
                        &self.capacity.overlaid_by(&own.0),
                        &self.overhead.overlaid_by(&own.1),
                    ),
                    offerings: Vec::new(),
                });
                overrides.push(own);
                groups.len() - 1
            });
            groups[group].offerings.push(position);
        }
        groups
    }

    /// Returns the lowest price of a launchable, compatible offering (spec 45 §3.2).
    pub fn cheapest_launch_price(
        &self,
        requirements: &Requirements,
        well_known: &BTreeSet<String>,
    ) -> Option<f64> {
        self.offerings
            .iter()
            .filter(|offering| offering.is_launchable())
            .filter(|offering| requirements.compatible(&offering.requirements, well_known).is_ok())
            .map(|offering| offering.price)
            .min_by(f64::total_cmp)
    }
}

/// The most that a launch with these requirements may cost in one of the offerings: the highest
/// price of the capacity type that would be taken, which is reserved before spot before on-demand
/// (spec 40 §9.3.4). Whether offerings are available is up to the caller.
pub fn worst_launch_price<'a>(
    offerings: impl IntoIterator<Item = &'a Offering>,
    requirements: &Requirements,
    well_known: &BTreeSet<String>,
) -> Option<f64> {
    let compatible: Vec<_> = offerings
        .into_iter()
        .filter(|offering| requirements.compatible(&offering.requirements, well_known).is_ok())
        .collect();
    [RESERVED, SPOT, ON_DEMAND].into_iter().find_map(|capacity_type| {
        compatible
            .iter()
            .filter(|offering| offering.may_have_capacity_type(capacity_type))
            .map(|offering| offering.price)
            .max_by(f64::total_cmp)
    })
}

/// Capacity less overhead. Huge pages are taken out of the memory, which never goes below zero by
/// them.
fn allocatable(capacity: &Resources, overhead: &Resources) -> Resources {
    let mut allocatable = capacity.subtract(overhead);
    for (_, pages) in capacity.iter().filter(|(name, _)| name.starts_with("hugepages-")) {
        if let Some(memory) = allocatable.get(MEMORY) {
            allocatable.set(MEMORY, memory.saturating_sub(pages).max(Quantity::ZERO));
        }
    }
    allocatable
}

impl Offering {
    /// One that is available, not reserved, and as the cloud reports it.
    pub fn new(requirements: impl Into<CopyOnWrite<Requirements>>, price: f64) -> Self {
        Self {
            requirements: requirements.into(),
            price,
            available: true,
            reservation_capacity: 0,
            capacity_override: Resources::default(),
            overhead_override: Resources::default(),
            has_price_overlay: false,
        }
    }

    /// Whether an instance can be started in it now: available, and not in a full reservation.
    pub fn is_launchable(&self) -> bool {
        let may_be_reserved =
            self.requirements.get(CAPACITY_TYPE).is_some_and(|types| types.has(RESERVED));
        self.available && (!may_be_reserved || self.reservation_capacity > 0)
    }

    /// Returns whether the offering may have this capacity type.
    ///
    /// An offering without the requirement may have any.
    fn may_have_capacity_type(&self, capacity_type: &str) -> bool {
        self.requirements.get(CAPACITY_TYPE).is_none_or(|types| types.has(capacity_type))
    }

    /// Whether it is a reserved one.
    pub fn is_reserved(&self) -> bool {
        self.requirements.get(CAPACITY_TYPE).is_some_and(|types| {
            !types.is_complement() && types.values().first().is_some_and(|value| value == RESERVED)
        })
    }

    /// The reservation that it is in.
    pub fn reservation_id(&self, label: Option<&str>) -> Option<&str> {
        let ids = self.requirements.get(label?)?;
        if ids.is_complement() { None } else { ids.values().first().map(String::as_str) }
    }
}
