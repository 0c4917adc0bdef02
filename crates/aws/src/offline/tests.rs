//! Tests of the instance types that need no AWS account.

use std::collections::BTreeSet;

use karpenter_api::labels;
use karpenter_core::requirement::Requirement;

use super::*;

fn offline(region: &str) -> OfflineInstanceTypes {
    OfflineInstanceTypes::load(region, ResolutionOptions::new(region)).unwrap()
}

#[test]
fn every_region_has_instance_types_in_all_its_zones() {
    for region in tables::regions() {
        let offline = offline(region);
        let types = offline.list(&offline.default_class("default")).unwrap();
        assert!(types.len() > 500, "{region}: {}", types.len());
        let is_mac = |name: &str| name.starts_with("mac");
        assert!(!types.iter().any(|one| is_mac(&one.name)), "51/$1: {region} has macOS types");
        let large = types.iter().find(|one| one.name == "m5.large").unwrap();
        let available = large.offerings.iter().filter(|offering| offering.available);
        let zones: BTreeSet<_> = available
            .filter_map(|offering| offering.requirements.get(labels::ZONE))
            .flat_map(Requirement::values)
            .collect();
        assert!(zones.len() >= 3, "{region}: {zones:?}");
        let prices: BTreeSet<_> =
            large.offerings.iter().map(|offering| offering.price.to_bits()).collect();
        assert_eq!(
            prices,
            [0.096_f64.to_bits()].into(),
            "51/$8: spot equals on-demand of us-east-1"
        );
    }
}

#[test]
fn a_status_with_subnets_is_kept() {
    let offline = offline("us-west-2");
    let mut class = offline.default_class("default");
    class.status.as_mut().unwrap().subnets.as_mut().unwrap().truncate(1);
    let before = class.clone();
    assert!(!offline.complete(&mut class));
    assert_eq!(class, before);
    assert!(offline.has_zone_of(&class));
    assert!(!self::offline("eu-west-1").has_zone_of(&class));
}

#[test]
fn every_ami_family_has_images() {
    let offline = offline("us-west-2");
    for family in AmiFamily::ALL {
        let mut class = Ec2NodeClass::default();
        class.spec.ami_family = Some(family.name().to_owned());
        assert!(offline.complete(&mut class));
        let amis = class.status.and_then(|status| status.amis).unwrap();
        let ids: BTreeSet<_> = amis.iter().map(|ami| ami.id.as_str()).collect();
        assert_eq!(ids.len(), amis.len(), "{ids:?}");
        assert!(!ids.is_empty(), "{family:?}");
    }
}

#[test]
fn an_unknown_region_is_an_error() {
    let error = OfflineInstanceTypes::load("mars-1", ResolutionOptions::new("mars-1")).unwrap_err();
    assert!(error.to_string().contains("use one of ap-south-1, "), "{error}");
}
