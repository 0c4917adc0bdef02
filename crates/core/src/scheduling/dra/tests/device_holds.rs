//! Tests of the devices held between pods of one solve: rules 4, 7, 9, 13 and 14.

use super::test_cluster::*;
use crate::scheduling::dra::*;

const NONE: &str = "no instance type can satisfy the allocation";

#[test]
fn the_second_claim_on_a_type_with_one_device_needs_another_node_claim() {
    let world = TestCluster::new(vec![])
        .types(vec![("small", template(devices("d")))])
        .claim("one", claim([query(1)]))
        .claim("two", claim([query(1)]));
    let mut allocator = world.allocator();
    assert_eq!(
        world.allocate_and_commit(&mut allocator, TestCandidate::NewClaim(0), "one"),
        "small: +d",
        "20/C70"
    );
    assert_eq!(
        world.allocate_and_commit(&mut allocator, TestCandidate::NewClaim(0), "two"),
        NONE,
        "20/C70"
    );
    assert_eq!(
        world.allocate_and_commit(&mut allocator, TestCandidate::NewClaim(1), "two"),
        "small: +d",
        "20/C70"
    );
}

#[test]
fn a_claim_with_template_devices_stays_on_its_node_claim() {
    let world = TestCluster::new(vec![])
        .types(vec![("small", template(devices("d e")))])
        .claim("c", claim([query(1)]));
    let mut allocator = world.allocator();
    world.allocate_and_commit(&mut allocator, TestCandidate::NewClaim(0), "c");
    assert_eq!(
        world.try_allocate(&allocator, TestCandidate::NewClaim(1), "c"),
        "claim is bound to a different in-flight NodeClaim (ResourceClaim=default/c)",
        "20/C73",
    );
    assert_eq!(
        world.try_allocate(&allocator, TestCandidate::NewClaim(0), "c"),
        "small: +d",
        "20/C73"
    );
}

#[test]
fn a_claim_with_node_local_devices_stays_on_that_node() {
    let world =
        TestCluster::new(vec![slice("p", devices("d")).on(NodeAccess::Node("here".to_owned()))])
            .claim("c", claim([query(1)]));
    let mut allocator = world.allocator();
    assert_eq!(
        world.allocate_and_commit(&mut allocator, TestCandidate::ExistingNode, "c"),
        "small: d",
        "rule 7"
    );
    assert_eq!(
        world.try_allocate(&allocator, TestCandidate::NewClaim(1), "c"),
        "claim is bound to a different in-flight NodeClaim (ResourceClaim=default/c)",
        "rule 7",
    );
}

#[test]
fn a_claim_with_published_devices_narrows_other_node_claims() {
    let world =
        TestCluster::new(vec![slice("p", devices("d")).in_zone("b")]).claim("c", claim([query(1)]));
    let mut allocator = world.allocator();
    world.allocate_and_commit(&mut allocator, TestCandidate::NewClaim(0), "c");
    assert_eq!(
        world.try_allocate(&allocator, TestCandidate::NewClaim(1), "c"),
        "small: d @ topology.kubernetes.io/zone In [b]",
        "rule 7",
    );
}

#[test]
fn an_initialised_node_has_its_published_devices_only() {
    let resources = template(devices("t"));
    let types = |is_initialized| {
        let own = CandidateType::of_node("small", Some(&resources), is_initialized);
        own.templates.len()
    };
    assert_eq!((types(true), types(false)), (0, 1), "rule 4");
    assert_eq!(CandidateType::of_node("small", None, false).templates.len(), 0, "rule 4");
}

#[test]
fn a_published_device_is_held_while_any_instance_type_uses_it() {
    let world = TestCluster::new(vec![slice("p", devices("d"))])
        .types(vec![("bare", DynamicResources::default()), ("rich", template(devices("t")))])
        .claim("one", claim([query(1)]))
        .claim("two", claim([query(1)]));
    let mut allocator = world.allocator();
    assert_eq!(
        world.allocate_and_commit(&mut allocator, TestCandidate::NewClaim(0), "one"),
        "bare: d, rich: d",
        "rule 13"
    );
    assert_eq!(
        world.try_allocate(&allocator, TestCandidate::NewClaim(1), "two"),
        "rich: +t",
        "rule 13"
    );
    allocator.release(TestCandidate::NewClaim(0).id(), ["bare"]);
    assert_eq!(
        world.try_allocate(&allocator, TestCandidate::NewClaim(1), "two"),
        "rich: +t",
        "rule 13"
    );
    // The same NodeClaim becomes one of its types, so they do not get in each other's way.
    assert_eq!(
        world.try_allocate(&allocator, TestCandidate::NewClaim(0), "two"),
        "bare: d, rich: +t",
        "rule 9"
    );
    allocator.release(TestCandidate::NewClaim(0).id(), ["rich"]);
    assert_eq!(
        world.try_allocate(&allocator, TestCandidate::NewClaim(1), "two"),
        "bare: d, rich: d",
        "rule 13"
    );
}

#[test]
fn the_largest_counter_use_over_instance_types_is_held() {
    // The rich type meets the claim with z and a device of its own, the bare one needs x and y.
    let kind = |device: Device, kind: &str| device.with("kind", kind);
    let pool = vec![
        kind(device("x").consuming(2), "pair"),
        kind(device("y").consuming(2), "pair"),
        kind(device("z").consuming(1), "rich"),
        kind(device("four").consuming(4), "four"),
    ];
    let wanted = claim_of_kinds([DeviceRequestKind::FirstAvailable(vec![
        query(2).named("s").selecting("kind=rich"),
        query(2).named("t").selecting("kind=pair"),
    ])]);
    let own = template(vec![kind(device("t"), "rich")]);
    let world = TestCluster::new(vec![
        slice("p", pool).of(1, 2),
        slice("p", vec![]).of(1, 2).declaring(counter_set(5)),
    ])
    .types(vec![("bare", DynamicResources::default()), ("rich", own)])
    .claim("c", wanted)
    .claim("four", claim([query(1).selecting("kind=four")]))
    .with_evaluated_selectors();
    let mut allocator = world.allocator();
    assert_eq!(
        world.allocate_and_commit(&mut allocator, TestCandidate::NewClaim(0), "c"),
        "bare: x y, rich: z +t"
    );
    assert_eq!(
        world.try_allocate(&allocator, TestCandidate::NewClaim(1), "four"),
        NONE,
        "rule 13: 5 - 4 is too little"
    );
    allocator.release(TestCandidate::NewClaim(0).id(), ["bare"]);
    let freed = world.allocate_and_commit(&mut allocator, TestCandidate::NewClaim(1), "four");
    assert_eq!(freed, "bare: four, rich: four", "rule 13: 5 - 1 is enough");
}

#[test]
fn the_largest_capacity_share_over_instance_types_is_held() {
    // The bare type takes 6 and 2 of x, the rich one has something for the 6.
    let wanted = claim_of_kinds([
        DeviceRequestKind::FirstAvailable(vec![
            query(1).named("s").selecting("kind=own"),
            query(1).named("t").memory(6),
        ]),
        DeviceRequestKind::Exactly(query(1).memory(2)),
    ]);
    let own = template(vec![device("t").with("kind", "own")]);
    let world = TestCluster::new(vec![slice("p", vec![shared("x", 10)])])
        .types(vec![("bare", DynamicResources::default()), ("rich", own)])
        .claim("c", wanted)
        .claim("three", claim([query(1).memory(3)]))
        .claim("eight", claim([query(1).memory(8)]))
        .with_evaluated_selectors();
    let mut allocator = world.allocator();
    assert_eq!(
        world.allocate_and_commit(&mut allocator, TestCandidate::NewClaim(0), "c"),
        "bare: x x, rich: +t x"
    );
    assert_eq!(
        world.try_allocate(&allocator, TestCandidate::NewClaim(1), "three"),
        "rich: +t",
        "rule 13: 10 - 8"
    );
    allocator.release(TestCandidate::NewClaim(0).id(), ["bare"]);
    assert_eq!(
        world.try_allocate(&allocator, TestCandidate::NewClaim(1), "eight"),
        "bare: x, rich: x",
        "rule 13: 10 - 2"
    );
}

#[test]
fn device_use_of_pods_on_one_node_claim_adds_up() {
    let mut own =
        template(vec![shared("t", 4), device("x").consuming(2), device("y").consuming(2)]);
    own.templates[0].counters = vec![counter_set(2)];
    let world = TestCluster::new(vec![])
        .types(vec![("small", own)])
        .claim("one", claim([query(1).memory(3)]))
        .claim("two", claim([query(1).memory(3)]))
        .claim("three", claim([query(1).memory(3)]));
    let mut allocator = world.allocator();
    assert_eq!(
        world.allocate_and_commit(&mut allocator, TestCandidate::NewClaim(0), "one"),
        "small: +t"
    );
    assert_eq!(
        world.allocate_and_commit(&mut allocator, TestCandidate::NewClaim(0), "two"),
        "small: +x",
        "rule 12: a share"
    );
    assert_eq!(
        world.allocate_and_commit(&mut allocator, TestCandidate::NewClaim(0), "three"),
        NONE,
        "rule 12: a budget"
    );
    assert_eq!(
        world.allocate_and_commit(&mut allocator, TestCandidate::NewClaim(1), "three"),
        "small: +t",
        "rule 13"
    );
}

#[test]
fn releasing_a_type_drops_the_zone_requirement_that_it_added() {
    // Devices without a zone suit the claim only together with what the rich type has.
    let numa = |name, value| device(name).with("numa", value);
    let zonal = slice("pa", vec![numa("d", "1"), numa("e", "1")]).in_zone("b");
    let world = TestCluster::new(vec![zonal, slice("pb", vec![numa("f", "2"), numa("g", "3")])])
        .types(vec![
            ("bare", DynamicResources::default()),
            ("rich", template(vec![numa("t", "2")])),
        ])
        .claim(
            "c",
            claim_of_kinds([DeviceRequestKind::FirstAvailable(vec![
                query(2).named("s").selecting("numa=2"),
                query(2).named("t").selecting("numa=1"),
            ])]),
        )
        .with_evaluated_selectors();
    let mut allocator = world.allocator();
    let zone = "@ topology.kubernetes.io/zone In [b]";
    assert_eq!(
        world.allocate_and_commit(&mut allocator, TestCandidate::NewClaim(0), "c"),
        format!("bare: pa/d pa/e, rich: pb/f +t {zone}"),
    );
    allocator.release(TestCandidate::NewClaim(0).id(), ["bare"]);
    let requirements: Vec<_> = allocator.claims().values().map(ClaimHold::requirements).collect();
    assert_eq!(requirements, [crate::requirement::Requirements::default()], "rule 13");
    allocator.release(TestCandidate::NewClaim(0).id(), ["rich"]);
    assert!(allocator.claims().is_empty(), "rule 13: nothing is left of the claim");
}

#[test]
fn an_uncommitted_allocation_holds_no_devices() {
    let world = TestCluster::new(vec![slice("p", devices("d"))]).claim("c", claim([query(1)]));
    let allocator = world.allocator();
    assert_eq!(world.try_allocate(&allocator, TestCandidate::NewClaim(0), "c"), "small: d");
    assert_eq!(
        world.try_allocate(&allocator, TestCandidate::NewClaim(1), "c"),
        "small: d",
        "rule 13"
    );
}

#[test]
fn drivers_of_a_candidate_are_sorted_and_unique() {
    let mut nic = slice("q", devices("n"));
    nic.driver = "a-nic.example.com".into();
    let nic_only = |name: &str| device(name).with("kind", "nic");
    nic.devices = vec![nic_only("n")];
    let world = TestCluster::new(vec![slice("p", devices("d e")), nic])
        .claim("gpus", claim([query(2)]))
        .claim("nic", claim([query(1).selecting("kind=nic")]))
        .with_evaluated_selectors();
    let mut allocator = world.allocator();
    world.allocate_and_commit(&mut allocator, TestCandidate::NewClaim(0), "gpus");
    world.allocate_and_commit(&mut allocator, TestCandidate::NewClaim(0), "nic");
    let drivers = |place: TestCandidate| allocator.drivers(place.id());
    assert_eq!(drivers(TestCandidate::NewClaim(0)), ["a-nic.example.com", DRIVER], "rule 14");
    assert!(drivers(TestCandidate::NewClaim(1)).is_empty(), "rule 14");
}
