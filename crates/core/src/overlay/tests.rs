//! Tests of recording NodeOverlays: precedence by weight, conflicts and selection.

use super::*;
use crate::requirement::{Aliases, Requirement};

const ZONE: &str = "topology.kubernetes.io/zone";

fn type_key(instance_type: &str) -> TypeKey {
    TypeKey { pool: "general".to_owned(), instance_type: instance_type.to_owned() }
}

/// `m5.large` with these offerings.
fn large(offerings: &[&str]) -> Selection {
    Selection {
        instance_type: type_key("m5.large"),
        offerings: offerings.iter().map(|&offering| offering.to_owned()).collect(),
    }
}

fn price(weight: i32, change: &str) -> Overlay {
    let price = Some(PriceChange::parse(change).unwrap());
    Overlay { weight: Some(weight), price, capacity: Resources::default() }
}

fn capacity(weight: i32, resources: &[(&str, i64)]) -> Overlay {
    let capacity = resources.iter().map(|&(name, n)| (name, Quantity::from_units(n))).collect();
    Overlay { weight: Some(weight), price: None, capacity }
}

#[test]
fn the_heavier_overlay_sets_the_price() {
    let mut overrides = Overrides::default();
    assert_eq!(overrides.record(&price(10, "1"), &[large(&["a", "b"])]), Ok(()));
    assert_eq!(overrides.record(&price(5, "2"), &[large(&["b", "c"])]), Ok(()));
    let prices =
        ["a", "b", "c", "d"].map(|name| overrides.price_change(&type_key("m5.large"), name));
    let absolute = |price| Some(PriceChange::Absolute(price));
    assert_eq!(prices, [absolute(1.0), absolute(1.0), absolute(2.0), None]);
}

#[test]
fn overlays_of_one_weight_conflict_on_a_shared_offering_or_resource() {
    struct Case(&'static str, Vec<(Overlay, Selection)>, &'static [bool]);
    #[rustfmt::skip]
    let cases = [
        Case("same offering", vec![
            (price(10, "1"), large(&["a", "b"])), (price(10, "2"), large(&["b"])),
        ], &[true, false]),
        Case("equal values too", vec![
            (price(10, "1"), large(&["a"])), (price(10, "1"), large(&["a"])),
        ], &[true, false]),
        Case("other offerings", vec![
            (price(10, "1"), large(&["a"])), (price(10, "2"), large(&["b"])),
        ], &[true, true]),
        Case("other weight", vec![
            (price(10, "1"), large(&["a"])), (price(9, "2"), large(&["a"])),
        ], &[true, true]),
        Case("the last weight counts, also if it set nothing", vec![
            (price(10, "1"), large(&["a"])), (price(9, "2"), large(&["a"])), (price(9, "3"), large(&["a"])),
        ], &[true, true, false]),
        Case("price and capacity do not meet", vec![
            (price(10, "1"), large(&["a"])), (capacity(10, &[("x", 1)]), large(&["a"])),
        ], &[true, true]),
        Case("other resources", vec![
            (capacity(10, &[("x", 1)]), large(&["a"])), (capacity(10, &[("y", 1)]), large(&["a"])),
        ], &[true, true]),
        Case("same resource", vec![
            (capacity(10, &[("x", 1)]), large(&["a"])), (capacity(10, &[("x", 1), ("y", 1)]), large(&["b"])),
        ], &[true, false]),
        Case("40/Q11: all of the weight are compared", vec![
            (capacity(10, &[("x", 1)]), large(&["a"])), (capacity(10, &[("y", 1)]), large(&["a"])),
            (capacity(10, &[("x", 2)]), large(&["a"])),
        ], &[true, true, false]),
    ];
    for Case(case, overlays, expected) in cases {
        let mut overrides = Overrides::default();
        let accepted: Vec<_> = overlays
            .iter()
            .map(|(overlay, selection)| {
                overrides.record(overlay, std::slice::from_ref(selection)).is_ok()
            })
            .collect();
        assert_eq!(accepted, expected, "{case}");
    }
}

#[test]
fn absent_weights_are_equal_weights() {
    let absent = Overlay { weight: None, ..price(0, "1") };
    let mut overrides = Overrides::default();
    assert_eq!(overrides.record(&absent, &[large(&["a"])]), Ok(()));
    assert_eq!(overrides.record(&price(0, "2"), &[large(&["a"])]), Err(OverlayConflict));
    assert_eq!(OverlayConflict.to_string(), "conflict with another overlay");
}

#[test]
fn capacity_is_merged_by_resource_and_the_heavier_wins() {
    let mut overrides = Overrides::default();
    overrides.record(&capacity(10, &[("x", 1), ("y", 1)]), &[large(&["a"])]).unwrap();
    overrides.record(&capacity(5, &[("y", 2), ("z", 2)]), &[large(&["b"])]).unwrap();
    let expected = capacity(0, &[("x", 1), ("y", 1), ("z", 2)]).capacity;
    assert_eq!(overrides.capacity(&type_key("m5.large")), expected);
    assert_eq!(overrides.capacity(&type_key("c5.large")), Resources::default());
}

#[test]
fn an_overlay_in_conflict_is_not_recorded_for_any_instance_type() {
    let mut overrides = Overrides::default();
    overrides.record(&price(10, "1"), &[large(&["a"])]).unwrap();
    let before = overrides.clone();
    let other = Selection { instance_type: type_key("c5.large"), ..large(&["a"]) };
    assert_eq!(overrides.record(&price(10, "2"), &[other, large(&["a"])]), Err(OverlayConflict));
    assert_eq!(overrides, before);
}

#[test]
fn an_overlay_matches_nodes_strictly_and_offerings_loosely() {
    struct Case(&'static str, &'static [(&'static str, &'static str)], &'static [usize]);
    let labels = |labels: &[(&str, &str)]| {
        Requirements::from_labels(labels.iter().copied(), &Aliases::default())
    };
    let mut node = labels(&[("karpenter.sh/nodepool", "general"), ("team", "web")]);
    node.add(Requirement::in_values(ZONE, ["a", "b"]));
    let offerings =
        [labels(&[(ZONE, "a")]), labels(&[(ZONE, "b"), ("karpenter.sh/capacity-type", "spot")])];
    let well_known = [ZONE, "karpenter.sh/capacity-type"].map(str::to_owned).into();
    let cases = [
        Case("everything", &[], &[0, 1]),
        Case("by zone", &[(ZONE, "b")], &[1]),
        Case("template label", &[("team", "web")], &[0, 1]),
        Case("another pool", &[("karpenter.sh/nodepool", "gpu")], &[]),
        Case(
            "label that the node side does not have",
            &[("karpenter.sh/capacity-type", "spot")],
            &[],
        ),
    ];
    for Case(case, overlay, expected) in cases {
        let got = matching_offerings(&labels(overlay), &node, &offerings, &well_known);
        assert_eq!(got, expected, "{case}: {overlay:?}");
    }
}
