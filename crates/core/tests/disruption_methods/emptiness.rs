//! Nodes without pods (spec 30 §6.1).

use super::*;

#[test]
fn one_command_deletes_all_empty_nodes() {
    let world = world()
        .node(node_of_size("a", 4))
        .node(node_of_size("b", 8))
        .node(node_of_size("c", 4))
        .pod(pod("p").cpu("3").on_node("c"));
    for settings in [upstream(), Settings::default()] {
        let pass = run(&world, &settings);
        let first = &command_summaries(&pass)[0];
        assert_eq!(*first, (Method::Emptiness, Decision::Delete, vec!["a", "b"]), "30/EMP-1");
        assert_eq!(pass.commands[0].reason(), Reason::Empty, "30/EMP-1");
        assert_eq!(pass.commands[0].savings, 12.0);
    }
}

#[test]
fn a_node_is_empty_without_reschedulable_pods() {
    let n = || node_of_size("n", 4);
    let p = || pod("p").on_node("n");
    #[rustfmt::skip]
    let cases = [
        ("30/EMP-2 not consolidatable", world().node(n().disruption_state(|s| s.is_consolidatable = false)), false),
        ("30/EMP-2 do-not-disrupt",     world().node(n().disruption_state(|s| s.do_not_disrupt = Some("true".to_owned()))), false),
        ("30/EMP-2 a pod",              world().node(n()).pod(p().cpu("3500m")),                  false),
        ("30/EMP-3 daemons",            world().node(n()).pod(p().owner(OwnerKind::DaemonSet)),       true),
        ("30/EMP-3 terminating",        world().node(n()).pod(p().terminating()),                 true),
        ("30/EMP-4",                    world().node(n()).pod(p().owner(OwnerKind::StatefulSet).terminating()), false),
        ("30/EMP-5",                    world().node(n()).pod(p().eviction_cost(0.0)),            true),
        ("30/EMP-8",                    World::empty().types(sizes()).pool(pool("default").replicas(1)).node(n()), false),
    ];
    for (case, world, expected) in cases {
        let pass = run(&world, &upstream());
        let is_empty = command_summaries(&pass).iter().any(|one| one.0 == Method::Emptiness);
        assert_eq!(is_empty, expected, "{case}");
    }
}

#[test]
fn budgets_limit_the_number_of_empty_nodes() {
    let nodes = (0..10).fold(
        World::empty().types(sizes()).pool(on_demand("default").budget("30%", &[])),
        |world, number| world.node(node_of_size(&format!("n{number}"), 4)),
    );
    let pass = run(&nodes, &upstream());
    assert_eq!(pass.commands[0].candidates.len(), 3, "30/EMP-6, 30/BUD-1");
    assert_eq!(pass.settled, [], "30/MEMO-2");
}

#[test]
fn nodes_with_buffer_pods_are_not_empty() {
    let world = world().node(node_of_size("a", 4)).node(node_of_size("b", 4));
    let pass = run_with(&world, &upstream(), |context| {
        context.buffered = ["test:///a".to_owned()].into();
    });
    assert_eq!(
        command_summaries(&pass),
        [(Method::Emptiness, Decision::Delete, vec!["b"])],
        "30/EMP-7"
    );
    let notices = notice_texts(&pass, NodeEventKind::Unconsolidatable);
    assert!(notices.contains(&"Node \"a\" has buffer pods"), "30/EMP-7: {notices:?}");
}

#[test]
fn emptiness_comes_before_drift() {
    let drifted = node_of_size("n", 4).disruption_state(|s| s.drifted_at = Some(now()));
    let pass = run(&world().node(drifted.clone()), &upstream());
    assert_eq!(pass.commands[0].method, Method::Emptiness, "30/LOOP-5");
    let never = World::empty().types(sizes()).pool(on_demand("default").never_consolidates());
    let pass = run(&never.node(drifted), &upstream());
    assert_eq!(pass.commands[0].method, Method::Drift, "30/LOOP-5");
}

#[test]
fn an_empty_node_is_removed_before_an_underutilized_one() {
    let world = World::empty()
        .types(sizes())
        .pool(on_demand("default").budget("1", &[]))
        .node(node_of_size("empty", 4))
        .node(node_of_size("large", 16))
        .pod(pod("p").cpu("1").on_node("large"));
    for settings in [upstream(), Settings::default()] {
        let pass = run(&world, &settings);
        let expected = [(Method::Emptiness, Decision::Delete, vec!["empty"])];
        assert_eq!(command_summaries(&pass), expected, "30/LOOP-6");
    }
}
