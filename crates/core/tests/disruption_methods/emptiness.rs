//! Nodes without pods (spec 30 §6.1).

use super::*;

#[test]
fn all_empty_nodes_go_in_one_command() {
    let world =
        world().node(of("a", 4)).node(of("b", 8)).node(of("c", 4)).pod(pod("p").cpu("3").on("c"));
    for settings in [upstream(), Settings::default()] {
        let pass = run(&world, &settings);
        let first = &said(&pass)[0];
        assert_eq!(*first, (Method::Emptiness, Decision::Delete, vec!["a", "b"]), "30/EMP-1");
        assert_eq!(pass.commands[0].reason(), Reason::Empty, "30/EMP-1");
        assert_eq!(pass.commands[0].savings, 12.0);
    }
}

#[test]
fn what_counts_as_empty() {
    let n = || of("n", 4);
    let p = || pod("p").on("n");
    #[rustfmt::skip]
    let cases = [
        ("30/EMP-2 not consolidatable", world().node(n().standing(|s| s.is_consolidatable = false)), false),
        ("30/EMP-2 do-not-disrupt",     world().node(n().standing(|s| s.do_not_disrupt = Some("true".to_owned()))), false),
        ("30/EMP-2 a pod",              world().node(n()).pod(p().cpu("3500m")),                  false),
        ("30/EMP-3 daemons",            world().node(n()).pod(p().owner(Owner::DaemonSet)),       true),
        ("30/EMP-3 terminating",        world().node(n()).pod(p().terminating()),                 true),
        ("30/EMP-4",                    world().node(n()).pod(p().owner(Owner::StatefulSet).terminating()), false),
        ("30/EMP-5",                    world().node(n()).pod(p().eviction_cost(0.0)),            true),
        ("30/EMP-8",                    World::empty().types(sizes()).pool(pool("default").replicas(1)).node(n()), false),
    ];
    for (case, world, expected) in cases {
        let pass = run(&world, &upstream());
        let is_empty = said(&pass).iter().any(|one| one.0 == Method::Emptiness);
        assert_eq!(is_empty, expected, "{case}");
    }
}

#[test]
fn budgets_hold_empty_nodes_back() {
    let nodes = (0..10).fold(
        World::empty().types(sizes()).pool(on_demand("default").budget("30%", &[])),
        |world, number| world.node(of(&format!("n{number}"), 4)),
    );
    let pass = run(&nodes, &upstream());
    assert_eq!(pass.commands[0].candidates.len(), 3, "30/EMP-6, 30/BUD-1");
    assert_eq!(pass.settled, [], "30/MEMO-2");
}

#[test]
fn nodes_with_spare_capacity_stay() {
    let world = world().node(of("a", 4)).node(of("b", 4));
    let pass = run_with(&world, &upstream(), |seen| {
        seen.buffered = ["test:///a".to_owned()].into();
    });
    assert_eq!(said(&pass), [(Method::Emptiness, Decision::Delete, vec!["b"])], "30/EMP-7");
    let told = texts(&pass, NoticeKind::Unconsolidatable);
    assert!(told.contains(&"Node \"a\" has buffer pods"), "30/EMP-7: {told:?}");
}

#[test]
fn an_empty_node_is_not_taken_for_drift() {
    let drifted = of("n", 4).standing(|s| s.drifted_at = Some(now()));
    let pass = run(&world().node(drifted.clone()), &upstream());
    assert_eq!(pass.commands[0].method, Method::Emptiness, "30/LOOP-5");
    let never = World::empty().types(sizes()).pool(on_demand("default").never_consolidates());
    let pass = run(&never.node(drifted), &upstream());
    assert_eq!(pass.commands[0].method, Method::Drift, "30/LOOP-5");
}

#[test]
fn the_empty_one_goes_before_the_underutilized_one() {
    let world = World::empty()
        .types(sizes())
        .pool(on_demand("default").budget("1", &[]))
        .node(of("empty", 4))
        .node(of("large", 16))
        .pod(pod("p").cpu("1").on("large"));
    for settings in [upstream(), Settings::default()] {
        let pass = run(&world, &settings);
        let expected = [(Method::Emptiness, Decision::Delete, vec!["empty"])];
        assert_eq!(said(&pass), expected, "30/LOOP-6");
    }
}
