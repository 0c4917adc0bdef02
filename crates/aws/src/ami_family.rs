//! Facts about AMI families: disks, pod density, SSM parameters (spec 50 §2.2 and §3.1).
//!
//! The family of an EC2NodeClass selects the user data ([`crate::bootstrap`]) and the defaults.
//! Everything here is plain data and pure functions; no call to AWS.

mod alias;
mod block_devices;
mod bottlerocket_version;
mod mapping;
mod metadata_options;
mod queries;
mod selection;
mod ssm_parameters;
mod variant;

use karpenter_api::ec2_nodeclass::{AL2023, BOTTLEROCKET, CUSTOM, Ec2NodeClassSpec};

pub use alias::{UnsupportedAlias, check_alias};
pub use block_devices::{LaunchBlockDevice, LaunchVolume, launch_block_devices};
pub use bottlerocket_version::{bottlerocket_version, supports_default_bind};
pub use mapping::{ami_requirements, map_amis, status_requirements};
pub use metadata_options::launch_metadata_options;
pub use queries::{AmiQuery, alias_query, term_queries};
pub use selection::{Image, SelectedAmi, select_amis};
pub use ssm_parameters::{AmiParameter, ami_parameters};
pub use variant::{AmiVariant, image_architecture};

/// An AMI family: decides user data, default disks and pod density.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AmiFamily {
    /// Amazon Linux 2.
    Al2,
    /// Amazon Linux 2023.
    Al2023,
    /// Bottlerocket.
    Bottlerocket,
    /// Images and user data of the user.
    Custom,
    /// Windows Server 2019.
    Windows2019,
    /// Windows Server 2022.
    Windows2022,
    /// Windows Server 2025.
    Windows2025,
}

impl AmiFamily {
    /// Every family, in the order of the API.
    pub const ALL: [Self; 7] = [
        Self::Al2,
        Self::Al2023,
        Self::Bottlerocket,
        Self::Custom,
        Self::Windows2019,
        Self::Windows2022,
        Self::Windows2025,
    ];

    /// Returns the family of a name in `spec.amiFamily`.
    ///
    /// An unknown name counts as AL2, as upstream reads it. The schema admits none.
    pub fn from_name(name: &str) -> Self {
        Self::ALL.into_iter().find(|family| family.name() == name).unwrap_or(Self::Al2)
    }

    /// Returns the effective family of an EC2NodeClass: the field, the alias, or Custom.
    pub fn of(spec: &Ec2NodeClassSpec) -> Self {
        Self::from_name(spec.family())
    }

    /// Returns the name in `spec.amiFamily` and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Al2 => "AL2",
            Self::Al2023 => AL2023,
            Self::Bottlerocket => BOTTLEROCKET,
            Self::Custom => CUSTOM,
            Self::Windows2019 => "Windows2019",
            Self::Windows2022 => "Windows2022",
            Self::Windows2025 => "Windows2025",
        }
    }

    /// Whether the nodes run Windows.
    pub fn is_windows(self) -> bool {
        matches!(self, Self::Windows2019 | Self::Windows2022 | Self::Windows2025)
    }

    /// Returns the device whose volume holds the pods' ephemeral storage; Custom has none.
    pub fn ephemeral_device(self) -> Option<&'static str> {
        match self {
            Self::Al2 | Self::Al2023 => Some("/dev/xvda"),
            Self::Bottlerocket => Some("/dev/xvdb"),
            Self::Custom => None,
            Self::Windows2019 | Self::Windows2022 | Self::Windows2025 => Some("/dev/sda1"),
        }
    }

    /// Whether network interfaces limit the pods of a node without `maxPods`.
    ///
    /// Windows nodes run 110 pods on every instance type.
    pub fn supports_eni_limited_pod_density(self) -> bool {
        !self.is_windows()
    }

    /// Whether the family applies `podsPerCore`.
    pub fn honors_pods_per_core(self) -> bool {
        self != Self::Bottlerocket
    }

    /// Whether kubeReserved memory counts the ENI-limited pods, not the actual maximum.
    pub fn uses_eni_limited_memory_overhead(self) -> bool {
        self != Self::Bottlerocket && !self.is_windows()
    }

    /// Whether the family applies every kubelet setting, not only the managed ones.
    pub fn passes_kubelet_through(self) -> bool {
        self == Self::Al2023
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_families_read_back() {
        for family in AmiFamily::ALL {
            assert_eq!(AmiFamily::from_name(family.name()), family);
        }
        assert_eq!(AmiFamily::from_name("Ubuntu"), AmiFamily::Al2);
        assert_eq!(
            AmiFamily::ALL.map(AmiFamily::name),
            karpenter_api::ec2_nodeclass::AMI_FAMILIES,
            "the order of the API"
        );
    }

    /// The matrix of spec 50 §3.1.
    #[test]
    fn families_differ_as_in_the_matrix() {
        use AmiFamily::{Al2, Al2023, Bottlerocket, Custom, Windows2019, Windows2022, Windows2025};
        #[rustfmt::skip]
        let rows = [
            // family       device             ENI pods  per core  ENI memory  any kubelet setting
            (Al2,          Some("/dev/xvda"), true,     true,     true,       false),
            (Al2023,       Some("/dev/xvda"), true,     true,     true,       true),
            (Bottlerocket, Some("/dev/xvdb"), true,     false,    false,      false),
            (Windows2019,  Some("/dev/sda1"), false,    true,     false,      false),
            (Windows2022,  Some("/dev/sda1"), false,    true,     false,      false),
            (Windows2025,  Some("/dev/sda1"), false,    true,     false,      false),
            (Custom,       None,              true,     true,     true,       false),
        ];
        for (family, device, eni_pods, per_core, eni_memory, any_setting) in rows {
            let found = (
                family.ephemeral_device(),
                family.supports_eni_limited_pod_density(),
                family.honors_pods_per_core(),
                family.uses_eni_limited_memory_overhead(),
                family.passes_kubelet_through(),
            );
            assert_eq!(found, (device, eni_pods, per_core, eni_memory, any_setting), "{family:?}");
        }
    }
}
