//! The resources of a node before overhead (spec 51 §4).

use karpenter_api::ec2_nodeclass::BlockDeviceMapping;
use karpenter_api::resources as names;
use karpenter_core::resources::{Notation, Quantity, Resources};

use super::quantity;
use super::settings::{ClassSettings, ResolutionOptions};
use crate::ami_family::AmiFamily;
use crate::discovery::{InstanceTypeInfo, Network, TypeFigures};

const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;
/// What the firmware of arm64 instances keeps.
const ARM64_FIRMWARE_MIB: i64 = 64;
/// Pods on a node whose number of network interfaces does not limit them.
const UNLIMITED_PODS: i64 = 110;

/// Returns how many interfaces the default network card has, if EC2 reports any card.
pub(super) fn default_card_interfaces(network: &Network) -> Option<u32> {
    let cards = network.cards.as_ref()?;
    let default = cards.iter().find(|card| card.index == network.default_card);
    default.map(|card| card.maximum_interfaces)
}

/// Returns how many pods the addresses of the network interfaces allow.
///
/// `reserved` interfaces, and those that carry EFA traffic alone, have no addresses for pods.
pub(super) fn eni_limited_pods(network: &Network, reserved: u32, settings: &ClassSettings) -> i64 {
    let interfaces = default_card_interfaces(network).unwrap_or_default();
    let usable = interfaces
        .saturating_sub(reserved)
        .saturating_sub(settings.efa_only_interfaces_of_first_card());
    if usable == 0 {
        return 0;
    }
    i64::from(usable) * (i64::from(network.ipv4_per_interface) - 1) + 2
}

/// Returns the number of pods; `max_pods` is the resolved setting.
pub(super) fn pods(
    info: &InstanceTypeInfo,
    network: &Network,
    settings: &ClassSettings,
    options: &ResolutionOptions,
    max_pods: Option<i64>,
) -> i64 {
    let family = settings.family;
    let limit = max_pods.unwrap_or_else(|| {
        if family.supports_eni_limited_pod_density() {
            eni_limited_pods(network, options.reserved_enis, settings)
        } else {
            UNLIMITED_PODS
        }
    });
    match settings.pods_per_core {
        Some(per_core @ 1..) if family.honors_pods_per_core() => {
            limit.min(i64::from(per_core) * i64::from(info.vcpus))
        }
        _ => limit,
    }
}

/// Returns the estimated memory that the hypervisor leaves to the operating system.
pub(super) fn memory(info: &InstanceTypeInfo, options: &ResolutionOptions) -> Quantity {
    let mut mib = i64::try_from(info.memory_mib).unwrap_or(i64::MAX / MIB).min(i64::MAX / MIB);
    let architectures = info.processor.as_ref().map(|known| known.architectures.as_slice());
    if architectures.and_then(<[_]>::first).is_some_and(|first| first == "arm64") {
        mib -= ARM64_FIRMWARE_MIB;
    }
    #[expect(clippy::cast_precision_loss, reason = "upstream computes with doubles")]
    let bytes = (mib * MIB) as f64;
    let overhead = (bytes * options.vm_memory_overhead_percent / 1024.0 / 1024.0).ceil();
    #[expect(clippy::cast_possible_truncation, reason = "a cast of a float saturates")]
    let overhead = overhead as i64;
    binary(mib.saturating_sub(overhead).saturating_mul(MIB))
}

/// Returns the storage for pods: the instance store, a block device or the family's default.
pub(super) fn ephemeral_storage(info: &InstanceTypeInfo, settings: &ClassSettings) -> Quantity {
    let total_gb = info.instance_storage.as_ref().and_then(|storage| storage.total_gb);
    if let (true, Some(gb)) = (settings.is_raid0, total_gb) {
        let gb = i64::try_from(gb).unwrap_or(i64::MAX);
        return Quantity::from_units(gb.saturating_mul(1_000_000_000));
    }
    let default = binary(if settings.family.is_windows() { 50 * GIB } else { 20 * GIB });
    block_device_size(&settings.block_devices, settings.family).unwrap_or(default)
}

/// Returns the size of the block device with the ephemeral storage, if a mapping states it.
fn block_device_size(mappings: &[BlockDeviceMapping], family: AmiFamily) -> Option<Quantity> {
    let size = |mapping: &BlockDeviceMapping| {
        let text = mapping.ebs.as_ref()?.volume_size.as_ref()?;
        quantity(text.as_str())
    };
    let root = mappings.iter().filter(|mapping| mapping.root_volume == Some(true)).find_map(size);
    if root.is_some() {
        return root;
    }
    match family.ephemeral_device() {
        Some(device) => mappings
            .iter()
            .filter(|mapping| mapping.device_name.as_deref() == Some(device))
            .find_map(size),
        None => mappings.last().and_then(size),
    }
}

/// The resources of an instance type besides pods, memory and storage.
pub(super) fn devices(
    info: &InstanceTypeInfo,
    figures: TypeFigures,
    settings: &ClassSettings,
    is_windows: bool,
) -> Vec<(&'static str, i64)> {
    let gpus = |manufacturer: &str| {
        let own = info.gpus.iter().filter(|gpu| gpu.manufacturer == manufacturer);
        own.map(|gpu| i64::from(gpu.count)).sum()
    };
    let neurons = info.neuron_devices.as_deref().unwrap_or_default();
    let cores =
        neurons.first().map_or(0, |device| i64::from(device.count) * i64::from(device.cores));
    let efa = settings.efa_only_interfaces().map(|count| i64::try_from(count).unwrap_or(i64::MAX));
    let efa_of_type = info.network.as_ref().and_then(|network| network.maximum_efa_interfaces);
    let branches = figures.vpc.filter(|limits| limits.is_trunking_compatible);
    let mut devices = vec![
        (names::AWS_POD_ENI, branches.map_or(0, |limits| limits.branch_interfaces.into())),
        (names::NVIDIA_GPU, gpus("NVIDIA")),
        (names::AMD_GPU, gpus("AMD")),
        (names::HABANA_GAUDI, gpus("Habana")),
        (names::AWS_NEURON, neurons.iter().map(|device| i64::from(device.count)).sum()),
        (names::AWS_NEURON_CORE, cores),
        (names::AWS_EFA, efa.unwrap_or_else(|| efa_of_type.unwrap_or_default().into())),
    ];
    if is_windows {
        let addresses = figures.vpc.map_or(0, |limits| i64::from(limits.ipv4_per_interface) - 1);
        devices.push((names::AWS_PRIVATE_IPV4_ADDRESS, addresses.max(0)));
    }
    devices
}

/// Returns all resources of a node.
pub(super) fn capacity(
    info: &InstanceTypeInfo,
    devices: Vec<(&'static str, i64)>,
    (pods, memory, storage): (i64, Quantity, Quantity),
) -> Resources {
    let counted = [(names::CPU, i64::from(info.vcpus)), (names::PODS, pods)];
    let counted = counted.into_iter().chain(devices);
    counted
        .map(|(name, count)| (name.to_owned(), Quantity::from_units(count)))
        .chain([(names::MEMORY.to_owned(), memory), (names::EPHEMERAL_STORAGE.to_owned(), storage)])
        .collect()
}

/// Returns an amount of bytes in binary notation.
pub(super) fn binary(bytes: i64) -> Quantity {
    Quantity::from_units(bytes).with_notation(Notation::BinarySi)
}
