//! Tests of the device search: rules 5, 6 and 8 to 12.

use super::test_cluster::*;
use crate::requirement::{Requirement, Requirements};
use crate::scheduling::dra::*;

const NONE: &str = "no instance type can satisfy the allocation";

#[test]
fn candidates_see_only_slices_that_their_node_can_use() {
    let rack: Requirements =
        std::iter::once(Requirement::in_values("example.com/rack", ["1"])).collect();
    let selector = |terms| NodeAccess::Selector(terms);
    #[rustfmt::skip]
    let rows = [
        ("rule 5: all nodes",        slice("p", devices("d")),                                    "small: d",                                       "small: d"),
        ("rule 5: by name",          slice("p", devices("d")).on(NodeAccess::Node("here".into())),     NONE,                                             "small: d"),
        ("rule 5: another's",        slice("p", devices("d")).on(NodeAccess::Node("there".into())),    NONE,                                             NONE),
        ("rule 5, 20/C71: zonal",    slice("p", devices("d")).in_zone("a"),                       "small: d @ topology.kubernetes.io/zone In [a]",  "small: d @ topology.kubernetes.io/zone In [a]"),
        ("rule 5: wrong zone",       slice("p", devices("d")).in_zone("c"),                       NONE,                                             NONE),
        ("rule 5: unknown label",    slice("p", devices("d")).on(selector(vec![rack.clone()])),   NONE,                                             NONE),
        ("rule 5: per device",       slice("p", devices("d")).on(NodeAccess::PerDevice),               NONE,                                             NONE),
        ("rule 2: of an own node",   slice("p", devices("d")).owned_by("here"),                   "small: d",                                       "small: d"),
        ("rule 2: of a gone node",   slice("p", devices("d")).owned_by("gone"),                   NONE,                                             NONE),
    ];
    for (case, slice, on_new, on_node) in rows {
        let world = TestCluster::new(vec![slice]).claim("c", claim([query(1)]));
        assert_eq!(world.try_new("c"), on_new, "{case}, new");
        assert_eq!(
            world.try_allocate(&world.allocator(), TestCandidate::ExistingNode, "c"),
            on_node,
            "{case}, node"
        );
    }
}

#[test]
fn only_complete_pools_of_the_highest_generation_count() {
    let incomplete = "validating claim \"c\": claim \"c\" request \"r0\": pool gpu.example.com/p is incomplete (missing slices)";
    let invalid = "validating claim \"c\": claim \"c\" request \"r0\": pool gpu.example.com/p is invalid (duplicate device names)";
    #[rustfmt::skip]
    let rows = [
        ("rule 6: new after old",  vec![slice("p", devices("old")), slice("p", devices("new")).of(2, 1)], "small: new", "small: new"),
        ("rule 6: old after new",  vec![slice("p", devices("new")).of(2, 1), slice("p", devices("old"))], "small: new", "small: new"),
        ("rule 6: two slices",     vec![slice("p", devices("d")).of(1, 2), slice("p", devices("e")).of(1, 2)], "small: d", "small: d e"),
        ("rule 6: one is missing", vec![slice("p", devices("d")).of(1, 2)], NONE, incomplete),
        ("rule 6: one too many",   vec![slice("p", devices("d")), slice("p", devices("e"))], NONE, incomplete),
        ("rule 6: same name",      vec![slice("p", devices("d d"))], NONE, invalid),
        ("rule 6: no such budget", vec![slice("p", vec![device("d").consuming(1)])], NONE, invalid),
        ("rule 6: budget twice",   vec![
            slice("p", devices("d")).of(1, 2),
            slice("p", vec![]).of(1, 2).declaring(counter_set(1)).declaring(counter_set(1)),
        ], NONE, invalid),
        ("rule 6: unseen slices count", vec![
            slice("p", devices("d")).of(1, 2),
            slice("p", devices("e")).of(1, 2).in_zone("c"),
        ], "small: d", "small: d"),
    ];
    for (case, slices, exact, every) in rows {
        let world = TestCluster::new(slices).claim("c", claim([query(1)]));
        assert_eq!(world.try_new("c"), exact, "{case}");
        let world = world.claim("c", claim([all()]));
        assert_eq!(world.try_new("c"), every, "{case}, All");
    }
}

#[test]
fn requests_get_devices_that_match() {
    let red = |name| device(name).with("colour", "red");
    let world = |claim: Claim| {
        TestCluster::new(vec![slice("p", vec![device("x"), red("y"), red("z")])])
            .types(vec![
                ("bare", DynamicResources::default()),
                ("rich", template(vec![red("t"), device("u")])),
            ])
            .class("red", vec![DeviceSelector::Cel("colour=red".to_owned())])
            .claim("c", claim)
            .with_evaluated_selectors()
    };
    let first =
        |queries: Vec<DeviceQuery>| claim_of_kinds([DeviceRequestKind::FirstAvailable(queries)]);
    #[rustfmt::skip]
    let rows = [
        ("rule 9: published first",    claim([query(1)]),                          "bare: x, rich: x"),
        ("rule 9: then templates",     claim([query(4)]),                          "rich: x y z +t"),
        ("rule 8: of the class",       claim([query(1).of_class("red")]),          "bare: y, rich: y"),
        ("rule 8: class and request",  claim([query(1).of_class("red").selecting("colour=blue")]), NONE),
        ("rule 8: of the request",     claim([query(3).selecting("colour=red")]),  "rich: y z +t"),
        ("rule 8: two requests",       claim([query(2), query(1)]),                "bare: x y z, rich: x y z"),
        ("rule 9: an early request gives way", claim([query(1), query(1).selecting("colour=red"), query(1)]), "bare: x y z, rich: x y z"),
        ("rule 9: All",                claim([all()]),                             "bare: x y z, rich: x y z +t +u"),
        ("rule 9: All that match",     claim([all().of_class("red")]),             "bare: y z, rich: y z +t"),
        ("rule 9: All of none",        claim([all().selecting("colour=blue")]),    NONE),
        ("rule 9: All, one is used",   claim([query(1).selecting("colour=red"), all()]), NONE),
        ("rule 8: first available",    first(vec![query(1).named("s"), query(9).named("t")]), "bare: x, rich: x"),
        ("rule 8: second available",   first(vec![query(9).named("s"), query(1).named("t")]), "bare: x, rich: x"),
        ("rule 8: by type",            first(vec![query(5).named("s"), query(1).named("t")]), "bare: x, rich: x y z +t +u"),
        ("rule 8: none available",     first(vec![query(9).named("s"), query(8).named("t")]), NONE),
        ("rule 8: All of none, then",  first(vec![all().named("s").selecting("colour=blue"), query(1).named("t")]), "bare: x, rich: x"),
        ("rule 8: for a later request", claim_of_kinds([
            DeviceRequestKind::FirstAvailable(vec![query(2).named("s"), query(1).named("t")]),
            DeviceRequestKind::Exactly(query(2).selecting("colour=red")),
        ]), "bare: x y z, rich: x y z +t"),
        ("rule 8: a selector that cannot be evaluated", claim([query(1).selecting("fails")]), NONE),
    ];
    for (case, claim, expected) in rows {
        assert_eq!(world(claim).try_new("c"), expected, "{case}");
    }
}

#[test]
fn equal_names_on_different_types_are_different_devices() {
    let of_kind = |kind| template(vec![device("d").with("kind", kind)]);
    let world = TestCluster::new(vec![])
        .types(vec![("red", of_kind("red")), ("blue", of_kind("blue"))])
        .claim("c", claim([query(1).selecting("kind=blue")]))
        .with_evaluated_selectors();
    assert_eq!(world.try_new("c"), "blue: +d", "rule 9");
}

#[test]
fn chosen_devices_name_their_request_and_alternative() {
    let wanted = claim_of_kinds([
        DeviceRequestKind::Exactly(query(1)),
        DeviceRequestKind::FirstAvailable(vec![query(9).named("big"), query(1).named("small")]),
    ]);
    let world = TestCluster::new(vec![slice("p", devices("d e"))]).claim("c", wanted);
    let mut allocator = world.allocator();
    world.allocate_and_commit(&mut allocator, TestCandidate::NewClaim(0), "c");
    let hold = allocator.claims().values().next().expect("one claim is met");
    let requests: Vec<_> = hold.by_type["small"].devices.iter().map(|d| &d.request[..]).collect();
    assert_eq!(requests, ["r0", "r1/small"], "rule 8");
}

#[test]
fn unsatisfiable_claims_return_an_error_with_the_reason() {
    let first =
        |queries: Vec<DeviceQuery>| claim_of_kinds([DeviceRequestKind::FirstAvailable(queries)]);
    let unsupported = DeviceQuery { selectors: vec![DeviceSelector::Unsupported], ..query(1) };
    #[rustfmt::skip]
    let rows = [
        ("rule 8", claim([query(1).of_class("none")]), " request \"r0\": DeviceClass \"none\" not found: DeviceClass.resource.k8s.io \"none\" not found"),
        ("rule 8", first(vec![query(1).named("s").of_class("none")]), " request \"s\": DeviceClass \"none\" not found: DeviceClass.resource.k8s.io \"none\" not found"),
        ("rule 8", claim([query(1).of_class("odd")]), " request \"r0\": DeviceClass \"odd\" has unsupported selector type (only CEL is supported)"),
        ("rule 8", claim([unsupported]), " request \"r0\": unsupported selector type (only CEL is supported)"),
        ("rule 8", claim([query(1).selecting("broken")]), " request \"r0\": CEL expression \"broken\" failed to compile: no sense"),
        ("rule 8", claim([all().selecting("fails")]), " request \"r0\": CEL expression \"fails\" evaluation failed: no such key"),
        ("rule 8", claim_of_kinds([DeviceRequestKind::Unsupported]), " request \"r0\": only Exactly and FirstAvailable requests are supported"),
        ("rule 8", claim([query(1)]).constrained(&[], ConstraintRule::DistinctAttribute), ": DistinctAttribute constraints not done yet"),
        ("rule 8", claim([query(1)]).constrained(&[], ConstraintRule::Unsupported), ": unsupported constraint type"),
        ("rule 8: 33 devices", claim([query(30), query(3)]), " requests 33 total devices, exceeding maximum of 32"),
        ("rule 8: the least", first(vec![query(40).named("s"), query(33).named("t")]), " requests 33 total devices, exceeding maximum of 32"),
    ];
    for (case, claim, expected) in rows {
        let world = TestCluster::new(vec![slice("p", devices("d"))])
            .class("odd", vec![DeviceSelector::Unsupported])
            .claim("c", claim)
            .with_evaluated_selectors();
        let expected = format!("validating claim \"c\": claim \"c\"{expected}");
        assert_eq!(world.try_new("c"), expected, "{case}");
    }
}

#[test]
fn a_claim_gets_32_devices_at_most() {
    let names = |count: usize| (0..count).map(|at| device(&format!("d{at}"))).collect::<Vec<_>>();
    let first =
        |queries: Vec<DeviceQuery>| claim_of_kinds([DeviceRequestKind::FirstAvailable(queries)]);
    let first_of_two = claim_of_kinds([
        DeviceRequestKind::Exactly(query(30)),
        DeviceRequestKind::FirstAvailable(vec![query(3).named("s"), query(2).named("t")]),
    ]);
    #[rustfmt::skip]
    let rows = [
        ("rule 8: 32 of 32",              claim([query(32)]), 32, "few 32, many 32"),
        ("rule 8: All is too many",       claim([all()]),      1, "few 3"),
        ("rule 8: a smaller alternative", first_of_two,       40, "few 32, many 32"),
        ("rule 8: none but the smaller",  first(vec![query(33).named("s"), query(2).named("t")]), 40, "few 2, many 2"),
    ];
    for (case, claim, published, expected) in rows {
        let world = TestCluster::new(vec![slice("p", names(published))])
            .types(vec![("few", template(names(2))), ("many", template(names(33)))])
            .claim("c", claim);
        let text = world.try_new("c");
        let types = text.split(", ").filter_map(|part| part.split_once(": "));
        let counts: Vec<_> = types
            .map(|(name, devices)| format!("{name} {}", devices.split_whitespace().count()))
            .collect();
        assert_eq!(counts.join(", "), expected, "{case}");
    }
}

#[test]
fn a_claim_that_prunes_every_instance_type_is_an_error() {
    let names = (0..33).map(|at| device(&format!("d{at}"))).collect::<Vec<_>>();
    let world =
        TestCluster::new(vec![]).types(vec![("many", template(names))]).claim("c", claim([all()]));
    assert_eq!(
        world.try_new("c"),
        "validating claim \"c\": claim \"c\": all instance types pruned, no instance type can \
         satisfy this claim without exceeding the maximum of 32 devices",
        "rule 8",
    );
}

#[test]
fn types_without_own_devices_remain_when_others_exceed_the_limit() {
    let names = (0..33).map(|at| device(&format!("d{at}"))).collect::<Vec<_>>();
    let world = TestCluster::new(vec![slice("p", devices("x"))])
        .types(vec![("many", template(names)), ("bare", DynamicResources::default())])
        .claim("c", claim([all()]));
    assert_eq!(world.try_new("c"), "bare: x", "rule 8");
}

#[test]
fn devices_of_a_match_attribute_constraint_agree() {
    let numa = |name, value| device(name).with("gpu.example.com/numa", value);
    let mixed = vec![numa("a0", "0"), numa("b0", "1"), numa("b1", "1"), device("bare")];
    let two = || claim([query(2)]).matching("gpu.example.com/numa");
    let scoped = |requests: &[&str]| {
        let rule = ConstraintRule::MatchAttribute("gpu.example.com/numa".to_owned());
        claim([query(1), query(1), query(1)]).constrained(requests, rule)
    };
    let int = |name: &str, value: i64| {
        device(name).edited(|shape| {
            drop(shape.attributes.insert("gpu.example.com/numa".to_owned(), Attribute::Int(value)));
        })
    };
    #[rustfmt::skip]
    let rows = [
        ("rule 10: the second pair",      mixed.clone(), two(),                    "small: b0 b1"),
        ("rule 10: three do not agree",   mixed.clone(), claim([query(3)]).matching("gpu.example.com/numa"), NONE),
        ("rule 10: across requests",      mixed.clone(), claim([query(1), query(1)]).matching("gpu.example.com/numa"), "small: b0 b1"),
        ("rule 10: only these requests",  mixed.clone(), scoped(&["r1", "r2"]),    "small: a0 b0 b1"),
        ("rule 10: without the attribute", devices("x y"), two(),                  NONE),
        ("rule 10: other types differ",   vec![numa("x", "1"), int("y", 1)], two(), NONE),
        ("rule 10: integers",             vec![int("x", 1), int("y", 1)], two(),   "small: x y"),
        ("rule 10: the short name",       vec![numa("x", "1"), device("y").with("numa", "1")], two(), "small: x y"),
        ("rule 10: All must agree",       mixed.clone(), claim([all()]).matching("gpu.example.com/numa"), NONE),
    ];
    for (case, devices, claim, expected) in rows {
        let world = TestCluster::new(vec![slice("p", devices)]).claim("c", claim);
        assert_eq!(world.try_new("c"), expected, "{case}");
    }
}

#[test]
fn constraints_can_name_an_alternative() {
    let numa = |name, value| device(name).with("numa", value);
    let rule = || ConstraintRule::MatchAttribute("numa".to_owned());
    let wanted = |requests: &[&str]| {
        claim_of_kinds([
            DeviceRequestKind::Exactly(query(1)),
            DeviceRequestKind::FirstAvailable(vec![query(1).named("s"), query(2).named("t")]),
        ])
        .constrained(requests, rule())
    };
    #[rustfmt::skip]
    let rows = [
        ("rule 10: the whole request", wanted(&["r0", "r1"]),   NONE),
        ("rule 10: one alternative",   wanted(&["r0", "r1/s"]), "small: a b c"),
    ];
    for (case, claim, expected) in rows {
        let devices = vec![numa("a", "0"), numa("b", "1"), numa("c", "2")];
        let world = TestCluster::new(vec![slice("p", devices)]).claim("c", claim);
        assert_eq!(world.try_new("c"), expected, "{case}");
    }
}

#[test]
fn attribute_bindings_satisfy_constraints_on_unknown_values() {
    let bind = |groups: &[&[&str]]| {
        groups
            .iter()
            .map(|names| AttributeBinding {
                devices: names.iter().map(|name| id("local", name)).collect(),
                attribute: "root".to_owned(),
            })
            .collect::<Vec<_>>()
    };
    let known = |name| device(name).with("root", "1");
    #[rustfmt::skip]
    let rows = [
        ("rule 10: bound",               vec![device("x"), device("y"), device("z")], bind(&[&["x", "z"]]), "small: +x +z"),
        ("rule 10: transitive",          vec![device("x"), device("z")], bind(&[&["x", "y"], &["y", "z"]]), "small: +x +z"),
        ("rule 10: alone is not bound",  devices("x y"), bind(&[&["x"], &["y"]]), NONE),
        ("rule 10: two groups",          devices("x y"), bind(&[&["x", "v"], &["y", "w"]]), NONE),
        ("rule 10: values do not mix",   vec![known("x"), device("y")], bind(&[&["x", "y"]]), NONE),
        ("rule 10: nor in that order",   vec![device("x"), known("y")], bind(&[&["x", "y"]]), NONE),
    ];
    for (case, devices, bindings, expected) in rows {
        let resources = DynamicResources { bindings, ..template(devices) };
        let world = TestCluster::new(vec![])
            .types(vec![("small", resources)])
            .claim("c", claim([query(2)]).matching("root"));
        assert_eq!(world.try_new("c"), expected, "{case}");
    }
}

#[test]
fn devices_of_one_node_have_compatible_topology() {
    let zonal = |pool: &str, zone: &str| slice(pool, devices("d")).in_zone(zone);
    let of_pool = |pool: &str| {
        let mut slice = zonal(pool, if pool == "pa" { "a" } else { "b" });
        slice.devices = vec![device("d").with("pool", pool)];
        slice
    };
    #[rustfmt::skip]
    let rows = [
        ("20/C71", vec![zonal("p", "b")], claim([query(1)]), "small: d @ topology.kubernetes.io/zone In [b]"),
        ("rule 9: another pool in the zone", vec![of_pool("pa"), of_pool("pb")], claim([query(1).selecting("pool=pb")]),
            "small: pb/d @ topology.kubernetes.io/zone In [b]"),
        ("20/C72", vec![of_pool("pa"), of_pool("pb")], claim([query(2)]), NONE),
        ("rule 9: the way back restores the zones", vec![of_pool("pa"), of_pool("pb")],
            claim([query(1), query(1).selecting("pool=pb")]), NONE),
        ("rule 9: a zone for both", vec![of_pool("pa"), of_pool("pb"), slice("pc", devices("e"))],
            claim([query(1), query(1).selecting("pool=pb")]), "small: pc/e pb/d @ topology.kubernetes.io/zone In [b]"),
    ];
    for (case, slices, claim, expected) in rows {
        let world = TestCluster::new(slices).claim("c", claim).with_evaluated_selectors();
        assert_eq!(world.try_new("c"), expected, "{case}");
    }
}

#[test]
fn later_instance_types_keep_the_requirements_of_earlier_ones() {
    let zonal =
        |pool: &str, zone: &str| slice(pool, vec![device("d").with("zone", zone)]).in_zone(zone);
    let numa = |value: &str| template(vec![device("t").with("zone", value)]);
    let world = TestCluster::new(vec![zonal("pa", "a"), zonal("pb", "b")])
        .types(vec![("one", numa("a")), ("two", numa("b")), ("three", numa("a"))])
        .claim("c", claim([query(2)]).matching("zone"));
    assert_eq!(
        world.try_new("c"),
        "one: pa/d +t, three: pa/d +t @ topology.kubernetes.io/zone In [a]",
        "rule 11",
    );
}

#[test]
fn devices_share_the_counters_of_their_pool() {
    let cards = |budget_size: i64| {
        vec![
            slice(
                "p",
                vec![device("x").consuming(3), device("y").consuming(2), device("z").consuming(1)],
            )
            .of(1, 2),
            slice("p", vec![]).of(1, 2).declaring(counter_set(budget_size)),
        ]
    };
    #[rustfmt::skip]
    let rows = [
        ("rule 12: enough",              cards(5), claim([query(2)]), "small: x y"),
        ("rule 12: what fits",           cards(4), claim([query(2)]), "small: x z"),
        ("rule 12: the way back",        cards(3), claim([query(2)]), "small: y z"),
        ("rule 12: not enough",          cards(2), claim([query(2)]), NONE),
        ("rule 12: All needs all",       cards(5), claim([all()]),    NONE),
        ("rule 12: All has all",         cards(6), claim([all()]),    "small: x y z"),
    ];
    for (case, slices, claim, expected) in rows {
        let world = TestCluster::new(slices).claim("c", claim);
        assert_eq!(world.try_new("c"), expected, "{case}");
    }
}

#[test]
fn counters_of_templates_belong_to_one_instance_type() {
    let with_budget = |size: Option<i64>| {
        let mut resources = template(vec![device("x").consuming(2), device("y").consuming(2)]);
        resources.templates[0].counters = size.map(counter_set).into_iter().collect();
        resources
    };
    let world = TestCluster::new(vec![])
        .types(vec![
            ("none", with_budget(None)),
            ("two", with_budget(Some(2))),
            ("four", with_budget(Some(4))),
        ])
        .claim("c", claim([query(2)]))
        .claim("d", claim([query(1)]));
    assert_eq!(world.try_new("c"), "four: +x +y", "rule 12");
    assert_eq!(world.try_new("d"), "two: +x, four: +x", "rule 12");
}

#[test]
fn capacity_shares_of_a_device_add_up() {
    let pool = || vec![slice("p", vec![shared("x", 10), shared("y", 6)])];
    #[rustfmt::skip]
    let rows = [
        ("rule 12: two shares of one",   claim([query(2).memory(5)]), "small: x x"),
        ("rule 12: the rest of another", claim([query(3).memory(5)]), "small: x x y"),
        ("rule 12: no more",             claim([query(4).memory(5)]), NONE),
        ("rule 12: the whole",           claim([query(2)]),           "small: x y"),
        ("rule 12: a share after the whole", claim([query(1), query(1).memory(6)]), "small: x y"),
        ("rule 12: the way back",        claim([query(1).memory(6), query(1).memory(10)]), "small: y x"),
        ("rule 12: more than all",       claim([query(1).memory(11)]), NONE),
    ];
    for (case, claim, expected) in rows {
        let world = TestCluster::new(pool()).claim("c", claim);
        assert_eq!(world.try_new("c"), expected, "{case}");
    }
}

#[test]
fn an_exponential_search_stops_at_the_step_limit() {
    let numa = |at: usize| device(&format!("d{at}")).with("numa", &(at % 2).to_string());
    let world = TestCluster::new(vec![slice("p", (0..24).map(numa).collect())])
        .types(vec![("one", DynamicResources::default()), ("two", DynamicResources::default())])
        .claim("c", claim([query(11), query(3)]).matching("numa"));
    let short = world.allocator().with_max_steps(10_000);
    let allocate =
        |allocator: &Allocator<'_>| world.try_allocate(allocator, TestCandidate::NewClaim(0), "c");
    assert_eq!(allocate(&short), "context deadline exceeded", "rule 14");
    assert_eq!(allocate(&short), allocate(&short), "rule 14: at the same place every time");
}
