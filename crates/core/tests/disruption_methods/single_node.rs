//! Tests of single-node consolidation: it tries the nodes one by one (spec 30 §6.7).

use super::*;
use karpenter_core::disruption::RetainedNode;

/// Returns a world with three NodePools whose nodes are all full.
fn world_of_full_nodes() -> World {
    let start = World::empty().types([sized(1)]);
    let pools = ["a", "b", "c"].iter().fold(start, |w, name| w.pool(on_demand(name)));
    (0..6).fold(pools, |world, number| {
        let name = format!("n{number}");
        let pool = ["a", "b", "c"][number % 3];
        world
            .node(node_of_size(&name, 1).pool(pool))
            .pod(pod(&format!("p{number}")).cpu("1").on_node(&name))
    })
}

#[test]
fn every_unconsolidated_node_has_a_reason() {
    let pass = run(&world_of_full_nodes(), &upstream());
    assert_eq!(pass.commands, []);
    let names: Vec<_> =
        pass.retained_nodes.iter().map(|RetainedNode { node, .. }| node.as_str()).collect();
    assert_eq!(names, ["n0", "n1", "n2", "n3", "n4", "n5"]);
    assert!(
        pass.retained_nodes.iter().all(|kept| kept.text == "Can't replace with a cheaper node")
    );
    assert_eq!(pass.settled, [Method::MultiNode, Method::SingleNode], "30/MEMO-1");
    assert_eq!(pass.unseen_pools, [""; 0], "30/SIN-4");
}

/// No node was eligible, so later eligible nodes are not evaluated yet: `consolidateAfter` passes
/// without any other change.
#[test]
fn a_pass_without_candidates_settles_no_method() {
    let young = |node: NodeBuilder| node.disruption_state(|state| state.is_consolidatable = false);
    let world = world().node(young(node_of_size("n", 16))).pod(pod("p").cpu("1").on_node("n"));
    for settings in [upstream(), Settings::default()] {
        assert_eq!(run(&world, &settings).settled, [], "30/MEMO-1");
    }
}

/// A promise ends without any change of the cluster.
#[test]
fn no_method_is_settled_while_nodes_are_nominated() {
    let world = world_of_full_nodes();
    let promised = |context: &mut PassContext<'_>| {
        context.nominated =
            [("test:///n0".to_owned(), now() + SignedDuration::from_secs(5))].into();
    };
    let settled = run_with(&world, &Settings::default(), |_| ()).settled;
    assert_eq!(settled, [Method::MultiNode, Method::SingleNode], "30/MEMO-1");
    assert_eq!(run_with(&world, &Settings::default(), promised).settled, []);
    let upstream = run_with(&world, &upstream(), promised).settled;
    assert_eq!(upstream, [Method::MultiNode, Method::SingleNode], "30/MEMO-1");
}

#[test]
fn the_nodes_of_a_command_are_checked_again_before_it_starts() {
    let full = || world().node(node_of_size("n", 16)).pod(pod("p").cpu("3").on_node("n"));
    let empty = || world().node(node_of_size("n", 16));
    let blocked = || pod("x").on_node("n").do_not_disrupt();
    let cases = [
        ("same", full(), full(), true),
        ("30/VAL-5", full(), full().pod(blocked()), false),
        ("gone", full(), world(), false),
        ("empty", empty(), empty(), true),
        ("30/VAL-1", empty(), full(), false),
    ];
    for (case, before, after, expected) in cases {
        let settings = Settings::default();
        let command = run(&before, &settings).commands.remove(0);
        let context = PassContext::new(&after.snapshot, &after.catalog, &settings, now());
        assert_eq!(recheck_candidates(&context, &command).is_ok(), expected, "{case}");
    }
}

#[test]
fn node_pools_in_backoff_get_no_commands() {
    let other = node_of_size("m", 16).pool("other");
    let world = world().pool(on_demand("other"));
    let world = world.node(node_of_size("n", 16)).pod(pod("p").cpu("3").on_node("n"));
    let world = world.node(other).pod(pod("q").cpu("15").on_node("m"));
    for settings in [upstream(), Settings::default()] {
        let pass = run_with(&world, &settings, |context| {
            context.backed_off = ["default".to_owned()].into();
        });
        assert_eq!(command_summaries(&pass), []);
        // They come back without any change of the cluster.
        assert_eq!(pass.settled, []);
    }
}

/// 0.1 + 0.2 is more than 0.3 in the last digit alone.
#[test]
fn floating_point_noise_does_not_count_as_savings() {
    let types = [(1, 0.1), (2, 0.2), (3, 0.3)]
        .map(|(cpu, price)| cpu_bound_type(cpu).offering(offering("on-demand", ZONE, price)));
    let of = |name: &str, cpu: u32| {
        let one = cpu_bound_type(cpu).offering(offering("on-demand", ZONE, 0.0)).build();
        node(name).of_type(&one).label("capacity-type", "on-demand").zone(ZONE)
    };
    let world = World::empty()
        .types(types.to_vec())
        .pool(on_demand("default"))
        .node(of("a", 1))
        .pod(pod("p").cpu("1").on_node("a"))
        .node(of("b", 2))
        .pod(pod("q").cpu("2").on_node("b"));
    let found = run(&world, &upstream());
    assert_eq!(
        command_summaries(&found),
        [(Method::MultiNode, Decision::Replace, vec!["a", "b"])],
        "as upstream"
    );
    assert_eq!(command_summaries(&run(&world, &Settings::default())), [], "30/INV-4, 30/INV-13");
    let deep = Settings { search: SearchMode::Deep, ..Settings::default() };
    assert_eq!(command_summaries(&run(&world, &deep)), [], "30/INV-4, 30/INV-13");
}

#[test]
fn settled_methods_are_skipped() {
    let world = world().node(node_of_size("n", 16)).pod(pod("p").cpu("3").on_node("n"));
    let settled = BTreeSet::from(Method::ALL);
    for settings in [upstream(), Settings::default()] {
        let pass = run_with(&world, &settings, |context| context.settled = settled.clone());
        assert_eq!(pass.commands, [], "30/MEMO-1");
    }
}

#[test]
fn node_pools_that_the_last_pass_did_not_reach_come_first() {
    let start = World::empty().types(sizes());
    let pools = ["a", "b"]
        .iter()
        .fold(start, |w, name| w.pool(on_demand(name).taint(&format!("own={name}:NoSchedule"))));
    let world = ["a", "b"].iter().fold(pools, |world, name| {
        let taint = format!("own={name}:NoSchedule");
        let small = pod(&format!("p-{name}")).cpu("1").tolerate(&taint).on_node(name);
        world.node(node_of_size(name, 16).pool(name).taint(&taint)).pod(small)
    });
    let from = |unseen: &[&str]| {
        let unseen: BTreeSet<String> = unseen.iter().map(|&name| name.to_owned()).collect();
        let settings = upstream();
        let pass = run_with(&world, &settings, |context| {
            context.unseen_pools = unseen;
            // So that the order shows: multi would find both together.
            context.settled = [Method::MultiNode].into();
        });
        pass.commands[0].candidates[0].name.clone()
    };
    assert_eq!(from(&[]), "a", "30/SIN-1");
    assert_eq!(from(&["b"]), "b", "30/SIN-2");
}

/// Feasibility bounds rule out many nodes, but give no reason why a pod fits on no node.
#[test]
fn the_reason_names_a_pod_that_no_instance_type_fits() {
    let narrow = || on_demand("default").require("type", Operator::In, &["t2"]);
    let cases = [
        (
            "no type is large enough",
            world()
                .node(node_of_size("n", 16))
                .pod(pod("p").cpu("14").request("example.com/gpu", "1").on_node("n")),
        ),
        (
            "the pool wants none",
            World::empty()
                .types(sizes())
                .pool(narrow())
                .node(node_of_size("n", 16))
                .pod(pod("p").cpu("12").on_node("n")),
        ),
    ];
    for (case, world) in cases {
        let pass = run(&world, &Settings::default());
        assert_eq!(command_summaries(&pass), [], "{case}");
        let text = &pass.retained_nodes[0].text;
        assert!(text.starts_with("Not all pods would schedule"), "{case}: {text}");
    }
}
