//! Stand-ins for the images of an AMI family, named after it.

use karpenter_api::ec2_nodeclass::Ami;
use karpenter_api::labels::{AMD64, ARM64};

use crate::ami_family::{AmiFamily, AmiVariant, status_requirements};

/// Returns an image for each kind of instance type that the family supports.
pub(super) fn images(family: AmiFamily) -> Vec<Ami> {
    let image = |(variant, architecture): &(AmiVariant, &str)| {
        let variant_name = format!("{variant:?}").to_lowercase();
        let name = format!("{}-{variant_name}-{architecture}", family.name().to_lowercase());
        Ami {
            id: format!("ami-{name}"),
            name: Some(name),
            deprecated: None,
            requirements: status_requirements(&variant.requirements(architecture)),
        }
    };
    variants(family).iter().map(image).collect()
}

fn variants(family: AmiFamily) -> Vec<(AmiVariant, &'static str)> {
    use AmiVariant::{Any, Neuron, Nvidia, Standard, Windows2019, Windows2022, Windows2025};
    match family {
        AmiFamily::Al2 | AmiFamily::Al2023 | AmiFamily::Bottlerocket => vec![
            (Standard, AMD64),
            (Standard, ARM64),
            (Nvidia, AMD64),
            (Nvidia, ARM64),
            (Neuron, AMD64),
        ],
        AmiFamily::Custom => vec![(Any, AMD64), (Any, ARM64)],
        AmiFamily::Windows2019 => vec![(Windows2019, AMD64)],
        AmiFamily::Windows2022 => vec![(Windows2022, AMD64)],
        AmiFamily::Windows2025 => vec![(Windows2025, AMD64)],
    }
}
