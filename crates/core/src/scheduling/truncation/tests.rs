//! Tests of the price order and of the truncation under minValues.

use super::MinValuesPolicy::{BestEffort, Strict};
use super::*;
use crate::catalog::{CAPACITY_TYPE, ON_DEMAND, Offering, RESERVED, SPOT};
use crate::labels::{INSTANCE_TYPE, ZONE};
use crate::requirement::Requirement;
use crate::testing::{RESERVATION_ID, instance_type, offering, reserved};

/// Returns a type that is on demand in zone-1 at each price.
fn on_demand(name: &str, prices: &[f64]) -> InstanceType {
    let builder = instance_type(name);
    prices.iter().fold(builder, |of, &price| of.on_demand("zone-1", price)).build()
}

fn well_known() -> BTreeSet<String> {
    [CAPACITY_TYPE, ZONE, INSTANCE_TYPE, RESERVATION_ID].map(str::to_owned).into()
}

fn names<'t>(types: &[&'t InstanceType]) -> Vec<&'t str> {
    types.iter().map(|of| of.name.as_str()).collect()
}

#[test]
fn instance_types_are_ordered_by_their_cheapest_launch() {
    struct Case(&'static str, Vec<Requirement>, &'static str);
    let unavailable = |known: &Offering| Offering { available: false, ..known.clone() };
    let dear_spot =
        instance_type("dear-spot").offering(offering(SPOT, "zone-1", 5.0)).on_demand("zone-1", 2.0);
    let sold_out = on_demand("sold-out", &[0.5]);
    let sold_out =
        sold_out.with_offerings(sold_out.offerings.iter().map(unavailable).collect::<Vec<_>>());
    let full =
        instance_type("full").offering(reserved("cr-1", "zone-1", 0)).on_demand("zone-1", 4.0);
    let free =
        instance_type("free").offering(reserved("cr-2", "zone-1", 1)).on_demand("zone-1", 9.0);
    let elsewhere = instance_type("elsewhere").on_demand("zone-2", 0.1);
    let types = [
        on_demand("b", &[3.0]),
        on_demand("a", &[3.0, 7.0]),
        dear_spot.build(),
        sold_out,
        full.build(),
        free.build(),
        elsewhere.build(),
    ];
    let zone_1 = || Requirement::in_values(ZONE, ["zone-1"]);
    let of_type = |capacity_type| Requirement::in_values(CAPACITY_TYPE, [capacity_type]);
    #[rustfmt::skip]
    let cases = [
        Case("20/§3.11: zone", vec![zone_1()], "free dear-spot a b full elsewhere sold-out"),
        Case("20/§3.11: any zone", vec![], "free elsewhere dear-spot a b full sold-out"),
        Case("20/§3.11: spot", vec![zone_1(), of_type(SPOT)], "dear-spot a b elsewhere free full sold-out"),
        Case("45/§3.2: full reservations", vec![of_type(RESERVED)], "free a b dear-spot elsewhere full sold-out"),
        Case("20/§3.11: on demand", vec![zone_1(), of_type(ON_DEMAND)], "dear-spot a b full free elsewhere sold-out"),
    ];
    for Case(case, requirements, expected) in cases {
        let requirements = requirements.into_iter().collect();
        let mut ordered: Vec<_> = types.iter().collect();
        order_by_price(&mut ordered, |&of| of, &requirements, &well_known());
        assert_eq!(names(&ordered).join(" "), expected, "{case}: {requirements}");
        ordered.reverse();
        order_by_price(&mut ordered, |&of| of, &requirements, &well_known());
        assert_eq!(
            names(&ordered).join(" "),
            expected,
            "{case} does not depend on the input order"
        );
    }
}

#[test]
fn a_nan_price_is_dearer_than_no_offering() {
    let mut types =
        [on_demand("nan", &[f64::NAN]), on_demand("none", &[]), on_demand("one", &[1.0])];
    types[1].offerings = Vec::new().into();
    let mut types: Vec<_> = types.iter().collect();
    order_by_price(&mut types, |&of| of, &Requirements::default(), &well_known());
    assert_eq!(names(&types), ["one", "none", "nan"]);
}

#[test]
fn the_cheapest_types_are_kept_if_they_reach_min_values() {
    struct Case(&'static str, usize, u32, MinValuesPolicy, Result<&'static str, &'static str>);
    let min_values = |count| -> Requirements {
        [Requirement::exists(INSTANCE_TYPE).with_min_values(Some(count))].into_iter().collect()
    };
    let types = [on_demand("c", &[3.0]), on_demand("a", &[1.0]), on_demand("b", &[2.0])];
    let unmet = "minValues requirement is not met for label(s) \
                 (label(s)=[node.kubernetes.io/instance-type])";
    #[rustfmt::skip]
    let cases = [
        Case("20/§3.24",                  2, 0, Strict,     Ok("a b")),
        Case("20/§3.24: fewer than kept", 9, 0, Strict,     Ok("a b c")),
        Case("20/§3.24: just enough",     2, 2, Strict,     Ok("a b")),
        Case("20/C36 40/CP-07",           1, 2, Strict,     Err(unmet)),
        Case("20/C36 40/CP-07",           1, 2, BestEffort, Ok("a")),
        Case("20/§3.12: no types left",   0, 2, Strict,     Ok("")),
    ];
    for Case(case, limit, count, policy, expected) in cases {
        let mut kept: Vec<_> = types.iter().collect();
        let result =
            truncate(&mut kept, |&of| of, &min_values(count), &well_known(), limit, policy);
        let got = result.map(|()| names(&kept).join(" ")).map_err(|error| error.to_string());
        let expected = expected.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(got, expected, "{case}: {limit} types, minValues {count}, {policy:?}");
    }
}
