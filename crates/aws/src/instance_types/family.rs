//! What an AMI family changes about the capacity of a node (spec 51 §4, §5).

use karpenter_api::labels::aws;

/// An AMI family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Amazon Linux 2.
    Al2,
    /// Amazon Linux 2023.
    Al2023,
    /// Bottlerocket.
    Bottlerocket,
    /// Images that the user chooses.
    Custom,
    /// Windows Server 2019.
    Windows2019,
    /// Windows Server 2022.
    Windows2022,
    /// Windows Server 2025.
    Windows2025,
}

impl Family {
    /// Returns the family of this name; an unknown name counts as Custom.
    pub fn from_name(name: &str) -> Self {
        match name {
            "AL2" => Self::Al2,
            "AL2023" => Self::Al2023,
            "Bottlerocket" => Self::Bottlerocket,
            "Windows2019" => Self::Windows2019,
            "Windows2022" => Self::Windows2022,
            "Windows2025" => Self::Windows2025,
            _ => Self::Custom,
        }
    }

    /// Returns the name in the field `spec.amiFamily`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Al2 => "AL2",
            Self::Al2023 => "AL2023",
            Self::Bottlerocket => "Bottlerocket",
            Self::Custom => "Custom",
            Self::Windows2019 => "Windows2019",
            Self::Windows2022 => "Windows2022",
            Self::Windows2025 => "Windows2025",
        }
    }

    /// Returns whether nodes run Windows.
    pub fn is_windows(self) -> bool {
        self.windows_build().is_some()
    }

    /// Returns the value of the label `node.kubernetes.io/windows-build`.
    pub fn windows_build(self) -> Option<&'static str> {
        match self {
            Self::Windows2019 => Some(aws::WINDOWS_2019_BUILD),
            Self::Windows2022 => Some(aws::WINDOWS_2022_BUILD),
            Self::Windows2025 => Some(aws::WINDOWS_2025_BUILD),
            _ => None,
        }
    }

    /// Returns whether network interfaces limit the number of pods.
    pub fn is_eni_limited(self) -> bool {
        !self.is_windows()
    }

    /// Returns whether the kubelet obeys `podsPerCore`.
    pub fn honours_pods_per_core(self) -> bool {
        self != Self::Bottlerocket
    }

    /// Returns whether the memory for the kubelet follows the network interfaces.
    ///
    /// With the other families it follows the number of pods.
    pub fn reserves_memory_by_interfaces(self) -> bool {
        matches!(self, Self::Al2 | Self::Al2023 | Self::Custom)
    }

    /// Returns the device with the ephemeral storage of pods; Custom has none.
    pub fn ephemeral_device(self) -> Option<&'static str> {
        match self {
            Self::Al2 | Self::Al2023 => Some("/dev/xvda"),
            Self::Bottlerocket => Some("/dev/xvdb"),
            Self::Custom => None,
            Self::Windows2019 | Self::Windows2022 | Self::Windows2025 => Some("/dev/sda1"),
        }
    }

    /// Returns the size of the ephemeral storage without block device mappings, in GiB.
    pub fn default_ephemeral_gib(self) -> i64 {
        if self.is_windows() { 50 } else { 20 }
    }
}
