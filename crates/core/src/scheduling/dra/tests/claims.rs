//! Tests of which claims need devices: rules 1, 3 and 7.

use std::collections::BTreeMap;

use super::test_cluster::*;
use crate::resources::Quantity;
use crate::scheduling::dra::*;

const NONE: &str = "no instance type can satisfy the allocation";

#[test]
fn a_missing_resource_claim_fails_the_pod() {
    let world = TestCluster::new(vec![]);
    assert_eq!(world.try_new("c"), "resourceclaim \"default/c\" not found", "rule 1");
}

#[test]
fn a_resource_claim_listed_twice_is_allocated_once() {
    let world = TestCluster::new(vec![slice("p", devices("d"))]).claim("c", claim([query(1)]));
    assert_eq!(world.try_new("c c"), "small: d", "rule 1");
}

#[test]
fn devices_of_running_pods_stay_allocated() {
    let with = |reserved_for: Vec<Consumer>| Claim {
        reserved_for,
        ..claim([query(1)]).holding(id("p", "d"), &[])
    };
    let pod = |uid: &str| Consumer::Pod(uid.to_owned());
    #[rustfmt::skip]
    let rows = [
        ("20/C74: a live pod",           vec![pod("live")],                  NONE),
        ("20/C74: a leaving pod",        vec![pod("leaving")],               "small: d"),
        ("rule 3: both",                 vec![pod("leaving"), pod("live")],  NONE),
        ("rule 3: another consumer",     vec![Consumer::Other],              NONE),
        ("rule 3: a pod and another",    vec![pod("leaving"), Consumer::Other], NONE),
        ("rule 3: nobody",               vec![],                             NONE),
    ];
    for (case, reserved_for, expected) in rows {
        let world = TestCluster::new(vec![slice("p", devices("d"))])
            .claim("held", with(reserved_for))
            .claim("c", claim([query(1)]));
        assert_eq!(world.try_new("c"), expected, "{case}");
    }
}

#[test]
fn capacity_and_counters_of_running_pods_stay_allocated() {
    let share = |pods: &[&str]| {
        let consumed = BTreeMap::from([("memory".to_owned(), Quantity::from_units(6))]);
        let mut claim = claim([query(1)]).holding(id("p", "x"), pods);
        if let Some(allocation) = &mut claim.allocation {
            allocation.devices[0].consumed = consumed;
        }
        claim
    };
    let world = |pods: &[&str]| {
        TestCluster::new(vec![
            slice("p", vec![shared("x", 10).consuming(3), device("y").consuming(1)]).of(1, 2),
            slice("p", vec![]).of(1, 2).declaring(counter_set(3)),
        ])
        .claim("held", share(pods))
        .claim("five", claim([query(1).memory(5)]))
    };
    // The live pod's device uses up the counter, so no other device of the pool is available.
    assert_eq!(world(&["live"]).try_new("five"), NONE, "rule 3");
    assert_eq!(world(&["leaving"]).try_new("five"), "small: x", "rule 3");
}

#[test]
fn only_capacity_of_running_pods_stays_allocated() {
    let share = |pod: &str| {
        let mut claim = claim([query(1)]).holding(id("p", "x"), &[pod]);
        if let Some(allocation) = &mut claim.allocation {
            allocation.devices[0].consumed =
                BTreeMap::from([("memory".to_owned(), Quantity::from_units(4))]);
        }
        claim
    };
    let world = TestCluster::new(vec![slice("p", vec![shared("x", 10)])])
        .claim("one", share("live"))
        .claim("two", share("leaving"))
        .claim("six", claim([query(1).memory(6)]))
        .claim("seven", claim([query(1).memory(7)]));
    assert_eq!(world.try_new("six"), "small: x", "rule 3");
    assert_eq!(world.try_new("seven"), NONE, "rule 3");
}

#[test]
fn allocated_claims_narrow_the_candidate_requirements() {
    let given = |zone: &str, pods: &[&str]| {
        let mut claim = claim([query(1)]).holding(id("p", "d"), pods);
        if let Some(allocation) = &mut claim.allocation {
            allocation.requirements = zones(&[zone]);
        }
        claim
    };
    let on_node = |node: &str| {
        let mut claim = claim([query(1)]).holding(id("p", "d"), &["live"]);
        if let Some(allocation) = &mut claim.allocation {
            allocation.node = Some(node.to_owned());
        }
        claim
    };
    let refused = "in-cluster allocation topology is incompatible with NodeClaim requirements (ResourceClaim=default/c)";
    #[rustfmt::skip]
    let rows = [
        ("rule 7: nowhere in particular", claim([query(1)]).holding(id("p", "d"), &["live"]), "small: "),
        ("rule 7: a zone",                given("a", &["live"]), "small:  @ topology.kubernetes.io/zone In [a]"),
        ("rule 7: reserved by nobody",    given("a", &[]),       "small:  @ topology.kubernetes.io/zone In [a]"),
        ("rule 7: another zone",          given("c", &["live"]), refused),
        ("rule 7: of leaving pods",       given("c", &["leaving"]), "small: d"),
        ("rule 7: on a node",             on_node("here"),       refused),
    ];
    for (case, claim, expected) in rows {
        let world = TestCluster::new(vec![slice("p", devices("d"))]).claim("c", claim);
        assert_eq!(world.try_new("c"), expected, "{case}");
    }
    let world = TestCluster::new(vec![]).claim("c", on_node("here"));
    assert_eq!(
        world.try_allocate(&world.allocator(), TestCandidate::ExistingNode, "c"),
        "small: ",
        "rule 7: that node"
    );
}

#[test]
fn allocated_claims_narrow_the_search_for_other_claims() {
    let mut given = claim([query(1)]).holding(id("p", "x"), &["live"]);
    if let Some(allocation) = &mut given.allocation {
        allocation.requirements = zones(&["b"]);
    }
    let zonal = |pool: &str, zone: &str| slice(pool, devices("d")).in_zone(zone);
    let world =
        TestCluster::new(vec![zonal("pa", "a"), zonal("pb", "b"), slice("pc", devices("e"))])
            .claim("given", given)
            .claim("c", claim([query(1)]))
            .claim("two", claim([query(2)]));
    let zone = "@ topology.kubernetes.io/zone In [b]";
    assert_eq!(world.try_new("given c"), format!("small: pb/d {zone}"), "rule 7");
    // Also when the devices themselves are everywhere.
    assert_eq!(world.try_new("given two"), format!("small: pb/d pc/e {zone}"), "rule 7");
}

#[test]
fn two_claims_in_different_zones_fit_nowhere() {
    let zonal =
        |pool: &str, zone: &str| slice(pool, vec![device("d").with("pool", pool)]).in_zone(zone);
    let world = TestCluster::new(vec![zonal("pa", "a"), zonal("pb", "b")])
        .claim("c", claim([query(1).selecting("pool=pa")]))
        .claim("d", claim([query(1).selecting("pool=pb")]))
        .with_evaluated_selectors();
    assert_eq!(world.try_new("c d"), NONE, "20/C72");

    let mut allocator = world.allocator();
    world.allocate_and_commit(&mut allocator, TestCandidate::NewClaim(0), "c");
    world.allocate_and_commit(&mut allocator, TestCandidate::NewClaim(1), "d");
    assert_eq!(
        world.try_allocate(&allocator, TestCandidate::NewClaim(2), "c d"),
        "in-memory allocation topology is incompatible with NodeClaim requirements (ResourceClaim=default/d)",
        "20/C72, rule 7",
    );
}
