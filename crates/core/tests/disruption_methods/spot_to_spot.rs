//! Tests of spot-to-spot consolidation: spot nodes replace spot nodes (spec 30 §6.5).

use super::*;

/// So many types, each dearer than the one before by a cent.
fn world(types: usize, min: Option<u32>) -> World {
    let cheap = (0..types).map(|number| {
        let name = format!("s{number:02}");
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let price = 0.01 * (types - number) as f64;
        instance_type(&name).no_overhead().offering(offering("spot", ZONE, price))
    });
    let own = instance_type("own").no_overhead().offering(offering("spot", ZONE, 1.0));
    let mut pool = pool("default").require("capacity-type", Operator::In, &["spot"]);
    if let Some(min) = min {
        pool = pool.require_min("type", Operator::Exists, &[], min);
    }
    World::empty()
        .types(cheap.chain([own]))
        .pool(pool)
        .node(node("n").label("type", "own").label("capacity-type", "spot").zone(ZONE))
        .pod(pod("p").cpu("1").on_node("n"))
}

fn settings_with_spot_to_spot() -> Settings {
    Settings { spot_to_spot: true, ..upstream() }
}

#[test]
fn spot_replacement_needs_the_feature_gate_and_fifteen_types() {
    let off = run(&world(20, None), &upstream());
    assert_eq!(command_summaries(&off), [], "30/SPOT-1");
    let text = "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node";
    assert_eq!(off.retained_nodes[0].text, text, "30/SPOT-1");
    let few = run(&world(1, None), &settings_with_spot_to_spot());
    let text = "SpotToSpotConsolidation requires 15 cheaper instance type options than the \
                current candidate to consolidate, got 1";
    assert_eq!(
        (command_summaries(&few).len(), few.retained_nodes[0].text.as_str()),
        (0, text),
        "30/SPOT-2"
    );
}

#[test]
fn a_spot_node_among_the_fifteen_cheapest_types_is_kept() {
    let world = world(17, None);
    let mut near = world.clone();
    let node = &mut near.snapshot.nodes[0];
    node.labels.insert("node.kubernetes.io/instance-type".to_owned(), "s05".to_owned());
    assert_eq!(command_summaries(&run(&near, &settings_with_spot_to_spot())), [], "30/SPOT-3");
}

#[test]
fn the_replacement_requests_only_the_cheapest_types() {
    let plain = world(17, None);
    let pass = run(&plain, &settings_with_spot_to_spot());
    let options = replacement_types(&plain, &pass);
    assert_eq!(options.len(), 15, "30/SPOT-4");
    assert_eq!(options[0], "s16", "30/SPOT-4: the cheapest comes last in the catalogue");
    assert!(!options.contains(&"s00".to_owned()) && !options.contains(&"s01".to_owned()));
    for (min, expected) in [(16, 16), (10, 15)] {
        let world = world(17, Some(min));
        let pass = run(&world, &settings_with_spot_to_spot());
        assert_eq!(super::replacement_types(&world, &pass).len(), expected, "30/SPOT-5");
    }
}

#[test]
fn multi_node_spot_replacement_needs_no_fifteen_types() {
    let spot = |name: &str| node_of_size(name, 8).label("capacity-type", "spot");
    let start = World::empty().types(sizes()).pool(pool("default").require(
        "capacity-type",
        Operator::In,
        &["spot"],
    ));
    let world = ["a", "b", "c"].iter().fold(start, |world, name| {
        let full = spot(name).taint("full=yes:NoSchedule");
        world.node(full).pod(pod(&format!("p{name}")).cpu("1").on_node(name))
    });
    let pass = run(&world, &settings_with_spot_to_spot());
    let expected = [(Method::MultiNode, Decision::Replace, vec!["a", "b", "c"])];
    assert_eq!(command_summaries(&pass), expected, "30/SPOT-6");
}
