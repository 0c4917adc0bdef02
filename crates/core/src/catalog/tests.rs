//! Tests of instance types: allocatable resources, launchable offerings and launch prices.

use super::*;
use crate::requirement::{Aliases, Requirement};

const ZONE: &str = "topology.kubernetes.io/zone";

fn units(list: &[(&str, i64)]) -> Resources {
    list.iter().map(|&(name, n)| (name, Quantity::from_units(n))).collect()
}

fn offering(capacity_type: &str, price: f64) -> Offering {
    let labels = [(CAPACITY_TYPE, capacity_type), (ZONE, "a")];
    Offering::new(Requirements::from_labels(labels, &Aliases::default()), price)
}

fn reserved(price: f64, reservation_capacity: u32) -> Offering {
    Offering { reservation_capacity, ..offering(RESERVED, price) }
}

fn unavailable(offering: Offering) -> Offering {
    Offering { available: false, ..offering }
}

fn instance_type(capacity: Resources, offerings: Vec<Offering>) -> InstanceType {
    InstanceType {
        name: "m5.large".to_owned(),
        requirements: Requirements::default().into(),
        offerings: offerings.into(),
        capacity: capacity.into(),
        overhead: units(&[("cpu", 1), ("memory", 100)]).into(),
        volume_limits: BTreeMap::new(),
        dynamic_resources: DynamicResources::default(),
        has_capacity_overlay: false,
    }
}

fn well_known() -> BTreeSet<String> {
    [CAPACITY_TYPE, ZONE].map(str::to_owned).into()
}

#[test]
fn huge_pages_are_taken_out_of_the_memory() {
    #[rustfmt::skip]
    let cases = [
        ("40/CP-02",        &[("memory", 4_096), ("hugepages-2Mi", 100)][..],                         3_896),
        ("40/CP-02",        &[("memory", 4_096), ("hugepages-2Mi", 5_000)],                           0),
        ("20/C80",          &[("memory", 4_096), ("hugepages-2Mi", 4_096)],                           0),
        ("20/C80",          &[("memory", 4_096), ("hugepages-2Mi", 3_000), ("hugepages-1Gi", 2_000)], 0),
        ("no huge pages",   &[("memory", 4_096)],                                                     3_996),
    ];
    for (case, capacity, memory) in cases {
        let allocatable = instance_type(units(capacity), Vec::new()).allocatable();
        assert_eq!(allocatable.get(MEMORY), Some(Quantity::from_units(memory)), "{case}");
    }
}

#[test]
fn overhead_of_a_resource_without_capacity_is_ignored() {
    let allocatable = instance_type(units(&[("memory", 200)]), Vec::new()).allocatable();
    assert_eq!(allocatable, units(&[("memory", 100)]));
}

#[test]
fn offerings_are_grouped_by_their_overrides() {
    let with_capacity =
        |gpus| Offering { capacity_override: units(&[("gpu", gpus)]), ..offering(ON_DEMAND, 1.0) };
    let with_overhead =
        Offering { overhead_override: units(&[("cpu", 3)]), ..offering(ON_DEMAND, 1.0) };
    let group = |allocatable: &[(&str, i64)], offerings: &[usize]| AllocatableGroup {
        allocatable: units(allocatable),
        offerings: offerings.to_vec(),
    };
    let base = [("cpu", 7), ("memory", 900)];
    let gpus = |gpus| [("cpu", 7), ("memory", 900), ("gpu", gpus)];
    #[rustfmt::skip]
    let cases = [
        ("40/CP-03", vec![offering(SPOT, 1.0), unavailable(offering(SPOT, 1.0)), offering(ON_DEMAND, 2.0)],
            vec![group(&base, &[0, 2])]),
        ("40/CP-04", vec![with_capacity(1), with_capacity(2), with_capacity(1)],
            vec![group(&base, &[]), group(&gpus(1), &[0, 2]), group(&gpus(2), &[1])]),
        ("40/CP-04", vec![with_overhead, offering(SPOT, 1.0)],
            vec![group(&base, &[1]), group(&[("cpu", 5), ("memory", 900)], &[0])]),
        ("unavailable", vec![unavailable(with_capacity(1))],
            vec![group(&base, &[])]),
    ];
    for (case, offerings, expected) in cases {
        let instance_type = instance_type(units(&[("cpu", 8), ("memory", 1_000)]), offerings);
        assert_eq!(instance_type.allocatable_groups(), expected, "{case}");
    }
}

#[test]
fn an_override_adds_a_resource_to_its_own_group_only() {
    let gpu = Offering { capacity_override: units(&[("gpu", 1)]), ..offering(ON_DEMAND, 1.0) };
    let requests = units(&[("gpu", 1)]);
    let fitting = |offerings| -> Vec<usize> {
        let groups = instance_type(units(&[("cpu", 8)]), offerings).allocatable_groups();
        let groups = groups.into_iter().filter(|group| requests.fits_in(&group.allocatable));
        groups.flat_map(|group| group.offerings).collect()
    };
    assert_eq!(fitting(vec![offering(SPOT, 1.0), gpu.clone()]), [1], "20/C66");
    assert_eq!(fitting(vec![offering(SPOT, 1.0), unavailable(gpu)]), [0; 0], "20/C66");
}

#[test]
fn a_full_reservation_is_not_launchable() {
    #[rustfmt::skip]
    let cases = [
        ("45/CP-1",    reserved(1.0, 0),                       false),
        ("45/CP-1",    reserved(1.0, 3),                       true),
        ("45/CP-1",    unavailable(reserved(1.0, 3)),          false),
        ("45/CP-2",    offering(ON_DEMAND, 1.0),               true),
        ("45/CP-2",    unavailable(offering(ON_DEMAND, 1.0)),  false),
        ("untold",     Offering { requirements: Requirements::default().into(), ..offering(SPOT, 1.0) }, true),
    ];
    for (case, offering, expected) in cases {
        assert_eq!(offering.is_launchable(), expected, "{case}: {offering:?}");
    }
}

#[test]
fn the_cheapest_launch_price_skips_offerings_that_are_not_launchable() {
    let cheapest = |offerings| {
        let instance_type = instance_type(Resources::default(), offerings);
        instance_type.cheapest_launch_price(&Requirements::default(), &well_known())
    };
    #[rustfmt::skip]
    let cases = [
        ("45/CP-3",     vec![reserved(0.001, 0), offering(ON_DEMAND, 2.0)],               Some(2.0)),
        ("45/CP-3",     vec![offering(ON_DEMAND, 1.0)],                                   Some(1.0)),
        ("free slot",   vec![reserved(0.001, 1), offering(ON_DEMAND, 2.0)],               Some(0.001)),
        ("unavailable", vec![unavailable(offering(SPOT, 0.1)), offering(ON_DEMAND, 2.0)], Some(2.0)),
        ("none",        vec![reserved(0.001, 0)],                                         None),
    ];
    for (case, offerings, expected) in cases {
        assert_eq!(cheapest(offerings.clone()), expected, "{case}: {offerings:?}");
    }
}

#[test]
fn the_worst_launch_price_is_of_the_capacity_type_launched_first() {
    type Chosen = fn(&&Offering) -> bool;
    const ALL: Chosen = |_| true;
    const AVAILABLE: Chosen = |offering| offering.available;
    const LAUNCHABLE: Chosen = |offering| offering.is_launchable();
    let full = vec![reserved(0.001, 0), offering(ON_DEMAND, 1.0)];
    let three = vec![unavailable(reserved(0.3, 1)), offering(SPOT, 0.5), offering(ON_DEMAND, 1.0)];
    let spots = vec![offering(SPOT, 0.5), offering(SPOT, 0.7), offering(ON_DEMAND, 1.0)];
    let no_spot = [Requirement::not_in(CAPACITY_TYPE, [SPOT])].into_iter().collect();
    let any = Requirements::default();
    #[rustfmt::skip]
    let cases = [
        ("45/CP-4",     &full,   LAUNCHABLE, &any,     Some(1.0)),
        ("45/CP-4",     &full,   AVAILABLE,  &any,     Some(0.001)),
        ("40/CP-05",    &three,  ALL,        &any,     Some(0.3)),
        ("40/CP-05",    &three,  AVAILABLE,  &any,     Some(0.5)),
        ("highest",     &spots,  ALL,        &any,     Some(0.7)),
        ("compatible",  &spots,  ALL,        &no_spot, Some(1.0)),
        ("none",        &vec![], ALL,        &any,     None),
    ];
    for (case, offerings, chosen, requirements, expected) in cases {
        let got = worst_launch_price(offerings.iter().filter(chosen), requirements, &well_known());
        assert_eq!(got, expected, "{case}: {offerings:?}");
    }
}

#[test]
fn the_provider_names_the_label_of_the_reservation_id() {
    let label = "karpenter.k8s.aws/capacity-reservation-id";
    let mut offering = reserved(1.0, 1);
    offering.requirements.add(Requirement::in_values(label, ["cr-1"]));
    assert!(offering.is_reserved());
    assert_eq!(offering.reservation_id(Some(label)), Some("cr-1"));
    assert_eq!(offering.reservation_id(None), None);
    assert!(!self::offering(SPOT, 1.0).is_reserved());
    assert_eq!(self::offering(SPOT, 1.0).reservation_id(Some(label)), None);
}
