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
