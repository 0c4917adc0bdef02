//! SSM parameters in which AWS publishes the ids of its images (spec 50 §2.2).

use super::alias::LATEST;
use super::{AmiFamily, AmiVariant};

/// An SSM parameter that holds the id of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmiParameter {
    /// Name of the parameter.
    pub name: String,
    /// Variants that the image is used for.
    pub variants: Vec<AmiVariant>,
    /// Whether AWS changes the value with each release.
    pub is_mutable: bool,
}

/// Returns the parameters of an alias, given its version and the Kubernetes version.
///
/// `kubernetes` is major and minor, as in `1.33`. Custom has none. Windows ignores the version.
pub fn ami_parameters(family: AmiFamily, version: &str, kubernetes: &str) -> Vec<AmiParameter> {
    use AmiVariant::{Windows2019, Windows2022, Windows2025};
    let is_mutable = version == LATEST || family.is_windows();
    let named = match family {
        AmiFamily::Al2 => al2(version, kubernetes),
        AmiFamily::Al2023 => al2023(version, kubernetes),
        AmiFamily::Bottlerocket => bottlerocket(version, kubernetes),
        AmiFamily::Windows2019 => windows("2019", Windows2019, kubernetes),
        AmiFamily::Windows2022 => windows("2022", Windows2022, kubernetes),
        AmiFamily::Windows2025 => windows("2025", Windows2025, kubernetes),
        AmiFamily::Custom => Vec::new(),
    };
    let parameter = |(name, variants)| AmiParameter { name, variants, is_mutable };
    named.into_iter().map(parameter).collect()
}

type NamedVariants = Vec<(String, Vec<AmiVariant>)>;

fn al2(version: &str, kubernetes: &str) -> NamedVariants {
    use AmiVariant::{Neuron, Nvidia, Standard};
    let name = |suffix: &str, image: &str| {
        let release = release(version, || format!("amazon-eks{image}-node-{kubernetes}-{version}"));
        format!(
            "/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2{suffix}/{release}/image_id"
        )
    };
    vec![
        (name("", ""), vec![Standard]),
        (name("-arm64", "-arm64"), vec![Standard]),
        (name("-gpu", "-gpu"), vec![Neuron, Nvidia]),
    ]
}

fn al2023(version: &str, kubernetes: &str) -> NamedVariants {
    use AmiVariant::{Neuron, Nvidia, Standard};
    let images = [
        ("x86_64", "standard", Standard),
        ("x86_64", "nvidia", Nvidia),
        ("x86_64", "neuron", Neuron),
        ("arm64", "standard", Standard),
        ("arm64", "nvidia", Nvidia),
    ];
    let named = |(arch, name, variant)| {
        let release = release(version, || {
            format!("amazon-eks-node-al2023-{arch}-{name}-{kubernetes}-{version}")
        });
        let path = format!("/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023");
        (format!("{path}/{arch}/{name}/{release}/image_id"), vec![variant])
    };
    images.map(named).into()
}

fn bottlerocket(version: &str, kubernetes: &str) -> NamedVariants {
    use AmiVariant::{Neuron, Nvidia, Standard};
    let version = version.trim_start_matches('v');
    let name = |suffix: &str, arch: &str| {
        format!("/aws/service/bottlerocket/aws-k8s-{kubernetes}{suffix}/{arch}/{version}/image_id")
    };
    vec![
        (name("", "x86_64"), vec![Standard, Neuron]),
        (name("", "arm64"), vec![Standard]),
        (name("-nvidia", "x86_64"), vec![Nvidia]),
        (name("-nvidia", "arm64"), vec![Nvidia]),
    ]
}

fn windows(year: &str, variant: AmiVariant, kubernetes: &str) -> NamedVariants {
    let name = format!(
        "/aws/service/ami-windows-latest/\
         Windows_Server-{year}-English-Core-EKS_Optimized-{kubernetes}/image_id"
    );
    vec![(name, vec![variant])]
}

/// The path element of a release: AWS's recommendation, or the name of an image.
fn release(version: &str, image: impl Fn() -> String) -> String {
    if version == LATEST { "recommended".to_owned() } else { image() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(family: AmiFamily, version: &str, kubernetes: &str) -> Vec<(String, Vec<AmiVariant>)> {
        let parameters = ami_parameters(family, version, kubernetes);
        parameters.into_iter().map(|parameter| (parameter.name, parameter.variants)).collect()
    }

    #[test]
    fn parameters_follow_family_version_and_kubernetes() {
        use AmiVariant::{Neuron, Nvidia, Standard, Windows2022};
        let eks = "/aws/service/eks/optimized-ami";
        let bottlerocket = "/aws/service/bottlerocket";
        #[rustfmt::skip]
        let cases = [
            ("50/N1", AmiFamily::Al2023, "latest", "1.36", vec![
                (format!("{eks}/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id"), vec![Standard]),
                (format!("{eks}/1.36/amazon-linux-2023/x86_64/nvidia/recommended/image_id"), vec![Nvidia]),
                (format!("{eks}/1.36/amazon-linux-2023/x86_64/neuron/recommended/image_id"), vec![Neuron]),
                (format!("{eks}/1.36/amazon-linux-2023/arm64/standard/recommended/image_id"), vec![Standard]),
                (format!("{eks}/1.36/amazon-linux-2023/arm64/nvidia/recommended/image_id"), vec![Nvidia]),
            ]),
            ("50/N2", AmiFamily::Al2, "latest", "1.32", vec![
                (format!("{eks}/1.32/amazon-linux-2/recommended/image_id"), vec![Standard]),
                (format!("{eks}/1.32/amazon-linux-2-arm64/recommended/image_id"), vec![Standard]),
                (format!("{eks}/1.32/amazon-linux-2-gpu/recommended/image_id"), vec![Neuron, Nvidia]),
            ]),
            ("50/N2", AmiFamily::Al2, "v20250101", "1.32", vec![
                (format!("{eks}/1.32/amazon-linux-2/amazon-eks-node-1.32-v20250101/image_id"), vec![Standard]),
                (format!("{eks}/1.32/amazon-linux-2-arm64/amazon-eks-arm64-node-1.32-v20250101/image_id"), vec![Standard]),
                (format!("{eks}/1.32/amazon-linux-2-gpu/amazon-eks-gpu-node-1.32-v20250101/image_id"), vec![Neuron, Nvidia]),
            ]),
            ("50/N3", AmiFamily::Bottlerocket, "v1.20.4", "1.33", vec![
                (format!("{bottlerocket}/aws-k8s-1.33/x86_64/1.20.4/image_id"), vec![Standard, Neuron]),
                (format!("{bottlerocket}/aws-k8s-1.33/arm64/1.20.4/image_id"), vec![Standard]),
                (format!("{bottlerocket}/aws-k8s-1.33-nvidia/x86_64/1.20.4/image_id"), vec![Nvidia]),
                (format!("{bottlerocket}/aws-k8s-1.33-nvidia/arm64/1.20.4/image_id"), vec![Nvidia]),
            ]),
            ("50/N7", AmiFamily::Windows2022, "latest", "1.36", vec![
                ("/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.36/image_id".to_owned(), vec![Windows2022]),
            ]),
            ("50/N1", AmiFamily::Custom, "latest", "1.36", vec![]),
        ];
        for (id, family, version, kubernetes, want) in cases {
            assert_eq!(names(family, version, kubernetes), want, "{id}: {family:?} {version}");
        }
        let pinned = names(AmiFamily::Al2023, "v20250920", "1.33");
        let name = "amazon-eks-node-al2023-arm64-nvidia-1.33-v20250920";
        let path = format!("{eks}/1.33/amazon-linux-2023/arm64/nvidia/{name}/image_id");
        assert_eq!(pinned.last().unwrap().0, path, "50/N1");
        let latest = names(AmiFamily::Bottlerocket, "latest", "1.33");
        assert_eq!(latest[0].0, format!("{bottlerocket}/aws-k8s-1.33/x86_64/latest/image_id"));
    }

    #[test]
    fn parameters_of_latest_and_of_windows_change() {
        let is_mutable = |family, version| {
            ami_parameters(family, version, "1.36").iter().all(|parameter| parameter.is_mutable)
        };
        assert!(is_mutable(AmiFamily::Al2023, "latest"));
        assert!(!is_mutable(AmiFamily::Al2023, "v20250920"));
        assert!(is_mutable(AmiFamily::Windows2025, "latest"));
    }
}
