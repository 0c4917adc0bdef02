//! The labels that nodes of an instance type may have (spec 51 §3).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_api::labels::{self, aws};
use karpenter_core::requirement::{Requirement, Requirements};

use super::settings::ClassSettings;
use crate::ami_family::AmiFamily;
use crate::discovery::{InstanceTypeInfo, TypeFigures};

/// Requirements that many instance types share, by label and values.
#[derive(Debug, Default)]
pub struct SharedRequirements {
    known: BTreeMap<(&'static str, Vec<String>), Arc<Requirement>>,
}

impl SharedRequirements {
    /// Returns the requirement that a label has one of these values; without any, no label.
    pub fn in_values(&mut self, key: &'static str, values: Vec<String>) -> Arc<Requirement> {
        let made = |(key, values): &(&'static str, Vec<String>)| {
            Arc::new(Requirement::in_values(key, values.iter().cloned()))
        };
        let key = (key, values);
        if let Some(known) = self.known.get(&key) {
            return Arc::clone(known);
        }
        let requirement = made(&key);
        self.known.insert(key, Arc::clone(&requirement));
        requirement
    }
}

/// Returns the labels that are the same for every node class.
pub(super) fn common_labels(
    info: &InstanceTypeInfo,
    figures: TypeFigures,
    region: &str,
    shared: &mut SharedRequirements,
) -> Vec<Arc<Requirement>> {
    let mut labels: Vec<(&'static str, Option<String>)> = vec![
        (labels::INSTANCE_TYPE, Some(info.name.clone())),
        (labels::ARCH, Some(architecture(info))),
        (labels::REGION, Some(region.to_owned())),
        (aws::INSTANCE_CPU, Some(info.vcpus.to_string())),
        (aws::INSTANCE_MEMORY, Some(info.memory_mib.to_string())),
        (aws::INSTANCE_EBS_BANDWIDTH, ebs_bandwidth(info)),
        (
            aws::INSTANCE_NETWORK_BANDWIDTH,
            figures.network_bandwidth_mbps.map(|number| number.to_string()),
        ),
        (aws::INSTANCE_LOCAL_NVME, local_nvme(info)),
        (aws::INSTANCE_HYPERVISOR, Some(info.hypervisor.clone().unwrap_or_default())),
        (aws::INSTANCE_ENCRYPTION_IN_TRANSIT_SUPPORTED, Some(has_encryption(info).to_string())),
        (
            aws::NITRO_SANDBOX,
            Some((info.nitro_enclaves.as_deref() == Some("supported")).to_string()),
        ),
    ];
    labels.extend(processor_labels(info));
    labels.extend(name_labels(&info.name));
    labels.extend(gpu_labels(info));
    labels.extend(accelerator_labels(info));
    let mut made: Vec<_> = labels
        .into_iter()
        .map(|(key, value)| shared.in_values(key, value.into_iter().collect()))
        .collect();
    made.push(shared.in_values(aws::INSTANCE_TENANCY, aws::TENANCIES.map(str::to_owned).into()));
    made
}

/// Returns all labels of an instance type under a node class.
pub(super) fn requirements(
    info: &InstanceTypeInfo,
    common: &[Arc<Requirement>],
    offered_zones: &BTreeSet<String>,
    settings: &ClassSettings,
    shared: &mut SharedRequirements,
) -> Requirements {
    let zones: Vec<_> =
        settings.zones.iter().filter(|zone| offered_zones.contains(&zone.zone)).collect();
    let names: BTreeSet<_> = zones.iter().map(|zone| zone.zone.clone()).collect();
    let ids: BTreeSet<_> = zones.iter().filter_map(|zone| zone.zone_id.clone()).collect();
    let own: Vec<_> = settings.reservations_of(&info.name).collect();
    let sold = [labels::ON_DEMAND, labels::SPOT].map(str::to_owned);
    let mut capacity_types: BTreeSet<_> =
        sold.into_iter().filter(|sold| info.usage_classes.contains(sold)).collect();
    if !own.is_empty() {
        capacity_types.insert(labels::RESERVED.to_owned());
    }
    let os = if settings.family.is_windows() {
        is_windows(info, settings).then_some("windows")
    } else {
        Some("linux")
    };
    let build = windows_build(settings.family);
    let mut add =
        |key, values: BTreeSet<String>| shared.in_values(key, values.into_iter().collect());
    let mut labels = vec![
        add(labels::OS, os.map(str::to_owned).into_iter().collect()),
        add(labels::ZONE, names),
        add(labels::WINDOWS_BUILD, build.map(str::to_owned).into_iter().collect()),
        add(labels::CAPACITY_TYPE, capacity_types),
        add(aws::CAPACITY_RESERVATION_ID, own.iter().map(|known| known.id.clone()).collect()),
        add(aws::CAPACITY_RESERVATION_TYPE, own.iter().map(|known| known.kind.clone()).collect()),
        add(
            aws::CAPACITY_RESERVATION_INTERRUPTIBLE,
            own.iter().map(|known| known.interruptible.to_string()).collect(),
        ),
    ];
    if !ids.is_empty() {
        labels.push(add(aws::ZONE_ID, ids));
    }
    common.iter().cloned().chain(labels).collect()
}

/// Returns the value of the label `node.kubernetes.io/windows-build`.
fn windows_build(family: AmiFamily) -> Option<&'static str> {
    match family {
        AmiFamily::Windows2019 => Some(aws::WINDOWS_2019_BUILD),
        AmiFamily::Windows2022 => Some(aws::WINDOWS_2022_BUILD),
        AmiFamily::Windows2025 => Some(aws::WINDOWS_2025_BUILD),
        AmiFamily::Al2 | AmiFamily::Al2023 | AmiFamily::Bottlerocket | AmiFamily::Custom => None,
    }
}

/// Returns whether nodes of the instance type run Windows under the node class.
pub(super) fn is_windows(info: &InstanceTypeInfo, settings: &ClassSettings) -> bool {
    settings.family.is_windows() && architecture(info) == "amd64"
}

/// Returns the architecture in Kubernetes' words; a list in brackets if none is known.
fn architecture(info: &InstanceTypeInfo) -> String {
    let known = info.processor.as_ref().map(|known| known.architectures.as_slice());
    let known = known.unwrap_or_default();
    let mapped = known.iter().find_map(|name| match name.as_str() {
        "x86_64" => Some("amd64"),
        "arm64" => Some("arm64"),
        _ => None,
    });
    mapped.map_or_else(|| format!("[{}]", known.join(" ")), str::to_owned)
}

fn processor_labels(info: &InstanceTypeInfo) -> [(&'static str, Option<String>); 2] {
    let processor = info.processor.as_ref();
    let manufacturer = processor.map(|one| kebab(one.manufacturer.as_deref().unwrap_or_default()));
    #[expect(clippy::cast_possible_truncation, reason = "a cast of a float saturates")]
    let mhz = processor.map(|one| (one.clock_ghz.unwrap_or_default() * 1000.0).round() as i64);
    [
        (aws::INSTANCE_CPU_MANUFACTURER, manufacturer),
        (aws::INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ, mhz.map(|number| number.to_string())),
    ]
}

/// Returns the labels that follow from the name, such as `m7i-flex.large`.
fn name_labels(name: &str) -> [(&'static str, Option<String>); 5] {
    let (family, size) = match name.split('.').collect::<Vec<_>>()[..] {
        [family, size] => (Some(family), Some(size)),
        _ => (None, None),
    };
    let (category, generation) = category_and_generation(name).unzip();
    let is_flex = name.split('.').next().is_some_and(|family| family.contains("-flex"));
    [
        (aws::INSTANCE_CATEGORY, category.map(str::to_owned)),
        (aws::INSTANCE_GENERATION, generation.map(str::to_owned)),
        (aws::INSTANCE_FAMILY, family.map(str::to_owned)),
        (aws::INSTANCE_SIZE, size.map(str::to_owned)),
        (aws::INSTANCE_CAPABILITY_FLEX, Some(is_flex.to_string())),
    ]
}

/// Returns the letters and the digits at the start of a name: `m` and `5` of `m5.large`.
///
/// A number of terabytes may stand between them: `u` and `1` of `u-12tb1.metal`.
fn category_and_generation(name: &str) -> Option<(&str, &str)> {
    let letters = name.len() - name.trim_start_matches(|c: char| c.is_ascii_lowercase()).len();
    let (category, rest) = name.split_at_checked(letters)?;
    let digits =
        |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let terabytes = rest.strip_prefix('-').and_then(|rest| {
        let count = digits(rest);
        rest.get(count..).filter(|_| count > 0)?.strip_prefix("tb")
    });
    let rest = terabytes.unwrap_or(rest);
    let (generation, rest) = rest.split_at_checked(digits(rest))?;
    let is_named = !category.is_empty() && !generation.is_empty() && rest.contains('.');
    is_named.then_some((category, generation))
}

fn gpu_labels(info: &InstanceTypeInfo) -> [(&'static str, Option<String>); 4] {
    let gpu = match info.gpus.as_slice() {
        [gpu] => Some(gpu),
        _ => None,
    };
    [
        (aws::INSTANCE_GPU_NAME, gpu.map(|gpu| kebab(&gpu.name))),
        (aws::INSTANCE_GPU_MANUFACTURER, gpu.map(|gpu| kebab(&gpu.manufacturer))),
        (aws::INSTANCE_GPU_COUNT, gpu.map(|gpu| gpu.count.to_string())),
        (aws::INSTANCE_GPU_MEMORY, gpu.map(|gpu| gpu.memory_mib.unwrap_or_default().to_string())),
    ]
}

fn accelerator_labels(info: &InstanceTypeInfo) -> [(&'static str, Option<String>); 3] {
    let values = match (info.neuron_devices.as_deref(), info.inference_accelerators.as_slice()) {
        (Some([device]), _) => Some((kebab(&device.name), "aws".to_owned(), device.count)),
        (None, [one]) => Some((kebab(&one.name), kebab(&one.manufacturer), one.count)),
        _ => None,
    };
    let (name, manufacturer, count) = match values {
        Some((name, manufacturer, count)) => {
            (Some(name), Some(manufacturer), Some(count.to_string()))
        }
        None => (None, None, None),
    };
    [
        (aws::INSTANCE_ACCELERATOR_NAME, name),
        (aws::INSTANCE_ACCELERATOR_MANUFACTURER, manufacturer),
        (aws::INSTANCE_ACCELERATOR_COUNT, count),
    ]
}

fn ebs_bandwidth(info: &InstanceTypeInfo) -> Option<String> {
    let ebs = info.ebs.as_ref()?;
    let is_default = ebs.optimized_support.as_deref() == Some("default");
    ebs.maximum_bandwidth_mbps.filter(|_| is_default).map(|number| number.to_string())
}

fn local_nvme(info: &InstanceTypeInfo) -> Option<String> {
    let storage = info.instance_storage.as_ref()?;
    let has_nvme = storage.nvme_support.as_deref() != Some("unsupported");
    storage.total_gb.filter(|_| has_nvme).map(|number| number.to_string())
}

fn has_encryption(info: &InstanceTypeInfo) -> bool {
    info.network.as_ref().is_some_and(|network| network.encryption_in_transit)
}

/// Returns a name in lower case with dashes for spaces.
fn kebab(name: &str) -> String {
    name.to_lowercase().replace(' ', "-")
}
