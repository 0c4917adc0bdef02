//! Selects the newest image of each kind (spec 50 §2.2).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_api::ec2_nodeclass::Ami;
use karpenter_core::requirement::Requirements;

use super::mapping::status_requirements;
use super::{AmiVariant, image_architecture};

/// An image, as DescribeImages returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Id of the image.
    pub id: String,
    /// Name of the image.
    pub name: String,
    /// Architecture, in EC2's words.
    pub architecture: String,
    /// Creation time; an absent one counts as the oldest.
    pub created: Option<Timestamp>,
    /// Time from which the owner calls the image deprecated.
    pub deprecated_at: Option<Timestamp>,
}

/// An image with the instance types that it is used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectedAmi {
    /// Id of the image.
    pub id: String,
    /// Name of the image.
    pub name: String,
    /// Creation time in seconds since 1970.
    pub created_s: Option<i64>,
    /// Whether the owner has deprecated the image.
    pub is_deprecated: bool,
    /// Requirements that an instance type has to be compatible with.
    pub requirements: Requirements,
}

impl SelectedAmi {
    /// Returns the entry of `status.amis`.
    pub fn to_status(&self) -> Ami {
        Ami {
            id: self.id.clone(),
            deprecated: self.is_deprecated.then_some(true),
            name: Some(self.name.clone()),
            requirements: status_requirements(&self.requirements),
        }
    }

    /// Orders candidates of one kind; the greatest is selected.
    fn rank(&self) -> (bool, Option<i64>, &str) {
        (!self.is_deprecated, self.created_s, &self.name)
    }
}

/// Returns the best image of each kind, newest first, then by id.
///
/// Current images win over deprecated ones, then newer ones, then greater names; of equal ones the
/// first wins. `variants` has the images of an alias by id; all others fit any type.
pub fn select_amis(
    images: &[Image],
    variants: &BTreeMap<String, Vec<AmiVariant>>,
    now: Timestamp,
) -> Vec<SelectedAmi> {
    let mut selected: Vec<((AmiVariant, &str), SelectedAmi)> = Vec::new();
    for image in images {
        let Some(architecture) = image_architecture(&image.architecture) else { continue };
        for &variant in variants.get(&image.id).map_or(&[AmiVariant::Any][..], Vec::as_slice) {
            let kind = (variant, architecture);
            let candidate = SelectedAmi {
                id: image.id.clone(),
                name: image.name.clone(),
                created_s: image.created.map(Timestamp::as_second),
                is_deprecated: image.deprecated_at.is_some_and(|at| at <= now),
                requirements: variant.requirements(architecture),
            };
            match selected.iter_mut().find(|(found, _)| *found == kind) {
                None => selected.push((kind, candidate)),
                Some((_, best)) if candidate.rank() > best.rank() => *best = candidate,
                Some(_) => {}
            }
        }
    }
    let mut amis: Vec<_> = selected.into_iter().map(|(_, ami)| ami).collect();
    amis.sort_by(|a, b| (Reverse(a.created_s), &a.id).cmp(&(Reverse(b.created_s), &b.id)));
    amis
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_S: i64 = 86_400;

    fn at(day: i64) -> Timestamp {
        Timestamp::from_second(day * DAY_S).unwrap()
    }

    /// An x86 image created on a day, deprecated on another.
    fn image(id: &str, name: &str, created: Option<i64>, deprecated: Option<i64>) -> Image {
        Image {
            id: id.to_owned(),
            name: name.to_owned(),
            architecture: "x86_64".to_owned(),
            created: created.map(at),
            deprecated_at: deprecated.map(at),
        }
    }

    #[test]
    fn the_best_image_of_a_kind_is_selected() {
        #[rustfmt::skip]
        let cases = [
            ("50/N13", image("new", "a", Some(9), Some(10)), image("old", "a", Some(1), None),     "old", false),
            ("50/N13", image("new", "a", Some(9), Some(11)), image("old", "a", Some(1), None),     "new", false), // not yet
            ("50/N14", image("new", "a", Some(9), Some(10)), image("old", "a", Some(1), Some(2)),  "new", true),
            ("50/N15", image("1", "a", Some(9), None),       image("2", "b", Some(9), None),       "2",   false),
            ("50/N15", image("1", "a", Some(9), None),       image("2", "a", Some(9), None),       "1",   false), // the first
            ("50/N15", image("1", "z", None, None),          image("2", "a", Some(1), None),       "2",   false),
        ];
        for (id, one, other, want, deprecated) in cases {
            let found = select_amis(&[one, other], &BTreeMap::new(), at(10));
            let found: Vec<_> =
                found.iter().map(|ami| (ami.id.as_str(), ami.is_deprecated)).collect();
            assert_eq!(found, [(want, deprecated)], "{id}");
        }
    }

    #[test]
    fn images_of_other_architectures_are_skipped() {
        let mac = Image { architecture: "arm64_mac".to_owned(), ..image("1", "a", None, None) };
        let arm = Image { architecture: "arm64".to_owned(), ..image("2", "a", None, None) };
        let found = select_amis(&[mac, arm], &BTreeMap::new(), at(10));
        let status: Vec<_> = found.iter().map(SelectedAmi::to_status).collect();
        assert_eq!(status.len(), 1, "50/N17");
        assert_eq!(status[0].id, "2", "50/N17");
        assert_eq!(status[0].deprecated, None);
        let requirements = &status[0].requirements;
        assert_eq!(requirements.len(), 1);
        assert_eq!(requirements[0].key, "kubernetes.io/arch");
        assert_eq!(requirements[0].values.as_deref(), Some(&["arm64".to_owned()][..]));
    }

    #[test]
    fn an_image_of_two_variants_appears_twice() {
        let variants = BTreeMap::from([
            ("gpu".to_owned(), vec![AmiVariant::Neuron, AmiVariant::Nvidia]),
            ("std".to_owned(), vec![AmiVariant::Standard]),
        ]);
        let images = [image("std", "s", Some(1), None), image("gpu", "g", Some(2), None)];
        let found = select_amis(&images, &variants, at(10));
        let kinds: Vec<_> =
            found.iter().map(|ami| (ami.id.as_str(), ami.requirements.clone())).collect();
        let want = [
            ("gpu", AmiVariant::Neuron.requirements("amd64")),
            ("gpu", AmiVariant::Nvidia.requirements("amd64")),
            ("std", AmiVariant::Standard.requirements("amd64")),
        ];
        assert_eq!(kinds, want, "50/N2: newest first");
    }
}
