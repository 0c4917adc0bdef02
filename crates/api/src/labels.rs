//! Label keys and the values that have a fixed meaning (spec 10 §9.1, §10.1, §10.2).
//!
//! Keys of one provider live in that provider's module. Which keys are well known to a running
//! build is a value, [`crate::validation::ProviderRules`], made from the sets below.

/// API group of the core kinds, and the label domain that users may not use.
pub const GROUP: &str = "karpenter.sh";

/// Name of the NodePool that a NodeClaim, Node or instance belongs to.
pub const NODEPOOL: &str = "karpenter.sh/nodepool";
/// How the capacity is bought: one of [`CAPACITY_TYPES`].
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// `true` on a Node once its NodeClaim is registered.
pub const REGISTERED: &str = "karpenter.sh/registered";
/// `true` on a Node once its NodeClaim is initialized.
pub const INITIALIZED: &str = "karpenter.sh/initialized";
/// `true` on a Node whose taints registration leaves alone, because user data has set them.
pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";

/// On a Node that goes: load balancers send nothing more to it.
pub const EXCLUDE_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// Availability zone name.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Region name.
pub const REGION: &str = "topology.kubernetes.io/region";
/// Instance type name.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// Windows build number; absent on Linux.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
/// CPU architecture in Kubernetes' spelling.
pub const ARCH: &str = "kubernetes.io/arch";
/// Operating system.
pub const OS: &str = "kubernetes.io/os";
/// Host name of the node, set by the kubelet; users may not require it.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// Value `true` of the switch-like labels and annotations.
pub const TRUE: &str = "true";
/// Value `false` of the switch-like labels and annotations.
pub const FALSE: &str = "false";

/// Capacity type: interruptible capacity at a market price.
pub const SPOT: &str = "spot";
/// Capacity type: capacity at the list price.
pub const ON_DEMAND: &str = "on-demand";
/// Capacity type: capacity that was paid for beforehand.
pub const RESERVED: &str = "reserved";
/// Every value of [`CAPACITY_TYPE`], sorted.
pub const CAPACITY_TYPES: [&str; 3] = [ON_DEMAND, RESERVED, SPOT];

/// Architecture: 64-bit x86.
pub const AMD64: &str = "amd64";
/// Architecture: 64-bit Arm.
pub const ARM64: &str = "arm64";
/// Operating system: Linux.
pub const LINUX: &str = "linux";
/// Operating system: Windows.
pub const WINDOWS: &str = "windows";

/// Keys that every provider understands.
pub const WELL_KNOWN: [&str; 8] =
    [NODEPOOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD];

/// Keys that distinguish the offerings of one instance type.
pub const OFFERING: [&str; 2] = [ZONE, CAPACITY_TYPE];

/// Keys that users may not set although their domain is not restricted.
pub const RESTRICTED: [&str; 1] = [HOSTNAME];

/// Old spellings and the keys that they stand for, in every provider (spec 10 §10.1).
pub const ALIASES: [(&str, &str); 5] = [
    ("failure-domain.beta.kubernetes.io/zone", ZONE),
    ("failure-domain.beta.kubernetes.io/region", REGION),
    ("beta.kubernetes.io/arch", ARCH),
    ("beta.kubernetes.io/os", OS),
    ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
];

/// Name of the Provisioner in releases before v0.32; only the converter knows it.
pub const PROVISIONER_NAME: &str = "karpenter.sh/provisioner-name";

/// Label keys of former releases, which mean nothing any more (spec 10 §9.3).
pub const REMOVED: [&str; 4] = [
    PROVISIONER_NAME,
    "karpenter.k8s.aws/instance-pods",
    "karpenter.k8s.aws/instance-ami-id",
    "karpenter.k8s.aws/cluster",
];

/// Domain of a label key: the text before its first `/`, or nothing when there is none.
pub fn domain(key: &str) -> &str {
    key.split_once('/').map_or("", |(domain, _)| domain)
}

/// Key of the label that carries the node class name: `<group>/<kind in lower case>`.
pub fn node_class(group: &str, kind: &str) -> String {
    format!("{group}/{}", kind.to_lowercase())
}

/// Labels of the AWS provider.
pub mod aws {
    use super::ZONE;

    /// API group of the AWS kinds, and a label domain that users may not use.
    pub const GROUP: &str = "karpenter.k8s.aws";

    /// Name of the EC2NodeClass. Not well known: no requirement may use it.
    pub const EC2_NODE_CLASS: &str = "karpenter.k8s.aws/ec2nodeclass";
    /// Zone id such as `use1-az1`, which names the same place in every account.
    pub const ZONE_ID: &str = "topology.k8s.aws/zone-id";

    /// Hypervisor as EC2 reports it; empty for bare metal.
    pub const INSTANCE_HYPERVISOR: &str = "karpenter.k8s.aws/instance-hypervisor";
    /// Whether traffic between instances is encrypted by the hardware.
    pub const INSTANCE_ENCRYPTION_IN_TRANSIT_SUPPORTED: &str =
        "karpenter.k8s.aws/instance-encryption-in-transit-supported";
    /// Whether the type supports Nitro Enclaves.
    pub const NITRO_SANDBOX: &str = "karpenter.k8s.aws/nitro-sandbox";
    /// Letters before the generation, `m` in `m5.large`.
    pub const INSTANCE_CATEGORY: &str = "karpenter.k8s.aws/instance-category";
    /// Whether the family is a flex one.
    pub const INSTANCE_CAPABILITY_FLEX: &str = "karpenter.k8s.aws/instance-capability-flex";
    /// Part before the dot, `m5` in `m5.large`.
    pub const INSTANCE_FAMILY: &str = "karpenter.k8s.aws/instance-family";
    /// Digits after the category, `5` in `m5.large`.
    pub const INSTANCE_GENERATION: &str = "karpenter.k8s.aws/instance-generation";
    /// Total size of the local NVMe disks in GB.
    pub const INSTANCE_LOCAL_NVME: &str = "karpenter.k8s.aws/instance-local-nvme";
    /// Part after the dot, `large` in `m5.large`.
    pub const INSTANCE_SIZE: &str = "karpenter.k8s.aws/instance-size";
    /// Number of vCPUs.
    pub const INSTANCE_CPU: &str = "karpenter.k8s.aws/instance-cpu";
    /// Maker of the CPU in lower case.
    pub const INSTANCE_CPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-cpu-manufacturer";
    /// Sustained clock speed in MHz.
    pub const INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ: &str =
        "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz";
    /// Memory in MiB.
    pub const INSTANCE_MEMORY: &str = "karpenter.k8s.aws/instance-memory";
    /// EBS bandwidth in Mbps.
    pub const INSTANCE_EBS_BANDWIDTH: &str = "karpenter.k8s.aws/instance-ebs-bandwidth";
    /// Network bandwidth in Mbps.
    pub const INSTANCE_NETWORK_BANDWIDTH: &str = "karpenter.k8s.aws/instance-network-bandwidth";
    /// Name of the GPU.
    pub const INSTANCE_GPU_NAME: &str = "karpenter.k8s.aws/instance-gpu-name";
    /// Maker of the GPU.
    pub const INSTANCE_GPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-gpu-manufacturer";
    /// Number of GPUs.
    pub const INSTANCE_GPU_COUNT: &str = "karpenter.k8s.aws/instance-gpu-count";
    /// Memory of one GPU in MiB.
    pub const INSTANCE_GPU_MEMORY: &str = "karpenter.k8s.aws/instance-gpu-memory";
    /// Name of the inference accelerator or Neuron device.
    pub const INSTANCE_ACCELERATOR_NAME: &str = "karpenter.k8s.aws/instance-accelerator-name";
    /// Maker of the accelerator.
    pub const INSTANCE_ACCELERATOR_MANUFACTURER: &str =
        "karpenter.k8s.aws/instance-accelerator-manufacturer";
    /// Number of accelerators.
    pub const INSTANCE_ACCELERATOR_COUNT: &str = "karpenter.k8s.aws/instance-accelerator-count";
    /// Whether the hardware is shared: one of [`TENANCIES`].
    pub const INSTANCE_TENANCY: &str = "karpenter.k8s.aws/instance-tenancy";
    /// Id of the capacity reservation that the instance was launched into.
    pub const CAPACITY_RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
    /// Kind of that reservation: `default` or `capacity-block`.
    pub const CAPACITY_RESERVATION_TYPE: &str = "karpenter.k8s.aws/capacity-reservation-type";
    /// Whether EC2 may reclaim the reserved capacity.
    pub const CAPACITY_RESERVATION_INTERRUPTIBLE: &str =
        "karpenter.k8s.aws/capacity-reservation-interruptible";
    /// Id of the placement group.
    pub const PLACEMENT_GROUP_ID: &str = "karpenter.k8s.aws/placement-group-id";
    /// Partition inside the placement group; empty until it is known.
    pub const PLACEMENT_GROUP_PARTITION: &str = "karpenter.k8s.aws/placement-group-partition";

    /// Tenancy: hardware shared with other accounts.
    pub const TENANCY_DEFAULT: &str = "default";
    /// Tenancy: hardware of one's own.
    pub const TENANCY_DEDICATED: &str = "dedicated";
    /// Every value of [`INSTANCE_TENANCY`], sorted.
    pub const TENANCIES: [&str; 2] = [TENANCY_DEDICATED, TENANCY_DEFAULT];

    /// Build number of Windows Server 2019.
    pub const WINDOWS_2019_BUILD: &str = "10.0.17763";
    /// Build number of Windows Server 2022.
    pub const WINDOWS_2022_BUILD: &str = "10.0.20348";
    /// Build number of Windows Server 2025.
    pub const WINDOWS_2025_BUILD: &str = "10.0.26100";

    /// Keys that the AWS provider adds to [`super::WELL_KNOWN`].
    pub const WELL_KNOWN: [&str; 29] = [
        CAPACITY_RESERVATION_ID,
        CAPACITY_RESERVATION_TYPE,
        CAPACITY_RESERVATION_INTERRUPTIBLE,
        INSTANCE_HYPERVISOR,
        INSTANCE_ENCRYPTION_IN_TRANSIT_SUPPORTED,
        NITRO_SANDBOX,
        INSTANCE_CATEGORY,
        INSTANCE_CAPABILITY_FLEX,
        INSTANCE_FAMILY,
        INSTANCE_GENERATION,
        INSTANCE_SIZE,
        INSTANCE_LOCAL_NVME,
        INSTANCE_CPU,
        INSTANCE_CPU_MANUFACTURER,
        INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ,
        INSTANCE_MEMORY,
        INSTANCE_EBS_BANDWIDTH,
        INSTANCE_NETWORK_BANDWIDTH,
        INSTANCE_GPU_NAME,
        INSTANCE_GPU_MANUFACTURER,
        INSTANCE_GPU_COUNT,
        INSTANCE_GPU_MEMORY,
        INSTANCE_ACCELERATOR_NAME,
        INSTANCE_ACCELERATOR_MANUFACTURER,
        INSTANCE_ACCELERATOR_COUNT,
        ZONE_ID,
        INSTANCE_TENANCY,
        PLACEMENT_GROUP_ID,
        PLACEMENT_GROUP_PARTITION,
    ];

    /// Labels that go away when a reserved node becomes an on-demand one.
    pub const RESERVED_ONLY: [&str; 2] = [CAPACITY_RESERVATION_ID, CAPACITY_RESERVATION_TYPE];

    /// Old spellings that the AWS provider adds to [`super::ALIASES`].
    pub const ALIASES: [(&str, &str); 1] = [("topology.ebs.csi.aws.com/zone", ZONE)];
}

/// Labels of the KWOK provider.
pub mod kwok {
    /// API group of the KWOK kinds, and a label domain that users may not use.
    pub const GROUP: &str = "karpenter.kwok.sh";

    /// Name of the KWOKNodeClass. Not well known: no requirement may use it.
    pub const KWOK_NODE_CLASS: &str = "karpenter.kwok.sh/kwoknodeclass";
    /// Size of the invented instance type.
    pub const INSTANCE_SIZE: &str = "karpenter.kwok.sh/instance-size";
    /// Family of the invented instance type.
    pub const INSTANCE_FAMILY: &str = "karpenter.kwok.sh/instance-family";
    /// Number of CPUs.
    pub const INSTANCE_CPU: &str = "karpenter.kwok.sh/instance-cpu";
    /// Memory.
    pub const INSTANCE_MEMORY: &str = "karpenter.kwok.sh/instance-memory";

    /// Marks a node as simulated by the KWOK controller.
    pub const NODE: &str = "kwok.x-k8s.io/node";
    /// Value of [`NODE`].
    pub const NODE_FAKE: &str = "fake";
    /// Group of fake nodes that fail together.
    pub const PARTITION: &str = "kwok-partition";
    /// Value of [`PARTITION`] on every node.
    pub const PARTITION_A: &str = "a";
    /// Price per hour for the node viewer tool.
    pub const INSTANCE_PRICE: &str = "eks-node-viewer/instance-price";

    /// Keys that the KWOK provider adds to [`super::WELL_KNOWN`].
    pub const WELL_KNOWN: [&str; 4] =
        [INSTANCE_SIZE, INSTANCE_FAMILY, INSTANCE_CPU, INSTANCE_MEMORY];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domain_is_the_text_before_the_first_slash() {
        assert_eq!(domain("karpenter.sh/nodepool"), "karpenter.sh");
        assert_eq!(domain("a/b/c"), "a");
        assert_eq!(domain("karpenter.sh"), "");
    }

    #[test]
    fn node_class_labels_follow_from_group_and_kind() {
        assert_eq!(node_class(aws::GROUP, "EC2NodeClass"), aws::EC2_NODE_CLASS);
        assert_eq!(node_class(kwok::GROUP, "KWOKNodeClass"), kwok::KWOK_NODE_CLASS);
    }

    #[test]
    fn a_well_known_key_is_listed_once() {
        for provider in [&aws::WELL_KNOWN[..], &kwok::WELL_KNOWN[..]] {
            let mut keys: Vec<_> = WELL_KNOWN.iter().chain(provider).collect();
            let listed = keys.len();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), listed);
        }
    }
}
