//! What KWOK offers: the built-in instance types and those of a file (spec 40 §10.2, §10.3).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_api::labels::{self, kwok};
use karpenter_api::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};
use karpenter_api::validation::ProviderRules;
use karpenter_core::catalog::{Catalog, InstanceType, InstanceTypes, Offering};
use karpenter_core::requirement::{Aliases, Requirement, Requirements};
use karpenter_core::resources::{Notation, Quantity, Resources};
use karpenter_core::scheduling::dra::DynamicResources;
use karpenter_operator::cloud::ProviderLabels;

mod file;
mod problem;
#[cfg(test)]
mod tests;

pub use file::{CatalogError, from_file};
pub use problem::{CatalogProblem, first_problem};

/// The vCPU counts of the built-in instance types.
const VCPU_SIZES: [u32; 12] = [1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256];
/// Families of the built-in types, by GiB of memory per vcpu.
const FAMILIES: [(&str, u32); 3] = [("c", 2), ("s", 4), ("m", 8)];
const ZONES: [&str; 4] = ["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"];
const SPOT_PRICE_FACTOR: f64 = 0.7;
/// Prices that upstream's generated list rounds to the other neighbour. Price comparisons are
/// exact, so the last bit decides which of two types is cheaper.
const ROUNDED_PRICES: [(&str, f64); 2] =
    [("c-48x-arm64-windows", 1.303_079_215_104), ("c-192x-arm64-linux", 5.212_316_860_416)];

/// The requirement by which an offering of a file names its reservation.
const RESERVATION_ID: &str = "karpenter.kwok.sh/reservation-id";
/// The default number of pods per node.
const DEFAULT_PODS: i64 = 110;
const GIB: i64 = 1 << 30;

/// The 144 types that the provider has without a file.
pub fn built_in() -> Vec<Arc<InstanceType>> {
    let mut types = Vec::with_capacity(144);
    for cpu in VCPU_SIZES {
        for (family, gib_per_cpu) in FAMILIES {
            for os in [labels::LINUX, labels::WINDOWS] {
                for arch in [labels::AMD64, labels::ARM64] {
                    types.push(Arc::new(built_in_type(cpu, family, gib_per_cpu, os, arch)));
                }
            }
        }
    }
    types
}

fn built_in_type(cpu: u32, family: &str, gib_per_cpu: u32, os: &str, arch: &str) -> InstanceType {
    let name = format!("{family}-{cpu}x-{arch}-{os}");
    let gib = cpu * gib_per_cpu;
    let bytes = f64::from(gib) * 1_073_741_824.0;
    let price = match ROUNDED_PRICES.iter().find(|(rounded, _)| *rounded == name) {
        Some((_, price)) => *price,
        None => 0.025 * f64::from(cpu) + 0.001 * bytes / 1e9,
    };
    let binary = |gib: i64| Quantity::from_units(gib * GIB).with_notation(Notation::BinarySi);
    let resources = Resources::from_iter([
        (CPU, Quantity::from_units(cpu.into())),
        (MEMORY, binary(gib.into())),
        (PODS, Quantity::from_units((16 * cpu).min(1024).into())),
        (EPHEMERAL_STORAGE, binary(20)),
    ]);
    let offering = |zone: &str, capacity_type: &str, price| {
        let requirements = [
            Requirement::in_values(labels::ZONE, [zone]),
            Requirement::in_values(labels::CAPACITY_TYPE, [capacity_type]),
        ];
        Offering::new(Requirements::from_iter(requirements), price)
    };
    let offerings = ZONES.iter().flat_map(|zone| {
        [
            offering(zone, labels::SPOT, price * SPOT_PRICE_FACTOR),
            offering(zone, labels::ON_DEMAND, price),
        ]
    });
    let description = InstanceTypeSpec {
        name,
        architecture: arch.to_owned(),
        operating_systems: vec![os.to_owned()],
        zones: ZONES.map(str::to_owned).to_vec(),
        capacity_types: [labels::SPOT, labels::ON_DEMAND].map(str::to_owned).to_vec(),
        cpu: cpu.to_string(),
        memory: resources.amount(MEMORY).canonical(),
        resources,
        offerings: offerings.collect(),
    };
    description.into_instance_type()
}

/// Returns the catalog in which every one of the pools can launch these types.
pub fn catalog<N: Into<String>>(
    types: impl IntoIterator<Item = Arc<InstanceType>>,
    pools: impl IntoIterator<Item = N>,
) -> Catalog {
    let types: InstanceTypes = types.into_iter().collect();
    let pools = pools.into_iter().map(|pool| (pool.into(), types.clone())).collect();
    let ProviderLabels { well_known, reservation_id_label, aliases } = provider_labels(&types);
    Catalog { pools, well_known, reservation_id_label, aliases }
}

/// Returns the labels of these types.
pub fn provider_labels(types: &[Arc<InstanceType>]) -> ProviderLabels {
    let mut well_known: BTreeSet<String> =
        ProviderRules::kwok().well_known_labels().map(str::to_owned).collect();
    let offerings = types.iter().flat_map(|instance_type| &*instance_type.offerings);
    well_known.extend(offerings.flat_map(|offering| offering.requirements.keys()).map(Into::into));
    let is_reserved = well_known.contains(RESERVATION_ID);
    ProviderLabels {
        well_known: Arc::new(well_known),
        // Upstream's KWOK names no such label, so its reservations have no identity. A file that
        // gives them one gets what other providers have.
        reservation_id_label: is_reserved.then(|| RESERVATION_ID.to_owned()),
        aliases: Arc::new(aliases()),
    }
}

fn aliases() -> Aliases {
    ProviderRules::kwok()
        .aliases()
        .fold(Aliases::default(), |aliases, (old, key)| aliases.with_key(old, key))
}

/// The values from which an instance type is built, built-in or from a file.
struct InstanceTypeSpec {
    name: String,
    architecture: String,
    operating_systems: Vec<String>,
    zones: Vec<String>,
    capacity_types: Vec<String>,
    /// The canonical texts of the two quantities, which are labels; empty if there is none.
    cpu: String,
    memory: String,
    resources: Resources,
    offerings: Vec<Offering>,
}

impl InstanceTypeSpec {
    fn into_instance_type(self) -> InstanceType {
        let one = |key, value: &str| Requirement::in_values(key, [value]);
        let requirements = [
            one(labels::INSTANCE_TYPE, &self.name),
            one(labels::ARCH, &self.architecture),
            Requirement::in_values(labels::OS, self.operating_systems),
            Requirement::in_values(labels::ZONE, self.zones),
            Requirement::in_values(labels::CAPACITY_TYPE, self.capacity_types),
            one(kwok::INSTANCE_SIZE, instance_size(&self.name).unwrap_or(&self.cpu)),
            one(kwok::INSTANCE_FAMILY, instance_family(&self.name)),
            one(kwok::INSTANCE_CPU, &self.cpu),
            one(kwok::INSTANCE_MEMORY, &self.memory),
        ];
        InstanceType {
            requirements: Requirements::from_iter(requirements).into(),
            name: self.name,
            offerings: self.offerings.into(),
            capacity: with_default_pods(self.resources).into(),
            overhead: kubelet_overhead().into(),
            volume_limits: BTreeMap::new(),
            dynamic_resources: DynamicResources::default(),
            has_capacity_overlay: false,
        }
    }
}

fn with_default_pods(mut resources: Resources) -> Resources {
    if resources.get(PODS).is_none() {
        resources.set(PODS, Quantity::from_units(DEFAULT_PODS));
    }
    resources
}

/// Returns the resources that the kubelet reserves on every node.
fn kubelet_overhead() -> Resources {
    let memory = Quantity::from_units(10 << 20).with_notation(Notation::BinarySi);
    [(CPU, Quantity::from_millis(100)), (MEMORY, memory)].into_iter().collect()
}

/// Returns the size of a name of the form `family.size`, as in EC2.
fn instance_size(name: &str) -> Option<&str> {
    let (family, size) = name.split_once('.')?;
    let is_word = !family.is_empty()
        && family.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_size = matches!(size, "nano" | "micro" | "small" | "medium" | "large" | "metal")
        || size
            .strip_suffix("xlarge")
            .is_some_and(|count| count.bytes().all(|byte| byte.is_ascii_digit()));
    (is_word && is_size).then_some(size)
}

/// Returns the name up to the first `.` or `-`, else its first character.
fn instance_family(name: &str) -> &str {
    match name.split_once(['.', '-']) {
        Some((family, _)) => family,
        None => &name[..name.chars().next().map_or(0, char::len_utf8)],
    }
}
