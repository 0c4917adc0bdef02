//! Drifted nodes (spec 30 §6.3).

use karpenter_core::disruption::move_to_placeholder_nodes;

use super::*;

fn drifted(name: &str, cpu: u32, seconds_ago: i64) -> NodeBuilder {
    let at = now() - SignedDuration::from_secs(seconds_ago);
    node_of_size(name, cpu).disruption_state(|s| {
        s.drifted_at = Some(at);
        s.is_consolidatable = false;
    })
}

#[test]
fn a_drifted_node_is_replaced_or_deleted_as_its_pods_need() {
    let world = world().node(drifted("n", 4, 60)).pod(pod("p").cpu("3").on_node("n"));
    let pass = run(&world, &upstream());
    assert_eq!(
        command_summaries(&pass),
        [(Method::Drift, Decision::Replace, vec!["n"])],
        "30/DRF-1"
    );
    let with_free_node = world
        .clone()
        .node(node_of_size("free", 8).disruption_state(|s| s.is_consolidatable = false));
    let pass = run(&with_free_node, &upstream());
    assert_eq!(
        command_summaries(&pass),
        [(Method::Drift, Decision::Delete, vec!["n"])],
        "30/DRF-2"
    );
}

#[test]
fn drift_skips_a_node_with_unschedulable_pods() {
    let world = world()
        .node(drifted("old", 4, 600).label("custom", "here"))
        .node(drifted("new", 4, 60))
        .pod(pod("stuck").cpu("1").select("custom", "here").on_node("old"))
        .pod(pod("p").cpu("4").on_node("new"));
    let pass = run(&world, &upstream());
    assert_eq!(
        command_summaries(&pass),
        [(Method::Drift, Decision::Replace, vec!["new"])],
        "30/DRF-3"
    );
    let notices = notice_texts(&pass, NodeEventKind::Blocked);
    assert!(notices[0].starts_with("Not all pods would schedule, default/stuck =>"), "30/DRF-3");
}

#[test]
fn drift_takes_empty_nodes_first_and_then_the_oldest() {
    let never = World::empty().types(sizes()).pool(on_demand("default").never_consolidates());
    let world = never
        .node(drifted("full", 4, 600))
        .node(drifted("empty", 4, 60))
        .pod(pod("p").cpu("3").on_node("full"));
    let pass = run(&world, &upstream());
    assert_eq!(
        command_summaries(&pass),
        [(Method::Drift, Decision::Delete, vec!["empty"])],
        "30/DRF-4"
    );
}

#[test]
fn one_drifted_node_may_get_several_replacements() {
    let world = World::empty()
        .types([sized(1)])
        .pool(on_demand("default"))
        .node(drifted("n", 4, 60).label("type", "gone"))
        .pod(pod("p").cpu("1").on_node("n").replicas(3));
    let pass = run(&world, &upstream());
    assert_eq!(pass.commands[0].replacements.len(), 3, "30/DRF-5");
}

/// Upstream launches for them, and so does its provisioner.
#[test]
fn drift_leaves_pending_pods_to_the_provisioner() {
    let world = world()
        .node(drifted("n", 4, 60))
        .pod(pod("p").cpu("4").on_node("n"))
        .pod(pod("waits").cpu("14"));
    for (search, nodes) in [(SearchMode::Upstream, 2), (SearchMode::Best, 1), (SearchMode::Deep, 1)]
    {
        let pass = run(&world, &Settings { search, ..Settings::default() });
        assert_eq!(pass.commands.len(), 1, "{search:?}");
        assert_eq!(pass.commands[0].replacements.len(), nodes, "{search:?}");
    }
}

#[test]
fn pods_with_an_in_flight_replacement_need_no_other() {
    let mut world = world()
        .node(drifted("n", 4, 60))
        .node(node_of_size("going", 4).deleting())
        .pod(pod("p").cpu("4").on_node("n"))
        .pod(pod("q").cpu("3").on_node("going"))
        .pod(pod("elsewhere").cpu("1").on_node("going"));
    let pods = |world: &World| {
        let pass = run(world, &Settings::default());
        let pods = pass.commands[0].plan.claims[0].pods.iter();
        pods.map(|&pod| world.snapshot.pod(pod).name.clone()).collect::<BTreeSet<_>>()
    };
    assert_eq!(pods(&world), ["elsewhere", "p", "q"].map(str::to_owned).into());
    move_to_placeholder_nodes(&mut world.snapshot, &["default/q".to_owned()].into());
    assert_eq!(pods(&world), ["elsewhere", "p"].map(str::to_owned).into());
}

#[test]
fn do_not_disrupt_pods_get_no_replacement_node() {
    let bounded = drifted("n", 4, 60)
        .disruption_state(|s| s.termination_grace_period = Some(SignedDuration::from_mins(5)));
    let world = world().node(bounded).pod(pod("p").cpu("3").do_not_disrupt().on_node("n"));
    let pass = run(&world, &upstream());
    assert_eq!(
        command_summaries(&pass),
        [(Method::Drift, Decision::Delete, vec!["n"])],
        "30/DRF-6"
    );
}

#[test]
fn budgets_and_static_node_pools_block_drift() {
    let none = World::empty().types(sizes()).pool(on_demand("default").budget("0", &[]));
    let pass =
        run(&none.node(drifted("n", 4, 60)).pod(pod("p").cpu("3").on_node("n")), &upstream());
    assert_eq!(pass.commands, [], "30/BUD-16");
    let fixed = World::empty().types(sizes()).pool(pool("default").replicas(1));
    let pass = run(&fixed.node(drifted("n", 4, 60)), &upstream());
    assert_eq!(pass.commands, [], "30/DRF-9");
}
