//! The walk over single nodes (spec 30 §6.7).

use super::*;
use karpenter_core::disruption::Kept;

/// Three pools with nodes that are full, so that none can go.
fn full() -> World {
    let start = World::empty().types([sized(1)]);
    let pools = ["a", "b", "c"].iter().fold(start, |w, name| w.pool(on_demand(name)));
    (0..6).fold(pools, |world, number| {
        let name = format!("n{number}");
        let pool = ["a", "b", "c"][number % 3];
        world.node(of(&name, 1).pool(pool)).pod(pod(&format!("p{number}")).cpu("1").on(&name))
    })
}

#[test]
fn every_node_that_stays_has_its_reason() {
    let pass = run(&full(), &upstream());
    assert_eq!(pass.commands, []);
    let names: Vec<_> = pass.kept.iter().map(|Kept { node, .. }| node.as_str()).collect();
    assert_eq!(names, ["n0", "n1", "n2", "n3", "n4", "n5"]);
    assert!(pass.kept.iter().all(|kept| kept.text == "Can't replace with a cheaper node"));
    assert_eq!(pass.settled, [Method::MultiNode, Method::SingleNode], "30/MEMO-1");
    assert_eq!(pass.unseen_pools, [""; 0], "30/SIN-4");
}

/// Nobody was eligible, so nothing is known of those who will be: `consolidateAfter` passes without any
/// other change.
#[test]
fn a_look_at_nobody_settles_nothing() {
    let young = |node: NodeBuilder| node.standing(|standing| standing.is_consolidatable = false);
    let world = world().node(young(of("n", 16))).pod(pod("p").cpu("1").on("n"));
    for settings in [upstream(), Settings::default()] {
        assert_eq!(run(&world, &settings).settled, [], "30/MEMO-1");
    }
}

/// A promise ends without any change of the cluster.
#[test]
fn nothing_is_settled_while_nodes_are_promised() {
    let world = full();
    let promised = |seen: &mut Seen<'_>| {
        seen.nominated = [("test:///n0".to_owned(), now() + SignedDuration::from_secs(5))].into();
    };
    let settled = run_with(&world, &Settings::default(), |_| ()).settled;
    assert_eq!(settled, [Method::MultiNode, Method::SingleNode], "30/MEMO-1");
    assert_eq!(run_with(&world, &Settings::default(), promised).settled, []);
    let upstream = run_with(&world, &upstream(), promised).settled;
    assert_eq!(upstream, [Method::MultiNode, Method::SingleNode], "30/MEMO-1");
}

#[test]
fn nodes_of_a_command_are_looked_at_once_more_before_it_starts() {
    let full = || world().node(of("n", 16)).pod(pod("p").cpu("3").on("n"));
    let empty = || world().node(of("n", 16));
    let blocked = || pod("x").on("n").do_not_disrupt();
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
        let seen = Seen::new(&after.snapshot, &after.catalog, &settings, now());
        assert_eq!(recheck(&seen, &command).is_ok(), expected, "{case}");
    }
}

#[test]
fn pools_whose_commands_failed_wait() {
    let other = of("m", 16).pool("other");
    let world = world().pool(on_demand("other"));
    let world = world.node(of("n", 16)).pod(pod("p").cpu("3").on("n"));
    let world = world.node(other).pod(pod("q").cpu("15").on("m"));
    for settings in [upstream(), Settings::default()] {
        let pass =
            run_with(&world, &settings, |seen| seen.backed_off = ["default".to_owned()].into());
        assert_eq!(said(&pass), []);
        // They come back without any change of the cluster.
        assert_eq!(pass.settled, []);
    }
}

/// 0.1 + 0.2 is more than 0.3 in the last digit alone.
#[test]
fn nothing_moves_for_the_last_digit_of_a_sum() {
    let types = [(1, 0.1), (2, 0.2), (3, 0.3)]
        .map(|(cpu, price)| roomy_type(cpu).sold(offering("on-demand", ZONE, price)));
    let of = |name: &str, cpu: u32| {
        let one = roomy_type(cpu).sold(offering("on-demand", ZONE, 0.0)).build();
        node(name).of_type(&one).label("capacity-type", "on-demand").zone(ZONE)
    };
    let world = World::empty()
        .types(types.to_vec())
        .pool(on_demand("default"))
        .node(of("a", 1))
        .pod(pod("p").cpu("1").on("a"))
        .node(of("b", 2))
        .pod(pod("q").cpu("2").on("b"));
    let found = run(&world, &upstream());
    assert_eq!(
        said(&found),
        [(Method::MultiNode, Decision::Replace, vec!["a", "b"])],
        "as upstream"
    );
    assert_eq!(said(&run(&world, &Settings::default())), [], "30/INV-4, 30/INV-13");
    let deep = Settings { search: Search::Deep, ..Settings::default() };
    assert_eq!(said(&run(&world, &deep)), [], "30/INV-4, 30/INV-13");
}

#[test]
fn methods_that_are_settled_do_not_look() {
    let world = world().node(of("n", 16)).pod(pod("p").cpu("3").on("n"));
    let settled = BTreeSet::from(Method::ALL);
    for settings in [upstream(), Settings::default()] {
        let pass = run_with(&world, &settings, |seen| seen.settled = settled.clone());
        assert_eq!(pass.commands, [], "30/MEMO-1");
    }
}

#[test]
fn pools_take_turns_and_those_not_come_to_are_first() {
    let start = World::empty().types(sizes());
    let pools = ["a", "b"]
        .iter()
        .fold(start, |w, name| w.pool(on_demand(name).taint(&format!("own={name}:NoSchedule"))));
    let world = ["a", "b"].iter().fold(pools, |world, name| {
        let taint = format!("own={name}:NoSchedule");
        let small = pod(&format!("p-{name}")).cpu("1").tolerate(&taint).on(name);
        world.node(of(name, 16).pool(name).taint(&taint)).pod(small)
    });
    let from = |unseen: &[&str]| {
        let unseen: BTreeSet<String> = unseen.iter().map(|&name| name.to_owned()).collect();
        let settings = upstream();
        let pass = run_with(&world, &settings, |seen| {
            seen.unseen_pools = unseen;
            // So that the order shows: multi would find both together.
            seen.settled = [Method::MultiNode].into();
        });
        pass.commands[0].candidates[0].name.clone()
    };
    assert_eq!(from(&[]), "a", "30/SIN-1");
    assert_eq!(from(&["b"]), "b", "30/SIN-2");
}

/// Bounds tell much without a simulation, but not why a pod fits nowhere at all.
#[test]
fn a_pod_that_nothing_can_be_launched_for_is_named_as_such() {
    let narrow = || on_demand("default").require("type", Operator::In, &["t2"]);
    let cases = [
        (
            "no type is large enough",
            world()
                .node(of("n", 16))
                .pod(pod("p").cpu("14").request("example.com/gpu", "1").on("n")),
        ),
        (
            "the pool wants none",
            World::empty()
                .types(sizes())
                .pool(narrow())
                .node(of("n", 16))
                .pod(pod("p").cpu("12").on("n")),
        ),
    ];
    for (case, world) in cases {
        let pass = run(&world, &Settings::default());
        assert_eq!(said(&pass), [], "{case}");
        let text = &pass.kept[0].text;
        assert!(text.starts_with("Not all pods would schedule"), "{case}: {text}");
    }
}
