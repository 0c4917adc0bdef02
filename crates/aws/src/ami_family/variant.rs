//! Instance types that an image is made for (spec 50 §2.2).

use karpenter_api::labels::aws::{
    INSTANCE_ACCELERATOR_COUNT, INSTANCE_GPU_COUNT, WINDOWS_2019_BUILD, WINDOWS_2022_BUILD,
    WINDOWS_2025_BUILD,
};
use karpenter_api::labels::{AMD64, ARCH, ARM64, OS, WINDOWS, WINDOWS_BUILD};
use karpenter_core::requirement::{Requirement, Requirements};

/// The kind of instance types that an image is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AmiVariant {
    /// All types: an image that the class does not select by alias.
    Any,
    /// Types without GPUs and accelerators.
    Standard,
    /// Types with NVIDIA GPUs.
    Nvidia,
    /// Types with Neuron accelerators.
    Neuron,
    /// Windows Server 2019.
    Windows2019,
    /// Windows Server 2022.
    Windows2022,
    /// Windows Server 2025.
    Windows2025,
}

impl AmiVariant {
    /// Returns the requirements of an image of this variant and architecture.
    pub fn requirements(self, architecture: &str) -> Requirements {
        let absent = Requirement::does_not_exist;
        let windows = |build: &str| {
            vec![
                Requirement::in_values(OS, [WINDOWS]),
                Requirement::in_values(WINDOWS_BUILD, [build]),
            ]
        };
        let own = match self {
            Self::Any => vec![],
            Self::Standard => vec![absent(INSTANCE_ACCELERATOR_COUNT), absent(INSTANCE_GPU_COUNT)],
            Self::Nvidia => vec![Requirement::exists(INSTANCE_GPU_COUNT)],
            Self::Neuron => vec![Requirement::exists(INSTANCE_ACCELERATOR_COUNT)],
            Self::Windows2019 => windows(WINDOWS_2019_BUILD),
            Self::Windows2022 => windows(WINDOWS_2022_BUILD),
            Self::Windows2025 => windows(WINDOWS_2025_BUILD),
        };
        own.into_iter().chain([Requirement::in_values(ARCH, [architecture])]).collect()
    }
}

/// Returns the architecture label for EC2's architecture of an image; `None` if no node runs it.
pub fn image_architecture(ec2: &str) -> Option<&'static str> {
    match ec2 {
        "x86_64" => Some(AMD64),
        "arm64" => Some(ARM64),
        _ => None,
    }
}
