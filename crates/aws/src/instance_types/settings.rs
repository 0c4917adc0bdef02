//! The parts of an EC2NodeClass that change instance types and offerings (spec 51 §2).

use std::collections::{BTreeMap, BTreeSet};

use karpenter_api::ec2_nodeclass::{BlockDeviceMapping, Ec2NodeClass, NetworkInterface};
use karpenter_api::kubelet::{ManagedSettingError, ManagedSettings, MaxPods};

use crate::ami_family::AmiFamily;

/// The interface type of an EFA that carries no IP traffic.
pub const EFA_ONLY: &str = "efa-only";

/// The settings of the process that resolution uses.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolutionOptions {
    /// The region of the cluster.
    pub region: String,
    /// `--reserved-enis`: network interfaces that pods cannot use.
    pub reserved_enis: u32,
    /// `--vm-memory-overhead-percent`: the part of the memory that the hypervisor keeps.
    pub vm_memory_overhead_percent: f64,
    /// The gate NodeClassCEL: whether kubelet settings may be expressions.
    pub node_class_cel: bool,
    /// The gate ReservedCapacity: whether capacity reservations are offered.
    pub reserved_capacity: bool,
}

impl ResolutionOptions {
    /// Returns the defaults of the process in a region.
    pub fn new(region: &str) -> Self {
        Self {
            region: region.to_owned(),
            reserved_enis: 0,
            vm_memory_overhead_percent: 0.075,
            node_class_cel: false,
            reserved_capacity: true,
        }
    }
}

/// The settings of one EC2NodeClass, spec and status.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct ClassSettings {
    /// The AMI family.
    pub family: AmiFamily,
    /// `kubelet.maxPods`.
    pub max_pods: Option<MaxPods>,
    /// `kubelet.podsPerCore`.
    pub pods_per_core: Option<i32>,
    /// `kubelet.kubeReserved`: quantities or expressions.
    pub kube_reserved: BTreeMap<String, String>,
    /// `kubelet.systemReserved`: quantities or expressions.
    pub system_reserved: BTreeMap<String, String>,
    /// `kubelet.evictionHard`.
    pub eviction_hard: BTreeMap<String, String>,
    /// `blockDeviceMappings`.
    pub block_devices: Vec<BlockDeviceMapping>,
    /// Whether `instanceStorePolicy` is RAID0.
    pub is_raid0: bool,
    /// `networkInterfaces`; absent leaves them to the defaults.
    pub network_interfaces: Option<Vec<NetworkInterface>>,
    /// The zones of the status subnets.
    pub zones: Vec<ClassZone>,
    /// The capacity reservations of the status.
    pub reservations: Vec<ClassReservation>,
    /// Whether `cpuOptions.nestedVirtualization` is enabled.
    pub nested_virtualization: bool,
    /// Whether `connectionTracking` is set.
    pub connection_tracking: bool,
    /// Whether `enclaveOptions.enabled` is true.
    pub enclaves: bool,
}

/// A zone in which a node class has subnets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassZone {
    /// The name of the zone of the first subnet with this id.
    pub zone: String,
    /// The id; absent in a status that an old release wrote.
    pub zone_id: Option<String>,
    /// The subnets in the zone.
    pub subnets: Vec<String>,
}

/// A capacity reservation of a node class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassReservation {
    /// The id.
    pub id: String,
    /// The reserved instance type.
    pub instance_type: String,
    /// The zone.
    pub zone: String,
    /// `default` or `capacity-block`.
    pub kind: String,
    /// Whether EC2 may interrupt its instances.
    pub interruptible: bool,
    /// Whether it is about to end, so that nothing more is launched into it.
    pub is_expiring: bool,
}

impl ClassSettings {
    /// Returns the settings, or an error if `spec.kubelet` cannot be decoded.
    pub fn new(class: &Ec2NodeClass) -> Result<Self, ManagedSettingError> {
        let spec = &class.spec;
        let empty = serde_json::Map::new();
        let kubelet = ManagedSettings::parse(spec.kubelet.as_ref().unwrap_or(&empty))?;
        let nested = spec.cpu_options.as_ref().and_then(|cpu| cpu.nested_virtualization.as_deref());
        Ok(Self {
            family: AmiFamily::of(spec),
            max_pods: kubelet.max_pods,
            pods_per_core: kubelet.pods_per_core,
            kube_reserved: kubelet.kube_reserved,
            system_reserved: kubelet.system_reserved,
            eviction_hard: kubelet.eviction_hard,
            block_devices: spec.block_device_mappings.clone().unwrap_or_default(),
            is_raid0: spec.instance_store_policy.as_deref() == Some("RAID0"),
            network_interfaces: spec.network_interfaces.clone(),
            zones: zones(class),
            reservations: reservations(class),
            nested_virtualization: nested == Some("enabled"),
            connection_tracking: spec.connection_tracking.is_some(),
            enclaves: spec.enclave_options.as_ref().is_some_and(|enclaves| enclaves.enabled),
        })
    }

    /// Returns the zone of this name, if the node class has a subnet there.
    pub fn zone(&self, name: &str) -> Option<&ClassZone> {
        self.zones.iter().find(|zone| zone.zone == name)
    }

    /// Returns the names of all zones with a subnet.
    pub fn zone_names(&self) -> BTreeSet<&str> {
        self.zones.iter().map(|zone| zone.zone.as_str()).collect()
    }

    /// Returns the capacity reservations for an instance type.
    pub fn reservations_of<'s>(
        &'s self,
        instance_type: &'s str,
    ) -> impl Iterator<Item = &'s ClassReservation> {
        self.reservations.iter().filter(move |known| known.instance_type == instance_type)
    }

    /// Returns how many configured interfaces carry EFA traffic alone.
    pub fn efa_only_interfaces(&self) -> Option<usize> {
        let interfaces = self.network_interfaces.as_ref()?;
        Some(interfaces.iter().filter(|one| one.interface_type == EFA_ONLY).count())
    }

    /// Returns how many of them are on the first network card.
    pub fn efa_only_interfaces_of_first_card(&self) -> u32 {
        let interfaces = self.network_interfaces.iter().flatten();
        let first = interfaces
            .filter(|one| one.interface_type == EFA_ONLY && one.network_card_index == 0)
            .count();
        u32::try_from(first).unwrap_or(u32::MAX)
    }
}

/// Groups the status subnets by zone id; subnets without an id are one group.
fn zones(class: &Ec2NodeClass) -> Vec<ClassZone> {
    let subnets = class.status.iter().filter_map(|status| status.subnets.as_ref()).flatten();
    let mut zones: Vec<ClassZone> = Vec::new();
    for subnet in subnets {
        let zone_id = subnet.zone_id.clone().filter(|id| !id.is_empty());
        match zones.iter_mut().find(|known| known.zone_id == zone_id) {
            Some(known) => known.subnets.push(subnet.id.clone()),
            None => zones.push(ClassZone {
                zone: subnet.zone.clone(),
                zone_id,
                subnets: vec![subnet.id.clone()],
            }),
        }
    }
    zones
}

fn reservations(class: &Ec2NodeClass) -> Vec<ClassReservation> {
    let found = class.status.iter().filter_map(|status| status.capacity_reservations.as_ref());
    let read = |known: &karpenter_api::ec2_nodeclass::CapacityReservation| ClassReservation {
        id: known.id.clone(),
        instance_type: known.instance_type.clone(),
        zone: known.availability_zone.clone(),
        kind: known.reservation_type.clone().unwrap_or_else(|| "default".to_owned()),
        interruptible: known.interruptible.unwrap_or_default(),
        is_expiring: known.state.as_deref() == Some("expiring"),
    };
    found.flatten().map(read).collect()
}
