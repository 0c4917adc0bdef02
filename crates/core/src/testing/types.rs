//! Instance types and offerings with the defaults of upstream's fake provider (spec 40 §10.5).

use super::labels::{ZONES, label_key, quantity, requirement, resources};
use crate::catalog::{CAPACITY_TYPE, InstanceType, Offering, RESERVED};
use crate::requirement::{Operator, Requirement, Requirements};
use crate::resources::{CPU, MEMORY, PODS, Quantity, Resources};
use crate::scheduling::dra::DynamicResources;

/// The label that names a reservation.
pub const RESERVATION_ID: &str = "karpenter.test.sh/reservation-id";
/// Devices of the fake provider; either makes a type dearer by a dollar.
const VENDORS: [&str; 2] = ["fake.com/vendor-a", "fake.com/vendor-b"];

/// An instance type in the making.
#[derive(Clone, Debug)]
pub struct TypeBuilder {
    name: String,
    capacity: Resources,
    overhead: Resources,
    arch: String,
    systems: Vec<String>,
    offerings: Vec<Offering>,
    requirements: Vec<Requirement>,
    volume_limits: Vec<(String, u32)>,
    dynamic_resources: DynamicResources,
}

/// Returns the instance type `t<cpu>`, of which only the cpu is scarce.
///
/// Pods can use all of its cpu.
pub fn cpu_bound_type(cpu: u32) -> TypeBuilder {
    let name = format!("t{cpu}");
    instance_type(&name).cpu(&cpu.to_string()).memory("100Gi").pods("100").no_overhead()
}

/// A type with 4 cpu, 4Gi, 5 pods, sold in five offerings at a price that follows from its size.
pub fn instance_type(name: &str) -> TypeBuilder {
    TypeBuilder {
        name: name.to_owned(),
        capacity: resources(&[("cpu", "4"), ("memory", "4Gi"), ("pods", "5")]),
        overhead: resources(&[("cpu", "100m"), ("memory", "10Mi")]),
        arch: "amd64".to_owned(),
        systems: ["linux", "windows", "darwin"].map(ToOwned::to_owned).to_vec(),
        offerings: Vec::new(),
        requirements: Vec::new(),
        volume_limits: Vec::new(),
        dynamic_resources: DynamicResources::default(),
    }
}

impl TypeBuilder {
    /// The same under another name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Has so much cpu.
    #[must_use]
    pub fn cpu(self, amount: &str) -> Self {
        self.resource(CPU, amount)
    }

    /// Has so much memory.
    #[must_use]
    pub fn memory(self, amount: &str) -> Self {
        self.resource(MEMORY, amount)
    }

    /// Runs so many pods.
    #[must_use]
    pub fn pods(self, count: &str) -> Self {
        self.resource(PODS, count)
    }

    /// Sets the capacity of a resource.
    #[must_use]
    pub fn resource(mut self, name: &str, amount: &str) -> Self {
        self.capacity.set(name, quantity(amount));
        self
    }

    /// Gives all that it has to pods.
    #[must_use]
    pub fn no_overhead(mut self) -> Self {
        self.overhead = Resources::default();
        self
    }

    /// Another architecture.
    #[must_use]
    pub fn arch(mut self, arch: &str) -> Self {
        arch.clone_into(&mut self.arch);
        self
    }

    /// Other operating systems.
    #[must_use]
    pub fn systems(mut self, systems: &[&str]) -> Self {
        self.systems = systems.iter().map(|&system| system.to_owned()).collect();
        self
    }

    /// Adds an offering; the first one replaces the five default ones.
    ///
    /// See [`Self::additional_offering`]. A negative price follows from the type's size.
    #[must_use]
    pub fn offering(mut self, offering: Offering) -> Self {
        self.offerings.push(offering);
        self
    }

    /// Adds an offering to the existing ones, initially the default offerings.
    #[must_use]
    pub fn additional_offering(mut self, offering: Offering) -> Self {
        if self.offerings.is_empty() {
            self.offerings = default_offerings();
        }
        self.offering(offering)
    }

    /// On demand, in one zone, at a price.
    #[must_use]
    pub fn on_demand(self, zone: &str, price: f64) -> Self {
        self.offering(offering("on-demand", zone, price))
    }

    /// Defines a label.
    #[must_use]
    pub fn require(mut self, short_key: &str, operator: Operator, values: &[&str]) -> Self {
        self.requirements.push(requirement(short_key, operator, values));
        self
    }

    /// Attaches at most so many volumes of a driver.
    #[must_use]
    pub fn volume_limit(mut self, driver: &str, limit: u32) -> Self {
        self.volume_limits.push((driver.to_owned(), limit));
        self
    }

    /// Sets the devices that nodes of this type publish.
    #[must_use]
    pub fn publishes_devices(mut self, devices: DynamicResources) -> Self {
        self.dynamic_resources = devices;
        self
    }

    /// The name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The type.
    pub fn build(mut self) -> InstanceType {
        let price = price_of(&self.capacity);
        if self.offerings.is_empty() {
            self.offerings = default_offerings();
        }
        self.offerings.iter_mut().filter(|o| o.price < 0.0).for_each(|o| o.price = price);
        let requirements = self.labels();
        InstanceType {
            name: self.name,
            requirements: requirements.into(),
            offerings: self.offerings.into(),
            capacity: self.capacity.into(),
            overhead: self.overhead.into(),
            volume_limits: self.volume_limits.into_iter().collect(),
            dynamic_resources: self.dynamic_resources,
            has_capacity_overlay: false,
        }
    }

    /// Every well-known label, as the fake provider defines it.
    fn labels(&self) -> Requirements {
        let offered = |label: &str| {
            let available = self.offerings.iter().filter(|offering| offering.available);
            let values = available.filter_map(|offering| offering.requirements.get(label));
            Requirement::in_values(label, values.flat_map(Requirement::values))
        };
        let cpu = self.capacity.amount(CPU);
        let is_large = cpu > quantity("4") && self.capacity.amount(MEMORY) > quantity("8Gi");
        let special = if is_large { vec!["optional"] } else { Vec::new() };
        let mut labels = Requirements::from_iter([
            Requirement::in_values(label_key("type"), [self.name.clone()]),
            Requirement::in_values(label_key("arch"), [self.arch.clone()]),
            Requirement::in_values(label_key("os"), self.systems.clone()),
            offered(label_key("zone")),
            offered(CAPACITY_TYPE),
            Requirement::in_values("size", [if is_large { "large" } else { "small" }]),
            Requirement::in_values("special", special),
            Requirement::in_values("integer", [cpu.units().to_string()]),
        ]);
        labels.extend(self.requirements.iter().cloned());
        labels
    }
}

/// Returns an available offering.
pub fn offering(capacity_type: &str, zone: &str, price: f64) -> Offering {
    let requirements = [
        Requirement::in_values(CAPACITY_TYPE, [capacity_type]),
        Requirement::in_values(label_key("zone"), [zone]),
    ];
    Offering::new(Requirements::from_iter(requirements), price)
}

/// A reserved offering with so many instances left, nearly free.
pub fn reserved(id: &str, zone: &str, left: u32) -> Offering {
    let mut offering = offering(RESERVED, zone, 0.001);
    offering.requirements.add(Requirement::in_values(RESERVATION_ID, [id]));
    offering.reservation_capacity = left;
    offering
}

/// Spot in the first two zones, on demand in all three. The price is filled in later.
fn default_offerings() -> Vec<Offering> {
    let spot = ZONES[..2].iter().map(|zone| offering("spot", zone, -1.0));
    let on_demand = ZONES.iter().map(|zone| offering("on-demand", zone, -1.0));
    spot.chain(on_demand).collect()
}

/// A tenth of a dollar for a cpu and for a gigabyte, one for devices.
fn price_of(capacity: &Resources) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a price, not a count")]
    let number = |quantity: Quantity| quantity.nanos() as f64 / 1e9;
    let devices = VENDORS.iter().filter(|vendor| capacity.get(vendor).is_some()).count();
    let devices = if devices == 0 { 0.0 } else { 1.0 };
    0.1 * number(capacity.amount(CPU)) + 0.1 * number(capacity.amount(MEMORY)) / 1e9 + devices
}
