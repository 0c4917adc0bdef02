//! Where pods would go (spec 30 §5).

use karpenter_core::disruption::apply_command;
use karpenter_core::testing::quantity;

use super::*;

#[test]
fn pods_cannot_move_to_an_uninitialized_node() {
    let starting = node_of_size("new", 16).uninitialized();
    let world = world()
        .node(node_of_size("n", 16))
        .node(starting.clone())
        .pod(pod("p").cpu("9").on_node("n"));
    let pass = run(&world, &upstream());
    assert_eq!(command_summaries(&pass), [], "30/SIM-2");
    let settings = Settings { prune: false, ..upstream() };
    let text = run(&world, &settings).retained_nodes;
    let text = &text.iter().find(|kept| kept.node == "n").unwrap().text;
    let expected = "Not all pods would schedule, default/p => would schedule against \
                    uninitialized nodeclaim/claim-new, node/new ";
    assert_eq!(text, expected, "30/SIM-2");
    let leaving = node_of_size("going", 16).deleting();
    let world = super::world()
        .node(leaving)
        .node(starting)
        .node(node_of_size("n", 1))
        .node(node_of_size("free", 1))
        .pod(pod("away").cpu("9").on_node("going"))
        .pod(pod("p").cpu("100m").on_node("n"))
        .pod(pod("q").cpu("100m").on_node("free").replicas(2));
    let pass = run(&world, &upstream());
    assert_eq!(
        command_summaries(&pass),
        [(Method::SingleNode, Decision::Delete, vec!["n"])],
        "30/SIM-1"
    );
}

#[test]
fn pods_move_to_an_initialized_node_first() {
    let start = (0..9).fold(world(), |world, number| {
        world.node(node_of_size(&format!("a{number}"), 16).uninitialized())
    });
    let world = start
        .node(node_of_size("n", 16))
        .node(node_of_size("ready", 16))
        .pod(pod("p").cpu("1").on_node("n"))
        .pod(pod("q").cpu("1").on_node("ready").replicas(3));
    let pass = run(&world, &upstream());
    assert_eq!(command_summaries(&pass)[0].2, ["n"], "30/SIM-3: {:?}", pass.retained_nodes);
    assert_eq!(pass.commands[0].decision(), Decision::Delete, "30/SIM-3");
}

#[test]
fn unschedulable_pending_pods_do_not_block_consolidation() {
    let world = world()
        .node(node_of_size("n", 16))
        .pod(pod("p").cpu("3").on_node("n"))
        .pod(pod("huge").cpu("1000"));
    assert_eq!(command_summaries(&run(&world, &upstream())).len(), 1, "30/SIM-4");
}

#[test]
fn a_node_that_a_pending_pod_needs_is_not_consolidated() {
    let start = world().node(node_of_size("a", 4)).node(node_of_size("n", 4));
    let world = start.pod(pod("q").cpu("3").on_node("a")).pod(pod("p").cpu("1").on_node("n"));
    assert_eq!(command_summaries(&run(&world, &upstream())).len(), 1, "without it the node goes");
    let pass = run(&world.pod(pod("large").cpu("3")), &upstream());
    assert_eq!(command_summaries(&pass), [], "30/SIM-13: {:?}", pass.commands);
}

#[test]
fn nodes_with_recent_pod_events_take_no_moved_pods() {
    let second = now().as_second();
    let with = |after: PoolBuilder, ago: i64| {
        let seen = |name: &str| {
            let node = node_of_size(name, 1)
                .initialized_and_last_pod_event_at(Some(second - 9000), Some(second - ago));
            node.disruption_state(|s| s.is_consolidatable = ago > 600)
        };
        World::empty()
            .types([sized(1)])
            .pool(after)
            .node(seen("a"))
            .node(
                node_of_size("n", 1)
                    .initialized_and_last_pod_event_at(Some(second - 9000), Some(second - 9000)),
            )
            .pod(pod("q").cpu("100m").on_node("a").replicas(3))
            .pod(pod("p").cpu("100m").on_node("n"))
    };
    let waiting = || on_demand("default").consolidate_after(600);
    assert_eq!(command_summaries(&run(&with(waiting(), 60), &upstream())), [], "30/SIM-7");
    assert_eq!(command_summaries(&run(&with(waiting(), 700), &upstream())).len(), 1, "30/SIM-7");
}

#[test]
fn preferences_are_ignored_only_by_the_ignore_policy() {
    let shy = |name: &str| {
        pod(name)
            .label("app", "x")
            .cpu("100m")
            .prefer_pod_anti_affinity(1, term("hostname").selecting(&[("app", "x")]))
    };
    let world = World::empty()
        .types([sized(1)])
        .pool(on_demand("default"))
        .node(node_of_size("a", 1))
        .node(node_of_size("n", 1))
        .pod(shy("q").on_node("a"))
        .pod(pod("r").cpu("100m").on_node("a"))
        .pod(shy("p").on_node("n"));
    assert_eq!(command_summaries(&run(&world, &upstream())), [], "30/SIM-10");
    let ignoring = world.with_options(|options| options.preferences = PreferencePolicy::Ignore);
    assert_eq!(command_summaries(&run(&ignoring, &upstream()))[0].1, Decision::Delete, "30/SIM-10");
}

#[test]
fn nodes_of_a_pool_that_never_consolidates_take_pods_at_once() {
    let second = now().as_second();
    let fresh = node_of_size("a", 1)
        .pool("never")
        .initialized_and_last_pod_event_at(Some(second - 9000), Some(second - 1));
    let world = World::empty()
        .types([sized(1)])
        .pool(on_demand("default").consolidate_after(600))
        .pool(on_demand("never").never_consolidates())
        .node(fresh)
        .node(
            node_of_size("n", 1)
                .initialized_and_last_pod_event_at(Some(second - 9000), Some(second - 9000)),
        )
        .pod(pod("q").cpu("100m").on_node("a"))
        .pod(pod("p").cpu("100m").on_node("n"));
    let pass = run(&world, &upstream());
    assert_eq!(
        command_summaries(&pass),
        [(Method::SingleNode, Decision::Delete, vec!["n"])],
        "30/SIM-8"
    );
}

#[test]
fn recent_pod_events_of_other_nodes_do_not_block_a_replacement() {
    let second = now().as_second();
    let busy = node_of_size("a", 16)
        .initialized_and_last_pod_event_at(Some(second - 9000), Some(second - 1))
        .disruption_state(|s| s.is_consolidatable = false);
    let world = World::empty()
        .types(sizes())
        .pool(on_demand("default").consolidate_after(600))
        .node(busy)
        .node(
            node_of_size("n", 16)
                .initialized_and_last_pod_event_at(Some(second - 9000), Some(second - 9000)),
        )
        .pod(pod("p").cpu("3").on_node("n"));
    let pass = run(&world, &upstream());
    assert_eq!(
        command_summaries(&pass),
        [(Method::SingleNode, Decision::Replace, vec!["n"])],
        "30/SIM-9"
    );
}

#[test]
fn topology_spread_keeps_the_replacement_in_its_zone() {
    let zones = ["test-zone-1", "test-zone-2", "test-zone-3"];
    let sold = |cpu: u32| {
        let price = f64::from(cpu);
        zones.iter().fold(
            instance_type(&format!("t{cpu}")).cpu(&cpu.to_string()).pods("9").no_overhead(),
            |one, zone| one.offering(offering("on-demand", zone, price)),
        )
    };
    let start = World::empty().types([sold(1), sold(16)]).pool(on_demand("default"));
    let world = zones.iter().enumerate().fold(start, |world, (number, zone)| {
        let cpu = if number == 1 { 16 } else { 1 };
        let name = format!("n{number}");
        let own = node_of_size(&name, cpu).of_type(&sold(cpu).build()).zone(zone);
        let own = own.label("capacity-type", "on-demand");
        let even = pod(&name).label("app", "even").cpu("900m").zone_spread(1).on_node(&name);
        world.node(own).pod(even)
    });
    let pass = run(&world, &upstream());
    assert_eq!(
        command_summaries(&pass),
        [(Method::SingleNode, Decision::Replace, vec!["n1"])],
        "30/SIM-11"
    );
    let claim = pass.commands[0].replacements[0].planned().unwrap();
    let zone = claim.requirements.get("topology.kubernetes.io/zone").unwrap();
    assert!(zone.has("test-zone-2") && !zone.has("test-zone-1"), "30/SIM-11");
}

#[test]
fn pods_with_anti_affinity_keep_their_nodes() {
    let world = ["a", "b", "c"].iter().fold(
        World::empty().types([sized(1)]).pool(on_demand("default")),
        |world, name| {
            let apart = term("hostname").selecting(&[("app", "apart")]);
            let shy =
                pod(name).label("app", "apart").cpu("100m").pod_anti_affinity(apart).on_node(name);
            world.node(node_of_size(name, 1)).pod(shy)
        },
    );
    for settings in [upstream(), Settings::default()] {
        assert_eq!(command_summaries(&run(&world, &settings)), [], "30/SIM-12");
    }
}

#[test]
fn buffer_pods_must_fit_as_well() {
    let spare = pod("spare").cpu("6").buffer_pod();
    let world = world().node(node_of_size("n", 16)).pod(pod("p").cpu("1").on_node("n"));
    let pass = run(&world.clone().pod(spare), &upstream());
    assert_eq!(replacement_types(&world, &pass), ["t8"], "30/SIM-19");
    let full = super::world().node(node_of_size("n", 16)).pod(pod("p").cpu("16").on_node("n"));
    let pass = run(&full.pod(pod("spare").cpu("1").buffer_pod()), &upstream());
    assert_eq!(command_summaries(&pass), [], "30/SIM-19: it is no reason to move a node");
}

#[test]
fn pods_can_move_to_unmanaged_nodes() {
    let world = world()
        .node(node("foreign").unmanaged())
        .node(node_of_size("n", 4))
        .pod(pod("p").cpu("3").on_node("n"));
    assert_eq!(command_summaries(&run(&world, &upstream()))[0].1, Decision::Delete, "30/SIM-15");
}

#[test]
fn a_node_pool_without_types_is_skipped() {
    let world = world()
        .pool(pool("broken").types([]))
        .node(node_of_size("n", 16))
        .pod(pod("p").cpu("3").on_node("n"));
    assert_eq!(command_summaries(&run(&world, &upstream())).len(), 1, "30/SIM-14");
}

#[test]
fn a_replacement_counts_as_the_largest_that_it_may_become() {
    let limited = World::empty().types(sizes()).pool(on_demand("default").limit("cpu", "100"));
    let of = |is_drifted: bool| {
        let old = node_of_size("n", 8).disruption_state(|state| {
            state.drifted_at = is_drifted.then(now);
            state.is_consolidatable = !is_drifted;
        });
        limited.clone().node(old).pod(pod("p").cpu("3").on_node("n"))
    };
    // Any compatible type may replace a drifted node; only cheaper types replace a consolidated
    // one.
    for (is_drifted, types, most) in [(true, &["t4", "t8", "t16"][..], "16"), (false, &["t4"], "4")]
    {
        let world = of(is_drifted);
        let pass = run(&world, &Settings::default());
        assert_eq!(replacement_types(&world, &pass), types);
        let mut next = world.snapshot.clone();
        apply_command(&mut next, &world.catalog, &pass.commands[0]);
        let replacement = next.nodes.last().expect("it is to come");
        assert_eq!(replacement.capacity.get("cpu"), Some(quantity(most)), "{types:?}");
    }
}
