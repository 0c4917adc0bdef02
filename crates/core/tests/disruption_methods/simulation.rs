//! Where pods would go (spec 30 §5).

use karpenter_core::disruption::apply;
use karpenter_core::testing::quantity;

use super::*;

#[test]
fn a_place_on_a_node_that_is_not_ready_does_not_count() {
    let starting = of("new", 16).starting();
    let world = world().node(of("n", 16)).node(starting.clone()).pod(pod("p").cpu("9").on("n"));
    let pass = run(&world, &upstream());
    assert_eq!(said(&pass), [], "30/SIM-2");
    let settings = Settings { prune: false, ..upstream() };
    let text = run(&world, &settings).kept;
    let text = &text.iter().find(|kept| kept.node == "n").unwrap().text;
    let expected = "Not all pods would schedule, default/p => would schedule against \
                    uninitialized nodeclaim/claim-new, node/new ";
    assert_eq!(text, expected, "30/SIM-2");
    let leaving = of("going", 16).deleting();
    let world = super::world()
        .node(leaving)
        .node(starting)
        .node(of("n", 1))
        .node(of("free", 1))
        .pod(pod("away").cpu("9").on("going"))
        .pod(pod("p").cpu("100m").on("n"))
        .pod(pod("q").cpu("100m").on("free").times(2));
    let pass = run(&world, &upstream());
    assert_eq!(said(&pass), [(Method::SingleNode, Decision::Delete, vec!["n"])], "30/SIM-1");
}

#[test]
fn a_ready_node_is_taken_before_others() {
    let start =
        (0..9).fold(world(), |world, number| world.node(of(&format!("a{number}"), 16).starting()));
    let world = start
        .node(of("n", 16))
        .node(of("ready", 16))
        .pod(pod("p").cpu("1").on("n"))
        .pod(pod("q").cpu("1").on("ready").times(3));
    let pass = run(&world, &upstream());
    assert_eq!(said(&pass)[0].2, ["n"], "30/SIM-3: {:?}", pass.kept);
    assert_eq!(pass.commands[0].decision(), Decision::Delete, "30/SIM-3");
}

#[test]
fn pods_that_can_never_be_placed_do_not_count() {
    let world =
        world().node(of("n", 16)).pod(pod("p").cpu("3").on("n")).pod(pod("huge").cpu("1000"));
    assert_eq!(said(&run(&world, &upstream())).len(), 1, "30/SIM-4");
}

#[test]
fn a_pending_pod_that_needs_the_room_keeps_the_node() {
    let start = world().node(of("a", 4)).node(of("n", 4));
    let world = start.pod(pod("q").cpu("3").on("a")).pod(pod("p").cpu("1").on("n"));
    assert_eq!(said(&run(&world, &upstream())).len(), 1, "without it the node goes");
    let pass = run(&world.pod(pod("large").cpu("3")), &upstream());
    assert_eq!(said(&pass), [], "30/SIM-13: {:?}", pass.commands);
}

#[test]
fn nodes_that_had_pods_a_moment_ago_take_none() {
    let second = now().as_second();
    let with = |after: PoolBuilder, ago: i64| {
        let seen = |name: &str| {
            let node = of(name, 1).times(Some(second - 9000), Some(second - ago));
            node.standing(|s| s.is_consolidatable = ago > 600)
        };
        World::empty()
            .types([sized(1)])
            .pool(after)
            .node(seen("a"))
            .node(of("n", 1).times(Some(second - 9000), Some(second - 9000)))
            .pod(pod("q").cpu("100m").on("a").times(3))
            .pod(pod("p").cpu("100m").on("n"))
    };
    let waiting = || on_demand("default").consolidate_after(600);
    assert_eq!(said(&run(&with(waiting(), 60), &upstream())), [], "30/SIM-7");
    assert_eq!(said(&run(&with(waiting(), 700), &upstream())).len(), 1, "30/SIM-7");
}

#[test]
fn preferences_are_given_up_only_if_the_policy_says_so() {
    let shy = |name: &str| {
        pod(name)
            .label("app", "x")
            .cpu("100m")
            .prefer_away_from(1, term("hostname").selecting(&[("app", "x")]))
    };
    let world = World::empty()
        .types([sized(1)])
        .pool(on_demand("default"))
        .node(of("a", 1))
        .node(of("n", 1))
        .pod(shy("q").on("a"))
        .pod(pod("r").cpu("100m").on("a"))
        .pod(shy("p").on("n"));
    assert_eq!(said(&run(&world, &upstream())), [], "30/SIM-10");
    let ignoring = world.with(|options| options.preferences = PreferencePolicy::Ignore);
    assert_eq!(said(&run(&ignoring, &upstream()))[0].1, Decision::Delete, "30/SIM-10");
}

#[test]
fn a_node_that_never_consolidates_takes_pods_at_once() {
    let second = now().as_second();
    let fresh = of("a", 1).pool("never").times(Some(second - 9000), Some(second - 1));
    let world = World::empty()
        .types([sized(1)])
        .pool(on_demand("default").consolidate_after(600))
        .pool(on_demand("never").never_consolidates())
        .node(fresh)
        .node(of("n", 1).times(Some(second - 9000), Some(second - 9000)))
        .pod(pod("q").cpu("100m").on("a"))
        .pod(pod("p").cpu("100m").on("n"));
    let pass = run(&world, &upstream());
    assert_eq!(said(&pass), [(Method::SingleNode, Decision::Delete, vec!["n"])], "30/SIM-8");
}

#[test]
fn a_replacement_does_not_mind_that_others_wait() {
    let second = now().as_second();
    let busy = of("a", 16)
        .times(Some(second - 9000), Some(second - 1))
        .standing(|s| s.is_consolidatable = false);
    let world = World::empty()
        .types(sizes())
        .pool(on_demand("default").consolidate_after(600))
        .node(busy)
        .node(of("n", 16).times(Some(second - 9000), Some(second - 9000)))
        .pod(pod("p").cpu("3").on("n"));
    let pass = run(&world, &upstream());
    assert_eq!(said(&pass), [(Method::SingleNode, Decision::Replace, vec!["n"])], "30/SIM-9");
}

#[test]
fn a_spread_keeps_the_replacement_in_its_zone() {
    let zones = ["test-zone-1", "test-zone-2", "test-zone-3"];
    let sold = |cpu: u32| {
        let price = f64::from(cpu);
        zones.iter().fold(
            instance_type(&format!("t{cpu}")).cpu(&cpu.to_string()).pods("9").no_overhead(),
            |one, zone| one.sold(offering("on-demand", zone, price)),
        )
    };
    let start = World::empty().types([sold(1), sold(16)]).pool(on_demand("default"));
    let world = zones.iter().enumerate().fold(start, |world, (number, zone)| {
        let cpu = if number == 1 { 16 } else { 1 };
        let name = format!("n{number}");
        let own = of(&name, cpu).of_type(&sold(cpu).build()).zone(zone);
        let own = own.label("capacity-type", "on-demand");
        let even = pod(&name).label("app", "even").cpu("900m").zone_spread(1).on(&name);
        world.node(own).pod(even)
    });
    let pass = run(&world, &upstream());
    assert_eq!(said(&pass), [(Method::SingleNode, Decision::Replace, vec!["n1"])], "30/SIM-11");
    let claim = pass.commands[0].replacements[0].planned().unwrap();
    let zone = claim.requirements.get("topology.kubernetes.io/zone").unwrap();
    assert!(zone.has("test-zone-2") && !zone.has("test-zone-1"), "30/SIM-11");
}

#[test]
fn pods_that_stay_apart_keep_their_nodes() {
    let world = ["a", "b", "c"].iter().fold(
        World::empty().types([sized(1)]).pool(on_demand("default")),
        |world, name| {
            let apart = term("hostname").selecting(&[("app", "apart")]);
            let shy = pod(name).label("app", "apart").cpu("100m").away_from(apart).on(name);
            world.node(of(name, 1)).pod(shy)
        },
    );
    for settings in [upstream(), Settings::default()] {
        assert_eq!(said(&run(&world, &settings)), [], "30/SIM-12");
    }
}

#[test]
fn spare_capacity_has_to_fit_as_well() {
    let spare = pod("spare").cpu("6").spare();
    let world = world().node(of("n", 16)).pod(pod("p").cpu("1").on("n"));
    let pass = run(&world.clone().pod(spare), &upstream());
    assert_eq!(options(&world, &pass), ["t8"], "30/SIM-19");
    let full = super::world().node(of("n", 16)).pod(pod("p").cpu("16").on("n"));
    let pass = run(&full.pod(pod("spare").cpu("1").spare()), &upstream());
    assert_eq!(said(&pass), [], "30/SIM-19: it is no reason to move a node");
}

#[test]
fn nodes_that_are_not_ours_have_room_too() {
    let world =
        world().node(node("foreign").unmanaged()).node(of("n", 4)).pod(pod("p").cpu("3").on("n"));
    assert_eq!(said(&run(&world, &upstream()))[0].1, Decision::Delete, "30/SIM-15");
}

#[test]
fn a_pool_without_types_is_passed_over() {
    let world =
        world().pool(pool("broken").types([])).node(of("n", 16)).pod(pod("p").cpu("3").on("n"));
    assert_eq!(said(&run(&world, &upstream())).len(), 1, "30/SIM-14");
}

#[test]
fn a_replacement_counts_as_the_largest_that_it_may_become() {
    let limited = World::empty().types(sizes()).pool(on_demand("default").limit("cpu", "100"));
    let of = |is_drifted: bool| {
        let old = of("n", 8).standing(|standing| {
            standing.drifted_at = is_drifted.then(now);
            standing.is_consolidatable = !is_drifted;
        });
        limited.clone().node(old).pod(pod("p").cpu("3").on("n"))
    };
    // What drifts becomes anything that does; what is consolidated becomes what costs less.
    for (is_drifted, types, most) in [(true, &["t4", "t8", "t16"][..], "16"), (false, &["t4"], "4")]
    {
        let world = of(is_drifted);
        let pass = run(&world, &Settings::default());
        assert_eq!(options(&world, &pass), types);
        let mut next = world.snapshot.clone();
        apply(&mut next, &world.catalog, &pass.commands[0]);
        let replacement = next.nodes.last().expect("it is to come");
        assert_eq!(replacement.capacity.get("cpu"), Some(quantity(most)), "{types:?}");
    }
}
