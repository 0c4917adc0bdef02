//! Sets of instance types for tests.

use super::labels::ZONES;
use super::types::{TypeBuilder, instance_type, offering};

/// The default set of upstream's fake provider (spec 40 §10.5).
pub fn default_types() -> Vec<TypeBuilder> {
    vec![
        instance_type("default-instance-type"),
        instance_type("small-instance-type").cpu("2").memory("2Gi"),
        instance_type("gpu-vendor-instance-type").resource("fake.com/vendor-a", "2"),
        instance_type("gpu-vendor-b-instance-type").resource("fake.com/vendor-b", "2"),
        instance_type("arm-instance-type")
            .cpu("16")
            .memory("128Gi")
            .arch("arm64")
            .systems(&["ios", "linux", "windows", "darwin"]),
        instance_type("single-pod-instance-type").pods("1"),
    ]
}

/// Returns 1344 instance types with one offering each.
///
/// They are all combinations of 7 cpu and 8 memory sizes, zone, capacity type, system and
/// architecture.
pub fn assorted_types() -> Vec<TypeBuilder> {
    let mut types = Vec::new();
    for cpu in [1, 2, 4, 8, 16, 32, 64] {
        for memory in [1, 2, 4, 8, 16, 32, 64, 128] {
            for zone in ZONES {
                for capacity_type in ["spot", "on-demand"] {
                    for system in ["linux", "windows"] {
                        for arch in ["amd64", "arm64"] {
                            let name = format!(
                                "{cpu}-cpu-{memory}-mem-{arch}-{system}-{zone}-{capacity_type}"
                            );
                            let one = instance_type(&name)
                                .cpu(&cpu.to_string())
                                .memory(&format!("{memory}Gi"))
                                .arch(arch)
                                .systems(&[system])
                                .offering(offering(capacity_type, zone, -1.0));
                            types.push(one);
                        }
                    }
                }
            }
        }
    }
    types
}

/// `fake-it-0` and on, each one cpu, 2Gi and 10 pods larger than the one before (spec 20 §6.1).
pub fn benchmark_types(count: usize) -> Vec<TypeBuilder> {
    let sized = |size: usize| {
        instance_type(&format!("fake-it-{}", size - 1))
            .cpu(&size.to_string())
            .memory(&format!("{}Gi", 2 * size))
            .pods(&(10 * size).to_string())
    };
    (1..=count).map(sized).collect()
}

/// A few sizes of three families, sold like those of the KWOK provider: spot at 70 % of the price,
/// in four zones, with memory per cpu by family.
pub fn kwok_types() -> Vec<TypeBuilder> {
    let mut types = Vec::new();
    for (family, memory_per_cpu) in [("c", 2), ("s", 4), ("m", 8)] {
        for cpu in [1, 2, 4, 8, 16] {
            let price =
                0.025 * f64::from(cpu) + 0.001 * f64::from(cpu * memory_per_cpu) * 1.073_741_824;
            let mut one = instance_type(&format!("{family}-{cpu}x-amd64-linux"))
                .cpu(&cpu.to_string())
                .memory(&format!("{}Gi", cpu * memory_per_cpu))
                .pods(&(cpu * 16).min(1024).to_string())
                .systems(&["linux"])
                .no_overhead();
            for zone in ["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"] {
                one = one.offering(offering("spot", zone, price * 0.7)).offering(offering(
                    "on-demand",
                    zone,
                    price,
                ));
            }
            types.push(one);
        }
    }
    types
}
