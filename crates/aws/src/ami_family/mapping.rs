//! Which image an instance type launches from (spec 50 §2.2).

use std::collections::BTreeSet;

use karpenter_api::ec2_nodeclass::{Ami, AmiRequirement};
use karpenter_core::requirement::{Aliases, Operator, Requirement, RequirementItem, Requirements};

/// Returns requirements as `status.amis[].requirements`, sorted by length of the key, then key.
pub fn status_requirements(requirements: &Requirements) -> Vec<AmiRequirement> {
    let mut items = requirements.items();
    items.sort_by(|a, b| (a.key.len(), &a.key).cmp(&(b.key.len(), &b.key)));
    let entry = |item: RequirementItem| AmiRequirement {
        key: item.key,
        operator: item.operator.name().to_owned(),
        values: Some(item.values).filter(|values| !values.is_empty()),
    };
    items.into_iter().map(entry).collect()
}

/// Returns the requirements of a status entry; `None` if one of them cannot be read.
///
/// Karpenter writes the status, so only another tool can have put such an entry there. No instance
/// type launches from its image.
pub fn ami_requirements(ami: &Ami) -> Option<Requirements> {
    ami.requirements.iter().map(read_requirement).collect()
}

/// Returns for each instance type the index of its image in `amis`.
///
/// The first image in status order counts whose requirements are compatible with the type's. A key
/// that only the image has is compatible only if absence satisfies it.
pub fn map_amis<'a>(
    amis: &[Ami],
    instance_types: impl IntoIterator<Item = &'a Requirements>,
) -> Vec<Option<usize>> {
    let images: Vec<_> = amis.iter().map(ami_requirements).collect();
    let nothing_undefined = BTreeSet::new();
    let image_of = |instance_type: &Requirements| {
        images.iter().position(|image| {
            let is_compatible =
                |image: &Requirements| instance_type.compatible(image, &nothing_undefined).is_ok();
            image.as_ref().is_some_and(is_compatible)
        })
    };
    instance_types.into_iter().map(image_of).collect()
}

fn read_requirement(requirement: &AmiRequirement) -> Option<Requirement> {
    let item = RequirementItem {
        key: requirement.key.clone(),
        operator: Operator::from_name(&requirement.operator)?,
        values: requirement.values.clone().unwrap_or_default(),
        min_values: None,
    };
    Requirement::from_item(&item, &Aliases::none()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ami_family::AmiVariant;

    fn instance_type(labels: &[(&str, &str)], absent: &[&str]) -> Requirements {
        let mut requirements = Requirements::from_labels(labels.iter().copied(), &Aliases::none());
        requirements.extend(absent.iter().map(|key| Requirement::does_not_exist(key)));
        requirements
    }

    fn ami(id: &str, variant: AmiVariant, arch: &str) -> Ami {
        let requirements = status_requirements(&variant.requirements(arch));
        Ami { id: id.to_owned(), requirements, ..Ami::default() }
    }

    #[test]
    fn each_type_gets_the_first_compatible_image() {
        const GPUS: &str = "karpenter.k8s.aws/instance-gpu-count";
        const ACCELERATORS: &str = "karpenter.k8s.aws/instance-accelerator-count";
        const ARCH: &str = "kubernetes.io/arch";
        let amis = [
            ami("neuron", AmiVariant::Neuron, "amd64"),
            ami("nvidia", AmiVariant::Nvidia, "amd64"),
            ami("standard", AmiVariant::Standard, "amd64"),
            ami("arm", AmiVariant::Standard, "arm64"),
            ami("later", AmiVariant::Any, "arm64"),
        ];
        #[rustfmt::skip]
        let types = [
            ("m5",   instance_type(&[(ARCH, "amd64")], &[GPUS, ACCELERATORS]),          Some("standard")),
            ("g4dn", instance_type(&[(ARCH, "amd64"), (GPUS, "1")], &[ACCELERATORS]),   Some("nvidia")),
            ("inf2", instance_type(&[(ARCH, "amd64"), (ACCELERATORS, "1")], &[GPUS]),   Some("neuron")),
            ("m6g",  instance_type(&[(ARCH, "arm64")], &[GPUS, ACCELERATORS]),          Some("arm")),
            ("g5g",  instance_type(&[(ARCH, "arm64"), (GPUS, "1")], &[ACCELERATORS]),   Some("later")),
            ("bare", instance_type(&[], &[]),                                           None), // arch is undefined
        ];
        let found = map_amis(&amis, types.iter().map(|(_, requirements, _)| requirements));
        for ((name, _, want), found) in types.iter().zip(found) {
            assert_eq!(found.map(|index| amis[index].id.as_str()), *want, "50/N39: {name}");
        }
    }

    #[test]
    fn requirements_survive_the_status() {
        for variant in [AmiVariant::Standard, AmiVariant::Nvidia, AmiVariant::Windows2022] {
            let entry = ami("ami-1", variant, "amd64");
            assert_eq!(ami_requirements(&entry), Some(variant.requirements("amd64")), "50/N1");
        }
        let keys: Vec<_> = ami("", AmiVariant::Windows2019, "amd64")
            .requirements
            .into_iter()
            .map(|requirement| (requirement.key, requirement.operator, requirement.values.unwrap()))
            .collect();
        let row =
            |key: &str, value: &str| (key.to_owned(), "In".to_owned(), vec![value.to_owned()]);
        let want = [
            row("kubernetes.io/os", "windows"),
            row("kubernetes.io/arch", "amd64"),
            row("node.kubernetes.io/windows-build", "10.0.17763"),
        ];
        assert_eq!(keys, want, "50/N1: sorted by length of the key");
    }

    #[test]
    fn an_unknown_operator_excludes_every_type() {
        let broken = AmiRequirement {
            key: "example.com/absent".to_owned(),
            operator: "Near".to_owned(),
            values: Some(vec!["amd64".to_owned()]),
        };
        let ami = Ami { requirements: vec![broken], ..Ami::default() };
        let amd64 = instance_type(&[("kubernetes.io/arch", "amd64")], &[]);
        assert_eq!(map_amis(&[ami], [&amd64]), [None]);
    }
}
