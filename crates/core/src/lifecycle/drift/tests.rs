//! Tests of drift of the template, the requirements and the instance type.

use super::*;
use crate::requirement::Operator::{self, DoesNotExist, Exists, Gt, In, Lt, NotIn};
use crate::testing::{
    self, RESERVATION_ID, TypeBuilder, instance_type, offering, requirement, reserved,
};

const ZONE: &str = "zone";

fn labels(labels: &[(&str, &str)]) -> Requirements {
    labels.iter().map(|(key, value)| requirement(key, In, &[value])).collect()
}

fn hash(hash: &str) -> StaticHash<'_> {
    StaticHash { hash: Some(hash), version: Some("v3") }
}

type Item<'a> = (&'a str, Operator, &'a [&'a str]);
type Offerings<'a> = &'a [(&'a str, &'a str)];

#[test]
fn requirements_that_exclude_the_claim_labels_are_drift() {
    let drifted = Some(DriftCause::Requirements);
    #[rustfmt::skip]
    let cases: [(&str, Item<'_>, Option<DriftCause>); 15] = [
        ("30/NCD-6: replaced",        (ZONE, In, &["zone-2"]),            drifted),
        ("30/NCD-6: added",           ("team", In, &["a"]),               drifted),
        ("30/NCD-6: added, exists",   ("team", Exists, &[]),              drifted),
        ("30/NCD-6: reduced",         (ZONE, NotIn, &["zone-1"]),         drifted),
        ("30/NCD-6: DoesNotExist",    (ZONE, DoesNotExist, &[]),          drifted),
        ("30/NCD-6: Gt",              ("size", Gt, &["4"]),               drifted),
        ("30/NCD-6: Lt",              ("size", Lt, &["4"]),               drifted),
        ("30/NCD-7: expanded",        (ZONE, In, &["zone-1", "zone-2"]),  None),
        ("30/NCD-7: exists",          (ZONE, Exists, &[]),                None),
        ("30/NCD-7: Gt",              ("size", Gt, &["3"]),               None),
        ("30/NCD-7: Lt",              ("size", Lt, &["5"]),               None),
        ("30/NCD-7: NotIn",           (ZONE, NotIn, &["zone-2"]),         None),
        ("absent, NotIn",             ("team", NotIn, &["a"]),            None),
        ("absent, DoesNotExist",      ("team", DoesNotExist, &[]),        None),
        ("well-known, but no label",  ("arch", In, &["amd64"]),           drifted),
    ];
    let of_claim = labels(&[(ZONE, "zone-1"), ("size", "4")]);
    for (case, (key, operator, values), expected) in cases {
        let required: Requirements = [requirement(key, operator, values)].into_iter().collect();
        let found = from_pool((hash("1"), &required), (hash("1"), &of_claim));
        assert_eq!(found, expected, "{case}");
    }
}

#[test]
fn only_claims_outside_the_pool_requirements_drift() {
    let pool: Requirements = [requirement("os", In, &["linux"])].into_iter().collect();
    let drift = |os| from_pool((hash("1"), &pool), (hash("1"), &labels(&[("os", os)])));
    assert_eq!(drift("linux"), None, "30/NCD-8");
    assert_eq!(drift("windows"), Some(DriftCause::Requirements), "30/NCD-8");
}

#[test]
fn template_drift_is_reported_before_requirements_drift() {
    let pool: Requirements = [requirement(ZONE, In, &["zone-2"])].into_iter().collect();
    let of_claim = labels(&[(ZONE, "zone-1")]);
    let drift = |claim_hash| from_pool((hash("1"), &pool), (claim_hash, &of_claim));
    assert_eq!(drift(hash("2")), Some(DriftCause::NodePool));
    let incomparable = StaticHash { hash: Some("2"), version: Some("v2") };
    assert_eq!(drift(incomparable), Some(DriftCause::Requirements), "30/NCD-10");
    let names = [DriftCause::NodePool, DriftCause::Requirements, DriftCause::InstanceType]
        .map(DriftCause::name);
    assert_eq!(names, ["NodePoolDrifted", "RequirementsDrifted", "InstanceTypeNotFound"]);
}

fn instance_type_with(offerings: &[(&str, &str)]) -> InstanceType {
    let mut built = type_builder_with(offerings).build();
    if offerings.is_empty() {
        built.offerings = Vec::new().into();
    }
    built
}

fn type_builder_with(offerings: &[(&str, &str)]) -> TypeBuilder {
    offerings.iter().fold(instance_type("m"), |of_type, &(zone, capacity)| match capacity {
        RESERVED => of_type.offering(reserved("cr-2", zone, 1)),
        capacity => of_type.offering(offering(capacity, zone, 1.0)),
    })
}

#[test]
fn an_instance_type_without_a_matching_offering_is_drift() {
    let gone = Some(DriftCause::InstanceType);
    let spot = [("type", "m"), (ZONE, "zone-1"), ("capacity-type", "spot")];
    let held =
        [("type", "m"), (ZONE, "zone-1"), ("capacity-type", RESERVED), (RESERVATION_ID, "cr-1")];
    #[rustfmt::skip]
    let cases: [(&str, Offerings<'_>, Offerings<'_>, Option<DriftCause>); 9] = [
        ("30/NCD-11: label missing",   &spot[1..], &[("zone-1", "spot")],      gone),
        ("30/NCD-11: no offerings",    &spot,      &[],                        gone),
        ("30/NCD-11: incompatible",    &spot,      &[("zone-2", "spot"), ("zone-1", "on-demand")], gone),
        ("30/NCD-11: still sold",      &spot,      &[("zone-1", "spot")],      None),
        ("30/NCD-12: reserved",        &held,      &[("zone-1", RESERVED)],    None),
        ("30/NCD-12, 40/LC-55",        &held,      &[("zone-1", "on-demand")], None),
        ("30/NCD-12: both",            &held,      &[("zone-1", RESERVED), ("zone-1", "on-demand")], None),
        ("30/NCD-12, 40/LC-55: spot",  &held,      &[("zone-1", "spot")],      gone),
        ("30/NCD-12: none",            &held,      &[],                        gone),
    ];
    let about_reservations = [RESERVATION_ID.to_owned()].into();
    for (case, of_claim, offerings, expected) in cases {
        let types = [Arc::new(instance_type_with(offerings))];
        let of_claim = labels(of_claim);
        let found = from_catalog(&types, &of_claim, &about_reservations, &testing::well_known());
        assert_eq!(found, expected, "{case}");
        let others = [Arc::new(instance_type("other").build())];
        let found = from_catalog(&others, &of_claim, &about_reservations, &testing::well_known());
        assert_eq!(found, gone, "30/NCD-11: type unknown");
    }
}

#[test]
fn the_instance_type_is_checked_after_an_hour_until_found() {
    let now: Timestamp = "2000-06-15T12:30:30Z".parse().unwrap();
    let old = |minutes| now - SignedDuration::from_mins(minutes);
    assert!(is_type_check_due(old(61), false, now), "30/NCD-11");
    assert!(!is_type_check_due(old(60), false, now), "30/NCD-11");
    assert!(!is_type_check_due(old(61), true, now));
}
