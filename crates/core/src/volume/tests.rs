//! Tests of PersistentVolumeClaims: validation, node requirements and attachments.

use super::*;
use crate::pod::example::pod_with_volume_claims;
use crate::requirement::{Aliases, Operator, RequirementItem};
use Operator::In;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
const EBS: &str = "ebs.csi.aws.com";

fn term(items: &[(&str, &[&str])]) -> Requirements {
    let items: Vec<_> = items.iter().map(|&(k, v)| RequirementItem::new(k, In, v)).collect();
    Requirements::from_items(&items, &Aliases::default()).unwrap()
}

fn zone(zones: &[&str]) -> Requirements {
    term(&[(ZONE, zones)])
}

fn bound(volume: &str, class: Option<&str>) -> VolumeClaim {
    VolumeClaim {
        volume_name: volume.to_owned(),
        storage_class: class.map(str::to_owned),
        is_bind_completed: true,
        ..VolumeClaim::default()
    }
}

fn unbound(class: Option<&str>) -> VolumeClaim {
    VolumeClaim { is_bind_completed: false, ..bound("", class) }
}

fn ebs(node_affinity: Vec<Requirements>) -> PersistentVolume {
    PersistentVolume { driver: Some(EBS.to_owned()), node_affinity, ..PersistentVolume::default() }
}

fn local(node_affinity: Vec<Requirements>) -> PersistentVolume {
    PersistentVolume { is_local: true, node_affinity, ..PersistentVolume::default() }
}

fn class(allowed_topologies: Vec<Requirements>) -> StorageClass {
    StorageClass { provisioner: EBS.to_owned(), binds_immediately: false, allowed_topologies }
}

/// Returns volumes and classes, each with a claim of the same name.
fn volume_objects(
    volumes: Vec<(&str, PersistentVolume)>,
    classes: Vec<(&str, StorageClass)>,
) -> Volumes {
    let mut world = Volumes::default();
    for (name, volume) in volumes {
        world.volumes.insert(name.to_owned(), volume);
        add_claim(&mut world, name, bound(name, None));
    }
    for (name, class) in classes {
        world.classes.insert(name.to_owned(), class);
        add_claim(&mut world, name, unbound(Some(name)));
    }
    world
}

fn add_claim(world: &mut Volumes, name: &str, claim: VolumeClaim) {
    world.claims.insert(("default".to_owned(), name.to_owned()), claim);
}

#[test]
fn a_claim_that_is_not_ready_rejects_the_pod() {
    let mut world = volume_objects(
        vec![
            ("fine", ebs(vec![])),
            ("pv-going", PersistentVolume { is_deleting: true, ..ebs(vec![]) }),
            ("odd", PersistentVolume { driver: Some("odd.csi".to_owned()), ..ebs(vec![]) }),
        ],
        vec![
            ("late", class(vec![])),
            ("early", StorageClass { binds_immediately: true, ..class(vec![]) }),
            ("auto", class(vec![zone(&["a"]), term(&[("eks/type", &["auto"])])])),
            ("odd-class", StorageClass { provisioner: "odd.csi".to_owned(), ..class(vec![]) }),
        ],
    );
    world.unsupported_drivers.insert("odd.csi".to_owned());
    world.unsupported_topology_keys.insert("eks/type".to_owned());
    #[rustfmt::skip]
    let claims = [
        ("going",       VolumeClaim { is_deleting: true, ..bound("fine", None) }),
        ("lost",        VolumeClaim { is_lost: true, ..bound("gone", None) }),
        ("pv-missing",  bound("gone", Some("late"))),
        ("binding",     VolumeClaim { is_bind_completed: false, ..bound("fine", None) }),
        ("classless",   unbound(None)),
        ("no-class",    unbound(Some(""))),
        ("class-gone",  unbound(Some("none"))),
        ("bound-gone-class",  bound("fine", Some("none"))),
        ("bound-empty-class", bound("fine", Some(""))),
        ("bound-immediate",   bound("fine", Some("early"))),
    ];
    for (name, claim) in claims {
        add_claim(&mut world, name, claim);
    }
    #[rustfmt::skip]
    let cases = [
        ("20/B12", "none",       "getting persistent volume claim, PersistentVolumeClaim \"none\" not found (PersistentVolumeClaim=none)"),
        ("20/C62", "going",      "persistentvolumeclaim is being deleted (PersistentVolumeClaim=default/going)"),
        ("20/C62", "lost",       "persistentvolumeclaim bound to non-existent persistentvolume (PersistentVolume=gone, PersistentVolumeClaim=default/lost)"),
        ("20/C62", "pv-going",   "failed to validate pvc, persistentvolume is being deleted (PersistentVolume=pv-going, PersistentVolumeClaim=default/pv-going, StorageClass=)"),
        ("volume gone", "pv-missing", "failed to validate pvc, PersistentVolume \"gone\" not found (PersistentVolume=gone, PersistentVolumeClaim=default/pv-missing, StorageClass=late)"),
        ("20/C62", "binding",    "pvc is considered unbound because it does not contain annotation (PersistentVolume=fine, PersistentVolumeClaim=binding, annotation=pv.kubernetes.io/bind-completed)"),
        ("no class", "classless", "unbound pvc must define a storage class (PersistentVolumeClaim=default/classless, StorageClass=)"),
        ("no class", "no-class", "unbound pvc must define a storage class (PersistentVolumeClaim=default/no-class, StorageClass=)"),
        ("class gone", "class-gone", "failed to validate pvc, failed to get storage class, StorageClass.storage.k8s.io \"none\" not found (PersistentVolumeClaim=default/class-gone, StorageClass=none)"),
        ("20/C62", "early",      "failed to validate pvc, pvc with immediate volume binding mode must be bound (PersistentVolumeClaim=default/early, StorageClass=early)"),
        ("topology key", "auto", "failed to validate pvc, storage class uses unsupported topology key (PersistentVolumeClaim=default/auto, StorageClass=auto, TopologyKey=eks/type)"),
        ("20/C62", "odd",        "failed to validate pvc, provisioner is not supported (PersistentVolumeClaim=default/odd, Provisioner=odd.csi, StorageClass=)"),
        ("20/C62", "odd-class",  "failed to validate pvc, provisioner is not supported (PersistentVolumeClaim=default/odd-class, Provisioner=odd.csi, StorageClass=odd-class)"),
        ("fine", "fine",               ""),
        ("fine", "late",               ""),
        ("20/C63", "bound-gone-class",  ""),
        ("20/C63", "bound-empty-class", ""),
        ("fine", "bound-immediate",    ""),
    ];
    for (case, claim, expected) in cases {
        let got = world.validate(&pod_with_volume_claims("p", &[claim])).err().unwrap_or_default();
        assert_eq!(got, expected, "{case}: {claim}");
    }
}

#[test]
fn the_error_is_of_the_first_claim_that_is_not_ready() {
    let mut world = volume_objects(vec![("fine", ebs(vec![]))], vec![]);
    add_claim(&mut world, "going", VolumeClaim { is_deleting: true, ..bound("fine", None) });
    let error =
        world.validate(&pod_with_volume_claims("p", &["fine", "going", "none"])).unwrap_err();
    let expected = "persistentvolumeclaim is being deleted (PersistentVolumeClaim=default/going)";
    assert_eq!(error, expected);
}

#[test]
fn claims_of_other_namespaces_are_not_found() {
    let world = volume_objects(vec![("a", ebs(vec![]))], vec![]);
    let pod = Pod { namespace: "other".to_owned(), ..pod_with_volume_claims("p", &["a"]) };
    assert!(world.validate(&pod).is_err());
}

#[test]
fn volumes_give_alternative_requirements_for_the_node() {
    let world = volume_objects(
        vec![
            ("zone-3", ebs(vec![zone(&["zone-3"])])),
            ("zones-1-or-2", ebs(vec![zone(&["zone-1"]), zone(&["zone-2"])])),
            ("anywhere", ebs(vec![])),
            ("local-host", local(vec![term(&[(HOSTNAME, &["dead"])])])),
            ("local-both", local(vec![term(&[(HOSTNAME, &["dead"]), (ZONE, &["zone-1"])])])),
            ("local-or", local(vec![term(&[(HOSTNAME, &["dead"])]), zone(&["invalid"])])),
            ("remote-host", ebs(vec![term(&[(HOSTNAME, &["dead"])])])),
            ("rack-1", ebs(vec![term(&[("rack", &["1"])])])),
        ],
        vec![
            ("class-2-3", class(vec![zone(&["zone-2", "zone-3"])])),
            ("class-2-or-3", class(vec![zone(&["zone-2"]), zone(&["zone-3"])])),
            ("class-any", class(vec![])),
        ],
    );
    #[rustfmt::skip]
    let cases = [
        ("no volumes",      &[][..],                        vec![]),
        ("20/C52",          &["zone-3"],                    vec![zone(&["zone-3"])]),
        ("20/C52",          &["class-2-3"],                 vec![zone(&["zone-2", "zone-3"])]),
        ("20/C53",          &["zone-3", "anywhere"],        vec![zone(&["zone-3"])]),
        ("20/C54",          &["zones-1-or-2"],              vec![zone(&["zone-1"]), zone(&["zone-2"])]),
        ("20/C55",          &["local-host"],                vec![term(&[])]),
        ("20/C55",          &["remote-host"],               vec![term(&[(HOSTNAME, &["dead"])])]),
        ("other keys stay", &["local-both"],                vec![zone(&["zone-1"])]),
        ("20/C56",          &["local-or"],                  vec![term(&[]), zone(&["invalid"])]),
        ("20/C57",          &["class-2-or-3", "zones-1-or-2"], vec![zone(&["zone-2"])]),
        ("in order",        &["zones-1-or-2", "rack-1"],    vec![
            term(&[(ZONE, &["zone-1"]), ("rack", &["1"])]), term(&[(ZONE, &["zone-2"]), ("rack", &["1"])])]),
        ("contradiction",   &["zone-3", "zones-1-or-2"],    vec![zone(&[])]),
        ("no constraint",   &["anywhere", "class-any"],     vec![]),
        ("one of two",      &["class-any", "zone-3"],       vec![zone(&["zone-3"])]),
        ("local and zone",  &["local-host", "zone-3"],      vec![zone(&["zone-3"])]),
    ];
    for (case, claims, expected) in cases {
        let got = world.node_requirement_alternatives(&pod_with_volume_claims("p", claims));
        assert_eq!(got, Ok(expected), "{case}: {claims:?}");
    }
}

#[test]
fn volumes_add_nothing_to_the_pods_own_requirements() {
    let world = volume_objects(vec![("zone-3", ebs(vec![zone(&["zone-3"])]))], vec![]);
    let pod = pod_with_volume_claims("p", &["zone-3"]);
    assert_eq!(
        world.node_requirement_alternatives(&pod).map(|alternatives| alternatives.len()),
        Ok(1),
        "20/C58"
    );
    assert_eq!(pod.spec.requirements(), Requirements::default(), "20/C58");
}

#[test]
fn missing_volumes_and_storage_classes_are_errors() {
    let mut world = Volumes::default();
    add_claim(&mut world, "bound", bound("gone", Some("none")));
    add_claim(&mut world, "unbound", unbound(Some("none")));
    add_claim(&mut world, "classless", unbound(None));
    #[rustfmt::skip]
    let cases = [
        ("none",      Err("discovering persistent volume claim, getting persistent volume claim, PersistentVolumeClaim \"none\" not found (PersistentVolumeClaim=none)")),
        ("bound",     Err("getting existing requirements, getting persistent volume, PersistentVolume \"gone\" not found (PersistentVolume=gone)")),
        ("unbound",   Err("getting storage class, StorageClass.storage.k8s.io \"none\" not found (StorageClass=none)")),
        ("classless", Ok(Vec::new())),
    ];
    for (claim, expected) in cases {
        let got = world.node_requirement_alternatives(&pod_with_volume_claims("p", &[claim]));
        assert_eq!(got, expected.map_err(str::to_owned), "{claim}");
    }
}

#[test]
fn bound_claims_need_no_class() {
    let mut world = volume_objects(vec![("pv", ebs(vec![zone(&["a"])]))], vec![]);
    for class in [None, Some(""), Some("gone")] {
        add_claim(&mut world, "claim", bound("pv", class));
        let pod = pod_with_volume_claims("p", &["claim"]);
        assert_eq!(
            world.node_requirement_alternatives(&pod),
            Ok(vec![zone(&["a"])]),
            "20/C63: {class:?}"
        );
        let drivers = world.attachments(&pod).map(|a| a.into_keys().collect::<Vec<_>>());
        assert_eq!(drivers, Ok(vec![EBS.to_owned()]), "20/C63: {class:?}");
    }
}

#[test]
fn attachments_are_distinct_claims_by_driver() {
    let nfs = PersistentVolume::default();
    let other = StorageClass { provisioner: "efs.csi.aws.com".to_owned(), ..class(vec![]) };
    let mut world = volume_objects(
        vec![("a", ebs(vec![])), ("b", ebs(vec![])), ("nfs", nfs)],
        vec![("late", class(vec![])), ("efs", other)],
    );
    add_claim(&mut world, "classless", unbound(None));
    add_claim(&mut world, "class-gone", unbound(Some("none")));
    add_claim(&mut world, "pv-gone", bound("none", None));
    #[rustfmt::skip]
    let cases = [
        ("20/C59",        &["a", "b"][..],                  Ok(vec![(EBS, vec!["default/a", "default/b"])])),
        ("20/C60",        &["a", "a"],                      Ok(vec![(EBS, vec!["default/a"])])),
        ("20/C61",        &["nfs"],                         Ok(vec![])),
        ("unbound",       &["late", "a"],                   Ok(vec![(EBS, vec!["default/a", "default/late"])])),
        ("two drivers",   &["a", "efs"],                    Ok(vec![(EBS, vec!["default/a"]), ("efs.csi.aws.com", vec!["default/efs"])])),
        ("not known",     &["none", "classless", "class-gone"], Ok(vec![])),
        ("volume gone",   &["a", "pv-gone"],                Err("PersistentVolume \"none\" not found")),
    ];
    for (case, claims, expected) in cases {
        let expected = expected.map_err(str::to_owned).map(|drivers| -> Attachments {
            let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
            drivers.into_iter().map(|(driver, names)| (driver.to_owned(), owned(names))).collect()
        });
        let got = world.attachments(&pod_with_volume_claims("p", claims));
        assert_eq!(got, expected, "{case}: {claims:?}");
    }
}
