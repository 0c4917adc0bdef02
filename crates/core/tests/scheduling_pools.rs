//! Tests of the order of NodePools, pods of deleting nodes, and overlays (spec 20 §2.4, §2.5,
//! §3.21, cases B17, B20–B23, C76–C78, Q11).

use karpenter_core::overlay::{Overlay, Overrides, PriceChange, Selection, TypeKey};
use karpenter_core::requirement::Operator::In;
use karpenter_core::resources::Resources;
use karpenter_core::testing::{World, benchmark_types, node, pod, pool, resources};

#[test]
fn the_heaviest_pool_takes_all_pods() {
    let world = World::empty()
        .pool(pool("light"))
        .pool(pool("middle").weight(20))
        .pool(pool("heavy").weight(100));
    let outcome = world.clone().pod(pod("web").replicas(3)).solve();
    assert!((0..3).all(|n| outcome.pool_of(&format!("web-{n}")) == "heavy"), "20/B21");
    let outcome = world.pod(pod("web").require("nodepool", In, &["light"])).solve();
    assert_eq!(outcome.pool_of("web"), "light", "20/B22");
}

#[test]
fn the_later_name_comes_first_among_node_pools_of_equal_weight() {
    let world = World::empty().pool(pool("np-2")).pool(pool("np-1")).pod(pod("web"));
    assert_eq!(world.solve().pool_of("web"), "np-2", "20/B23");
}

#[test]
fn pods_of_a_deleting_node_are_solved_with_pending_pods() {
    let world = World::with_types(benchmark_types(5))
        .node(node("going").deleting())
        .pods([pod("old").replicas(3).on_node("going"), pod("new").replicas(2)]);
    let outcome = world.solve();
    assert_eq!(outcome.pods_per_new_node(), [5], "20/B17 20/B20");
    assert_eq!(outcome.plan.existing_nodes, [], "20/B20");
}

fn price(weight: i32, change: &str) -> Overlay {
    let price = PriceChange::parse(change).ok();
    Overlay { weight: Some(weight), price, capacity: Resources::default() }
}

fn selection(pool: &str) -> Selection {
    let instance_type = TypeKey { pool: pool.to_owned(), instance_type: "large".to_owned() };
    Selection { instance_type, offerings: vec!["zone-1".to_owned()] }
}

#[test]
fn prices_change_by_amount_or_percent_and_stay_above_zero() {
    for (change, from, to) in [("-15", 10.0, 0.0), ("-25%", 1.5, 1.125), ("+0.75", 1.25, 2.0)] {
        let got = PriceChange::parse(change).unwrap().apply(from);
        assert!((got - to).abs() < 1e-9, "20/C76: {change} of {from} gives {got}");
    }
}

#[test]
fn the_first_recorded_of_two_equal_overlays_wins() {
    let mut overrides = Overrides::default();
    // The caller records the later name first.
    assert!(overrides.record(&price(1, "2"), &[selection("one")]).is_ok(), "20/C77: b");
    assert!(overrides.record(&price(1, "1"), &[selection("one")]).is_err(), "20/C77: a");
    let kept = overrides.price_change(&selection("one").instance_type, "zone-1");
    assert_eq!(kept, Some(PriceChange::Absolute(2.0)), "20/C77");
    let both = [selection("one"), selection("two")];
    assert!(overrides.record(&price(1, "3"), &both).is_err(), "20/C78");
    assert_eq!(overrides.price_change(&selection("two").instance_type, "zone-1"), None, "20/C78");
}

#[test]
fn a_conflict_is_found_among_three_overlays() {
    let sets = |name| Overlay { weight: Some(1), price: None, capacity: resources(&[(name, "1")]) };
    let mut overrides = Overrides::default();
    let accepted =
        ["x", "y", "x"].map(|name| overrides.record(&sets(name), &[selection("one")]).is_ok());
    assert_eq!(accepted, [true, true, false], "20/Q11");
}
