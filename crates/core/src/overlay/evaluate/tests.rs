//! Tests of applying NodeOverlays to the instance types of a catalog.

use super::*;
use crate::catalog::CAPACITY_TYPE;
use crate::overlay::PriceChange;
use crate::requirement::{Operator, RequirementItem};
use crate::resources::{Quantity, Resources};
use crate::scheduling::dra::DynamicResources;
use crate::snapshot::NodeClassRef;

const ZONE: &str = "topology.kubernetes.io/zone";
const TYPE: &str = "node.kubernetes.io/instance-type";

fn labels(pairs: &[(&str, &str)]) -> Requirements {
    Requirements::from_labels(pairs.iter().copied(), &Aliases::default())
}

fn units(list: &[(&str, i64)]) -> Resources {
    list.iter().map(|&(name, n)| (name, Quantity::from_units(n))).collect()
}

fn pool(name: &str, pairs: &[(&str, &str)]) -> Pool {
    Pool {
        name: name.to_owned(),
        weight: None,
        requirements: Requirements::default(),
        labels: pairs.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        limits: Resources::default(),
        node_class: NodeClassRef::default(),
        consolidate_after: None,
    }
}

fn offering(zone: &str, capacity_type: &str, price: f64) -> Offering {
    Offering::new(labels(&[(ZONE, zone), (CAPACITY_TYPE, capacity_type)]), price)
}

/// On demand at 10 in zone a, at 10 and spot at 4 in zone b.
fn instance_type(name: &str) -> Arc<InstanceType> {
    let mut requirements = labels(&[(TYPE, name)]);
    requirements.add(Requirement::in_values(ZONE, ["a", "b"]));
    requirements.add(Requirement::in_values(CAPACITY_TYPE, ["on-demand", "spot"]));
    Arc::new(InstanceType {
        name: name.to_owned(),
        requirements: requirements.into(),
        offerings: vec![
            offering("a", "on-demand", 10.0),
            offering("b", "on-demand", 10.0),
            offering("b", "spot", 4.0),
        ]
        .into(),
        capacity: units(&[("cpu", 4)]).into(),
        overhead: Resources::default().into(),
        volume_limits: [("ebs.csi.aws.com".to_owned(), 25)].into(),
        dynamic_resources: DynamicResources::default(),
        has_capacity_overlay: false,
    })
}

/// Pools `general` and `web` (with label `team: web`), which share types `small` and `large`.
fn world() -> (Vec<Pool>, Catalog) {
    let types: InstanceTypes = ["small", "large"].map(instance_type).into_iter().collect();
    let pools = vec![pool("general", &[]), pool("web", &[("team", "web")])];
    let catalog = Catalog {
        pools: pools.iter().map(|pool| (pool.name.clone(), Arc::clone(&types))).collect(),
        well_known: Arc::new([ZONE, TYPE, CAPACITY_TYPE, NODE_POOL].map(str::to_owned).into()),
        reservation_id_label: None,
        aliases: Arc::new(Aliases::default()),
    };
    (pools, catalog)
}

fn overlay(name: &str, weight: i32, selects: &[(&str, &str)]) -> NamedOverlay {
    NamedOverlay {
        name: name.to_owned(),
        requirements: labels(selects),
        overlay: Overlay { weight: Some(weight), price: None, capacity: Resources::default() },
        problem: None,
    }
}

fn price(name: &str, weight: i32, change: &str, selects: &[(&str, &str)]) -> NamedOverlay {
    let mut named = overlay(name, weight, selects);
    named.overlay.price = Some(PriceChange::parse(change).unwrap());
    named
}

fn capacity(name: &str, weight: i32, list: &[(&str, i64)]) -> NamedOverlay {
    let mut named = overlay(name, weight, &[]);
    named.overlay.capacity = units(list);
    named
}

fn find<'a>(catalog: &'a Catalog, pool: &str, name: &str) -> &'a Arc<InstanceType> {
    catalog.pools[pool].iter().find(|instance_type| instance_type.name == name).unwrap()
}

/// The prices of each type of each pool, in order.
fn prices(catalog: &Catalog) -> Vec<Vec<f64>> {
    let types = catalog.pools.values().flat_map(|types| types.iter());
    types.map(|it| it.offerings.iter().map(|offering| offering.price).collect()).collect()
}

fn accepted(evaluation: &Evaluation) -> Vec<&str> {
    let verdicts = evaluation.statuses.iter();
    let accepted = verdicts.filter(|(_, verdict)| *verdict == OverlayStatus::Accepted);
    accepted.map(|(name, _)| name.as_str()).collect()
}

const BASE: [f64; 3] = [10.0, 10.0, 4.0];

#[test]
fn a_catalog_without_overlays_keeps_its_instance_types() {
    let (pools, catalog) = world();
    let evaluation = evaluate(&pools, &catalog, &[]);
    assert_eq!(evaluation.statuses, []);
    for (name, types) in &evaluation.catalog.pools {
        assert!(Arc::ptr_eq(types, &catalog.pools[name]), "40/OV-01: {name}");
    }
}

#[test]
fn an_overlay_changes_the_prices_of_selected_offerings() {
    struct Case(&'static str, Vec<NamedOverlay>, [[f64; 3]; 4]);
    let all = |prices| [prices; 4];
    #[rustfmt::skip]
    let cases = [
        // The prices are those of general/small, general/large, web/small, web/large.
        Case("20/C76",       vec![price("o", 1, "-15", &[])],                     all([0.0, 0.0, 0.0])),
        Case("20/C76",       vec![price("o", 1, "-25%", &[])],                    all([7.5, 7.5, 3.0])),
        Case("20/C76",       vec![price("o", 1, "+0.75", &[])],                   all([10.75, 10.75, 4.75])),
        Case("40/OV-03",     vec![price("o", 1, "1", &[]), price("p", 2, "2", &[])], all([2.0, 2.0, 2.0])),
        Case("40/OV-03",     vec![price("o", 1, "1", &[]), price("p", 2, "2", &[(ZONE, "a")])], all([2.0, 1.0, 1.0])),
        Case("40/OV-06",     vec![price("o", 1, "1", &[(NODE_POOL, "web")])],     [BASE, BASE, [1.0; 3], [1.0; 3]]),
        Case("40/OV-06",     vec![price("o", 1, "1", &[("team", "web")])],        [BASE, BASE, [1.0; 3], [1.0; 3]]),
        Case("one type",     vec![price("o", 1, "1", &[(TYPE, "small")])],        [[1.0; 3], BASE, [1.0; 3], BASE]),
        Case("40/OV-07",     vec![price("o", 1, "1", &[(ZONE, "b")])],            all([10.0, 1.0, 1.0])),
        Case("40/OV-07",     vec![price("o", 1, "1", &[(CAPACITY_TYPE, "spot")])], all([10.0, 10.0, 1.0])),
        Case("unknown label", vec![price("o", 1, "1", &[("nobody", "x")])],       all(BASE)),
        Case("impossible",   vec![price("o", 1, "1", &[(ZONE, "a"), (CAPACITY_TYPE, "spot")])], all(BASE)),
    ];
    let (pools, catalog) = world();
    for Case(case, overlays, expected) in cases {
        let evaluation = evaluate(&pools, &catalog, &overlays);
        assert_eq!(prices(&evaluation.catalog), expected, "{case}");
        assert_eq!(accepted(&evaluation).len(), overlays.len(), "{case}");
    }
}

#[test]
fn adjustments_are_exact_for_halves_and_quarters() {
    for (case, base, change, expected) in [
        ("20/C76", 1.5, "-25%", 1.125),
        ("20/C76", 1.25, "+0.75", 2.0),
        ("40/OV-11", 10.0, "-10%", 9.0),
    ] {
        let (pools, mut catalog) = world();
        let mut cheap = InstanceType::clone(&instance_type("small"));
        cheap.offerings = vec![offering("a", "on-demand", base)].into();
        catalog.pools = [("general".to_owned(), [Arc::new(cheap)].into_iter().collect())].into();
        let evaluation = evaluate(&pools, &catalog, &[price("o", 1, change, &[])]);
        assert_eq!(prices(&evaluation.catalog), [[expected]], "{case}: {base} {change}");
    }
}

#[test]
fn the_later_name_wins_among_overlays_of_equal_weight() {
    struct Case(&'static str, Vec<NamedOverlay>, &'static [&'static str]);
    #[rustfmt::skip]
    let cases = [
        Case("20/C77 40/OV-02", vec![price("a", 1, "1", &[]), price("b", 1, "2", &[(ZONE, "a")])], &["b"]),
        Case("40/OV-02",        vec![price("b", 1, "1", &[]), price("a", 1, "1", &[])],            &["b"]),
        Case("apart",           vec![price("a", 1, "1", &[(ZONE, "a")]), price("b", 1, "1", &[(ZONE, "b")])], &["b", "a"]),
        Case("40/OV-03",        vec![price("a", 1, "1", &[]), price("b", 2, "1", &[])],            &["b", "a"]),
        Case("40/OV-04",        vec![capacity("a", 1, &[("x", 1)]), capacity("b", 1, &[("y", 1)])], &["b", "a"]),
        Case("40/OV-04",        vec![capacity("a", 1, &[("x", 1)]), capacity("b", 1, &[("x", 1)])], &["b"]),
        Case("all of a weight", vec![capacity("a", 1, &[("x", 1)]), capacity("b", 1, &[("y", 1)]), capacity("c", 1, &[("x", 1)])], &["c", "b"]),
        Case("20/C78 40/OV-05", vec![price("a", 1, "1", &[]), price("b", 1, "2", &[("team", "web"), (TYPE, "small")])], &["b"]),
    ];
    let (pools, catalog) = world();
    for Case(case, overlays, expected) in cases {
        let evaluation = evaluate(&pools, &catalog, &overlays);
        assert_eq!(accepted(&evaluation), expected, "{case}");
        let conflicts = evaluation.statuses.iter().filter(|(_, v)| *v == OverlayStatus::Conflict);
        assert_eq!(conflicts.count(), overlays.len() - expected.len(), "{case}");
    }
}

#[test]
fn an_overlay_in_conflict_on_one_pool_is_applied_on_none() {
    let (pools, catalog) = world();
    let overlays =
        [price("a", 1, "1", &[]), price("b", 1, "2", &[("team", "web"), (TYPE, "small")])];
    let evaluation = evaluate(&pools, &catalog, &overlays);
    let expected = [BASE, BASE, [2.0; 3], BASE];
    assert_eq!(prices(&evaluation.catalog), expected, "20/C78 40/OV-05");
}

#[test]
fn capacity_is_merged_and_the_heavier_overlay_wins() {
    let (pools, catalog) = world();
    let overlays = [
        capacity("a", 1, &[("x", 1), ("y", 1)]),
        capacity("b", 2, &[("y", 2)]),
        capacity("c", 1, &[("z", 3)]),
    ];
    let evaluation = evaluate(&pools, &catalog, &overlays);
    assert_eq!(accepted(&evaluation), ["b", "c", "a"], "40/OV-04");
    let large = find(&evaluation.catalog, "web", "large");
    assert_eq!(*large.capacity, units(&[("cpu", 4), ("x", 1), ("y", 2), ("z", 3)]), "40/OV-04");
    assert!(large.has_capacity_overlay);
    assert!(large.offerings.iter().all(|offering| !offering.has_price_overlay));
}

#[test]
fn capacity_applies_to_the_instance_type_if_any_offering_matches() {
    let (pools, catalog) = world();
    let mut named = capacity("o", 1, &[("x", 1)]);
    named.requirements = labels(&[(ZONE, "a")]);
    let evaluation = evaluate(&pools, &catalog, &[named]);
    let small = find(&evaluation.catalog, "general", "small");
    let groups = small.allocatable_groups();
    assert_eq!(groups.len(), 1);
    assert_eq!(groups[0].allocatable.amount("x"), Quantity::from_units(1));
}

#[test]
fn only_instance_types_with_an_overlay_are_copied_and_marked() {
    let (pools, catalog) = world();
    let selects = [(NODE_POOL, "web"), (TYPE, "small"), (ZONE, "a")];
    let evaluation = evaluate(&pools, &catalog, &[price("o", 1, "1", &selects)]);
    let same = |pool: &str, name: &str| {
        Arc::ptr_eq(find(&evaluation.catalog, pool, name), find(&catalog, pool, name))
    };
    assert!(Arc::ptr_eq(&evaluation.catalog.pools["general"], &catalog.pools["general"]));
    assert!(same("web", "large") && !same("web", "small"));
    let small = find(&evaluation.catalog, "web", "small");
    let marked: Vec<_> =
        small.offerings.iter().map(|offering| offering.has_price_overlay).collect();
    assert_eq!(marked, [true, false, false]);
    assert!(!small.has_capacity_overlay);
}

#[test]
fn node_pools_with_equal_overlays_share_one_list_of_types() {
    let (pools, catalog) = world();
    let evaluation = evaluate(&pools, &catalog, &[price("o", 1, "1", &[])]);
    let [general, web] = ["general", "web"].map(|name| &evaluation.catalog.pools[name]);
    assert!(Arc::ptr_eq(general, web));
}

#[test]
fn an_overlay_shares_unchanged_fields() {
    let (pools, catalog) = world();
    let before = find(&catalog, "general", "small");
    let priced = evaluate(&pools, &catalog, &[price("o", 1, "1", &[])]);
    let after = find(&priced.catalog, "general", "small");
    assert!(after.requirements.ptr_eq(&before.requirements), "a price overlay");
    assert!(after.capacity.ptr_eq(&before.capacity) && after.overhead.ptr_eq(&before.overhead));
    assert!(after.offerings[0].requirements.ptr_eq(&before.offerings[0].requirements));

    let extended = evaluate(&pools, &catalog, &[capacity("p", 1, &[("x", 1)])]);
    let after = find(&extended.catalog, "general", "small");
    assert!(Arc::ptr_eq(&after.offerings, &before.offerings), "a capacity overlay");
    assert!(after.requirements.ptr_eq(&before.requirements));
}

#[test]
fn an_overlay_keeps_all_other_properties_of_an_instance_type() {
    let (pools, mut catalog) = world();
    let mut special = InstanceType::clone(&instance_type("small"));
    Arc::make_mut(&mut special.offerings)[0].capacity_override = units(&[("gpu", 1)]);
    Arc::make_mut(&mut special.offerings)[0].overhead_override = units(&[("cpu", 1)]);
    let expected = special.clone();
    catalog.pools = [("general".to_owned(), [Arc::new(special)].into_iter().collect())].into();
    let overlays = [price("o", 1, "1", &[]), capacity("p", 1, &[("x", 1)])];
    let evaluation = evaluate(&pools, &catalog, &overlays);
    let got = find(&evaluation.catalog, "general", "small");
    assert_eq!(got.volume_limits, expected.volume_limits, "45/OV-1");
    assert_eq!(got.dynamic_resources, expected.dynamic_resources, "45/OV-1");
    // Upstream loses these (spec 20 Q11).
    assert_eq!(got.offerings[0].capacity_override, units(&[("gpu", 1)]), "40/Q9");
    assert_eq!(got.offerings[0].overhead_override, units(&[("cpu", 1)]), "40/Q9");
}

#[test]
fn an_invalid_overlay_does_not_affect_other_overlays() {
    let (pools, catalog) = world();
    let mut broken = price("b", 1, "1", &[]);
    broken.problem = Some("invalid capacity: cpu in resource, restricted".to_owned());
    let evaluation = evaluate(&pools, &catalog, &[price("a", 1, "2", &[]), broken.clone()]);
    let invalid = OverlayStatus::Invalid(broken.problem.unwrap());
    let expected = [("b".to_owned(), invalid), ("a".to_owned(), OverlayStatus::Accepted)];
    assert_eq!(evaluation.statuses, expected, "40/OV-08");
    assert_eq!(prices(&evaluation.catalog), [[2.0; 3]; 4], "40/OV-08");
}

#[test]
fn a_node_pool_without_types_does_not_affect_other_node_pools() {
    let (mut pools, catalog) = world();
    pools.push(pool("broken", &[]));
    let evaluation = evaluate(&pools, &catalog, &[price("a", 1, "2", &[])]);
    assert_eq!(accepted(&evaluation), ["a"], "40/OV-09");
    assert_eq!(evaluation.catalog.pools.keys().collect::<Vec<_>>(), ["general", "web"], "40/OV-09");
}

#[test]
fn overlays_select_by_any_operator() {
    let item = RequirementItem::new(ZONE, Operator::NotIn, &["a"]);
    let (pools, catalog) = world();
    let mut named = price("o", 1, "1", &[]);
    named.requirements = Requirements::from_items([&item], &Aliases::default()).unwrap();
    let evaluation = evaluate(&pools, &catalog, &[named]);
    assert_eq!(prices(&evaluation.catalog), [[10.0, 1.0, 1.0]; 4]);
}
