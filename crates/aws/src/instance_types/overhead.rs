//! What the kubelet, the system and the eviction threshold keep of a node (spec 51 §5).

use std::collections::BTreeMap;

use karpenter_api::resources as names;
use karpenter_core::resources::{Quantity, Resources};

use super::capacity::binary;
use super::quantity;

/// The three parts of the overhead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overhead {
    /// What the kubelet keeps.
    pub kube_reserved: Resources,
    /// What the system keeps.
    pub system_reserved: Resources,
    /// What must stay free so that the kubelet evicts nothing.
    pub eviction_threshold: Resources,
}

impl Overhead {
    /// Returns the sum of the parts.
    pub fn total(&self) -> Resources {
        self.kube_reserved.merge(&self.system_reserved).merge(&self.eviction_threshold)
    }
}

/// A setting that is neither a quantity nor a percentage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("spec.kubelet.{field}[{key}]: {value:?} must be a percentage or a resource quantity")]
pub struct InvalidSetting {
    /// The field of `spec.kubelet`.
    pub field: &'static str,
    /// The key in it.
    pub key: String,
    /// The value.
    pub value: String,
}

/// Returns what the kubelet keeps; `pods` decides about the memory.
pub(super) fn kube_reserved(
    vcpus: u32,
    pods: i64,
    user: &BTreeMap<String, String>,
) -> Result<Resources, InvalidSetting> {
    let mib = pods.saturating_mul(11).saturating_add(255).clamp(0, i64::MAX >> 20);
    let defaults: Resources = [
        (names::CPU.to_owned(), Quantity::from_millis(reserved_millis(vcpus))),
        (names::MEMORY.to_owned(), binary(mib << 20)),
        (names::EPHEMERAL_STORAGE.to_owned(), binary(1 << 30)),
    ]
    .into_iter()
    .collect();
    Ok(defaults.overlaid_by(&user_reserved("kubeReserved", user)?))
}

/// Returns exactly what the user reserves.
pub(super) fn user_reserved(
    field: &'static str,
    user: &BTreeMap<String, String>,
) -> Result<Resources, InvalidSetting> {
    let parse = |(key, value): (&String, &String)| match quantity(value) {
        Some(amount) => Ok((key.clone(), amount)),
        None => Err(InvalidSetting { field, key: key.clone(), value: value.clone() }),
    };
    user.iter().map(parse).collect()
}

/// Returns the thousandths of a core that the kubelet keeps by default.
///
/// Each band counts whole thousandths: 6 % of the first core, 1 % of the second, 0.5 % of the
/// third and fourth, 0.25 % of the others.
fn reserved_millis(vcpus: u32) -> i64 {
    const BANDS: [(i64, i64, i64); 4] =
        [(0, 1000, 600), (1000, 2000, 100), (2000, 4000, 50), (4000, i64::MAX, 25)];
    let millis = i64::from(vcpus) * 1000;
    BANDS
        .into_iter()
        .map(|(start, end, per_10_000)| (millis.min(end) - start).max(0) * per_10_000 / 10_000)
        .sum()
}

/// Returns the eviction thresholds of memory and storage.
///
/// Percentages refer to the estimated memory and the storage before overhead.
pub(super) fn eviction_threshold(
    memory: Quantity,
    storage: Quantity,
    eviction_hard: &BTreeMap<String, String>,
) -> Result<Resources, InvalidSetting> {
    let threshold = |signal: &str, capacity: Quantity, default: Quantity| {
        let Some(value) = eviction_hard.get(signal) else { return Ok(default) };
        let invalid = || InvalidSetting {
            field: "evictionHard",
            key: signal.to_owned(),
            value: value.clone(),
        };
        match value.strip_suffix('%') {
            Some(percent) => {
                let percent: f64 = percent.parse().map_err(|_| invalid())?;
                Ok(percentage(capacity, percent))
            }
            None => quantity(value).ok_or_else(invalid),
        }
    };
    let memory = threshold("memory.available", memory, binary(100 << 20))?;
    let storage = threshold("nodefs.available", storage, percentage(storage, 10.0))?;
    Ok([(names::MEMORY.to_owned(), memory), (names::EPHEMERAL_STORAGE.to_owned(), storage)]
        .into_iter()
        .collect())
}

/// Returns a percentage of a capacity as upstream computes it; 100 % means no threshold.
fn percentage(capacity: Quantity, percent: f64) -> Quantity {
    if (percent - 100.0).abs() < f64::EPSILON || !percent.is_finite() {
        return Quantity::ZERO;
    }
    #[expect(clippy::cast_precision_loss, reason = "upstream computes with doubles")]
    let bytes = (capacity.units() as f64 / 100.0 * percent).ceil();
    #[expect(clippy::cast_possible_truncation, reason = "a cast of a float saturates")]
    Quantity::from_units(bytes as i64)
}
