//! Builds the catalog of instance types for the measured workloads.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_api::labels;
use karpenter_core::catalog::{Catalog, InstanceType, Offering};
use karpenter_core::requirement::{Requirement, Requirements};
use karpenter_core::resources::{CPU, MEMORY, Notation, PODS, Quantity, Resources};
use karpenter_core::scheduling::dra::DynamicResources;
use karpenter_kwok::catalog;

use crate::generate::Types;

/// Builds the catalog of `types` for the NodePools with these names.
pub(crate) fn build_catalog(types: Types, pools: impl IntoIterator<Item = String>) -> Catalog {
    match types {
        Types::Kwok => catalog::catalog(catalog::built_in(), pools),
        Types::Fake400 => {
            let mut catalog =
                catalog::catalog((1..=400).map(|cpu| Arc::new(fake_type(cpu))), pools);
            let known = ["size", "special", "integer"].map(str::to_owned);
            Arc::make_mut(&mut catalog.well_known).extend(known);
            catalog
        }
    }
}

/// Builds the instance type with `cpu` cores of upstream's scheduler benchmark (spec 20 §6.1).
fn fake_type(cpu: u32) -> InstanceType {
    let name = format!("fake-it-{}", cpu - 1);
    let memory = Quantity::from_units(i64::from(2 * cpu) << 30).with_notation(Notation::BinarySi);
    let price = 0.1 * f64::from(cpu) + 0.1 * (f64::from(2 * cpu) * 1_073_741_824.0) / 1e9;
    let is_small = cpu <= 4;
    let one = |key: &str, value: &str| Requirement::in_values(key, [value]);
    let requirements = [
        one(labels::INSTANCE_TYPE, &name),
        one(labels::ARCH, "amd64"),
        Requirement::in_values(labels::OS, ["darwin", "linux", "windows"]),
        Requirement::in_values(labels::ZONE, ["test-zone-1", "test-zone-2", "test-zone-3"]),
        Requirement::in_values(labels::CAPACITY_TYPE, ["spot", "on-demand"]),
        one("size", if is_small { "small" } else { "large" }),
        if is_small { Requirement::does_not_exist("special") } else { one("special", "optional") },
        one("integer", &cpu.to_string()),
    ];
    let sold = [
        ("spot", "test-zone-1"),
        ("spot", "test-zone-2"),
        ("on-demand", "test-zone-1"),
        ("on-demand", "test-zone-2"),
        ("on-demand", "test-zone-3"),
    ];
    InstanceType {
        requirements: Requirements::from_iter(requirements).into(),
        offerings: sold.into_iter().map(|sold| offering(sold, price)).collect(),
        capacity: Resources::from_iter([
            (CPU, Quantity::from_units(cpu.into())),
            (MEMORY, memory),
            (PODS, Quantity::from_units((10 * cpu).into())),
        ])
        .into(),
        overhead: Resources::from_iter([
            (CPU, Quantity::from_nanos(100_000_000)),
            (MEMORY, Quantity::from_units(10 << 20)),
        ])
        .into(),
        name,
        volume_limits: BTreeMap::new(),
        dynamic_resources: DynamicResources::default(),
        has_capacity_overlay: false,
    }
}

fn offering((capacity_type, zone): (&str, &str), price: f64) -> Offering {
    let requirements = [
        Requirement::in_values(labels::CAPACITY_TYPE, [capacity_type]),
        Requirement::in_values(labels::ZONE, [zone]),
    ];
    Offering::new(Requirements::from_iter(requirements), price)
}

#[cfg(test)]
mod tests {
    use super::{CPU, MEMORY, PODS, fake_type};

    #[test]
    fn fake_types_match_those_of_the_upstream_benchmark() {
        let tiny = fake_type(1);
        let allocatable = tiny.allocatable();
        assert_eq!(tiny.name, "fake-it-0");
        assert_eq!(allocatable.amount(CPU).canonical(), "900m");
        assert_eq!(allocatable.amount(MEMORY).canonical(), "2038Mi");
        assert_eq!(allocatable.amount(PODS).canonical(), "10");
        assert!((tiny.offerings[0].price - 0.314_748_364_8).abs() < 1e-12);
        assert_eq!(tiny.offerings.len(), 5);
        assert_eq!(fake_type(4).requirements.get("size").unwrap().to_string(), "size In [small]");
        assert_eq!(
            fake_type(5).requirements.get("special").unwrap().to_string(),
            "special In [optional]"
        );
    }
}
