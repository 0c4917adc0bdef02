//! Decodes a row of `types.tsv`.

use crate::discovery::{
    Ebs, Gpu, InferenceAccelerator, InstanceStorage, InstanceTypeInfo, Network, NetworkCard,
    NeuronDevice, Processor,
};

/// What a column has where EC2 reports nothing.
pub(super) const ABSENT: &str = ".";

/// Returns the instance type of a row without its zones; none if a column cannot be decoded.
pub(super) fn instance_type(columns: &[&str]) -> Option<InstanceTypeInfo> {
    #[rustfmt::skip]
    let &[
        name, usage_classes, hypervisor, architectures, manufacturer, clock, features, vcpus, memory,
        nvme_support, storage_gb, ebs, ebs_bandwidth, cards, default_card, ipv4, encryption, efa, ena,
        gpus, accelerators, neuron_devices, enclaves, placement,
    ] = columns else { return None };
    let instance_storage = (nvme_support != ABSENT || storage_gb != ABSENT).then(|| {
        InstanceStorage { nvme_support: text(nvme_support), total_gb: storage_gb.parse().ok() }
    });
    Some(InstanceTypeInfo {
        name: name.to_owned(),
        usage_classes: list(usage_classes).unwrap_or_default(),
        hypervisor: text(hypervisor),
        processor: Some(Processor {
            architectures: list(architectures).unwrap_or_default(),
            manufacturer: text(manufacturer),
            clock_ghz: clock.parse().ok(),
            features: list(features).unwrap_or_default(),
        }),
        vcpus: vcpus.parse().ok()?,
        memory_mib: memory.parse().ok()?,
        instance_storage,
        ebs: Some(Ebs {
            optimized_support: text(ebs),
            maximum_bandwidth_mbps: ebs_bandwidth.parse().ok(),
        }),
        network: Some(Network {
            cards: if cards == ABSENT { None } else { Some(network_cards(cards)?) },
            default_card: default_card.parse().ok()?,
            ipv4_per_interface: ipv4.parse().ok()?,
            encryption_in_transit: encryption == "true",
            maximum_efa_interfaces: efa.parse().ok(),
            ena_support: text(ena),
        }),
        gpus: devices(gpus, gpu)?.unwrap_or_default(),
        inference_accelerators: devices(accelerators, accelerator)?.unwrap_or_default(),
        neuron_devices: devices(neuron_devices, neuron_device)?,
        nitro_enclaves: text(enclaves),
        placement_strategies: list(placement),
    })
}

fn text(column: &str) -> Option<String> {
    (column != ABSENT).then(|| column.to_owned())
}

fn list(column: &str) -> Option<Vec<String>> {
    (column != ABSENT).then(|| column.split(',').map(str::to_owned).collect())
}

fn network_cards(column: &str) -> Option<Vec<NetworkCard>> {
    let card = |card: &str| {
        let (index, interfaces) = card.split_once(':')?;
        Some(NetworkCard {
            index: index.parse().ok()?,
            maximum_interfaces: interfaces.parse().ok()?,
        })
    };
    column.split(',').map(card).collect()
}

/// Returns the devices of a column; `Some(None)` if EC2 reports nothing about them.
#[expect(clippy::option_option, reason = "outer: the column decodes; inner: EC2 reports devices")]
fn devices<T>(column: &str, device: fn(&[&str]) -> Option<T>) -> Option<Option<Vec<T>>> {
    if column == ABSENT {
        return Some(None);
    }
    let devices = column.split(';').map(|text| device(&text.split('|').collect::<Vec<_>>()));
    devices.collect::<Option<Vec<T>>>().map(Some)
}

fn gpu(fields: &[&str]) -> Option<Gpu> {
    let &[name, manufacturer, count, memory] = fields else { return None };
    Some(Gpu {
        name: name.to_owned(),
        manufacturer: manufacturer.to_owned(),
        count: count.parse().ok()?,
        memory_mib: memory.parse().ok(),
    })
}

fn accelerator(fields: &[&str]) -> Option<InferenceAccelerator> {
    let &[name, manufacturer, count] = fields else { return None };
    Some(InferenceAccelerator {
        name: name.to_owned(),
        manufacturer: manufacturer.to_owned(),
        count: count.parse().ok()?,
    })
}

fn neuron_device(fields: &[&str]) -> Option<NeuronDevice> {
    let &[name, count, cores] = fields else { return None };
    Some(NeuronDevice {
        name: name.to_owned(),
        count: count.parse().ok()?,
        cores: cores.parse().ok()?,
    })
}
